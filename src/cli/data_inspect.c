/*
 * longspan data inspect: the contents of token shards, and with --order the documents that each step of a training
 * reads.
 */
#include "cli/cli_impl.h"
#include "data/data.h"
#include "session/session.h"
#include "text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- the order of training ---------------------------------------------------------------------------------------- */

typedef struct order {
    const ls_data_inspect_job *job;
    ls_data *data;
    int64_t S, B, steps;
    ls_data_piece *pieces; /* [S + 1] */
    ls_sample sample;
    ls_json_writer *json; /* NULL: print lines */
    FILE *out;
} order;

static void print_sequence(const order *o, int64_t step, int64_t b, int64_t pieces) {
    for (int64_t i = 0; i < pieces; i++) {
        const ls_data_piece *p = &o->pieces[i];
        fprintf(o->out, "%8lld %8lld %8lld %12lld %12lld %8lld\n", (long long)step, (long long)b, (long long)p->place,
                (long long)p->document, (long long)p->offset, (long long)p->length);
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

/* Shows one step. step: from 1, as in metrics.jsonl. */
static ls_status show_step(const order *o, int64_t step) {
    const ls_layout_run all = {0, o->S, 1};
    const ls_data_part whole = {&all, 1};
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
        LS_TRY(ls_data_read(o->data, index, &whole, &sample));
        hash += ls_data_hash(b * o->S, &whole, sample.tokens, sample.labels);
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

static ls_status show_steps(order *o) {
    const ls_data_summary *s = ls_data_summarise(o->data);
    if (o->json != NULL) {
        ls_json_put_int(o->json, "documents", s->documents);
        ls_json_put_int(o->json, "sequences", s->windows);
        ls_json_put_int(o->json, "padding", s->padding);
        ls_json_open_array(o->json, "steps");
    } else {
        fprintf(
            o->out, "%lld sequences of %lld in an epoch, %.2f %% of their places empty\n%8s %8s %8s %12s %12s %8s\n",
            (long long)s->windows, (long long)o->S, 100.0 * (double)s->padding / ((double)s->windows * (double)o->S),
            "step", "sequence", "place", "document", "offset", "length");
    }
    for (int64_t i = 0; i < o->steps; i++) LS_TRY(show_step(o, o->job->from + i + 1));
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
                                     .group = o->job->group_by_length ? o->B : 0,
                                     .pack = o->job->pack};
    LS_TRY(ls_tokenizer_open(o->job->tokenizer, &tokenizer));
    ls_tokenizer_log(tokenizer, 0);
    ls_data_options with = options;
    with.tokenizer = tokenizer;
    const ls_status status = ls_data_open(&with, &o->data);
    ls_tokenizer_close(tokenizer);
    return status;
}

static ls_status open_and_show(order *o) {
    const size_t room = (size_t)o->S + 1;
    const int64_t from = o->job->from, most = INT64_C(1) << 37; /* multiplied by a batch still below 2^63 */
    LS_TRY(ls_step_size_check(o->S, o->B));
    if (from < 0 || from > most || o->steps > most)
        return ls_error(LS_USAGE, "--from %lld and --steps %lld; expected 0 to %lld and 1 to %lld", (long long)from,
                        (long long)o->steps, (long long)most, (long long)most);
    LS_TRY(open_data(o));
    o->pieces = malloc(room * sizeof *o->pieces);
    o->sample.tokens = malloc(room * sizeof(int32_t));
    o->sample.labels = malloc(room * sizeof(int32_t));
    if (o->pieces == NULL || o->sample.tokens == NULL || o->sample.labels == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a sequence of %lld tokens", (long long)o->S);
    return show_steps(o);
}

static ls_status print_order(const ls_data_inspect_job *job, FILE *out) {
    order o = {.job = job,
               .S = job->seq > 0 ? job->seq : 1024,
               .B = job->batch > 0 ? job->batch : 1,
               .steps = job->steps > 0 ? job->steps : 1,
               .json = job->json ? ls_json_begin(0) : NULL,
               .out = out};
    const ls_status status = open_and_show(&o);
    ls_json_writer_destroy(o.json);
    free(o.pieces);
    free(o.sample.tokens);
    free(o.sample.labels);
    ls_data_close(o.data);
    return status;
}

/* --- the contents of shards --------------------------------------------------------------------------------------- */

enum { CLASSES = 48, SHOWN_TOKENS = 60, SHOWN_DOCUMENTS = 3 };

/* Documents by length: class c holds those of 2^c .. 2^(c+1) - 1 tokens. */
typedef struct histogram {
    int64_t documents[CLASSES], tokens[CLASSES];
    int64_t learnt; /* tokens that training learns as labels */
} histogram;

typedef struct inspection {
    const ls_data_inspect_job *job;
    ls_tokenizer *tokenizer;
    bool decodes; /* the tokenizer is that of the shards */
    ls_corpus corpus;
    histogram lengths;
} inspection;

static void count_part(histogram *h, const ls_corpus_part *part) {
    for (int64_t d = 0; d < part->documents; d++) {
        const int64_t length = ls_corpus_part_document(part, d + 1) - ls_corpus_part_document(part, d);
        const int class = (int)ls_min(CLASSES - 1, 63 - __builtin_clzll((uint64_t)length));
        h->documents[class]++;
        h->tokens[class] += length;
    }
    if (part->learnt == NULL) {
        h->learnt += part->count;
        return;
    }
    for (int64_t i = 0; i < (part->count + 63) / 64; i++) h->learnt += __builtin_popcountll(part->learnt[i]);
}

static ls_status verify(const ls_shard_set *set) {
    ls_machine machine;
    ls_pool *pool = NULL;
    ls_machine_detect(&machine);
    LS_TRY(ls_pool_create(machine.cores, true, &pool));
    ls_status status = ls_ok();
    for (int64_t i = 0; i < set->n && status.code == LS_OK; i++) status = ls_shard_verify(&set->shard[i], pool);
    ls_pool_destroy(pool);
    return status;
}

/* Decodes the beginning of a document into one line. The caller frees *out. */
static ls_status decode_beginning(const inspection *n, int64_t start, int64_t length, char **out) {
    int32_t ids[SHOWN_TOKENS];
    ls_text text = {0};
    const int64_t some = ls_min(length, SHOWN_TOKENS);
    LS_TRY(ls_corpus_read(&n->corpus, start, some, ids, NULL, NULL));
    ls_status status = ls_tokenizer_decode(n->tokenizer, ids, (size_t)some, &text);
    char *line = status.code == LS_OK ? malloc(3 * text.count + 1) : NULL;
    if (status.code == LS_OK && line == NULL) status = ls_error(LS_NO_MEMORY, "no memory for a document's text");
    if (line != NULL) {
        ls_utf8_printable(text.byte, text.count, line, 3 * text.count + 1);
        for (char *c = line; *c; c++)
            if (*c == '\n' || *c == '\t') *c = ' ';
        *out = line;
    }
    free(text.byte);
    return status;
}

/* --- a page ------------------------------------------------------------------------------------------------------- */

static void print_totals(const inspection *n, FILE *out) {
    const ls_corpus *c = &n->corpus;
    const ls_shard_header *h = c->shards.shard[0].header;
    fprintf(out, "%lld shards · %lld documents · %lld tokens of %u bytes · longest document %lld\n",
            (long long)c->shards.n, (long long)c->documents, (long long)c->tokens, h->width, (long long)c->longest);
    char end[24] = "none";
    if (h->end_of_document != LS_SHARD_NO_END)
        snprintf(end, sizeof end, "%llu", (unsigned long long)h->end_of_document);
    ls_print_line(out, "tokenizer %016" PRIx64 "%s%s · vocabulary %llu · end of document %s", h->tokenizer,
                  n->decodes ? " " : "", n->decodes ? ls_tokenizer_name(n->tokenizer) : "",
                  (unsigned long long)h->vocabulary, end);
    if (n->lengths.learnt < c->tokens)
        fprintf(out, "learnt as labels: %lld tokens, %.1f %%\n", (long long)n->lengths.learnt,
                100.0 * (double)n->lengths.learnt / (double)c->tokens);
    if (n->job->verify) fprintf(out, "verified: checksums and every token\n");
}

static void print_lengths(const inspection *n, FILE *out) {
    fprintf(out, "\n%23s %12s %16s\n", "tokens of a document", "documents", "of all tokens");
    for (int c = 0; c < CLASSES; c++) {
        if (n->lengths.documents[c] == 0) continue;
        fprintf(out, "%11lld-%-11lld %12lld %14.1f %%\n", 1ll << c, (2ll << c) - 1, (long long)n->lengths.documents[c],
                100.0 * (double)n->lengths.tokens[c] / (double)n->corpus.tokens);
    }
}

/* Finds start and length of document d; false past the last. */
static bool find_document(const ls_corpus *c, int64_t d, int64_t *start, int64_t *length) {
    for (int64_t p = 0; p < c->n_parts; p++) {
        const ls_corpus_part *part = &c->parts[p];
        const int64_t at = d - part->first_document;
        if (at >= part->documents) continue;
        *start = ls_corpus_part_document(part, at);
        *length = ls_corpus_part_document(part, at + 1) - *start;
        return true;
    }
    return false;
}

/* How many documents to show. */
static int64_t count_shown(const inspection *n) {
    const int64_t wanted = n->job->documents == 0 ? SHOWN_DOCUMENTS : ls_max(0, n->job->documents);
    return n->decodes ? ls_min(wanted, n->corpus.documents) : 0;
}

static ls_status print_documents(const inspection *n, FILE *out) {
    int64_t start, length;
    if (!n->decodes) fprintf(out, "\nno documents shown: give the --tokenizer that made the shards\n");
    if (count_shown(n) > 0) fprintf(out, "\n");
    for (int64_t d = 0; d < count_shown(n) && find_document(&n->corpus, d, &start, &length); d++) {
        char *text = NULL;
        LS_TRY(decode_beginning(n, start, length, &text));
        ls_print_line(out, "document %lld, %lld tokens: %s", (long long)d, (long long)length, text);
        free(text);
    }
    return ls_ok();
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void put_shards(const inspection *n, ls_json_writer *w) {
    ls_json_open_array(w, "shards");
    for (int64_t i = 0; i < n->corpus.shards.n; i++) {
        const ls_shard *s = &n->corpus.shards.shard[i];
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "file", s->path);
        ls_json_put_int(w, "documents", (int64_t)s->header->documents);
        ls_json_put_int(w, "tokens", (int64_t)s->header->tokens);
        ls_json_put_hex(w, "checksum", s->header->checksum);
        ls_json_close(w);
    }
    ls_json_close(w);
}

static ls_status put_documents(const inspection *n, ls_json_writer *w) {
    int64_t start, length;
    ls_json_open_array(w, "first_documents");
    for (int64_t d = 0; d < count_shown(n) && find_document(&n->corpus, d, &start, &length); d++) {
        char *text = NULL;
        LS_TRY(decode_beginning(n, start, length, &text));
        ls_json_open_object(w, NULL);
        ls_json_put_int(w, "tokens", length);
        ls_json_put_text(w, "text", text);
        ls_json_close(w);
        free(text);
    }
    ls_json_close(w);
    return ls_ok();
}

static ls_status put_all(const inspection *n, ls_json_writer *w) {
    const ls_shard_header *h = n->corpus.shards.shard[0].header;
    ls_json_put_int(w, "documents", n->corpus.documents);
    ls_json_put_int(w, "tokens", n->corpus.tokens);
    ls_json_put_int(w, "longest_document", n->corpus.longest);
    ls_json_put_int(w, "learnt_tokens", n->lengths.learnt);
    ls_json_put_hex(w, "tokenizer", h->tokenizer);
    ls_json_put_int(w, "vocabulary", (int64_t)h->vocabulary);
    if (h->end_of_document != LS_SHARD_NO_END) ls_json_put_int(w, "end_of_document", (int64_t)h->end_of_document);
    ls_json_put_bool(w, "verified", n->job->verify);
    ls_json_open_array(w, "lengths");
    for (int c = 0; c < CLASSES; c++) {
        if (n->lengths.documents[c] == 0) continue;
        ls_json_open_object(w, NULL);
        ls_json_put_int(w, "least", (int64_t)1 << c);
        ls_json_put_int(w, "most", ((int64_t)2 << c) - 1);
        ls_json_put_int(w, "documents", n->lengths.documents[c]);
        ls_json_put_int(w, "tokens", n->lengths.tokens[c]);
        ls_json_close(w);
    }
    ls_json_close(w);
    put_shards(n, w);
    return put_documents(n, w);
}

static ls_status print_json(const inspection *n, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    const ls_status status = put_all(n, w);
    if (status.code == LS_OK)
        ls_json_end(w, out);
    else
        ls_json_writer_destroy(w);
    return status;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static ls_status open_shards(inspection *n) {
    ls_shard_set *set = &n->corpus.shards;
    for (int i = 0; i < n->job->n_paths; i++) LS_TRY(ls_shard_set_add(set, n->job->paths[i]));
    if (set->n == 0) return ls_error(LS_INVALID, "%s: no shards in it", n->job->paths[0]);
    LS_TRY(ls_tokenizer_open(n->job->tokenizer, &n->tokenizer));
    if (n->job->tokenizer != NULL) ls_tokenizer_log(n->tokenizer, 0);
    const ls_shard_header *first = set->shard[0].header;
    n->decodes = first->tokenizer == ls_tokenizer_fingerprint(n->tokenizer);
    /* All shards must be of one tokenizer: the given one, or that of the first shard. */
    LS_TRY(n->job->tokenizer != NULL
               ? ls_shard_set_check(set, ls_tokenizer_fingerprint(n->tokenizer), ls_tokenizer_name(n->tokenizer),
                                    ls_tokenizer_vocabulary(n->tokenizer))
               : ls_shard_set_check(set, first->tokenizer, set->shard[0].path, (int64_t)first->vocabulary));
    return ls_corpus_complete(&n->corpus, (int32_t)first->vocabulary);
}

static ls_status inspect(inspection *n, FILE *out) {
    LS_TRY(open_shards(n));
    if (n->job->verify) LS_TRY(verify(&n->corpus.shards));
    for (int64_t p = 0; p < n->corpus.n_parts; p++) count_part(&n->lengths, &n->corpus.parts[p]);
    if (n->job->json) return print_json(n, out);
    print_totals(n, out);
    print_lengths(n, out);
    return print_documents(n, out);
}

ls_status ls_run_data_inspect(const ls_data_inspect_job *job, FILE *out) {
    LS_NEED(job, "job");
    LS_NEED(out, "out");
    LS_TRY(ls_check_texts("paths", job->paths, job->n_paths));
    if (job->n_paths < 1) return ls_error(LS_USAGE, "nothing given; expected folders of token shards");
    if (job->order) return print_order(job, out);
    inspection n = {.job = job};
    const ls_status status = inspect(&n, out);
    ls_tokenizer_close(n.tokenizer);
    ls_corpus_free(&n.corpus);
    return status;
}
