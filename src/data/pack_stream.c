/*
 * stream: documents one after the other, cut where a sequence is full. The remaining part of a cut document begins the
 * next sequence as a document of its own. The last token of a document is not an input, because it has no label. Only
 * the last sequence has padding.
 */
#include "data/pack_impl.h"

#include <stdlib.h>

static int64_t inputs_of(int64_t length, int64_t S) {
    (void)S;
    return ls_max(length - 1, 0);
}

static void destroy(void *state) {
    ls_tally_free(state);
    free(state);
}

static ls_status create(const ls_corpus *corpus, int64_t S, ls_packed *out) {
    ls_tally *inputs = calloc(1, sizeof *inputs);
    if (inputs == NULL) return ls_error(LS_NO_MEMORY, "no memory for the inputs of a text");
    const ls_status status = ls_tally_make(corpus, inputs_of, S, inputs);
    if (status.code != LS_OK) {
        free(inputs);
        return status;
    }
    const int64_t sequences = ls_ceil_div(inputs->total, S);
    *out = (ls_packed){.sequences = sequences, .padding = sequences * S - inputs->total, .state = inputs};
    return ls_ok();
}

static int64_t passages(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i, ls_passage *out) {
    const ls_tally *inputs = packed->state;
    int64_t place = i * S, n = 0, before;
    const int64_t end = ls_min(place + S, inputs->total);
    ls_document document = ls_tally_find(inputs, corpus, place, &before);
    for (; place < end; ls_document_next(&document)) {
        const int64_t its = inputs_of(document.length, S), some = ls_min(end, before + its) - place;
        if (some > 0) out[n++] = (ls_passage){document.start + place - before, some};
        before += its;
        place += ls_max(some, 0);
    }
    return n;
}

const ls_packer ls_packer_stream = {.name = "stream",
                                    .summary = "documents in their order, apart, cut where a sequence is full",
                                    .apart = true,
                                    .create = create,
                                    .passages = passages,
                                    .destroy = destroy};
