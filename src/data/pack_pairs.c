/*
 * pairs: documents 2n and 2n + 1 are whole and in the same sequence, for losses that compare answers. The pairs keep
 * their order, as many in a sequence as fit; a pair that is longer than a sequence is left out. The last token of a
 * document is not an input, because it has no label.
 */
#include "data/pack_impl.h"

#include <stdlib.h>

typedef struct pairs {
    int64_t *first; /* for each sequence, and once more at the end: the number of its first pair */
    int64_t n, capacity;
} pairs;

static int64_t inputs_of(const ls_document *document) { return ls_max(document->length - 1, 0); }

/* The inputs of the pair that begins with *document, which is advanced past the pair. */
static int64_t take_pair(ls_document *document) {
    int64_t inputs = 0;
    for (int i = 0; i < 2; i++, ls_document_next(document)) inputs += inputs_of(document);
    return inputs;
}

static ls_status push(pairs *p, int64_t pair) {
    if (p->n == p->capacity) {
        const int64_t wanted = 2 * p->capacity + 64;
        int64_t *grown = realloc(p->first, (size_t)wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for the places of pairs");
        p->first = grown;
        p->capacity = wanted;
    }
    p->first[p->n++] = pair;
    return ls_ok();
}

static void destroy(void *state) {
    pairs *p = state;
    free(p->first);
    free(p);
}

static ls_status fill(const ls_corpus *corpus, int64_t S, pairs *p, ls_packed *out) {
    ls_document document = ls_corpus_nth(corpus, 0);
    int64_t room = 0, held = 0;
    for (int64_t pair = 0; pair < corpus->documents / 2; pair++) {
        const int64_t inputs = take_pair(&document);
        if (inputs > S || inputs == 0) {
            out->left_out += 2;
            continue;
        }
        if (inputs > room) {
            LS_TRY(push(p, pair));
            room = S;
        }
        room -= inputs;
        held += inputs;
    }
    out->sequences = p->n;
    out->padding = p->n * S - held;
    return push(p, corpus->documents / 2);
}

static ls_status create(const ls_corpus *corpus, int64_t S, ls_packed *out) {
    if (corpus->documents % 2 != 0)
        return ls_error(LS_INVALID,
                        "--pack pairs: %lld documents; expected pairs of answers, as --records preference has",
                        (long long)corpus->documents);
    pairs *p = calloc(1, sizeof *p);
    if (p == NULL) return ls_error(LS_NO_MEMORY, "no memory for the places of pairs");
    ls_packed packed = {.state = p};
    const ls_status status = fill(corpus, S, p, &packed);
    if (status.code == LS_OK)
        *out = packed;
    else
        destroy(p);
    return status;
}

static int64_t passages(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i, ls_passage *out) {
    const pairs *p = packed->state;
    int64_t n = 0, room = S;
    for (int64_t pair = p->first[i]; pair < p->first[i + 1]; pair++) {
        ls_document document = ls_corpus_nth(corpus, 2 * pair), behind = document;
        const int64_t inputs = take_pair(&behind);
        if (inputs > room || inputs == 0) continue; /* left out: the pair is longer than a sequence, or empty */
        room -= inputs;
        for (int k = 0; k < 2; k++, ls_document_next(&document))
            if (inputs_of(&document) > 0) out[n++] = (ls_passage){document.start, inputs_of(&document)};
    }
    return n;
}

const ls_packer ls_packer_pairs = {.name = "pairs",
                                   .summary = "pairs of answers, whole and apart, in their order",
                                   .apart = true,
                                   .pairs = true,
                                   .create = create,
                                   .passages = passages,
                                   .destroy = destroy};
