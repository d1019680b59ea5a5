/*
 * The kinds of records against TRL and transformers (tests/reference/make_records.py): the same ids, the same learnt
 * tokens; what is refused, by name; what is left out, counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "data/chat_impl.h"
#include "data/documents_impl.h"
#include "data/preference_impl.h"

/* ---- against the reference ---- */

static const char *text_of(ls_json_value object, const char *key) {
    const char *text = NULL;
    assert_ok(ls_json_text(object, key, &text));
    return text;
}

/* A folder with the tokenizer, its end of document and a chat template. */
static void make_folder(void **state, ls_json_value root, const char *chat) {
    char *tokenizer;
    size_t bytes;
    LS_PATH from = NULL;
    assert_ok(ls_path_print(&from, LS_TEST_REFERENCE "/%s/tokenizer.json", text_of(root, "tokenizer")));
    assert_ok(ls_file_read(from, SIZE_MAX - 1, &tokenizer, &bytes));
    scratch_file(state, "tokenizer.json", tokenizer, bytes);
    free(tokenizer);
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "eos_token", text_of(root, "eos"));
    if (chat != NULL) ls_json_put_text(w, "chat_template", chat);
    assert_ok(ls_json_end_file(w, scratch_path(state, "tokenizer_config.json")));
}

static void assert_tokens(ls_json_value expected, const ls_learnt_tokens *made, const char *what) {
    const ls_json_value ids = ls_json_field(expected, "ids"), learnt = ls_json_field(expected, "learnt");
    const size_t n = ls_json_count(ids);
    if (made->tokens.count != n) fail_msg("%zu ids, expected %zu: %s", made->tokens.count, n, what);
    for (size_t i = 0; i < n; i++) {
        const int64_t id = ls_json_item_plain(ids, i).integer, bit = ls_json_item_plain(learnt, i).integer;
        if (made->tokens.id[i] != id) fail_msg("id %zu is %d, expected %d: %s", i, made->tokens.id[i], (int)id, what);
        if (made->learnt[i] != bit) fail_msg("token %zu is learnt %d: %s", i, made->learnt[i], what);
    }
    const int64_t end = ls_json_plain_of(ls_json_field(expected, "end")).integer;
    if (made->end_learnt != end) fail_msg("the end is learnt %d: %s", made->end_learnt, what);
}

static void check_answers(const ls_encode_options *o, ls_json_value c, const char *what) {
    const ls_json_value answers = ls_json_field(c, "answers");
    ls_preference made = {0};
    const ls_status status = ls_preference_read(o, ls_json_field(c, "record"), &made);
    if (status.code != LS_OK) fail_msg("%s: %s", status.text, what);
    assert_int_equal(made.n, ls_json_count(answers));
    for (int i = 0; i < made.n; i++) {
        const ls_json_value expected = ls_json_item(answers, (size_t)i);
        assert_tokens(expected, &made.answer[i].all, what);
        assert_int_equal(made.answer[i].wanted, ls_json_plain_of(ls_json_field(expected, "wanted")).integer);
    }
    ls_preference_free(&made);
}

static void check_case(const ls_encode_options *o, ls_json_value c, const char *what) {
    const ls_record_kind *kind = NULL;
    ls_learnt_tokens made = {.end_learnt = true};
    assert_ok(ls_record_kind_find(o->records, &kind));
    if (ls_json_has(c, "answers")) {
        check_answers(o, c, what);
        return;
    }
    const ls_status status = ls_record_encode(o, kind, ls_json_field(c, "record"), &made);
    if (status.code != LS_OK) fail_msg("%s: %s", status.text, what);
    for (size_t i = 0; i < made.tokens.count && !kind->learnt; i++) made.learnt[i] = true;
    assert_tokens(c, &made, what);
    assert_int_equal(made.unread.n, 0);
    free(made.tokens.id);
    free(made.learnt);
}

