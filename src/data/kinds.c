/* The kinds of JSON records, one row each, and how the tokens of a record are found. */
#include "data/chat_impl.h"
#include "data/forms_impl.h"
#include "data/preference_impl.h"
#include "data/records_impl.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

/* ---- errors about records -------- */

static const ls_record_kind *find_like(ls_json_value record);

/* The error for a missing member: what was expected, and which kind this record seems to be. */
static ls_status expected_text(ls_json_value record, ls_json_value missing, const char *expected) {
    const ls_record_kind *like = find_like(record);
    if (like == NULL) return ls_json_error(missing, "%s; --format text takes a file as it is", expected);
    return ls_json_error(missing, "%s; --records %s reads %s", expected, like->name, like->summary);
}

static ls_status check_members(const ls_record_kind *kind, ls_json_value record) {
    LS_TRY(ls_json_as_object(record));
    for (int i = 0; i < LS_KIND_MEMBERS && kind->members[i] != NULL; i++)
        if (!ls_json_has(record, kind->members[i]))
            return expected_text(record, ls_json_field(record, kind->members[i]), kind->summary);
    return ls_ok();
}

/* ---- texts ---- */

/* field "meta.text" means the member of that name or, if there is none, the member "text" of the object "meta". */
static ls_status find_text(ls_json_value object, const char *field, ls_json_value *out) {
    char name[200];
    for (const char *dot; !ls_json_has(object, field) && (dot = strchr(field, '.')) != NULL; field = dot + 1) {
        if ((size_t)(dot - field) >= sizeof name) break;
        memcpy(name, field, (size_t)(dot - field));
        name[dot - field] = 0;
        LS_TRY(ls_json_object(object, name, &object));
    }
    LS_TRY(ls_json_as_object(object));
    *out = ls_json_field(object, field);
    return ls_json_has(object, field) ? ls_ok() : expected_text(object, *out, "a text; --field says where it is");
}

/* Finds members other than the field, or other than the object that contains the field. */
static void find_other_members(const char *field, ls_json_value object, ls_unread *unread) {
    char head[64];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(field, "."), field);
    ls_unread_find(unread, object, (const char *const[]){field, head, NULL});
}

static ls_status encode_text(const ls_encode_options *o, ls_json_value value, ls_learnt_tokens *out) {
    const char *text;
    size_t bytes;
    const ls_json_value record = value;
    if (!ls_json_is_text(value)) LS_TRY(find_text(value, o->field, &value));
    LS_TRY(ls_json_as_bytes(value, &text, &bytes));
    LS_TRY(ls_learnt_append(o->tokenizer, text, bytes, NULL, true, out));
    find_other_members(o->field, record, &out->unread);
    return ls_ok();
}

static ls_status append_field(ls_json_value object, const char *field, bool learnt, ls_marked_text *marked) {
    const char *text;
    size_t bytes;
    LS_TRY(ls_json_as_bytes(ls_json_field(object, field), &text, &bytes));
    return ls_marked_append(marked, text, bytes, learnt);
}

/* read: the members that the rewriting reads, besides those that a record with messages may have. */
static ls_status encode_rewritten(const ls_encode_options *o, ls_json_value record, ls_record_rewriting rewrite,
                                  const char *const *read, ls_learnt_tokens *out) {
    ls_json_buffer text = {0};
    ls_json *document = NULL;
    ls_unread unread = {0};
    ls_status status = rewrite(record, &text);
    if (status.code == LS_OK) status = ls_json_parse_record(record.file, text.at, text.n, &document);
    if (status.code == LS_OK) status = ls_encode_messages(o, ls_json_root(document), out);
    ls_json_free(document);
    ls_json_buffer_free(&text);
    LS_TRY(status);
    ls_unread_find(&unread, record, ls_chat_members);
    for (int i = 0; i < unread.n; i++) {
        const char *const *name = read;
        while (*name != NULL && strcmp(*name, unread.name[i]) != 0) name++;
        if (*name == NULL) ls_unread_add(&out->unread, "", unread.name[i]);
    }
    return ls_ok();
}

static ls_status encode_sharegpt(const ls_encode_options *o, ls_json_value record, ls_learnt_tokens *out) {
    static const char *const read[] = {"conversations", "system", NULL};
    return encode_rewritten(o, record, ls_rewrite_sharegpt, read, out);
}

