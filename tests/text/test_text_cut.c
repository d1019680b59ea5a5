/* Where a text may be cut, the parts have the ids of the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "text/text_impl.h"

static ls_tokenizer *open_family(const char *name) {
    char path[512];
    ls_tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, "%s/tokenizers/%s", LS_TEST_REFERENCE, name);
    assert_ok(ls_tokenizer_open(path, &tokenizer));
    return tokenizer;
}

/* The texts of tests/reference, one after the other, with words and added tokens between them. */
static ls_text all_texts(void) {
    char path[512], *data;
    size_t bytes;
    ls_text out = {0};
    snprintf(path, sizeof path, "%s/tokenizers/texts.bin", LS_TEST_REFERENCE);
    assert_ok(ls_file_read(path, 1 << 20, &data, &bytes));
    for (size_t at = 0; at + 4 <= bytes;) {
        int32_t n;
        memcpy(&n, data + at, 4);
        assert_true(ls_text_append(&out, data + at + 4, (size_t)n));
        static const char between[] = " the other, \xe4\xb8\x96<s>.  \n of ";
        assert_true(ls_text_append(&out, between, sizeof between - 1));
        at += 4 + (size_t)n;
    }
    free(data);
    ls_text repaired = {0};
    assert_true(ls_utf8_repair(out.byte, out.count, &repaired)); /* some of the texts are no UTF-8 */
    free(out.byte);
    return repaired;
}

static void expect_same(const char *family, const ls_tokenizer *tokenizer, const ls_text *text, size_t cut,
                        const ls_token_list *whole) {
    ls_token_list ids = {0};
    assert_ok(ls_tokenizer_encode(tokenizer, text->byte, cut, &ids));
    assert_ok(ls_tokenizer_encode_rest(tokenizer, text->byte + cut, text->count - cut, &ids));
    if (ids.count != whole->count || memcmp(ids.id, whole->id, ids.count * sizeof *ids.id) != 0)
        fail_msg("%s: cut at byte %zu there are %zu ids or others, expected %zu", family, cut, ids.count, whole->count);
    free(ids.id);
}

/* At each place that ls_tokenizer_cut gives, of which there are many. */
static void parts_give_the_ids_of_the_whole(void **state) {
    static const char *const families[] = {"llama2", "mistral3", "gemma", "metaspace"};
    (void)state;
    const ls_text text = all_texts();
    for (size_t f = 0; f < LS_COUNT(families); f++) {
        ls_tokenizer *tokenizer = open_family(families[f]);
        ls_token_list whole = {0};
        assert_ok(ls_tokenizer_encode(tokenizer, text.byte, text.count, &whole));
        size_t places = 0;
        for (size_t at = 0, cut;; at = cut, places++) {
            assert_true(ls_tokenizer_cut(tokenizer, text.byte, text.count, at, &cut));
            if (cut == 0) break;
            assert_true(cut > at && cut < text.count);
            expect_same(families[f], tokenizer, &text, cut, &whole);
        }
        if (places < 100) fail_msg("%s may be cut at %zu places, expected more", families[f], places);
        free(whole.id);
        ls_tokenizer_close(tokenizer);
    }
    free(text.byte);
}

static void expressions_do_not_tell(void **state) {
    static const char *const families[] = {"gpt2", "llama3", "rare"};
    (void)state;
    for (size_t f = 0; f < LS_COUNT(families); f++) {
        ls_tokenizer *tokenizer = open_family(families[f]);
        size_t cut = 1;
        assert_false(ls_tokenizer_cut(tokenizer, "a b c d", 7, 2, &cut));
        assert_int_equal(cut, 0);
        ls_tokenizer_close(tokenizer);
    }
    ls_tokenizer *bytes = NULL;
    size_t cut;
    assert_ok(ls_tokenizer_open(NULL, &bytes));
    assert_true(ls_tokenizer_cut(bytes, "abc", 3, 2, &cut) && cut == 2);
    assert_true(ls_tokenizer_cut(bytes, "abc", 3, 3, &cut) && cut == 0);
    ls_tokenizer_close(bytes);
}

#define MODEL(vocab, merges) "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"
#define TOKENS(left)                                                                         \
    "\"added_tokens\":[{\"id\":6,\"content\":\"<x>\",\"single_word\":false,\"lstrip\":" left \
    ",\"rstrip\":false,\"normalized\":false,\"special\":true}],"
#define LETTERS "\"a\":0,\"b\":1,\"c\":2,\" \":3,\"ab\":4,\"</s>\":5"

/* The first place behind the first character; 0: none. */
static size_t first_cut(void **state, const char *json, const char *text) {
    ls_tokenizer *tokenizer = NULL;
    size_t cut = 0;
    scratch_text(state, "tokenizer.json", json);
    assert_ok(ls_tokenizer_open(*state, &tokenizer));
    assert_true(ls_tokenizer_cut(tokenizer, text, strlen(text), 0, &cut));
    ls_tokenizer_close(tokenizer);
    return cut;
}

static void looks_at_all_that_may_reach_across(void **state) {
    static const char plain[] = "{" MODEL(LETTERS, "\"a b\"") "}";
    static const char added[] = "{" TOKENS("false") MODEL(LETTERS, "\"a b\"") "}";
    static const char left[] = "{" TOKENS("true") MODEL(LETTERS, "\"a b\"") "}";
    static const char replaced[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"c\"},\"content\":\"b\"}," MODEL(LETTERS,
                                                                                                         "\"a b\"") "}";
    static const char gone[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"ca\"},\"content\":\"\"}," MODEL(LETTERS,
                                                                                                         "\"a b\"") "}";
    assert_int_equal(first_cut(state, plain, "abc"), 2);
    assert_int_equal(first_cut(state, plain, "ababab"), 2);
    assert_int_equal(first_cut(state, plain, "abx"), 0); /* x has no token */
    assert_int_equal(first_cut(state, plain,
                               "a\xff"
                               "bcb"),
                     3);                                    /* not beside a wrong byte */
    assert_int_equal(first_cut(state, added, "ab<x>c"), 0); /* not beside it: what is behind begins a text */
    assert_int_equal(first_cut(state, added, "a <x>"), 1);
    assert_int_equal(first_cut(state, left, "  <x>"), 0);
    assert_int_equal(first_cut(state, added, "  <x>"), 1);
    assert_int_equal(first_cut(state, replaced, "acb"), 2);
    assert_int_equal(first_cut(state, gone, "bcab"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_give_the_ids_of_the_whole),
        cmocka_unit_test(expressions_do_not_tell),
        cmocka_unit_test(looks_at_all_that_may_reach_across),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
