/* Records that compare answers to the same prompt. */
#include "data/preference_impl.h"

#include "data/chat_impl.h"
#include "data/forms_impl.h"

#include <stdlib.h>
#include <string.h>

/* A text, or a part of one. */
typedef struct bytes {
    const char *at;
    size_t n;
} bytes;

static ls_status read_text(ls_json_value value, bytes *out) { return ls_json_as_bytes(value, &out->at, &out->n); }

/* ---- an answer as tokens ---- */

static ls_status encode_texts(const ls_encode_options *o, bytes prompt, bytes answer, ls_learnt_tokens *out) {
    ls_marked_text marked = {0};
    ls_status status = ls_marked_append(&marked, prompt.at, prompt.n, false);
    if (status.code == LS_OK) status = ls_marked_append(&marked, answer.at, answer.n, true);
    if (status.code == LS_OK) status = ls_marked_encode(o->tokenizer, &marked, NULL, out);
    ls_marked_free(&marked);
    out->begun = false;
    out->end_learnt = true;
    return status;
}

/* context: how many of all messages belong to the prompt. */
static ls_status encode_lists(const ls_encode_options *o, ls_json_value record, ls_json_value prompt,
                              ls_json_value answer, size_t context, ls_learnt_tokens *out) {
    ls_json_buffer text = {0};
    ls_json *document = NULL;
    ls_status status = ls_rewrite_answer(record, prompt, answer, context, &text);
    if (status.code == LS_OK) status = ls_json_parse_record(record.file, text.at, text.n, &document);
    if (status.code == LS_OK) status = ls_encode_messages(o, ls_json_root(document), out);
    ls_json_free(document);
    ls_json_buffer_free(&text);
    return status;
}

/* ---- a prompt that the record does not give separately ---- */

/*
 * How many characters or messages belong to the prompt: all before the first difference between the answers. If one
 * answer begins with all of the other, the prompt leaves out the last common one, so that neither answer is empty.
 */
static size_t common_text(bytes a, bytes b) {
    const size_t least = a.n < b.n ? a.n : b.n;
    size_t n = 0;
    while (n < least && a.at[n] == b.at[n]) n++;
    const bool differ = n < least;
    if (!differ && n > 0) n--;
    while (n > 0 && ((unsigned char)a.at[n] & 0xc0) == 0x80) n--; /* back to the first byte of a character */
    return differ && n > 0 && a.at[n - 1] == ' ' ? n - 1 : n;
}

static size_t common_messages(ls_json_value a, ls_json_value b) {
    const size_t least = ls_json_count(a) < ls_json_count(b) ? ls_json_count(a) : ls_json_count(b);
    size_t n = 0;
    while (n < least && ls_json_hash(ls_json_item(a, n)) == ls_json_hash(ls_json_item(b, n))) n++;
    return n == least && n > 0 ? n - 1 : n;
}

/* ---- the kinds ---- */

static ls_status read_lists(const ls_encode_options *o, ls_json_value record, const ls_json_value *answers,
                            ls_preference *out) {
    const ls_json_value prompt = ls_json_field(record, "prompt"), none = {.json = NULL};
    const bool given = ls_json_is_array(prompt);
    for (int i = 0; i < out->n; i++) LS_TRY(ls_json_as_array(answers[i]));
    if (!given && out->n == 1) return ls_json_error(prompt, "a list of messages, as completion is");
    const size_t context = given ? ls_json_count(prompt) : common_messages(answers[0], answers[1]);
    for (int i = 0; i < out->n; i++)
        LS_TRY(encode_lists(o, record, given ? prompt : none, answers[i], context, &out->answer[i].all));
    return ls_ok();
}

static ls_status read_texts(const ls_encode_options *o, ls_json_value record, const ls_json_value *answers,
                            ls_preference *out) {
    bytes prompt = {NULL, 0}, answer[2] = {{NULL, 0}, {NULL, 0}};
    const bool given = ls_json_has(record, "prompt");
    for (int i = 0; i < out->n; i++) LS_TRY(read_text(answers[i], &answer[i]));
    if (given || out->n == 1) LS_TRY(read_text(ls_json_field(record, "prompt"), &prompt));
    if (!given && out->n == 2) {
        prompt = (bytes){answer[0].at, common_text(answer[0], answer[1])};
        for (int i = 0; i < out->n; i++) answer[i] = (bytes){answer[i].at + prompt.n, answer[i].n - prompt.n};
    }
    for (int i = 0; i < out->n; i++) LS_TRY(encode_texts(o, prompt, answer[i], &out->answer[i].all));
    return ls_ok();
}

static ls_status read_answers(const ls_encode_options *o, ls_json_value record, const ls_json_value *answers,
                              ls_preference *out) {
    if (ls_json_is_array(answers[0])) return read_lists(o, record, answers, out);
    return read_texts(o, record, answers, out);
}

static ls_status read_pair(const ls_encode_options *o, ls_json_value record, ls_preference *out) {
    const ls_json_value answers[] = {ls_json_field(record, "chosen"), ls_json_field(record, "rejected")};
    out->n = 2;
    out->answer[0].wanted = true;
    if (ls_json_has(record, "chosen") && ls_json_hash(answers[0]) == ls_json_hash(answers[1]))
        return ls_json_error(answers[1], "another answer than chosen");
    out->has_margin = ls_json_has(record, "margin");
    if (out->has_margin) LS_TRY(ls_json_double(record, "margin", -1e6, 1e6, &out->margin));
    return read_answers(o, record, answers, out);
}

static ls_status read_labelled(const ls_encode_options *o, ls_json_value record, ls_preference *out) {
    const ls_json_value answers[] = {ls_json_field(record, "completion")};
    out->n = 1;
    LS_TRY(ls_json_bool(record, "label", &out->answer[0].wanted));
    return read_answers(o, record, answers, out);
}

ls_status ls_preference_read(const ls_encode_options *options, ls_json_value record, ls_preference *out) {
    ls_preference made = {0};
    LS_TRY(ls_json_as_object(record));
    const bool labelled = ls_json_has(record, "label");
    const ls_status status = (labelled ? read_labelled : read_pair)(options, record, &made);
    if (status.code == LS_OK)
        *out = made;
    else
        ls_preference_free(&made);
    return status;
}

void ls_preference_free(ls_preference *p) {
    for (int i = 0; i < 2; i++) {
        free(p->answer[i].all.tokens.id);
        free(p->answer[i].all.learnt);
    }
    *p = (ls_preference){0};
}
