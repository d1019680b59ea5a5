/*
 * Documents from files: batches of records are read one after the other, encoded on all threads, and passed to a sink
 * in order.
 */
#include "data/documents_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LOGGED = 5 }; /* logged records that are left out; further ones are only counted */

/* ---- the frame ---- */

/* "auto" or NULL. */
static bool is_auto(const char *word) { return word == NULL || strcmp(word, "auto") == 0; }

/* *out: -1 for "none". */
static ls_status find_token(const ls_tokenizer *tokenizer, const char *flag, const char *word, int32_t *out) {
    *out = -1;
    if (strcmp(word, "none") == 0) return ls_ok();
    *out = ls_tokenizer_find(tokenizer, word);
    return *out >= 0 ? ls_ok()
                     : ls_error(LS_USAGE, "--%s is '%s', expected auto, none or a token of the tokenizer", flag, word);
}

static ls_status find_begin(const ls_tokenizer *tokenizer, const char *word, ls_frame *out) {
    if (!is_auto(word)) {
        LS_TRY(find_token(tokenizer, "begin", word, &out->begin[0]));
        out->n_begin = out->begin[0] >= 0;
        return ls_ok();
    }
    const ls_token_frame frame = ls_tokenizer_frame(tokenizer);
    if (frame.n_before > LS_FRAME_MOST)
        return ls_error(LS_UNSUPPORTED, "the tokenizer puts %zu tokens before a text, expected at most %d",
                        frame.n_before, LS_FRAME_MOST);
    out->n_begin = (int)frame.n_before;
    for (int i = 0; i < out->n_begin; i++) out->begin[i] = frame.before[i];
    return ls_ok();
}

ls_status ls_frame_find(const ls_tokenizer *tokenizer, const char *begin, const char *end, ls_frame *out) {
    ls_frame frame = {.end = ls_tokenizer_end_of_document(tokenizer)};
    LS_TRY(find_begin(tokenizer, begin, &frame));
    if (!is_auto(end))
        LS_TRY(find_token(tokenizer, "end", end, &frame.end));
    else if (frame.end < 0)
        return ls_error(LS_INVALID,
                        "the tokenizer \"%s\" has no end-of-document token; expected eos_token in "
                        "tokenizer_config.json, or --end with a token or none",
                        ls_tokenizer_name(tokenizer));
    *out = frame;
    return ls_ok();
}

void ls_frame_text(const ls_tokenizer *tokenizer, const int32_t *ids, int n, char *out, size_t room) {
    ls_text text = {0};
    snprintf(out, room, "none");
    if (n > 0 && ids[0] >= 0 && ls_tokenizer_decode(tokenizer, ids, (size_t)n, &text).code == LS_OK)
        snprintf(out, room, "token %d", ids[0]); /* if the token has no text */
    for (size_t at = 0, used = 0, length; at < text.count && used + 8 < room; at += length) {
        length = ls_printable_at(text.byte + at, text.count - at);
        used += (size_t)(length > 0 ? snprintf(out + used, room - used, "%.*s", (int)length, text.byte + at)
                                    : snprintf(out + used, room - used, "<0x%02X>", (unsigned char)text.byte[at]));
        if (length == 0) length = 1;
    }
    free(text.byte);
}

/* ---- the form ---- */

static const char *or_default(const char *word, const char *initial) { return word != NULL ? word : initial; }

/*
 * If only some kinds of records are conversations, a missing template is reported as the error of the first
 * conversation.
 */
static ls_status open_chat(const ls_text_form *form, const ls_tokenizer *tokenizer, const char *folder, ls_chat_use use,
                           ls_chat *out) {
    const ls_chat_options options = {
        .name = form->chat, .folder = folder, .system = form->system, .today = form->today};
    const ls_status status = ls_chat_open(tokenizer, &options, out);
    if (use == LS_CHAT_ALL || !is_auto(form->chat) || form->system != NULL) return status;
    out->missing = status;
    return ls_ok();
}

