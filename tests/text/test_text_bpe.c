/*
 * Tokenizers of tokenizer.json have the ids and texts of the reference library, which
 * tests/reference/make_tokenizers.py stored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "support/scratch.h"

#include "text/bpe_impl.h"
#include "text/text.h"
#include "text/text_impl.h"

static const char *const families[] = {"gpt2",   "llama3",   "qwen2", "o200k",     "deepseek",
                                       "llama2", "mistral3", "gemma", "metaspace", "rare"};

/* A file of int32 counts, each before what it counts. */
typedef struct records {
    char *data;
    size_t at, bytes;
} records;

static records open_records(const char *name) {
    char path[512];
    records r = {0};
    snprintf(path, sizeof path, "%s/tokenizers/%s", LS_TEST_REFERENCE, name);
    assert_ok(ls_file_read(path, 1 << 20, &r.data, &r.bytes));
    return r;
}

static const char *next_record(records *r, size_t size, size_t *count) {
    int32_t n;
    assert_true(r->at + 4 <= r->bytes);
    memcpy(&n, r->data + r->at, 4);
    const char *found = r->data + r->at + 4;
    r->at += 4 + (size_t)n * size;
    assert_true(r->at <= r->bytes);
    *count = (size_t)n;
    return found;
}

static ls_tokenizer *open_family(const char *name) {
    char path[512];
    ls_tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, "%s/tokenizers/%s", LS_TEST_REFERENCE, name);
    assert_ok(ls_tokenizer_open(path, &tokenizer));
    return tokenizer;
}

/* The ids of the next record. */
static ls_token_list expected_ids(records *r) {
    ls_token_list out = {0};
    const char *found = next_record(r, 2, &out.count);
    out.id = malloc((out.count + 1) * sizeof *out.id);
    assert_non_null(out.id);
    for (size_t i = 0; i < out.count; i++) {
        uint16_t id;
        memcpy(&id, found + 2 * i, 2);
        out.id[i] = id;
    }
    return out;
}

static void expect_text(const char *family, size_t number, const ls_tokenizer *tokenizer, const ls_token_list *ids,
                        records *r) {
    size_t bytes;
    const char *expected = next_record(r, 1, &bytes);
    ls_text text = {0};
    assert_ok(ls_tokenizer_decode(tokenizer, ids->id, ids->count, &text));
    if (text.count != bytes || (bytes > 0 && memcmp(text.byte, expected, bytes) != 0))
        fail_msg("%s, text %zu: decoded to \"%.*s\", expected \"%.*s\"", family, number, (int)text.count, text.byte,
                 (int)bytes, expected);
    free(text.byte);
}

static void expect_ids(const char *family, size_t number, const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                       const ls_token_list *expected) {
    ls_token_list ids = {0};
    assert_ok(ls_tokenizer_encode(tokenizer, text, bytes, &ids));
    for (size_t i = 0; i < ids.count && i < expected->count; i++)
        if (ids.id[i] != expected->id[i])
            fail_msg("%s, text %zu: id %zu is %d, expected %d", family, number, i, ids.id[i], expected->id[i]);
    assert_int_equal(ids.count, expected->count);
    free(ids.id);
}

/* The next text, as the reference library was given it: with U+FFFD for what is not UTF-8, which is refused here. */
static ls_text next_text(const ls_tokenizer *tokenizer, records *r) {
    size_t bytes;
    ls_text repaired = {0};
    ls_token_list none = {0};
    const char *text = next_record(r, 1, &bytes);
    const size_t valid = ls_utf8_valid_prefix(text, bytes);
    char word[64];
    snprintf(word, sizeof word, "byte %zu of the text", valid + 1);
    if (valid < bytes)
        assert_error(ls_tokenizer_encode(tokenizer, text, bytes, &none), LS_INVALID, word, "expected UTF-8");
    assert_int_equal(none.count, 0);
    assert_true(ls_utf8_repair(text, bytes, &repaired));
    return repaired;
}