static ls_status encode_alpaca(const ls_encode_options *o, ls_json_value record, ls_learnt_tokens *out) {
    static const char *const read[] = {"instruction", "input", "output", "system", "history", NULL};
    return encode_rewritten(o, record, ls_rewrite_alpaca, read, out);
}

/* ---- prompts and completions ---- */

static ls_status encode_completion(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    ls_marked_text marked = {0};
    if (ls_json_is_array(ls_json_field(object, "prompt"))) {
        static const char *const read[] = {"prompt", "completion", NULL};
        return encode_rewritten(o, object, ls_rewrite_completion, read, out);
    }
    ls_status status = append_field(object, "prompt", false, &marked);
    if (status.code == LS_OK) status = append_field(object, "completion", true, &marked);
    if (status.code == LS_OK) status = ls_marked_encode(o->tokenizer, &marked, NULL, out);
    if (status.code == LS_OK) ls_unread_find(&out->unread, object, (const char *const[]){"prompt", "completion", NULL});
    ls_marked_free(&marked);
    return status;
}

/* ---- segments of text, each learnt or not ---- */

/*
 * The record's text is the whole document: it begins without the frame, and the record decides whether its end is
 * learnt.
 */
static ls_status end_own(const ls_encode_options *o, size_t start, ls_json_value learnt, ls_learnt_tokens *out) {
    const size_t n = out->tokens.count - start;
    if (n == 0 || memchr(out->learnt + start, true, n) == NULL)
        return ls_json_error(learnt, "something that is learnt");
    out->begun = !o->chat->removes_begin;
    out->end_learnt = false;
    ls_learnt_remove_end(o->tokenizer, start, out);
    return ls_ok();
}

static ls_status append_segment(ls_json_value segment, ls_marked_text *marked) {
    const char *text;
    size_t bytes;
    bool learnt;
    LS_TRY(ls_json_as_object(segment));
    LS_TRY(ls_json_bool(segment, "label", &learnt));
    LS_TRY(ls_json_as_bytes(ls_json_field(segment, "text"), &text, &bytes));
    return bytes > 0 ? ls_marked_append_token(marked, text, bytes, learnt, -1) : ls_ok();
}

/* Encodes each segment by itself; special tokens are recognised in its text. */
static ls_status encode_segments(const ls_encode_options *o, ls_json_value record, ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    ls_marked_text marked = {0};
    ls_json_value segments;
    LS_TRY(ls_json_array(record, "segments", &segments));
    ls_status status = ls_ok();
    for (size_t i = 0; i < ls_json_count(segments) && status.code == LS_OK; i++)
        status = append_segment(ls_json_item(segments, i), &marked);
    if (status.code == LS_OK) status = ls_marked_encode(o->tokenizer, &marked, NULL, out);
    ls_marked_free(&marked);
    LS_TRY(status);
    ls_unread_find(&out->unread, record, (const char *const[]){"segments", NULL});
    return end_own(o, start, segments, out);
}

/* ---- ids ---- */

/* The lists besides input_ids, each of the same length. */
enum { LABELS, ATTENTION, COMPLETION, ASSISTANT, ID_LISTS };
static const char *const id_lists[ID_LISTS + 1] = {"labels", "attention_mask", "completion_mask", "assistant_masks",
                                                   NULL};

/* Reads item i of a list of integers, which must be from `least` to `most`. */
static ls_status read_item(ls_json_value list, size_t i, int64_t least, int64_t most, int64_t *out) {
    const ls_json_plain plain = ls_json_item_plain(list, i);
    *out = plain.integer;
    if (plain.kind == LS_JSON_INT && plain.integer >= least && plain.integer <= most) return ls_ok();
    return ls_json_as_int(ls_json_item(list, i), least, most, out);
}

/* Label i is the id at its place, or -100: then *learnt is false. */
static ls_status read_label(ls_json_value labels, size_t i, int64_t id, bool *learnt) {
    int64_t label;
    LS_TRY(read_item(labels, i, INT32_MIN, INT32_MAX, &label));
    *learnt = label != LS_LABEL_IGNORED;
    if (!*learnt || label == id) return ls_ok();
    return ls_json_error(ls_json_item(labels, i), "%d, or %lld as in input_ids: labels are not shifted",
                         LS_LABEL_IGNORED, (long long)id);
}

/*
 * start: index of the record's first token; teacher: its lists, or NULL. The first token is never predicted, so it has
 * no words.
 */