ls_status ls_document_form_find(const ls_text_form *form, const ls_tokenizer *tokenizer, const char *folder,
                                ls_document_form *out) {
    ls_document_form made = {.options = *form};
    made.options.format = or_default(form->format, "auto");
    made.options.field = or_default(form->field, "text");
    made.options.records = or_default(form->records, "text");
    made.options.encoding = or_default(form->encoding, "utf-8");
    const char *begin = form->begin;
    LS_TRY(ls_record_kind_find(made.options.records, &made.kind));
    LS_TRY(ls_too_long_find(form->too_long, made.kind->learnt, &made.too_long));
    if (made.kind->refused != NULL)
        return ls_error(LS_UNSUPPORTED, "--records is '%s': %s", made.kind->name, made.kind->refused);
    if (made.kind->chat != LS_CHAT_NONE) LS_TRY(open_chat(form, tokenizer, folder, made.kind->chat, &made.chat));
    made.chat.removes_begin = !is_auto(begin);
    /* The template writes its own begin token. */
    if (made.kind->chat == LS_CHAT_ALL && !made.chat.removes_begin) begin = "none";
    const ls_status status = ls_frame_find(tokenizer, begin, form->end, &made.frame);
    if (status.code == LS_OK)
        *out = made;
    else
        ls_document_form_free(&made);
    return status;
}

void ls_document_form_free(ls_document_form *form) { ls_chat_close(&form->chat); }

/* ---- documents ---- */

typedef struct reader {
    const ls_document_reading *reading;
    const ls_document_sink *sink;
    ls_document_counts *counts;
    ls_source *source;
    ls_record_encoder *encoder;
    ls_pool *pool;
    bool in_document;
    int64_t tokens;           /* tokens of the current document so far */
    ls_learnt_tokens held;    /* the beginning of the current document, if long documents are not kept as they are */
    bool all_learnt;          /* all tokens are learnt, and held.learnt is not used */
    ls_teacher_words teacher; /* of the first record that has a teacher, without its words */
    int64_t logged;
} reader;

/* Tokens of the frame before a document. */
static int before(const reader *r, bool begun) { return begun ? 0 : r->reading->form->frame.n_begin; }

static ls_status begin_document(reader *r, bool begun, bool learnt) {
    const int n = before(r, begun);
    r->in_document = true;
    r->tokens = n;
    r->counts->tokens += n;
    r->counts->learnt += learnt ? n : 0;
    return r->sink->begin(r->sink->context, !begun, learnt);
}

static ls_status end_document(reader *r, bool learnt, ls_place next) {
    const bool end = r->reading->form->frame.end >= 0;
    r->in_document = false;
    r->counts->tokens += end;
    r->counts->learnt += learnt && end;
    r->counts->longest = ls_max(r->counts->longest, r->tokens + end);
    r->counts->documents++;
    return r->sink->end(r->sink->context, learnt, next);
}

/* Counts a record that cannot be used, or returns its error. */
static ls_status leave_out_as(reader *r, ls_status why) {
    if (!r->reading->form->options.skip_bad) return why;
    if (r->logged++ < MOST_LOGGED) ls_log("left out: %s", why.text);
    r->counts->bad++;
    return ls_ok();
}

static ls_status leave_out(reader *r, const ls_text_record *record) {
    if (record->binary && r->reading->skip_binary) {
        r->counts->binary++;
        return ls_ok();
    }
    return leave_out_as(r, ls_records_explain(r->encoder, record));
}

static ls_status append(reader *r, const int32_t *ids, const uint8_t *learnt, int64_t n) {
    r->tokens += n;
    r->counts->tokens += n;
    for (int64_t i = 0; i < n; i++) r->counts->learnt += learnt == NULL || learnt[i];
    return r->sink->append(r->sink->context, ids, learnt, n);
}

