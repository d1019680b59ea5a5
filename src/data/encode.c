#include "data/encode.h"

#include <stdlib.h>
#include <string.h>

/* Records are dealt to threads in runs of about this many bytes. */
#define RUN_BYTES ((size_t)256 << 10)
enum { RUN_RECORDS = 4096 };
enum { MOST_VALUES = 1 << 22 }; /* of a record: they are in memory while it is encoded */

typedef struct run {
    size_t first, n; /* records */
    ls_learnt_tokens out;
    ls_status status; /* what is wrong with no record: LS_NO_MEMORY */
} run;

typedef struct place {
    size_t start, n; /* in the list of its run */
    int run;
    bool bad, end_learnt;
} place;

struct ls_record_encoder {
    ls_encode_options options;
    const ls_record_kind *kind;
    const ls_input *inputs;
    ls_pool *pool;
    const ls_text_record *records;
    run *runs;
    place *places; /* by record */
    int n_runs;
    size_t run_capacity, place_capacity;
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
    }
    free(e->runs);
    free(e->places);
    free(e);
}

/* --- one record ------------------------------------------------------------------------------------------------------------- */

static ls_status encode_line(const ls_record_encoder *e, const ls_text_record *record,
                             ls_learnt_tokens *out) {
    LS_PATH name = NULL;
    ls_json *document = NULL;
    LS_TRY(ls_path_print(&name, "%s:%lld", e->inputs[record->at.input].path, (long long)record->at.line));
    if (ls_json_values(record->text, record->bytes) > MOST_VALUES)
        return ls_error(LS_INVALID, "%s: the record holds more than %d values, expected a text or messages",
                        name, MOST_VALUES);
    LS_TRY(ls_json_parse_record(name, record->text, record->bytes, &document));
    const ls_status status = e->kind->encode(&e->options, ls_json_root(document), out);
    ls_json_free(document);
    return status;
}

static ls_status encode(const ls_record_encoder *e, const ls_text_record *record, ls_learnt_tokens *out) {
    const ls_input *input = &e->inputs[record->at.input];
    const bool json = input->kind != LS_INPUT_TEXT;
    out->end_learnt = true;
    if (record->bad != NULL && json && !record->rest)
        return ls_error(LS_INVALID, "%s:%lld: %s", input->path, (long long)record->at.line, record->bad);
    if (record->bad != NULL) return ls_error(LS_INVALID, "%s: %s", input->path, record->bad);
    if (json) return encode_line(e, record, out);
    const bool rest = record->at.offset > 0; /* of a text that was cut; all of a text is learnt */
    return ls_error_in((rest ? ls_tokenizer_encode_rest : ls_tokenizer_encode)(
                           e->options.tokenizer, record->text, record->bytes, &out->tokens),
                       "%s", input->path);
}

ls_status ls_records_explain(const ls_record_encoder *e, const ls_text_record *record) {
    ls_learnt_tokens out = {0};
    const ls_status status = encode(e, record, &out);
    free(out.tokens.id);
    free(out.learnt);
    return status;
}

/* --- all of a batch --------------------------------------------------------------------------------------------------------- */

static void encode_run(void *context, int i, int thread) {
    ls_record_encoder *e = context;
    run *r = &e->runs[i];
    (void)thread;
    r->out.tokens.count = 0;
    r->status = ls_ok();
    for (size_t k = r->first; k < r->first + r->n; k++) {
        const size_t start = r->out.tokens.count;
        const ls_status status = encode(e, &e->records[k], &r->out);
        if (status.code == LS_NO_MEMORY) r->status = status;
        const bool bad = status.code != LS_OK;
        if (bad) r->out.tokens.count = start; /* what came of it goes */
        e->places[k] = (place){start, r->out.tokens.count - start, i, bad, r->out.end_learnt};
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

static ls_status cut(ls_record_encoder *e, const ls_text_record *records, size_t n) {
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

ls_status ls_records_run(ls_record_encoder *e, const ls_text_record *records, size_t n) {
    if (n > e->place_capacity) {
        place *grown = realloc(e->places, n * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu records", n);
        e->places = grown;
        e->place_capacity = n;
    }
    e->records = records;
    LS_TRY(cut(e, records, n));
    ls_pool_run(e->pool, e->n_runs, encode_run, e);
    for (int i = 0; i < e->n_runs; i++) LS_TRY(e->runs[i].status);
    return ls_ok();
}

ls_encoded ls_records_result(const ls_record_encoder *e, size_t i) {
    const place *p = &e->places[i];
    const ls_learnt_tokens *out = &e->runs[p->run].out;
    const bool json = e->inputs[e->records[i].at.input].kind != LS_INPUT_TEXT;
    const bool some = p->n > 0; /* a run without any token has no lists */
    return (ls_encoded){.ids = some ? out->tokens.id + p->start : NULL,
                        .learnt = some && e->kind->learnt && json ? out->learnt + p->start : NULL,
                        .n = (int64_t)p->n,
                        .end_learnt = p->end_learnt,
                        .bad = p->bad};
}