/* What a stream says of ids one by one is, for a text that is UTF-8, what all of them say together. */
static void expect_stream(const ls_tokenizer *tokenizer, const ls_token_list *ids) {
    ls_token_stream *stream;
    ls_text text = {0}, whole = {0};
    assert_ok(ls_token_stream_create(tokenizer, &stream));
    for (size_t i = 0; i < ids->count; i++) assert_ok(ls_token_stream_push(stream, ids->id[i], &text));
    assert_ok(ls_token_stream_finish(stream, &text));
    assert_ok(ls_tokenizer_decode(tokenizer, ids->id, ids->count, &whole));
    if (text.count != whole.count || (whole.count > 0 && memcmp(text.byte, whole.byte, whole.count) != 0))
        fail_msg("a stream says \"%.*s\", expected \"%.*s\"", (int)text.count, text.byte, (int)whole.count, whole.byte);
    free(text.byte);
    free(whole.byte);
    ls_token_stream_destroy(stream);
}

static void check_family(const char *family) {
    char name[64];
    snprintf(name, sizeof name, "%s/expected.bin", family);
    records texts = open_records("texts.bin"), expected = open_records(name);
    ls_tokenizer *tokenizer = open_family(family);
    size_t number = 0;
    for (; texts.at < texts.bytes; number++) {
        ls_text text = next_text(tokenizer, &texts);
        ls_token_list ids = expected_ids(&expected);
        for (int again = 0; again < 2; again++) /* from the cache the second time */
            expect_ids(family, number, tokenizer, text.byte, text.count, &ids);
        expect_text(family, number, tokenizer, &ids, &expected);
        if (memmem(text.byte, text.count, "\xef\xbf\xbd", 3) == NULL) expect_stream(tokenizer, &ids);
        free(ids.id);
        free(text.byte);
    }
    assert_true(number > 15);
    for (; expected.at < expected.bytes; number++) {
        ls_token_list ids = expected_ids(&expected);
        expect_text(family, number, tokenizer, &ids, &expected);
        free(ids.id);
    }
    ls_tokenizer_close(tokenizer);
    free(texts.data);
    free(expected.data);
}

static void gives_the_reference_s_ids(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(families); i++) check_family(families[i]);
}

/*
 * Without an unknown token a character without a token is dropped, and the characters around it are neighbours then, as
 * in the reference library, which gave these ids.
 */
static void neighbours_of_a_dropped_character_merge(void **state) {
    static const struct {
        const char *text;
        int32_t ids[4];
        size_t n;
    } cases[] = {{" ? a", {4, 0}, 2},   {"?", {0}, 0},     {"a?b", {2}, 1},
                 {" ?? ?a", {4, 0}, 2}, {"? ? ?", {4}, 1}, {"ab ? b", {2, 4, 1}, 3}};
    ls_tokenizer *tokenizer;
    scratch_text(
        state, "tokenizer.json",
        "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" LS_META_SPACE
        "\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"" LS_META_SPACE
        "\": 3, \"" LS_META_SPACE LS_META_SPACE "\": 4, \"" LS_META_SPACE
        "a\": 5}, \"merges\": [[\"a\", \"b\"], [\"" LS_META_SPACE "\", \"" LS_META_SPACE "\"], [\"" LS_META_SPACE
        "\", \"a\"]]}}");
    assert_ok(ls_tokenizer_open(*state, &tokenizer));
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_token_list ids = {0};
        assert_ok(ls_tokenizer_encode(tokenizer, cases[i].text, strlen(cases[i].text), &ids));
        assert_int_equal(ids.count, cases[i].n);
        for (size_t k = 0; k < ids.count; k++) assert_int_equal(ids.id[k], cases[i].ids[k]);
        free(ids.id);
    }
    ls_tokenizer_close(tokenizer);
}

