/*
 * The log-probabilities of a text's tokens, document by document: collected on rank 0, sequence by sequence, and
 * written as one line of JSON for each passage of a document.
 */
#include "eval/eval_impl.h"

#include <stdlib.h>
#include <string.h>

/* Consecutive inputs of a document, with those of their labels that are learnt. */
typedef struct passage {
    int64_t document, offset; /* offset: index of the first input in the document */
    int64_t n;                /* number of learnt labels */
    int32_t *ids, *places;    /* [n]; places: index of each label in the document */
    float *logprobs;          /* [n] */
} passage;

struct ls_logprobs {
    const ls_data *data;
    int64_t n, some, next; /* n: number of passages; next: index of the next one of `some` sequences */
    size_t capacity;
    passage *list;
    ls_data_piece *pieces; /* pieces of one sequence */
    ls_status status;
};

ls_logprobs *ls_logprobs_create(const ls_data *data, int64_t S, int64_t some) {
    ls_logprobs *l = calloc(1, sizeof *l);
    if (l == NULL) return NULL;
    *l = (ls_logprobs){.data = data, .some = some, .status = ls_ok()};
    l->pieces = malloc(sizeof *l->pieces * ((size_t)S + 1));
    if (l->pieces == NULL) l->status = ls_error(LS_NO_MEMORY, "no memory for the passages of a sequence");
    return l;
}

void ls_logprobs_destroy(ls_logprobs *l) {
    if (l == NULL) return;
    for (int64_t i = 0; i < l->n; i++) free(l->list[i].ids);
    free(l->list);
    free(l->pieces);
    free(l);
}

/* Allocates the three arrays of a passage as one block of memory. */
static ls_status make_passage(ls_logprobs *l, int64_t labels, passage **out) {
    if ((size_t)l->n == l->capacity) {
        const size_t wanted = 2 * l->capacity + 256;
        passage *grown = realloc(l->list, wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for the log-probabilities of %zu passages", wanted);
        l->list = grown;
        l->capacity = wanted;
    }
    int32_t *block = malloc(((size_t)labels + 1) * (2 * sizeof(int32_t) + sizeof(float)));
    if (block == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the log-probabilities of %lld tokens", (long long)labels);
    *out = &l->list[l->n++];
    **out = (passage){.ids = block, .places = block + labels, .logprobs = (float *)(void *)(block + 2 * labels)};
    return ls_ok();
}

static ls_status add_piece(ls_logprobs *l, const ls_data_piece *piece, const int32_t *labels, const float *losses) {
    int64_t learnt = 0;
    for (int64_t i = 0; i < piece->length; i++) learnt += labels[piece->place + i] != LS_LABEL_IGNORED;
    passage *to;
    LS_TRY(make_passage(l, learnt, &to));
    to->document = piece->document;
    to->offset = piece->offset;
    for (int64_t i = 0; i < piece->length; i++) {
        const int64_t at = piece->place + i;
        if (labels[at] == LS_LABEL_IGNORED) continue;
        to->ids[to->n] = labels[at];
        to->places[to->n] = (int32_t)(piece->offset + i + 1);
        to->logprobs[to->n++] = -losses[at];
    }
    return ls_ok();
}

void ls_logprobs_add(ls_logprobs *l, const int32_t *labels, const float *losses) {
    int64_t n = 0;
    const int64_t index = ls_part_start(ls_data_summarise(l->data)->windows, l->some, l->next++);
    if (l->status.code == LS_OK) l->status = ls_data_pieces(l->data, index, l->pieces, &n);
    /* If answers are judged, every second document has an answer to another prompt. */
    const int64_t each = ls_data_judges(l->data) ? 2 : 1;
    for (int64_t k = 0; k < n && l->status.code == LS_OK; k += each)
        l->status = add_piece(l, &l->pieces[k], labels, losses);
}

static int in_order(const void *x, const void *y) {
    const passage *a = x, *b = y;
    if (a->document != b->document) return a->document < b->document ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void put_ints(ls_json_writer *w, const char *key, const int32_t *values, int64_t n) {
    ls_json_open_array(w, key);
    for (int64_t i = 0; i < n; i++) ls_json_put_int(w, NULL, values[i]);
    ls_json_close(w);
}

static ls_status put_passage(const ls_logprobs *l, const passage *p, FILE *out) {
    double sum = 0;
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "document", ls_data_judges(l->data) ? p->document / 2 : p->document);
    if (ls_data_pairs(l->data)) {
        bool wanted;
        const ls_status status = ls_data_wanted(l->data, p->document, &wanted);
        if (status.code != LS_OK) {
            ls_json_writer_destroy(w);
            return status;
        }
        ls_json_put_bool(w, "chosen", wanted);
    }
    ls_json_put_int(w, "offset", p->offset);
    for (int64_t i = 0; i < p->n; i++) sum += (double)p->logprobs[i];
    ls_json_put_double(w, "sum", sum);
    put_ints(w, "ids", p->ids, p->n);
    put_ints(w, "places", p->places, p->n);
    ls_json_open_array(w, "logprobs");
    for (int64_t i = 0; i < p->n; i++) ls_json_put_double(w, NULL, (double)p->logprobs[i]);
    ls_json_close(w);
    ls_json_end(w, out);
    return ls_ok();
}

ls_status ls_logprobs_write(ls_logprobs *l, const char *path) {
    char *text = NULL;
    size_t bytes;
    LS_TRY(l->status);
    if (l->n > 0) qsort(l->list, (size_t)l->n, sizeof *l->list, in_order);
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return ls_error(LS_NO_MEMORY, "no memory for %s", path);
    ls_status status = ls_ok();
    for (int64_t i = 0; i < l->n && status.code == LS_OK; i++) status = put_passage(l, &l->list[i], out);
    if (fclose(out) != 0) status = ls_error(LS_NO_MEMORY, "no memory for %s", path);
    if (status.code == LS_OK) status = ls_file_write(path, text, bytes);
    free(text);
    return status;
}