static ls_status append_listed(const ls_encode_options *o, ls_json_value ids, const ls_json_value *lists, size_t i,
                               size_t start, const ls_teacher_lists *teacher, ls_learnt_tokens *out) {
    int64_t id, bit = 1;
    bool learnt = true;
    LS_TRY(read_item(ids, i, 0, ls_tokenizer_vocabulary(o->tokenizer) - 1, &id));
    if (lists[LABELS].json != NULL) LS_TRY(read_label(lists[LABELS], i, id, &learnt));
    for (int k = ATTENTION; k < ID_LISTS; k++) {
        if (lists[k].json == NULL) continue;
        LS_TRY(read_item(lists[k], i, 0, 1, &bit));
        learnt &= bit == 1;
        if (k != ATTENTION || bit == 1) continue;
        out->left_out.padding++;
        return ls_ok();
    }
    if (teacher != NULL) learnt &= out->tokens.count > start;
    if (teacher != NULL && learnt) LS_TRY(ls_teacher_append(teacher, i));
    return ls_learnt_append_id((int32_t)id, learnt, out);
}

/* read: members besides input_ids and its lists. */
static ls_status encode_listed(const ls_encode_options *o, ls_json_value record, ls_teacher_lists *teacher,
                               const char *const *read, ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    ls_json_value ids, lists[ID_LISTS];
    LS_TRY(ls_json_array(record, "input_ids", &ids));
    const size_t n = ls_json_count(ids);
    if (teacher != NULL) LS_TRY(ls_teacher_begin(record, n, teacher));
    for (int k = 0; k < ID_LISTS; k++) {
        lists[k] = ls_json_field(record, id_lists[k]);
        if (lists[k].json == NULL) continue;
        LS_TRY(ls_json_as_array(lists[k]));
        if (ls_json_count(lists[k]) != n)
            return ls_error(LS_INVALID, "%s: %s has %zu items, expected %zu, as input_ids has", record.file,
                            id_lists[k], ls_json_count(lists[k]), n);
    }
    for (size_t i = 0; i < n; i++) LS_TRY(append_listed(o, ids, lists, i, start, teacher, out));
    ls_unread unread = {0};
    ls_unread_find(&unread, record, id_lists);
    for (int i = 0; i < unread.n; i++) {
        const char *const *name = read;
        while (*name != NULL && strcmp(*name, unread.name[i]) != 0) name++;
        if (*name == NULL) ls_unread_add(&out->unread, "", unread.name[i]);
    }
    return end_own(o, start, lists[LABELS].json != NULL ? lists[LABELS] : ids, out);
}

static ls_status encode_ids(const ls_encode_options *o, ls_json_value record, ls_learnt_tokens *out) {
    return encode_listed(o, record, NULL, (const char *const[]){"input_ids", NULL}, out);
}

/* The members document and offset say from which text a record is. */
static ls_status encode_teacher(const ls_encode_options *o, ls_json_value record, ls_learnt_tokens *out) {
    static const char *const read[] = {
        "input_ids", "teacher_ids", "teacher_logprobs", "teacher_temperature", "document", "offset", NULL};
    ls_teacher_lists lists = {.vocabulary = ls_tokenizer_vocabulary(o->tokenizer), .words = &out->teacher};
    return encode_listed(o, record, &lists, read, out);
}

/* ---- answers ---- */

static ls_status append_answer(const ls_learnt_tokens *answer, ls_learnt_tokens *out) {
    for (size_t i = 0; i < answer->tokens.count; i++)
        LS_TRY(ls_learnt_append_id(answer->tokens.id[i], answer->learnt[i], out));
    out->begun = answer->begun;
    out->end_learnt = answer->end_learnt;
    return ls_ok();
}

static ls_status encode_preference(const ls_encode_options *o, ls_json_value record, ls_learnt_tokens *out) {
    ls_preference pair = {0};
    LS_TRY(ls_preference_read(o, record, &pair));
    ls_status status = ls_ok();
    for (int i = 0; i < pair.n && status.code == LS_OK; i++) {
        status = append_answer(&pair.answer[i].all, out);
        ls_left_out_add(&out->left_out, &pair.answer[i].all.left_out);
    }
    out->answers = (ls_answer_marks){.first = pair.n > 1 ? (int64_t)pair.answer[0].all.tokens.count : 0,
                                     .judged = pair.n == 1,
                                     .wanted = pair.answer[0].wanted,
                                     .has_margin = pair.has_margin,
                                     .margin = pair.margin};
    ls_preference_free(&pair);
    LS_TRY(status);
    ls_unread_find(&out->unread, record,
                   out->answers.judged ? (const char *const[]){"prompt", "completion", "label", NULL}
                                       : (const char *const[]){"prompt", "chosen", "rejected", "margin", NULL});
    return ls_ok();
}

