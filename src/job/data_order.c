/* longspan data inspect --order: the documents and offsets of each sequence of each step, as training reads them. */
#include "data/data.h"
#include "job/data_impl.h"
#include "plan/session.h"

#include <stdlib.h>

typedef struct order {
    const ls_data_inspect_job *job;
    ls_data *data;
    int64_t S, B, steps;
    ls_data_piece *pieces; /* [S + 1] */
    ls_sample sample;
    ls_json_writer *json; /* NULL: lines */
    FILE *out;
} order;

static void print_sequence(const order *o, int64_t step, int64_t b, int64_t pieces) {
    for (int64_t i = 0; i < pieces; i++) {
        const ls_data_piece *p = &o->pieces[i];
        fprintf(o->out, "%8lld %8lld %8lld %12lld %12lld %8lld\n", (long long)step, (long long)b,
                (long long)p->place, (long long)p->document, (long long)p->offset, (long long)p->length);
    }
}

static void put_sequence(const order *o, int64_t pieces) {
    ls_json_open_array(o->json, NULL);
    for (int64_t i = 0; i < pieces; i++) {
        ls_json_open_object(o->json, NULL);
        ls_json_put_int(o->json, "place", o->pieces[i].place);
        ls_json_put_int(o->json, "document", o->pieces[i].document);
        ls_json_put_int(o->json, "offset", o->pieces[i].offset);
        ls_json_put_int(o->json, "length", o->pieces[i].length);
        ls_json_close(o->json);
    }
    ls_json_close(o->json);
}

/* step: from 1, as in metrics.jsonl. */
static ls_status tell_step(const order *o, int64_t step) {
    uint64_t hash = 0;
    if (o->json != NULL) {
        ls_json_open_object(o->json, NULL);
        ls_json_put_int(o->json, "step", step);
        ls_json_open_array(o->json, "sequences");
    }
    for (int64_t b = 0; b < o->B; b++) {
        const int64_t index = (step - 1) * o->B + b;
        int64_t pieces = 0;
        ls_sample sample = o->sample;
        LS_TRY(ls_data_pieces(o->data, index, o->pieces, &pieces));
        LS_TRY(ls_data_read(o->data, index, &sample));
        hash = ls_data_hash(hash, sample.tokens, sample.labels, o->S);
        if (o->json != NULL)
            put_sequence(o, pieces);
        else
            print_sequence(o, step, b, pieces);
    }
    if (o->json != NULL) {
        ls_json_close(o->json);
        ls_json_put_hex(o->json, "data_hash", hash);
        ls_json_close(o->json);
    }
    return ls_ok();
}

static ls_status tell(order *o) {
    const ls_data_summary *s = ls_data_summarise(o->data);
    if (o->json != NULL) {
        ls_json_put_int(o->json, "documents", s->documents);
        ls_json_put_int(o->json, "sequences", s->windows);
        ls_json_put_int(o->json, "padding", s->padding);
        ls_json_open_array(o->json, "steps");
    } else {
        fprintf(
            o->out,
            "%lld sequences of %lld in an epoch, %.2f %% of their places empty\n%8s %8s %8s %12s %12s %8s\n",
            (long long)s->windows, (long long)o->S,
            100.0 * (double)s->padding / ((double)s->windows * (double)o->S), "step", "sequence", "place",
            "document", "offset", "length");
    }
    for (int64_t i = 0; i < o->steps; i++) LS_TRY(tell_step(o, o->job->from + i + 1));
    if (o->json == NULL) return ls_ok();
    ls_json_close(o->json);
    ls_json_end(o->json, o->out);
    o->json = NULL;
    return ls_ok();
}

static ls_status open_data(order *o) {
    ls_tokenizer *tokenizer = NULL;
    const ls_data_options options = {.paths = o->job->paths,
                                     .n_paths = o->job->n_paths,
                                     .folder = o->job->tokenizer,
                                     .form = o->job->form,
                                     .sequence = o->S,
                                     .seed = o->job->seed,
                                     .shuffle = true,
                                     .pack = o->job->pack};
    LS_TRY(ls_tokenizer_open(o->job->tokenizer, &tokenizer));
    ls_tokenizer_log(tokenizer, 0);
    ls_data_options with = options;
    with.tokenizer = tokenizer;
    const ls_status status = ls_data_open(&with, &o->data);
    ls_tokenizer_close(tokenizer);
    return status;
}

static ls_status make(order *o) {
    const size_t room = (size_t)o->S + 1;
    const int64_t from = o->job->from, most = INT64_C(1) << 37; /* times a batch, sequences can be counted */
    LS_TRY(ls_step_size_check(o->S, o->B));
    if (from < 0 || from > most || o->steps > most)
        return ls_error(LS_USAGE, "--from %lld and --steps %lld; expected 0 to %lld and 1 to %lld",
                        (long long)from, (long long)o->steps, (long long)most, (long long)most);
    LS_TRY(open_data(o));
    o->pieces = malloc(room * sizeof *o->pieces);
    o->sample.tokens = malloc(room * sizeof(int32_t));
    o->sample.labels = malloc(room * sizeof(int32_t));
    if (o->pieces == NULL || o->sample.tokens == NULL || o->sample.labels == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a sequence of %lld tokens", (long long)o->S);
    return tell(o);
}

ls_status ls_data_print_order(const ls_data_inspect_job *job, FILE *out) {
    order o = {.job = job,
               .S = job->seq > 0 ? job->seq : 1024,
               .B = job->batch > 0 ? job->batch : 1,
               .steps = job->steps > 0 ? job->steps : 1,
               .json = job->json ? ls_json_begin(0) : NULL,
               .out = out};
    const ls_status status = make(&o);
    ls_json_writer_destroy(o.json);
    free(o.pieces);
    free(o.sample.tokens);
    free(o.sample.labels);
    ls_data_close(o.data);
    return status;
}
