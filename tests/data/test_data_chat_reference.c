/*
 * Conversations against transformers' apply_chat_template, with published and with changed templates
 * (tests/reference/make_chats.py): the same text, the same ids, special tokens inside contents spelled out, the
 * same learnt tokens, the same refusals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "data/chat_impl.h"

static const char *text_of(ls_json_value object, const char *key) {
    const char *text = NULL;
    assert_ok(ls_json_text(object, key, &text));
    return text;
}

static void put_token(ls_json_writer *w, ls_json_value c, const char *from, const char *name) {
    if (ls_json_has(c, from)) ls_json_put_text(w, name, text_of(c, from));
}

/* The template as the folder of a model has it. */
static void open_chat(void **state, const ls_tokenizer *tokenizer, const char *jinja, ls_json_value c, ls_chat *out) {
    const ls_chat_options options = {.folder = *state};
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "chat_template", jinja);
    put_token(w, c, "bos", "bos_token");
    put_token(w, c, "eos", "eos_token");
    assert_ok(ls_json_end_file(w, scratch_path(state, "tokenizer_config.json")));
    assert_ok(ls_chat_open(tokenizer, &options, out));
}

static void assert_ids(ls_json_value array, const int32_t *ids, size_t n, const char *line) {
    if (ls_json_count(array) != n) fail_msg("%zu ids, expected %zu: %s", n, ls_json_count(array), line);
    for (size_t i = 0; i < n; i++) {
        int64_t id = -1;
        assert_ok(ls_json_as_int(ls_json_item(array, i), 0, INT32_MAX, &id));
        if (id != ids[i]) fail_msg("id %zu is %d, expected %d: %s", i, ids[i], (int)id, line);
    }
}

static void assert_learnt(ls_json_value array, const uint8_t *learnt, size_t n, const char *line) {
    assert_int_equal(ls_json_count(array), n);
    for (size_t i = 0; i < n; i++) {
        int64_t bit = -1;
        assert_ok(ls_json_as_int(ls_json_item(array, i), 0, 1, &bit));
        if (bit != learnt[i]) fail_msg("token %zu is learnt %d, expected %d: %s", i, learnt[i], (int)bit, line);
    }
}

static void check_text(const ls_tokenizer *tokenizer, const ls_marked_text *text, ls_json_value c, bool masks) {
    static const ls_plain_text plain = {0};
    const char *expected = text_of(c, "text"), *line = text_of(c, "line");
    ls_learnt_tokens out = {0};
    if (text->bytes != strlen(expected) || memcmp(text->text, expected, text->bytes) != 0)
        fail_msg("\"%.*s\", expected \"%s\"", (int)text->bytes, text->text, expected);
    assert_ok(ls_marked_encode(tokenizer, text, &plain, &out));
    assert_ids(ls_json_field(c, "ids"), out.tokens.id, out.tokens.count, line);
    if (masks && ls_json_has(c, "learnt"))
        assert_learnt(ls_json_field(c, "learnt"), out.learnt, out.tokens.count, line);
    free(out.tokens.id);
    free(out.learnt);
}

/* Whether it is refused, as it must be. masks: what is learnt is compared too. */
static bool check_case(const ls_tokenizer *tokenizer, const ls_chat *chat, ls_json_value c, bool masks) {
    const char *line = text_of(c, "line");
    ls_json *document = NULL;
    ls_marked_text text = {0};
    ls_left_out left_out = {0};
    ls_unread unread = {0};
    assert_ok(ls_json_parse("line", line, strlen(line), &document));
    const ls_status status = ls_chat_render(chat, ls_json_root(document), &text, &left_out, &unread);
    const bool refused = ls_json_has(c, "refused");
    /* What has no mask there may have nothing to learn that could be told. */
    const bool untold = status.code != LS_OK && !ls_json_has(c, "learnt") &&
                        (strstr(status.text, "nothing to learn") || strstr(status.text, "what is learnt") ||
                         strstr(status.text, "generation blocks"));
    if ((status.code == LS_OK) == refused && !untold)
        fail_msg("%s of %s: \"%s\", expected \"%s\"", line, text_of(c, "template"), status.text,
                 refused ? text_of(c, "refused") : "");
    if (status.code == LS_OK) check_text(tokenizer, &text, c, masks);
    ls_marked_free(&text);
    ls_json_free(document);
    return status.code != LS_OK;
}

