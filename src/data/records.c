/* Tokens from records: encodes a batch of records on all threads. */
#include "data/records_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- encoding batches ---- */

/* A run is what one thread encodes at a time: consecutive records of about this many bytes. */
#define RUN_BYTES ((size_t)256 << 10)
enum { RUN_RECORDS = 4096 };
enum { MOST_VALUES = 1 << 24 }; /* JSON values of a record, which are all in memory while it is encoded */

typedef struct run {
    size_t first, n; /* records */
    ls_learnt_tokens out;
    ls_status status; /* LS_NO_MEMORY; errors of single records are not stored here */
} run;

/* Where the tokens of a record lie. */
typedef struct token_range {
    size_t start, n; /* in the list of its run */
    ls_left_out left_out;
    int run;
    ls_answer_marks answers;
    int64_t words;            /* index of its first teacher's word in the list of its run */
    ls_teacher_words teacher; /* without the words */
    bool bad, begun, end_learnt;
} token_range;

struct ls_record_encoder {
    ls_encode_options options;
    const ls_record_kind *kind;
    const ls_input *inputs;
    ls_pool *pool;
    const ls_text_record *records;
    run *runs;
    token_range *ranges; /* by record */
    ls_unread unread;    /* names from all batches; those that were logged */
    int n_runs;
    size_t run_capacity, range_capacity;
};

ls_status ls_records_create(const ls_encode_options *options, const ls_input *inputs, ls_pool *pool,
                            ls_record_encoder **out) {
    const ls_record_kind *kind = NULL;
    LS_TRY(ls_record_kind_find(options->records, &kind));
    ls_record_encoder *e = calloc(1, sizeof *e);
    if (e == NULL) return ls_error(LS_NO_MEMORY, "no memory to encode");
    *e = (ls_record_encoder){.options = *options, .kind = kind, .inputs = inputs, .pool = pool};
    *out = e;
    return ls_ok();
}

void ls_records_destroy(ls_record_encoder *e) {
    if (e == NULL) return;
    for (size_t i = 0; i < e->run_capacity; i++) {
        free(e->runs[i].out.tokens.id);
        free(e->runs[i].out.learnt);
        ls_teacher_words_free(&e->runs[i].out.teacher);
    }
    free(e->runs);
    free(e->ranges);
    free(e);
}

/* ---- one record ---- */

static ls_status encode_json(const ls_record_encoder *e, const ls_text_record *record, ls_learnt_tokens *out) {
    LS_PATH name = NULL;
    ls_json *document = NULL;
    LS_TRY(ls_path_print(&name, "%s:%lld", e->inputs[record->at.input].path, (long long)record->at.line));
    const int64_t values = ls_json_values(record->text, record->bytes);
    if (values > MOST_VALUES)
        return ls_error(LS_INVALID,
                        "%s: the record holds %lld values of JSON; expected at most %d in one of --records %s", name,
                        (long long)values, MOST_VALUES, e->kind->name);
    LS_TRY(ls_json_parse_record(name, record->text, record->bytes, &document));
    const ls_status status = ls_record_encode(&e->options, e->kind, ls_json_root(document), out);
    ls_json_free(document);
    /* The tokenizer's errors do not say where the text is. */
    return strncmp(status.text, name, strlen(name)) == 0 ? status : ls_error_in(status, "%s", name);
}

static ls_status encode(const ls_record_encoder *e, const ls_text_record *record, ls_learnt_tokens *out) {
    const ls_input *input = &e->inputs[record->at.input];
    const bool json = input->kind != LS_INPUT_TEXT;
    out->begun = false;
    out->end_learnt = true;
    out->answers = (ls_answer_marks){0};
    out->teacher.k = 0;
    out->left_out = (ls_left_out){0};
    if (record->bad != NULL && json && !record->rest)
        return ls_error(LS_INVALID, "%s:%lld: %s", input->path, (long long)record->at.line, record->bad);
    if (record->bad != NULL) return ls_error(LS_INVALID, "%s: %s", input->path, record->bad);
    if (json) return encode_json(e, record, out);
    const bool rest = record->at.offset > 0; /* a later part of a long text */
    return ls_error_in((rest ? ls_tokenizer_encode_rest : ls_tokenizer_encode)(e->options.tokenizer, record->text,
                                                                               record->bytes, &out->tokens),
                       "%s", input->path);
}

/* The number of the line that has byte `offset` of an input. */
static ls_status find_line(const ls_record_encoder *e, const char *path, int64_t offset, int64_t *line) {
    char block[1 << 14];
    ls_encoding encoding;
    ls_byte_stream *stream = NULL;
    *line = 1;
    LS_TRY(ls_encoding_find(e->options.encoding, &encoding));
    ls_status status = ls_stream_open(path, encoding, &stream);
    for (size_t n = 1; status.code == LS_OK && n > 0 && offset > 0; offset -= (int64_t)n) {
        status = ls_stream_read(stream, block, (size_t)ls_min(offset, sizeof block), &n);
        for (size_t i = 0; i < n; i++) *line += block[i] == '\n';
    }
    ls_stream_close(stream);
    return status;
}

/*
 * The error of a text that the tokenizer refuses: gives the place in the file of the first byte that is not UTF-8, if
 * any.
 */