/* Ends a document of which only the beginning was held. */
static ls_status end_held(reader *r, bool begun, bool end_learnt, ls_place next) {
    const ls_document_reading *of = r->reading;
    const int64_t kept = (int64_t)r->held.tokens.count, n = r->tokens;
    const uint8_t *learnt = r->all_learnt ? NULL : r->held.learnt;
    ls_left_out *out = &r->counts->left_out;
    r->in_document = false;
    r->held.tokens.count = 0;
    if (n > of->longest) {
        const bool cuts = of->form->too_long == LS_TOO_LONG_CUT && kept > 0;
        const bool keeps = cuts && (learnt == NULL || memchr(learnt, true, (size_t)kept) != NULL);
        out->longer++;
        out->unlearnt += !keeps;
        out->tokens += n - (keeps ? before(r, begun) + kept : 0);
        if (!keeps) return ls_ok();
    }
    LS_TRY(begin_document(r, begun, r->all_learnt));
    LS_TRY(append(r, r->held.tokens.id, learnt, kept));
    return end_document(r, end_learnt && n <= of->longest, next);
}

/* Holds the part of a record that may be kept, until the document is complete. */
static ls_status hold(reader *r, const ls_text_record *record, const ls_encoded *encoded, ls_place next) {
    if (!r->in_document) r->tokens = before(r, encoded->begun);
    r->in_document = true;
    const uint8_t *learnt = encoded->learnt;
    r->all_learnt = learnt == NULL;
    const int64_t room = ls_max(r->reading->longest - r->tokens, 0), some = ls_min(encoded->n, room);
    for (int64_t i = 0; i < some; i++)
        LS_TRY(ls_learnt_append_id(encoded->ids[i], learnt == NULL || learnt[i], &r->held));
    r->tokens += encoded->n;
    return record->last ? end_held(r, encoded->begun, encoded->end_learnt, next) : ls_ok();
}

/* Adds an answer. The mark that says whether it is wanted is at its first token, which is not a label. */
static ls_status add_answer(reader *r, const ls_encoded *encoded, int64_t first, int64_t past, ls_place next) {
    const ls_frame *frame = &r->reading->form->frame;
    const ls_answer_marks *marks = &encoded->answers;
    const uint8_t wanted = marks->judged ? marks->wanted : first == 0, not_learnt[LS_FRAME_MOST] = {0};
    const int n = before(r, encoded->begun);
    LS_TRY(r->sink->begin(r->sink->context, false, false));
    r->in_document = true;
    r->tokens = 0;
    LS_TRY(append(r, n > 0 ? frame->begin : encoded->ids + first, &wanted, 1));
    if (n > 1) LS_TRY(append(r, frame->begin + 1, not_learnt, n - 1));
    const int64_t from = n > 0 ? first : first + 1;
    LS_TRY(append(r, encoded->ids + from, encoded->learnt + from, past - from));
    return end_document(r, encoded->end_learnt, next);
}

static ls_status add_pair(reader *r, const ls_encoded *encoded, ls_place next) {
    const ls_answer_marks *marks = &encoded->answers;
    if (marks->has_margin) LS_TRY(r->sink->margin(r->sink->context, marks->margin));
    LS_TRY(add_answer(r, encoded, 0, marks->first, next));
    return add_answer(r, encoded, marks->first, encoded->n, next);
}

/* Checks that all records of a teacher have the same number of words, at the same temperature. */
static ls_status check_teacher(reader *r, const ls_text_record *record, const ls_teacher_words *of) {
    const ls_teacher_words *first = &r->teacher;
    const char *path = r->reading->inputs->input[record->at.input].path;
    const long long line = (long long)record->at.line;
    if (first->k == 0) r->teacher = (ls_teacher_words){.k = of->k, .temperature = of->temperature};
    if (of->k != first->k)
        return ls_error(LS_INVALID, "%s:%lld: teacher_ids has %d words for a token, expected %d, as the records before",
                        path, line, of->k, first->k);
    if (of->temperature != first->temperature)
        return ls_error(LS_INVALID, "%s:%lld: teacher_temperature is %g, expected %g, as the records before have it",
                        path, line, of->temperature, first->temperature);
    return ls_ok();
}

/*
 * Passes on the words for the tokens that the document will have: without those for the end of document if it gets none
 * (--end none).
 */