static void *check_in_thread(void *context) {
    records texts = open_records("texts.bin");
    ls_token_list *ids = calloc(1, sizeof *ids);
    while (texts.at < texts.bytes) {
        ls_text text = next_text(context, &texts);
        assert_ok(ls_tokenizer_encode(context, text.byte, text.count, ids));
        free(text.byte);
    }
    free(texts.data);
    return ids;
}

static void serves_threads(void **state) {
    (void)state;
    ls_tokenizer *tokenizer = open_family("qwen2");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, check_in_thread, tokenizer), 0);
    ls_token_list *mine = check_in_thread(tokenizer), *other;
    void *result;
    assert_int_equal(pthread_join(thread, &result), 0);
    other = result;
    assert_int_equal(mine->count, other->count);
    assert_memory_equal(mine->id, other->id, mine->count * sizeof *mine->id);
    free(mine->id);
    free(other->id);
    free(mine);
    free(other);
    ls_tokenizer_close(tokenizer);
}

static void knows_what_goes_around_a_text(void **state) {
    (void)state;
    ls_tokenizer *t = open_family("llama3");
    const int32_t begin = ls_tokenizer_find(t, "<|begin_of_text|>"), end = ls_tokenizer_find(t, "<|end_of_text|>");
    const ls_token_frame frame = ls_tokenizer_frame(t);
    assert_string_equal(ls_tokenizer_name(t), "bpe");
    assert_true(begin > 0 && end == begin + 1);
    assert_int_equal(ls_tokenizer_end_of_document(t), end);
    assert_int_equal(frame.n_before, 1);
    assert_int_equal(frame.before[0], begin);
    assert_int_equal(frame.n_after, 0);
    assert_true(ls_tokenizer_is_special(t, begin));
    assert_false(ls_tokenizer_is_special(t, 0));
    assert_int_equal(ls_tokenizer_find(t, "no such token"), -1);
    assert_true(ls_tokenizer_piece(t) == SIZE_MAX);
    assert_true(ls_tokenizer_vocabulary(t) > end);
    ls_tokenizer *rare = open_family("rare"), *same = open_family("llama3");
    const ls_token_frame both = ls_tokenizer_frame(rare);
    assert_true(both.n_before == 1 && both.n_after == 1 && both.after[0] == ls_tokenizer_end_of_document(rare));
    assert_true(ls_tokenizer_fingerprint(t) == ls_tokenizer_fingerprint(same));
    assert_true(ls_tokenizer_fingerprint(t) != ls_tokenizer_fingerprint(rare));
    ls_text text = {0};
    assert_error(ls_tokenizer_decode(t, &(int32_t){-1}, 1, &text), LS_INVALID, "id -1", "bpe");
    ls_tokenizer_close(t);
    ls_tokenizer_close(rare);
    ls_tokenizer_close(same);
}

/* A word of a megabyte is merged in about the time of a megabyte of words; quadratic work would take hours. */
static void long_words_take_no_longer(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t f = 0; f < LS_COUNT(families); f++) {
        ls_tokenizer *tokenizer = open_family(families[f]);
        for (int kind = 0; kind < 3; kind++) {
            for (size_t i = 0; i < BYTES; i++)
                text[i] = kind == 0 ? 'a' : kind == 1 ? "the other"[(i * i + i / 7) % 9] : ' ';
            ls_token_list ids = {0};
            const double start = ls_seconds();
            assert_ok(ls_tokenizer_encode(tokenizer, text, BYTES, &ids));
            if (ls_seconds() - start > 60) fail_msg("%s: %.0f s for a word", families[f], ls_seconds() - start);
            free(ids.id);
        }
        ls_tokenizer_close(tokenizer);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_reference_s_ids),
        cmocka_unit_test(neighbours_of_a_dropped_character_merge),
        cmocka_unit_test(serves_threads),
        cmocka_unit_test(knows_what_goes_around_a_text),
        cmocka_unit_test(long_words_take_no_longer),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
