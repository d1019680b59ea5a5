/* Wrong tokenizer.json files: one line names file, field, value and expectation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "text/text.h"

#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"</s>\":3},"
#define MODEL "\"model\":{\"type\":\"BPE\"," VOCAB "\"merges\":[\"a b\"]}"
#define TOKEN(id, content)                  \
    "{\"id\":" id ",\"content\":\"" content \
    "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}"

typedef struct wrong {
    const char *json;
    ls_code code;
    const char *field, *says;
} wrong;

static const wrong files[] = {
    {"[]", LS_INVALID, "the document is an array", "an object"},
    {"{", LS_INVALID, "not valid JSON", "line 1"},
    {"{\"model\":{\"type\":\"WordPiece\"}}", LS_UNSUPPORTED, "model.type is \"WordPiece\"", "\"BPE\""},
    {"{\"model\":{\"merges\":[]}}", LS_INVALID, "model.vocab is missing", "an object"},
    {"{\"model\":{\"vocab\":{},\"merges\":[]}}", LS_INVALID, "model.vocab", "tokens and their ids"},
    {"{\"model\":{" VOCAB "\"merges\":3}}", LS_INVALID, "model.merges is 3", "an array"},
    {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", LS_INVALID, "model.vocab.b is 0", "\"a\" has this one"},
    {"{\"model\":{\"vocab\":{\"a\":2147483647},\"merges\":[]}}", LS_INVALID, "model.vocab.a is 2147483647",
     "0 to 1025"},
    {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", LS_INVALID, "model.vocab.a is -1", "0 to 1025"},
    {"{\"model\":{\"vocab\":{\"a\":1.5},\"merges\":[]}}", LS_INVALID, "model.vocab.a is 1.5", "an integer"},
    {"{\"model\":{" VOCAB "\"merges\":[\"a b\",\"a x\"]}}", LS_INVALID, "model.merges[1] is \"a x\"",
     "\"x\" is not a token"},
    {"{\"model\":{" VOCAB "\"merges\":[\"b a\"]}}", LS_INVALID, "model.merges[0] is \"b a\"", "\"ba\" is not a token"},
    {"{\"model\":{" VOCAB "\"merges\":[\"ab\"]}}", LS_INVALID, "model.merges[0]", "a space between"},
    {"{\"model\":{" VOCAB "\"merges\":[[\"a\"]]}}", LS_INVALID, "model.merges[0]", "two tokens"},
    {"{\"model\":{" VOCAB "\"merges\":[[\"a\",7]]}}", LS_INVALID, "model.merges[0][1] is 7", "text"},
    {"{\"model\":{\"dropout\":0.1," VOCAB "\"merges\":[]}}", LS_UNSUPPORTED, "model.dropout", "not supported"},
    {"{\"model\":{\"end_of_word_suffix\":\"</w>\"," VOCAB "\"merges\":[]}}", LS_UNSUPPORTED, "end_of_word_suffix",
     "not read"},
    {"{\"model\":{\"unk_token\":\"<unk>\"," VOCAB "\"merges\":[]}}", LS_INVALID, "model.unk_token is \"<unk>\"",
     "a token of"},
    {"{\"normalizer\":{\"type\":\"Precompiled\"}," MODEL "}", LS_UNSUPPORTED, "normalizer.type is \"Precompiled\"",
     "not supported"},
    {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"}]}," MODEL "}", LS_UNSUPPORTED,
     "normalizer.normalizers[0].type is \"Nmt\"", "not supported"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a(\"},\"behavior\":\"Isolated\",\"invert\":false}," MODEL
     "}",
     LS_INVALID, "pre_tokenizer.pattern.Regex is \"a(\"", "a regular expression (missing"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\h+\"},\"behavior\":\"Isolated\",\"invert\":false}," MODEL
     "}",
     LS_UNSUPPORTED, "pre_tokenizer.pattern.Regex", "\"\\h\""},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\",\"invert\":false}," MODEL
     "}",
     LS_UNSUPPORTED, "pre_tokenizer.pattern.Regex", "\"&&\""},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<n>a)\"},\"behavior\":\"Isolated\",\"invert\":false}," MODEL
     "}",
     LS_UNSUPPORTED, "pre_tokenizer.pattern.Regex", "\"(?<n\""},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"((a{1,900}){1,900}){1,900}\"},\"behavior\":\"Isolated\",\"invert\":false}," MODEL
     "}",
     LS_INVALID, "pre_tokenizer.pattern.Regex", "too large"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\",\"invert\":false}," MODEL
     "}",
     LS_INVALID, "pre_tokenizer.pattern.String is \"\"", "not empty"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\",\"invert\":false}," MODEL
     "}",
     LS_INVALID, "pre_tokenizer.behavior is \"Odd\"", "Isolated"},
    {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"__\"}," MODEL "}", LS_INVALID,
     "replacement is \"__\"", "one character"},
    {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}," MODEL "}",
     LS_INVALID, "prepend_scheme is \"last\"", "first, never or always"},
    {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
     "{\"type\":\"WhitespaceSplit\"}]}," MODEL "}",
     LS_UNSUPPORTED, "ByteLevel as step 1 of 2", "last"},
    {"{\"decoder\":{\"type\":\"CTC\"}," MODEL "}", LS_UNSUPPORTED, "decoder.type is \"CTC\"", "not supported"},
    {"{\"decoder\":{\"type\":\"Strip\",\"content\":\"ab\",\"start\":1,\"stop\":0}," MODEL "}", LS_INVALID,
     "decoder.content is \"ab\"", "one character"},
    {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],\"special_tokens\":{}}," MODEL "}", LS_INVALID,
     "post_processor.single", "Sequence"},
    {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":\"A\"}}],"
     "\"special_tokens\":{\"x\":{\"ids\":[99]}}}," MODEL "}",
     LS_INVALID, "post_processor adds id 99", "0 to 3"},
    {"{\"added_tokens\":[" TOKEN("1", "</s>") "]," MODEL "}", LS_INVALID, "added_tokens[0].id is 1",
     "3, the id that \"</s>\" has"},
    {"{\"added_tokens\":[" TOKEN("7", "new") "]," MODEL "}", LS_INVALID, "added_tokens[0].id is 7",
     "4, the id that \"new\" has"},
    {"{\"added_tokens\":[" TOKEN("3", "<s>!") "],\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"</s>\":3},\"merges\":[]}}",
     LS_INVALID, "added_tokens[0].id is 3", "an id of its own for \"<s>!\": \"</s>\" has this one"},
    {"{\"added_tokens\":[" TOKEN("3", "</s>") "," TOKEN("3", "</s>") "]," MODEL "}", LS_INVALID,
     "added_tokens[1].content", "no other added token"},
    {"{\"added_tokens\":[{\"id\":0,\"content\":\"a\"}]," MODEL "}", LS_INVALID,
     "added_tokens[0].single_word is missing", "true or false"},
};

static void names_what_is_wrong(void **state) {
    for (size_t i = 0; i < LS_COUNT(files); i++) {
        scratch_text(state, "tokenizer.json", files[i].json);
        ls_tokenizer *tokenizer = NULL;
        ls_status status = ls_tokenizer_open(*state, &tokenizer);
        assert_error(status, files[i].code, files[i].field, files[i].says);
        assert_null(tokenizer);
    }
}

static void refuses_deep_nesting(void **state) {
    enum { DEEP = 1500 };
    char *text = malloc(DEEP * 64 + 1000), *at = text;
    assert_non_null(text);
    at += sprintf(at, "{\"normalizer\":");
    for (int i = 0; i < DEEP / 2; i++) at += sprintf(at, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < DEEP / 2; i++) at += sprintf(at, "]}");
    sprintf(at, "," MODEL "}");
    scratch_text(state, "tokenizer.json", text);
    ls_tokenizer *tokenizer = NULL;
    assert_error(ls_tokenizer_open(*state, &tokenizer), LS_INVALID, "normalizers", "at most 8 deep");
    free(text);
}

static ls_tokenizer *open_json(void **state, const char *json) {
    ls_tokenizer *tokenizer = NULL;
    scratch_text(state, "tokenizer.json", json);
    assert_ok(ls_tokenizer_open(*state, &tokenizer));
    return tokenizer;
}

static void a_pattern_without_end_is_given_up(void **state) {
    ls_tokenizer *t =
        open_json(state, "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|a|ab?)+cd\"},"
                         "\"behavior\":\"Isolated\",\"invert\":false}," MODEL "}");
    char text[4000];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "dc", 2); /* what must follow is there */
    ls_token_list ids = {0};
    const double start = ls_seconds();
    assert_error(ls_tokenizer_encode(t, text, sizeof text, &ids), LS_INVALID,
                 "pre_tokenizer.pattern.Regex: matching takes more than 104000000 steps", "the most there may be");
    assert_true(ls_seconds() - start < 60);
    assert_int_equal(ids.count, 0);
    free(ids.id);
    ls_tokenizer_close(t);
}