static void are_read_as_the_reference_reads_them(void **state) {
    ls_json *document = NULL;
    ls_json_value cases, templates;
    assert_ok(ls_json_read(LS_TEST_REFERENCE "/records/cases.json", LS_JSON_MOST_BYTES, &document));
    const ls_json_value root = ls_json_root(document);
    assert_ok(ls_json_array(root, "cases", &cases));
    assert_ok(ls_json_object(root, "templates", &templates));
    assert_true(ls_json_count(cases) >= 45);
    for (size_t i = 0; i < ls_json_count(cases); i++) {
        const ls_json_value c = ls_json_item(cases, i);
        const bool chat = ls_json_has(c, "template");
        const ls_chat_options options = {.folder = *state};
        ls_tokenizer *tokenizer = NULL;
        ls_chat opened = {0};
        ls_json_buffer what = {0};
        make_folder(state, root, chat ? text_of(templates, text_of(c, "template")) : NULL);
        assert_ok(ls_tokenizer_open(*state, &tokenizer));
        if (chat) assert_ok(ls_chat_open(tokenizer, &options, &opened));
        assert_ok(ls_json_buffer_value(&what, c));
        assert_ok(ls_json_buffer_add(&what, "", 1));
        const ls_encode_options encode = {
            .tokenizer = tokenizer, .field = "text", .records = text_of(c, "kind"), .chat = &opened};
        check_case(&encode, c, what.at);
        ls_json_buffer_free(&what);
        ls_chat_close(&opened);
        ls_tokenizer_close(tokenizer);
    }
    ls_json_free(document);
}

/* ---- what is refused, and what is counted ---- */

static ls_build_summary built;

static ls_status build(void **state, const char *records, const char *chat, const char *line) {
    ls_tokenizer *tokenizer = bytes_tokenizer();
    char file[600];
    snprintf(file, sizeof file, "%s", scratch_text(state, "line.jsonl", line));
    const char *paths[] = {file};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "one"));
    options.form.records = records;
    options.form.chat = chat;
    ls_status status = ls_file_remove_tree(options.out);
    if (status.code == LS_OK) status = ls_shards_build(&options, &built);
    ls_tokenizer_close(tokenizer);
    return status;
}

#define U "{\"role\": \"user\", \"content\": \"q\"}"
#define ANSWER(more) "{\"messages\": [" U ", {\"role\": \"assistant\", \"content\": \"abcd\"" more "}]}"

static void refuses_by_name(void **state) {
    static const struct {
        const char *records, *line, *word;
    } cases[] = {
        {"messages", "{\"conversations\": []}",
         "messages is missing, expected conversations; --records sharegpt reads"},
        {"text", "{\"instruction\": \"a\", \"output\": \"b\"}", "--records alpaca reads instructions and outputs"},
        {"completion", "{\"chosen\": \"a\", \"rejected\": \"b\"}", "--records preference reads"},
        {"completion", "{\"prompt\": \"a\"}",
         "completion is missing, expected prompts and completions; --records prompt"},
        {"messages", "{\"a\": 1}", "messages is missing, expected conversations; --format text"},
        {"messages", "[]", "expected an object"},
        {"messages", "{\"images\": [\"x.png\"], \"messages\": [" U "]}", "images is an array of 1, expected none"},
        {"messages", "{\"tools\": \"{\", \"messages\": [" U "]}", "tools"},
        {"messages", ANSWER(", \"train_detail\": 1"), "messages[1].train_detail is 1, expected an array"},
        {"messages", ANSWER(", \"train_detail\": [{\"begin_offset\": 0, \"end_offset\": 4, \"train\": true}]"),
         "end_offset is 4, expected an integer from 0 to 3"},
        {"messages", ANSWER(", \"train_detail\": [{\"begin_offset\": 2, \"end_offset\": 1, \"train\": true}]"),
         "end_offset is 1"},
        {"messages", ANSWER(", \"train_detail\": [{\"begin_offset\": 0, \"end_offset\": 1}]"), "train is missing"},
        {"messages", ANSWER(", \"train_detail\": []"), "there is nothing to learn"},
        {"sharegpt", "{\"conversations\": [{\"from\": \"cat\", \"value\": \"x\"}]}",
         "conversations[0].from is \"cat\""},
        {"sharegpt", "{\"conversations\": [{\"from\": \"gpt\", \"value\": 1}]}", "conversations[0].value is 1"},
        {"sharegpt", "{\"conversations\": [{\"from\": \"function_call\", \"value\": \"{\"}]}",
         "conversations[0].value"},
        {"sharegpt", "{\"conversations\": [{\"from\": \"function_call\", \"value\": \"{}\"}]}", "name is missing"},
        {"sharegpt", "{\"conversations\": [3]}", "conversations[0] is 3"},
        {"alpaca", "{\"instruction\": \"a\", \"output\": 1}", "output is 1"},
        {"alpaca", "{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"x\"]]}",
         "history[0] is an array of 1"},
        {"completion", "{\"prompt\": [" U "], \"completion\": \"x\"}", "completion is \"x\""},
        {"segments", "{\"segments\": [{\"label\": 1, \"text\": \"x\"}]}", "segments[0].label is 1"},
        {"segments", "{\"segments\": [{\"label\": false, \"text\": \"x\"}]}", "expected something that is learnt"},
        {"ids", "{\"input_ids\": [1, 2, 256]}", "input_ids[2] is 256, expected an integer from 0 to 255"},
        {"ids", "{\"input_ids\": [1, 2], \"labels\": [1]}", "labels has 1 items, expected 2"},
        {"ids", "{\"input_ids\": [1, 2], \"labels\": [2, -100]}", "labels[0] is 2, expected -100, or 1"},
        {"ids", "{\"input_ids\": [1, 2], \"labels\": [-100, -100]}", "expected something that is learnt"},
        {"ids", "{\"input_ids\": [1], \"attention_mask\": [2]}", "attention_mask[0] is 2"},
        {"ids", "{\"input_ids\": [\"a\"]}", "input_ids[0] is \"a\""},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++)
        assert_error(build(state, cases[i].records, "chatml", cases[i].line), LS_INVALID, "line.jsonl:1",
                     cases[i].word);
    static const char *const refused[] = {"prompt", "stepwise"};
    for (size_t i = 0; i < LS_COUNT(refused); i++)
        assert_error(build(state, refused[i], "chatml", "{}"), LS_UNSUPPORTED, refused[i], "needed");
    assert_error(build(state, "preference", "chatml", "{}"), LS_UNSUPPORTED, "preference", "pairs of answers");
    assert_error(build(state, "label", "chatml", "{}"), LS_UNSUPPORTED, "label", "judged answers");
    /* Without a template only the records that are conversations are refused. */
    assert_ok(build(state, "completion", NULL, "{\"prompt\": \"a\", \"completion\": \"b\"}"));
    assert_error(build(state, "completion", NULL, "{\"prompt\": [" U "], \"completion\": [" U "]}"), LS_USAGE,
                 "line.jsonl:1", "--template is missing");
    assert_error(build(state, "completion", "songs", "{\"prompt\": \"a\", \"completion\": \"b\"}"), LS_USAGE, "songs",
                 "--template");
}