/* ---- the table ---- */

#define ANSWERED "answers are needed, and none are generated while a model is trained"
#define STEPWISE "a loss that judges steps is needed, and train has none"
static const ls_record_kind kinds[] = {
    {.name = "text", .members = {"text"}, .summary = "texts", .encode = encode_text},
    {.name = "completion",
     .members = {"prompt", "completion"},
     .summary = "prompts and completions",
     .learnt = true,
     .chat = LS_CHAT_SOME,
     .encode = encode_completion},
    {.name = "messages",
     .members = {"messages"},
     .summary = "conversations",
     .learnt = true,
     .chat = LS_CHAT_ALL,
     .encode = ls_encode_messages},
    {.name = "sharegpt",
     .members = {"conversations"},
     .summary = "conversations (from, value)",
     .learnt = true,
     .chat = LS_CHAT_ALL,
     .encode = encode_sharegpt},
    {.name = "alpaca",
     .members = {"instruction", "output"},
     .summary = "instructions and outputs",
     .learnt = true,
     .chat = LS_CHAT_ALL,
     .encode = encode_alpaca},
    {.name = "segments",
     .members = {"segments"},
     .summary = "segments (text, label)",
     .learnt = true,
     .encode = encode_segments},
    {.name = "ids", .members = {"input_ids"}, .summary = "ids of tokens", .learnt = true, .encode = encode_ids},
    {.name = "teacher",
     .members = {"input_ids", "teacher_ids", "teacher_logprobs"},
     .summary = "ids of tokens with the likeliest words of a teacher",
     .learnt = true,
     .teaches = true,
     .encode = encode_teacher},
    {.name = "preference",
     .members = {"chosen", "rejected"},
     .summary = "a chosen and a rejected answer",
     .learnt = true,
     .compares = true,
     .chat = LS_CHAT_SOME,
     .encode = encode_preference},
    {.name = "label",
     .members = {"prompt", "completion", "label"},
     .summary = "an answer that is wanted or not",
     .learnt = true,
     .compares = true,
     .judges = true,
     .chat = LS_CHAT_SOME,
     .encode = encode_preference},
    {.name = "stepwise",
     .members = {"prompt", "completions", "labels"},
     .summary = "steps with labels",
     .learnt = true,
     .refused = STEPWISE},
    {.name = "prompt",
     .members = {"prompt"},
     .summary = "prompts without an answer",
     .learnt = true,
     .chat = LS_CHAT_SOME,
     .refused = ANSWERED},
};

/* The number of a kind's members if the record has all of them; else 0. */
static int members_of(const ls_record_kind *kind, ls_json_value record) {
    int n = 0;
    for (; n < LS_KIND_MEMBERS && kind->members[n] != NULL; n++)
        if (!ls_json_has(record, kind->members[n])) return 0;
    return n;
}

/* Finds the kind of a record from its members: of the kinds that fit, the one with the most members. NULL: none. */
static const ls_record_kind *find_like(ls_json_value record) {
    const ls_record_kind *found = NULL;
    for (size_t i = 0; i < LS_COUNT(kinds); i++) {
        const int n = members_of(&kinds[i], record);
        if (n > 0 && (found == NULL || n > members_of(found, record))) found = &kinds[i];
    }
    return found;
}

ls_status ls_record_kind_find(const char *name, const ls_record_kind **out) {
    char known[300] = "";
    for (size_t i = 0, used = 0; i < LS_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *out = &kinds[i];
            return ls_ok();
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", kinds[i].name);
    }
    return ls_error(LS_USAGE, "--records is '%s'; known are %s", name, known);
}

ls_status ls_record_encode(const ls_encode_options *o, const ls_record_kind *kind, ls_json_value value,
                           ls_learnt_tokens *out) {
    /* For texts, other options say where the text is. */
    if (kind->encode != encode_text) LS_TRY(check_members(kind, value));
    return kind->encode(o, value, out);
}