static int32_t only_id(const ls_tokenizer *t, const char *text) {
    ls_token_list ids = {0};
    assert_ok(ls_tokenizer_encode(t, text, strlen(text), &ids));
    assert_int_equal(ids.count, 1);
    const int32_t id = ids.id[0];
    free(ids.id);
    return id;
}

/*
 * A long text put before each of many short pieces: what is made of the whole text counts, and how long is looked for
 * tokens in it.
 */
static void what_grows_by_pieces_is_refused(void **state) {
    static const char json[] = "{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%.*s\"},\"added_tokens\":[" TOKEN(
        "4", "x") ","
                  "{\"id\":5,\"content\":\"%.*sb\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                  "\"normalized\":%s,\"special\":true}]," MODEL "}";
    static char text[4000], letters[1000], pieces[20000];
    memset(letters, 'a', sizeof letters);
    for (size_t i = 0; i < sizeof pieces; i++) pieces[i] = i % 2 ? 'a' : 'x';
    static const struct {
        int prepended, token;
        const char *normalized, *words;
    } cases[] = {{1000, 2, "false", "into more than 2328576 bytes"},
                 {500, 500, "true", "takes more than 42008576 comparisons"}};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_token_list ids = {0};
        snprintf(text, sizeof text, json, cases[i].prepended, letters, cases[i].token, letters, cases[i].normalized);
        ls_tokenizer *t = open_json(state, text);
        assert_error(ls_tokenizer_encode(t, pieces, sizeof pieces, &ids), LS_INVALID, "the normalizers",
                     cases[i].words);
        assert_ok(ls_tokenizer_encode(t, pieces, 10, &ids));
        free(ids.id);
        ls_tokenizer_close(t);
    }
}

