/* longspan data inspect: what is in token shards. The order of training is data_order.c's. */
#include "data/data.h"
#include "job/data_impl.h"
#include "text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 48, SHOWN_TOKENS = 60, SHOWN_DOCUMENTS = 3 };

/* Documents by length: class c holds those of 2^c .. 2^(c+1) - 1 tokens. */
typedef struct histogram {
    int64_t documents[CLASSES], tokens[CLASSES];
    int64_t learnt; /* tokens that are labels to be learnt */
} histogram;

typedef struct inspection {
    const ls_data_inspect_job *job;
    ls_tokenizer *tokenizer;
    bool decodes; /* it made the shards */
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
    for (int64_t i = 0; i < set->n && status.code == LS_OK; i++)
        status = ls_shard_verify(&set->shard[i], pool);
    ls_pool_destroy(pool);
    return status;
}

/* The beginning of a document, decoded, on one line. */
static ls_status beginning(const inspection *n, int64_t start, int64_t length, char **out) {
    int32_t ids[SHOWN_TOKENS];
    ls_text text = {0};
    const int64_t some = ls_min(length, SHOWN_TOKENS);
    LS_TRY(ls_corpus_read(&n->corpus, start, some, ids, NULL));
    ls_status status = ls_tokenizer_decode(n->tokenizer, ids, (size_t)some, &text);
    char *line = status.code == LS_OK ? malloc(3 * text.count + 1) : NULL;
    if (status.code == LS_OK && line == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory for a document's text");
    if (line != NULL) {
        ls_utf8_printable(text.byte, text.count, line, 3 * text.count + 1);
        for (char *c = line; *c; c++)
            if (*c == '\n' || *c == '\t') *c = ' ';
        *out = line;
    }
    free(text.byte);
    return status;
}

/* --- a page ----------------------------------------------------------------------------------------------------------------- */

static void print_totals(const inspection *n, FILE *out) {
    const ls_corpus *c = &n->corpus;
    const ls_shard_header *h = c->shards.shard[0].header;
    fprintf(out, "%lld shards · %lld documents · %lld tokens of %u bytes · longest document %lld\n",
            (long long)c->shards.n, (long long)c->documents, (long long)c->tokens, h->width,
            (long long)c->longest);
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
        fprintf(out, "%11lld-%-11lld %12lld %14.1f %%\n", 1ll << c, (2ll << c) - 1,
                (long long)n->lengths.documents[c],
                100.0 * (double)n->lengths.tokens[c] / (double)n->corpus.tokens);
    }
}

/* start, length of document d; false past the last. */
static bool document_at(const ls_corpus *c, int64_t d, int64_t *start, int64_t *length) {
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

static int64_t shown(const inspection *n) {
    const int64_t wanted = n->job->documents == 0 ? SHOWN_DOCUMENTS : ls_max(0, n->job->documents);
    return n->decodes ? ls_min(wanted, n->corpus.documents) : 0;
}

static ls_status print_documents(const inspection *n, FILE *out) {
    int64_t start, length;
    if (!n->decodes) fprintf(out, "\nno documents shown: give the --tokenizer that made the shards\n");
    if (shown(n) > 0) fprintf(out, "\n");
    for (int64_t d = 0; d < shown(n) && document_at(&n->corpus, d, &start, &length); d++) {
        char *text = NULL;
        LS_TRY(beginning(n, start, length, &text));
        ls_print_line(out, "document %lld, %lld tokens: %s", (long long)d, (long long)length, text);
        free(text);
    }
    return ls_ok();
}

/* --- JSON ------------------------------------------------------------------------------------------------------------------- */

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
    for (int64_t d = 0; d < shown(n) && document_at(&n->corpus, d, &start, &length); d++) {
        char *text = NULL;
        LS_TRY(beginning(n, start, length, &text));
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
    if (h->end_of_document != LS_SHARD_NO_END)
        ls_json_put_int(w, "end_of_document", (int64_t)h->end_of_document);
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

/* --- the whole -------------------------------------------------------------------------------------------------------------- */

static ls_status open_shards(inspection *n) {
    ls_shard_set *set = &n->corpus.shards;
    for (int i = 0; i < n->job->n_paths; i++) LS_TRY(ls_shard_set_add(set, n->job->paths[i]));
    if (set->n == 0) return ls_error(LS_INVALID, "%s: no shards in it", n->job->paths[0]);
    LS_TRY(ls_tokenizer_open(n->job->tokenizer, &n->tokenizer));
    if (n->job->tokenizer != NULL) ls_tokenizer_log(n->tokenizer, 0);
    const ls_shard_header *first = set->shard[0].header;
    n->decodes = first->tokenizer == ls_tokenizer_fingerprint(n->tokenizer);
    /* All of one kind; of the given tokenizer, where one is given. */
    LS_TRY(n->job->tokenizer != NULL
               ? ls_shard_set_check(set, ls_tokenizer_fingerprint(n->tokenizer),
                                    ls_tokenizer_name(n->tokenizer), ls_tokenizer_vocabulary(n->tokenizer))
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
    LS_TRY(ls_file_check_paths(job->paths, job->n_paths));
    if (job->n_paths < 1) return ls_error(LS_USAGE, "nothing given; expected folders of token shards");
    if (job->order) return ls_data_print_order(job, out);
    inspection n = {.job = job};
    const ls_status status = inspect(&n, out);
    ls_tokenizer_close(n.tokenizer);
    ls_corpus_free(&n.corpus);
    return status;
}
