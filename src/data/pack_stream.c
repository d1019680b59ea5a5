/*
 * stream: documents one after the other, cut where a sequence is full. The rest of a cut document begins the next
 * sequence as a document of its own. The last token of a document is no input, because it has no label. Only the last
 * sequence has padding. The packer has no state: the index of the corpus gives all places.
 */
#include "data/pack_impl.h"

/* Inputs of the corpus before document d of a part. */
static int64_t inputs_before(const ls_corpus_part *part, int64_t d) {
    return ls_corpus_part_document(part, d) - (part->first_document + d);
}

static ls_status create(const ls_corpus *corpus, int64_t S, ls_packed *out) {
    const int64_t inputs = corpus->tokens - corpus->documents;
    const int64_t sequences = ls_ceil_div(inputs, S);
    *out = (ls_packed){.sequences = sequences, .padding = sequences * S - inputs};
    return ls_ok();
}

/* The last part, and its last document, that begin at or before input `place` of the corpus. */
static const ls_corpus_part *find(const ls_corpus *c, int64_t place, int64_t *document) {
    int64_t low = 0, high = c->n_parts;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (inputs_before(&c->parts[middle], 0) <= place)
            low = middle;
        else
            high = middle;
    }
    const ls_corpus_part *part = &c->parts[low];
    for (low = 0, high = part->documents; high - low > 1;) {
        const int64_t middle = low + (high - low) / 2;
        if (inputs_before(part, middle) <= place)
            low = middle;
        else
            high = middle;
    }
    *document = low;
    return part;
}

static int64_t passages(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i, ls_passage *out) {
    (void)packed;
    int64_t place = i * S, n = 0, d;
    const int64_t end = ls_min(place + S, corpus->tokens - corpus->documents);
    const ls_corpus_part *part = find(corpus, place, &d);
    while (place < end) {
        const int64_t from = inputs_before(part, d), to = inputs_before(part, d + 1);
        const int64_t some = ls_min(end, to) - place;
        if (some > 0) out[n++] = (ls_passage){ls_corpus_part_document(part, d) + place - from, some};
        place += ls_max(some, 0);
        if (++d >= part->documents) {
            part++;
            d = 0;
        }
    }
    return n;
}

const ls_packer ls_packer_stream = {.name = "stream",
                                    .summary = "documents in their order, apart, cut where a sequence is full",
                                    .apart = true,
                                    .create = create,
                                    .passages = passages};