/* Steps that each make a text twice as long, and texts that would be looked at from every place. */
static void what_grows_without_end_is_refused(void **state) {
    enum { STEPS = 40, LONG = 2000 };
    static char text[STEPS * 100 + 1000], long_text[LONG + 1], spaces[100000];
    char *at = text + sprintf(text, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < STEPS; i++)
        at +=
            sprintf(at, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}", i > 0 ? "," : "");
    sprintf(at, "]}," MODEL "}");
    ls_tokenizer *t = open_json(state, text);
    ls_token_list ids = {0};
    assert_error(ls_tokenizer_encode(t, "a", 1, &ids), LS_INVALID, "the normalizers", "into more than 1048640 bytes");
    ls_tokenizer_close(t);
    memset(long_text, 'a', LONG);
    t = NULL;
    sprintf(text, "{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%s\"}," MODEL "}", long_text);
    scratch_text(state, "tokenizer.json", text);
    assert_error(ls_tokenizer_open(*state, &t), LS_INVALID, "normalizer.prepend", "at most 1024 bytes");
    static const char token[] = "{\"added_tokens\":[{\"id\":4,\"content\":\"%s\",\"single_word\":false,\"lstrip\":%s,"
                                "\"rstrip\":true,\"normalized\":false,\"special\":true}]," MODEL "}";
    sprintf(text, token, long_text, "false");
    scratch_text(state, "tokenizer.json", text);
    assert_error(ls_tokenizer_open(*state, &t), LS_INVALID, "added_tokens[0].content", "at most 1024 bytes");
    memset(spaces, ' ', sizeof spaces);
    for (int left = 0; left < 2; left++) { /* a token that takes in the space about it, in nothing but space */
        sprintf(text, token, " ", left ? "true" : "false");
        t = open_json(state, text);
        const double start = ls_seconds();
        assert_ok(ls_tokenizer_encode(t, spaces, sizeof spaces, &ids));
        assert_true(ls_seconds() - start < 10);
        ls_tokenizer_close(t);
    }
    free(ids.id);
}

