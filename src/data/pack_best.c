/*
 * best: best-fit-decreasing packing (Ding et al., "Fewer Truncations Improve Language Modeling", arXiv 2404.10830). A
 * document of more than S inputs is cut into pieces of S, each a sequence of its own. The remaining piece, and every
 * shorter document, is put, longest first, into the sequence (bin) with the least room that suffices, or into a new
 * one. No document of up to S inputs is cut.
 *
 * Memory: 4 bytes per document for its link in a chain (first of the documents of equal length, then of those of one
 * bin), and 8 bytes per bin.
 */
#include "data/pack_impl.h"

#include <stdlib.h>

/* Documents and bins are numbered from 1, so that 0 ends a chain. */
typedef struct bin {
    uint32_t first; /* first document */
    uint32_t next;  /* while packing: the next bin with the same room */
} bin;

typedef struct packing {
    ls_tally whole; /* sequences that are one piece of S */
    uint32_t *next; /* [documents]: the next document in the chain of document d is next[d - 1] */
    bin *bins;
    int64_t n_bins, capacity;
    int64_t inputs; /* inputs of all documents */
} packing;

/*
 * The bins by their room 0..S, and the set of rooms that occur as a bit tree: bit i of level l + 1 says whether word i
 * of level l is not 0.
 */
enum { LEVELS = 6 };
typedef struct rooms {
    uint64_t *level[LEVELS];
    uint32_t *head; /* by room: its bins */
} rooms;

static int64_t inputs_of(int64_t length) { return ls_max(length - 1, 0); }
static int64_t whole_pieces(int64_t length, int64_t S) { return inputs_of(length) / S; }

static void destroy(void *state) {
    packing *p = state;
    ls_tally_free(&p->whole);
    free(p->next);
    free(p->bins);
    free(p);
}

/* ---- rooms ---- */

static bool rooms_create(int64_t S, rooms *r) {
    int64_t bits = S + 1;
    bool made = (r->head = calloc((size_t)bits, sizeof *r->head)) != NULL;
    for (int l = 0; l < LEVELS; l++) {
        bits = bits / 64 + 1;
        made = (r->level[l] = calloc((size_t)bits, sizeof **r->level)) != NULL && made;
    }
    return made;
}

static void rooms_free(rooms *r) {
    for (int l = 0; l < LEVELS; l++) free(r->level[l]);
    free(r->head);
}

static void set_room(rooms *r, int64_t room) {
    for (int l = 0; l < LEVELS; l++, room /= 64) r->level[l][room / 64] |= (uint64_t)1 << room % 64;
}

static void clear_room(rooms *r, int64_t room) {
    for (int l = 0; l < LEVELS; l++, room /= 64) {
        r->level[l][room / 64] &= ~((uint64_t)1 << room % 64);
        if (r->level[l][room / 64] != 0) return;
    }
}

/*
 * The least room that occurs and is at least `least`; -1: none. Climbs while the word has no such bit, then descends.
 */
static int64_t find_room(const rooms *r, int64_t least, int64_t S) {
    int64_t at = least;
    for (int l = 0; l < LEVELS; l++, at = at / 64 + 1) {
        int64_t most = S;
        for (int i = 0; i < l; i++) most /= 64;
        if (at > most) return -1;
        const uint64_t word = r->level[l][at / 64] >> at % 64;
        if (word == 0) continue;
        at += __builtin_ctzll(word);
        for (; l > 0; l--) at = at * 64 + __builtin_ctzll(r->level[l - 1][at]);
        return at;
    }
    return -1;
}

/* ---- packing ---- */

/* Removes the bin with the least sufficient room from its chain, or makes a new one. 0: out of memory. */
static uint32_t remove_bin(packing *p, rooms *r, int64_t length, int64_t S, int64_t *room) {
    *room = find_room(r, length, S);
    if (*room >= 0) {
        const uint32_t b = r->head[*room];
        LS_ASSERT(b >= 1 && b <= p->n_bins);
        r->head[*room] = p->bins[b - 1].next;
        if (r->head[*room] == 0) clear_room(r, *room);
        return b;
    }
    if (p->n_bins == p->capacity) {
        const int64_t wanted = p->capacity + p->capacity / 2 + 256;
        bin *grown = realloc(p->bins, (size_t)wanted * sizeof *grown);
        if (grown == NULL) return 0;
        p->bins = grown;
        p->capacity = wanted;
    }
    *room = S;
    p->bins[p->n_bins++] = (bin){0, 0};
    return (uint32_t)p->n_bins;
}

