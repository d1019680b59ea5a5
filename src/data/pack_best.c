/*
 * best: best-fit-decreasing packing (Ding et al., "Fewer Truncations Improve Language Modeling", arXiv 2404.10830). A document of more
 * than S inputs is cut into pieces of S, each a sequence by itself; what is left of it, and every shorter document, goes, the longest
 * first, into the sequence with the least room that holds it, or begins a new one. No document of up to S is cut.
 */
#include "data/pack.h"

#include <stdlib.h>

typedef struct item {
    int64_t start;
    int32_t length; /* inputs */
    int32_t next;   /* of the same sequence; -1: none */
} item;

typedef struct bin {
    int32_t first, last; /* items */
    int32_t next;        /* bin with as much room; -1: none */
} bin;

typedef struct packing {
    ls_stretch *documents; /* of more than S inputs; at: of the first sequence */
    int64_t n_documents;
    int64_t whole; /* sequences that are one piece of S */
    item *items;
    int64_t n_items;
    bin *bins;
    int64_t n_bins;
} packing;

/* Which rooms 0..S there are, as a tree of bits: the least room that is enough is found in a few words. */
enum { LEVELS = 6 };
typedef struct rooms {
    uint64_t *level[LEVELS];
    int32_t *head; /* by room: its bins */
} rooms;

static void destroy(void *state) {
    packing *p = state;
    free(p->documents);
    free(p->items);
    free(p->bins);
    free(p);
}

/* --- rooms ------------------------------------------------------------------------------------------------------------------ */

static bool rooms_create(int64_t S, rooms *r) {
    int64_t bits = S + 1;
    bool made = (r->head = malloc((size_t)bits * sizeof *r->head)) != NULL;
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

static bool there(const rooms *r, int64_t room) { return r->level[0][room / 64] >> room % 64 & 1; }

static void set(rooms *r, int64_t room) {
    for (int l = 0; l < LEVELS; l++, room /= 64) r->level[l][room / 64] |= (uint64_t)1 << room % 64;
}

static void clear(rooms *r, int64_t room) {
    for (int l = 0; l < LEVELS; l++, room /= 64) {
        r->level[l][room / 64] &= ~((uint64_t)1 << room % 64);
        if (r->level[l][room / 64] != 0) return;
    }
}

/* The least room there is of at least `least`, or -1: up while a word has none, then down. */
static int64_t find(const rooms *r, int64_t least, int64_t S) {
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

/* --- packing ---------------------------------------------------------------------------------------------------------------- */

static int longest_first(const void *x, const void *y) {
    const item *a = x, *b = y;
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return a->start < b->start ? -1 : a->start > b->start;
}

static void add_document(packing *p, int64_t S, int64_t start, int64_t length) {
    const int64_t inputs = length - 1, whole = inputs / S, left = inputs % S;
    if (whole > 0) p->documents[p->n_documents++] = (ls_stretch){start, length, p->whole};
    p->whole += whole;
    if (left > 0) p->items[p->n_items++] = (item){start + whole * S, (int32_t)left, -1};
}

static void put(packing *p, rooms *r, int32_t which, int64_t S) {
    item *it = &p->items[which];
    int64_t room = find(r, it->length, S);
    int32_t b = -1;
    if (room < 0) {
        b = (int32_t)p->n_bins++;
        p->bins[b] = (bin){which, which, -1};
        room = S;
    } else {
        b = r->head[room];
        LS_ASSERT(b >= 0 && b < p->n_bins);
        if (p->bins[b].next < 0)
            clear(r, room);
        else
            r->head[room] = p->bins[b].next;
        p->items[p->bins[b].last].next = which;
        p->bins[b].last = which;
    }
    room -= it->length;
    if (room == 0) return;
    p->bins[b].next = there(r, room) ? r->head[room] : -1;
    r->head[room] = b;
    set(r, room);
}

static ls_status pack(packing *p, int64_t S) {
    rooms r = {0};
    if (!rooms_create(S, &r)) {
        rooms_free(&r);
        return ls_error(LS_NO_MEMORY, "no memory to pack sequences of %lld", (long long)S);
    }
    if (p->n_items > 1) qsort(p->items, (size_t)p->n_items, sizeof *p->items, longest_first);
    for (int64_t i = 0; i < p->n_items; i++) put(p, &r, (int32_t)i, S);
    rooms_free(&r);
    return ls_ok();
}

static ls_status gather(packing *p, const ls_corpus *corpus, int64_t S) {
    const size_t documents = (size_t)corpus->documents + 1;
    if (corpus->documents > INT32_MAX || S > INT32_MAX)
        return ls_error(
            LS_UNSUPPORTED,
            "--pack best of %lld documents into sequences of %lld; expected less than 2^31; stream takes any number",
            (long long)corpus->documents, (long long)S);
    p->documents = malloc(documents * sizeof *p->documents);
    p->items = malloc(documents * sizeof *p->items);
    p->bins = malloc(documents * sizeof *p->bins);
    if (p->documents == NULL || p->items == NULL || p->bins == NULL)
        return ls_error(LS_NO_MEMORY, "no memory to pack %lld documents", (long long)corpus->documents);
    for (int64_t i = 0; i < corpus->n_parts; i++) {
        const ls_part *part = &corpus->parts[i];
        for (int64_t d = 0; d < part->documents; d++) {
            const int64_t start = ls_part_document(part, d);
            add_document(p, S, start, ls_part_document(part, d + 1) - start);
        }
    }
    return pack(p, S);
}

static ls_status create(const ls_corpus *corpus, int64_t S, ls_packed *out) {
    packing *p = calloc(1, sizeof *p);
    if (p == NULL) return ls_error(LS_NO_MEMORY, "no memory to pack documents");
    const ls_status status = gather(p, corpus, S);
    if (status.code != LS_OK) {
        destroy(p);
        return status;
    }
    const int64_t sequences = p->whole + p->n_bins;
    *out = (ls_packed){.sequences = sequences,
                       .whole = p->whole,
                       .padding = sequences * S - (corpus->tokens - corpus->documents),
                       .state = p};
    return ls_ok();
}

static int64_t passages(const ls_packed *packed, const ls_corpus *corpus, int64_t S, int64_t i,
                        ls_passage *out) {
    const packing *p = packed->state;
    (void)corpus;
    if (i < p->whole) {
        const ls_stretch *document = &p->documents[ls_stretch_find(p->documents, p->n_documents, i)];
        out[0] = (ls_passage){document->start + (i - document->at) * S, S};
        return 1;
    }
    int64_t n = 0;
    for (int32_t k = p->bins[i - p->whole].first; k >= 0; k = p->items[k].next)
        out[n++] = (ls_passage){p->items[k].start, p->items[k].length};
    return n;
}

const ls_packer ls_packer_best = {
    .name = "best",
    .summary = "documents apart, best fit, none of up to a sequence cut; the rest is padding",
    .apart = true,
    .create = create,
    .passages = passages,
    .destroy = destroy};