/* U+FDFA: one character of 3 bytes, 18 of 33 bytes in NFKC. */
static void an_added_token_may_grow_when_normalized(void **state) {
    ls_tokenizer *t = open_json(
        state,
        "{\"normalizer\":{\"type\":\"NFKC\"},\"added_tokens\":[{\"id\":4,\"content\":\"\\ufdfa\","
        "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":true,\"special\":false}]," MODEL "}");
    assert_int_equal(only_id(t, "\xef\xb7\xba"), 4);
    ls_tokenizer_close(t);
}

static void takes_the_end_of_document_from_where_it_is_said(void **state) {
    ls_tokenizer *t = open_json(state, "{" MODEL "}");
    assert_int_equal(ls_tokenizer_end_of_document(t), 3);
    assert_int_equal(only_id(t, "ab"), 2);
    const uint64_t before = ls_tokenizer_fingerprint(t);
    ls_tokenizer_close(t);
    static const struct {
        const char *file, *json;
        int32_t end;
    } said[] = {{"generation_config.json", "{\"eos_token_id\":[1,3]}", 1},
                {"config.json", "{\"eos_token_id\":2}", 2},
                {"tokenizer_config.json", "{\"eos_token\":{\"content\":\"a\"}}", 0},
                {"tokenizer_config.json", "{\"eos_token\":\"b\"}", 1}};
    for (size_t i = 0; i < LS_COUNT(said); i++) {
        scratch_text(state, said[i].file, said[i].json);
        t = open_json(state, "{" MODEL "}");
        assert_int_equal(ls_tokenizer_end_of_document(t), said[i].end);
        assert_true(ls_tokenizer_fingerprint(t) != before);
        ls_tokenizer_close(t);
    }
    t = NULL;
    scratch_text(state, "tokenizer_config.json", "{\"eos_token\":\"no\"}");
    assert_error(ls_tokenizer_open(*state, &t), LS_INVALID, "eos_token is \"no\"", "a token of tokenizer.json");
    scratch_text(state, "tokenizer_config.json", "{}");
    scratch_text(state, "config.json", "{\"eos_token_id\":4}");
    assert_error(ls_tokenizer_open(*state, &t), LS_INVALID, "eos_token_id is 4", "0 to 3");
    assert_null(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(refuses_deep_nesting),
        cmocka_unit_test(a_pattern_without_end_is_given_up),
        cmocka_unit_test(what_grows_without_end_is_refused),
        cmocka_unit_test(what_grows_by_pieces_is_refused),
        cmocka_unit_test(an_added_token_may_grow_when_normalized),
        cmocka_unit_test(takes_the_end_of_document_from_where_it_is_said),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