static void counts_what_is_not_learnt(void **state) {
    assert_ok(build(state, "messages", "chatml",
                    ANSWER(", \"train_detail\": [{\"begin_offset\": 1, \"end_offset\": 1, \"train\": true}]")));
    assert_int_equal(built.left_out.detail, 3);
    assert_ok(build(state, "ids", NULL, "{\"input_ids\": [1, 2, 0, 0], \"attention_mask\": [1, 1, 0, 0]}"));
    assert_int_equal(built.left_out.padding, 2);
    assert_int_equal(built.tokens, 3);
    assert_ok(build(state, "completion", "chatml",
                    "{\"prompt\": [" U ", {\"role\": \"assistant\", \"content\": \"no\"}, " U
                    "], \"completion\": [{\"role\": \"assistant\", \"content\": \"yes\"}]}"));
    assert_int_equal(built.left_out.silent, 1);
    assert_int_equal(built.learnt, (int)strlen("yes<|im_end|>"));
}

/* ---- records that compare ---- */

static void refuses_pairs_by_name(void **state) {
    static const struct {
        const char *line, *word;
    } cases[] = {
        {"{\"chosen\": \"a\", \"rejected\": \"a\"}", "rejected is \"a\", expected another answer than chosen"},
        {"{\"chosen\": \"a\"}", "rejected is missing"},
        {"{\"chosen\": [], \"rejected\": \"a\"}", "rejected is \"a\", expected an array"},
        {"{\"prompt\": \"a\", \"completion\": [], \"label\": true}", "expected a list of messages"},
        {"{\"prompt\": \"a\", \"completion\": \"b\", \"label\": 1}", "label is 1"},
        {"{\"chosen\": [3], \"rejected\": [" U "]}", "chosen[0] is 3"},
        {"7", "expected an object"},
    };
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const ls_chat_options options = {.name = "chatml"};
    ls_chat chat = {0};
    assert_ok(ls_chat_open(tokenizer, &options, &chat));
    const ls_encode_options encode = {.tokenizer = tokenizer, .chat = &chat};
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_json *document = NULL;
        ls_preference made = {0};
        assert_ok(ls_json_parse_record("pairs:1", cases[i].line, strlen(cases[i].line), &document));
        assert_error(ls_preference_read(&encode, ls_json_root(document), &made), LS_INVALID, "pairs:1", cases[i].word);
        ls_json_free(document);
    }
    ls_chat_close(&chat);
    ls_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(are_read_as_the_reference_reads_them, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(refuses_by_name, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(counts_what_is_not_learnt, scratch_make, scratch_remove),
        cmocka_unit_test(refuses_pairs_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