static ls_status teach(const reader *r, const ls_encoded *encoded) {
    int64_t learnt = encoded->end_learnt && r->reading->form->frame.end >= 0;
    for (int64_t i = 0; i < encoded->n; i++) learnt += encoded->learnt[i];
    ls_teacher_words words = encoded->teacher;
    LS_ASSERT(learnt * words.k <= words.n);
    words.n = learnt * words.k;
    return r->sink->teach(r->sink->context, &words);
}

static ls_status add_record(reader *r, const ls_text_record *record, const ls_encoded *encoded, ls_place next) {
    const ls_document_reading *of = r->reading;
    const bool holds = of->longest > 0 && of->form->too_long != LS_TOO_LONG_SPLIT;
    if (encoded->bad) {
        LS_TRY(leave_out(r, record));
        /* A document whose last part is bad ends without it. */
        if (!r->in_document || !record->last) return ls_ok();
        return holds ? end_held(r, false, true, next) : end_document(r, true, next);
    }
    if (encoded->n == 0 && record->last && !r->in_document) {
        r->counts->empty++;
        return ls_ok();
    }
    if (encoded->teacher.k > 0) {
        const ls_status other = check_teacher(r, record, &encoded->teacher);
        if (other.code != LS_OK) return leave_out_as(r, other);
        LS_TRY(teach(r, encoded));
    }
    ls_left_out_add(&r->counts->left_out, &encoded->left_out);
    if (encoded->answers.judged) return add_answer(r, encoded, 0, encoded->n, next);
    if (encoded->answers.first > 0) return add_pair(r, encoded, next);
    if (holds) return hold(r, record, encoded, next);
    if (!r->in_document) LS_TRY(begin_document(r, encoded->begun, encoded->learnt == NULL));
    LS_TRY(append(r, encoded->ids, encoded->learnt, encoded->n));
    if (!record->last) return ls_ok();
    r->counts->left_out.longer += of->longest > 0 && r->tokens > of->longest;
    return end_document(r, encoded->end_learnt, next);
}

static ls_status read_all(reader *r) {
    const ls_text_record *records;
    size_t n;
    for (;;) {
        LS_TRY(ls_source_next(r->source, &records, &n));
        if (n == 0) return ls_ok();
        LS_TRY(ls_records_run(r->encoder, records, n));
        for (size_t i = 0; i < n; i++) {
            const ls_encoded encoded = ls_records_result(r->encoder, i);
            const ls_place next = i + 1 < n ? records[i + 1].at : ls_source_place(r->source);
            LS_TRY(add_record(r, &records[i], &encoded, next));
        }
        if (r->sink->batch != NULL) LS_TRY(r->sink->batch(r->sink->context, ls_source_place(r->source)));
    }
}

static ls_status open_reader(reader *r) {
    const ls_document_reading *of = r->reading;
    const ls_document_form *form = of->form;
    const ls_encode_options encode = {.tokenizer = of->tokenizer,
                                      .field = form->options.field,
                                      .records = form->options.records,
                                      .encoding = form->options.encoding,
                                      .chat = &form->chat};
    if (of->threads > 1) LS_TRY(ls_pool_create(of->threads, true, &r->pool));
    LS_TRY(ls_records_create(&encode, of->inputs->input, r->pool, &r->encoder));
    ls_encoding encoding;
    LS_TRY(ls_encoding_find(form->options.encoding, &encoding));
    return ls_source_open(of->inputs->input, of->inputs->n, of->tokenizer, of->from, form->options.longest_record,
                          encoding, &r->source);
}

ls_status ls_documents_read(const ls_document_reading *reading, const ls_document_sink *sink,
                            ls_document_counts *counts) {
    reader r = {.reading = reading, .sink = sink, .counts = counts};
    ls_status status = open_reader(&r);
    if (status.code == LS_OK) status = read_all(&r);
    free(r.held.tokens.id);
    free(r.held.learnt);
    ls_source_close(r.source);
    ls_records_destroy(r.encoder);
    ls_pool_destroy(r.pool);
    return status;
}