static ls_status explain_text(const ls_record_encoder *e, const ls_text_record *record, ls_status status) {
    const char *path = e->inputs[record->at.input].path;
    const size_t valid = ls_utf8_valid_prefix(record->text, record->bytes);
    int64_t line;
    if (status.code != LS_INVALID || valid == record->bytes) return status;
    LS_TRY(find_line(e, path, record->at.offset + (int64_t)valid, &line));
    return ls_error(LS_INVALID,
                    "%s: line %lld, byte %lld of the file (0x%02x): begins no character of UTF-8; expected UTF-8, or "
                    "--encoding latin-1",
                    path, (long long)line, (long long)record->at.offset + (int64_t)valid + 1,
                    (unsigned char)record->text[valid]);
}

ls_status ls_records_explain(const ls_record_encoder *e, const ls_text_record *record) {
    ls_learnt_tokens out = {0};
    const bool text = record->bad == NULL && e->inputs[record->at.input].kind == LS_INPUT_TEXT;
    const ls_status status = encode(e, record, &out);
    free(out.tokens.id);
    free(out.learnt);
    ls_teacher_words_free(&out.teacher);
    return text ? explain_text(e, record, status) : status;
}

/* ---- all of a batch ---- */

static void encode_run(void *context, int i, int thread) {
    ls_record_encoder *e = context;
    run *r = &e->runs[i];
    (void)thread;
    ls_teacher_words *words = &r->out.teacher;
    r->out.tokens.count = 0;
    words->n = 0;
    r->status = ls_ok();
    for (size_t k = r->first; k < r->first + r->n; k++) {
        const size_t start = r->out.tokens.count;
        const int64_t taught = words->n;
        const ls_status status = encode(e, &e->records[k], &r->out);
        if (status.code == LS_NO_MEMORY) r->status = status;
        const bool bad = status.code != LS_OK;
        if (bad) r->out.tokens.count = start; /* remove the tokens of a bad record */
        if (bad) words->n = taught;
        e->ranges[k] =
            (token_range){.start = start,
                          .n = r->out.tokens.count - start,
                          .left_out = r->out.left_out,
                          .run = i,
                          .answers = r->out.answers,
                          .words = taught,
                          .teacher = {.k = words->k, .temperature = words->temperature, .n = words->n - taught},
                          .bad = bad,
                          .begun = r->out.begun,
                          .end_learnt = r->out.end_learnt};
    }
}

static ls_status add_run(ls_record_encoder *e, size_t first, size_t n) {
    if ((size_t)e->n_runs == e->run_capacity) {
        const size_t wanted = 2 * e->run_capacity + 64;
        run *grown = realloc(e->runs, wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu runs of records", wanted);
        memset(grown + e->run_capacity, 0, (wanted - e->run_capacity) * sizeof *grown);
        e->runs = grown;
        e->run_capacity = wanted;
    }
    run *r = &e->runs[e->n_runs++];
    r->first = first;
    r->n = n;
    return ls_ok();
}

static ls_status cut_runs(ls_record_encoder *e, const ls_text_record *records, size_t n) {
    size_t first = 0, bytes = 0;
    e->n_runs = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += records[i].bytes;
        if (i + 1 < n && bytes < RUN_BYTES && i + 1 - first < RUN_RECORDS) continue;
        LS_TRY(add_run(e, first, i + 1 - first));
        first = i + 1;
        bytes = 0;
    }
    return ls_ok();
}

/* Logs each name once. */
static void name_unread(ls_record_encoder *e) {
    const int before = e->unread.n;
    for (int i = 0; i < e->n_runs; i++)
        for (int k = 0; k < e->runs[i].out.unread.n; k++) ls_unread_add(&e->unread, "", e->runs[i].out.unread.name[k]);
    for (int k = before; k < e->unread.n; k++)
        ls_log("records have a member that is not read: %s%s", e->unread.name[k],
               k + 1 < LS_UNREAD_MOST ? "" : "; further names are not reported");
}

ls_status ls_records_run(ls_record_encoder *e, const ls_text_record *records, size_t n) {
    if (n > e->range_capacity) {
        token_range *grown = realloc(e->ranges, n * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu records", n);
        e->ranges = grown;
        e->range_capacity = n;
    }
    e->records = records;
    LS_TRY(cut_runs(e, records, n));
    ls_pool_run(e->pool, e->n_runs, encode_run, e);
    for (int i = 0; i < e->n_runs; i++) LS_TRY(e->runs[i].status);
    name_unread(e);
    return ls_ok();
}

ls_encoded ls_records_result(const ls_record_encoder *e, size_t i) {
    const token_range *p = &e->ranges[i];
    const ls_learnt_tokens *out = &e->runs[p->run].out;
    const bool json = e->inputs[e->records[i].at.input].kind != LS_INPUT_TEXT;
    const bool some = p->n > 0; /* the lists of a run without tokens are NULL */
    ls_teacher_words teacher = p->teacher;
    if (teacher.n > 0) teacher.ids = out->teacher.ids + p->words;
    if (teacher.n > 0) teacher.logprobs = out->teacher.logprobs + p->words;
    return (ls_encoded){.ids = some ? out->tokens.id + p->start : NULL,
                        .learnt = some && e->kind->learnt && json ? out->learnt + p->start : NULL,
                        .n = (int64_t)p->n,
                        .begun = p->begun,
                        .end_learnt = p->end_learnt,
                        .answers = p->answers,
                        .teacher = teacher,
                        .left_out = p->left_out,
                        .bad = p->bad};
}