/*
 * The same by the form of this name, where there is one; it has generation blocks, which end without a newline behind
 * an answer.
 */
static void check_form(const ls_tokenizer *tokenizer, const char *template, ls_json_value c) {
    const ls_chat_options options = {.name = template};
    const char *name;
    ls_chat chat;
    for (size_t i = 0; ls_chat_form(i, &name) != NULL; i++) {
        if (strcmp(name, template) != 0) continue;
        assert_ok(ls_chat_open(tokenizer, &options, &chat));
        check_case(tokenizer, &chat, c, false);
        ls_chat_close(&chat);
    }
}

static void is_what_the_reference_makes(void **state) {
    ls_json *document = NULL;
    ls_json_value cases, templates;
    int refused = 0, masks = 0;
    char opened[600] = ""; /* the folder of the tokenizer */
    ls_tokenizer *tokenizer = NULL;
    assert_ok(ls_json_read(LS_TEST_REFERENCE "/chats/cases.json", LS_JSON_MOST_BYTES, &document));
    assert_ok(ls_json_array(ls_json_root(document), "cases", &cases));
    assert_ok(ls_json_object(ls_json_root(document), "templates", &templates));
    for (size_t i = 0; i < ls_json_count(cases); i++) {
        const ls_json_value c = ls_json_item(cases, i);
        const char *name = text_of(c, "template");
        char folder[600];
        ls_chat chat;
        snprintf(folder, sizeof folder, LS_TEST_REFERENCE "/%s", text_of(c, "tokenizer"));
        if (strcmp(folder, opened) != 0) {
            ls_tokenizer_close(tokenizer);
            assert_ok(ls_tokenizer_open(folder, &tokenizer));
            snprintf(opened, sizeof opened, "%s", folder);
        }
        open_chat(state, tokenizer, text_of(templates, name), c, &chat);
        refused += check_case(tokenizer, &chat, c, true);
        check_form(tokenizer, name, c);
        masks += ls_json_has(c, "learnt");
        ls_chat_close(&chat);
    }
    assert_true(ls_json_count(templates) >= 50 && ls_json_count(cases) > 250 && refused < 70 && masks > 130);
    ls_tokenizer_close(tokenizer);
    ls_json_free(document);
}

/* Many turns are encoded in about the time of one long one. */
static void many_turns_take_no_longer(void **state) {
    (void)state;
    enum { TURNS = 40000 };
    char *line = malloc((size_t)TURNS * 100), *at = line;
    ls_tokenizer *tokenizer = NULL;
    ls_chat chat;
    ls_json *document = NULL;
    const ls_chat_options options = {.name = "chatml"};
    ls_marked_text text = {0};
    ls_learnt_tokens out = {0};
    ls_left_out left_out = {0};
    ls_unread unread = {0};
    at += sprintf(at, "{\"messages\": [");
    for (int i = 0; i < TURNS; i++)
        at += sprintf(at, "%s{\"role\": \"%s\", \"content\": \"turn %d\"}", i > 0 ? "," : "",
                      i % 2 ? "assistant" : "user", i);
    at += sprintf(at, "]}");
    assert_ok(ls_tokenizer_open(LS_TEST_REFERENCE "/chats/tokenizer", &tokenizer));
    assert_ok(ls_chat_open(tokenizer, &options, &chat));
    assert_ok(ls_json_parse("line", line, (size_t)(at - line), &document));
    const double began = ls_seconds();
    assert_ok(ls_chat_render(&chat, ls_json_root(document), &text, &left_out, &unread));
    const ls_plain_text plain = {0};
    assert_ok(ls_marked_encode(tokenizer, &text, &plain, &out));
    if (ls_seconds() - began > 60) fail_msg("%d turns took %.1f s", TURNS, ls_seconds() - began);
    /* Without special tokens between the turns, the same text is refused, because encoding it would take too long. */
    text.n_tokens = 0;
    assert_error(ls_marked_encode(tokenizer, &text, &plain, &out), LS_INVALID, "too many turns", "separates");
    free(out.tokens.id);
    free(out.learnt);
    ls_marked_free(&text);
    ls_chat_close(&chat);
    ls_json_free(document);
    ls_tokenizer_close(tokenizer);
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_what_the_reference_makes),
        cmocka_unit_test(many_turns_take_no_longer),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