static bool put(packing *p, rooms *r, uint32_t document, int64_t length, int64_t S) {
    int64_t room;
    const uint32_t b = remove_bin(p, r, length, S, &room);
    if (b == 0) return false;
    p->next[document - 1] = p->bins[b - 1].first;
    p->bins[b - 1].first = document;
    room -= length;
    if (room == 0) return true;
    p->bins[b - 1].next = r->head[room];
    r->head[room] = b;
    set_room(r, room);
    return true;
}

/* by_length: chains of documents by the length of their remaining piece, each in the order of the corpus. */
static bool put_all(packing *p, const uint32_t *by_length, int64_t S) {
    rooms r = {0};
    bool made = rooms_create(S, &r);
    for (int64_t length = S - 1; made && length > 0; length--) {
        for (uint32_t document = by_length[length], after; made && document != 0; document = after) {
            after = p->next[document - 1];
            made = put(p, &r, document, length, S);
        }
    }
    rooms_free(&r);
    return made;
}

/* Reverses the chains of the bins, so that the document that was put first comes first. */
static void reverse_chains(packing *p) {
    for (int64_t b = 0; b < p->n_bins; b++) {
        uint32_t reversed = 0;
        for (uint32_t document = p->bins[b].first, after; document != 0; document = after) {
            after = p->next[document - 1];
            p->next[document - 1] = reversed;
            reversed = document;
        }
        p->bins[b].first = reversed;
    }
}

static bool pack(packing *p, const ls_corpus *corpus, int64_t S) {
    uint32_t *first = calloc((size_t)S, sizeof *first), *last = calloc((size_t)S, sizeof *last);
    p->next = calloc((size_t)corpus->documents + 1, sizeof *p->next);
    bool made = first != NULL && last != NULL && p->next != NULL;
    ls_document document = ls_corpus_nth(corpus, 0);
    for (uint32_t d = 1; made && document.part != NULL; d++, ls_document_next(&document)) {
        const int64_t left = inputs_of(document.length) % S;
        p->inputs += inputs_of(document.length);
        if (left == 0) continue;
        if (first[left] == 0)
            first[left] = d;
        else
            p->next[last[left] - 1] = d;
        last[left] = d;
    }
    free(last);
    made = made && put_all(p, first, S);
    free(first);
    if (made) reverse_chains(p);
    return made;
}

static ls_status gather(packing *p, const ls_corpus *corpus, int64_t S) {
    if (corpus->documents >= UINT32_MAX || S > INT32_MAX)
        return ls_error(
            LS_UNSUPPORTED,
            "--pack best of %lld documents into sequences of %lld; expected less than 2^32 and 2^31; stream takes any number",
            (long long)corpus->documents, (long long)S);
    LS_TRY(ls_tally_make(corpus, whole_pieces, S, &p->whole));
    if (!pack(p, corpus, S))
        return ls_error(LS_NO_MEMORY, "no memory to pack %lld documents into sequences of %lld",
                        (long long)corpus->documents, (long long)S);
    return ls_ok();
}

static ls_status create(const ls_corpus *corpus, int64_t S, ls_packed *out) {
    packing *p = calloc(1, sizeof *p);
    if (p == NULL) return ls_error(LS_NO_MEMORY, "no memory to pack documents");
    const ls_status status = gather(p, corpus, S);
    if (status.code != LS_OK) {
        destroy(p);
        return status;
    }
    const int64_t sequences = p->whole.total + p->n_bins;
    *out =
        (ls_packed){.sequences = sequences, .whole = p->whole.total, .padding = sequences * S - p->inputs, .state = p};
    return ls_ok();
}

static int64_t passages(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i, ls_passage *out) {
    const packing *p = packed->state;
    int64_t n = 0, before;
    if (i < p->whole.total) {
        const ls_document document = ls_tally_find(&p->whole, corpus, i, &before);
        out[0] = (ls_passage){document.start + (i - before) * S, S};
        return 1;
    }
    for (uint32_t d = p->bins[i - p->whole.total].first; d != 0; d = p->next[d - 1]) {
        const ls_document document = ls_corpus_nth(corpus, d - 1);
        const int64_t inputs = document.length - 1;
        out[n++] = (ls_passage){document.start + inputs / S * S, inputs % S};
    }
    return n;
}

const ls_packer ls_packer_best = {.name = "best",
                                  .summary =
                                      "documents apart, best fit, none of up to a sequence cut; the rest is padding",
                                  .apart = true,
                                  .create = create,
                                  .passages = passages,
                                  .destroy = destroy};
