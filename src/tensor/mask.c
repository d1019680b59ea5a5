/* Masks as lists of visible keys. */
#include "tensor/mask.h"

#include <string.h>

#include "base/base.h"

ls_mask ls_mask_causal(void) { return (ls_mask){.n = 1, .term = {{.kind = LS_MASK_CAUSAL}}}; }

/* The document that holds q: the largest d with ends[d] <= q < ends[d+1] (empty documents hold nothing). */
static int find_document(const ls_mask_term *term, int64_t q) {
    int low = 0, high = term->n_ends - 1; /* ends[low] <= q < ends[high] */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (term->ends[middle] <= q)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int put_span(int64_t lo, int64_t hi, int n, ls_span *out) {
    if (lo >= hi) return n;
    out[n] = (ls_span){(int32_t)lo, (int32_t)hi};
    return n + 1;
}

/* The keys that one term shows to q, at most two spans. document: that of q, for a term of documents. */
static int term_spans(const ls_mask_term *term, int64_t S, int64_t q, int document, ls_span out[2]) {
    switch (term->kind) {
    case LS_MASK_CAUSAL:
        return put_span(0, q + 1, 0, out);
    case LS_MASK_PREFIX:
        return put_span(0, ls_min(S, ls_max(q + 1, term->first)), 0, out);
    case LS_MASK_DOCUMENTS:
        return put_span(term->ends[document], term->ends[document + 1], 0, out);
    case LS_MASK_WINDOW: {
        int64_t from = ls_max(0, q - term->window + 1), first = ls_min(term->first, q + 1);
        if (first >= from) return put_span(0, q + 1, 0, out);
        return put_span(from, q + 1, put_span(0, first, 0, out), out);
    }
    }
    ls_panic(__FILE__, __LINE__, "mask term of unknown kind %d", (int)term->kind);
}

static int intersect(const ls_span *a, int n_a, const ls_span *b, int n_b, ls_span *out) {
    int n = 0;
    for (int i = 0, j = 0; i < n_a && j < n_b;) {
        n = put_span(ls_max(a[i].lo, b[j].lo), ls_min(a[i].hi, b[j].hi), n, out);
        if (a[i].hi < b[j].hi)
            i++;
        else
            j++;
    }
    return n;
}

/* documents[t]: the document of q in term t, where that is of this kind. */
static int spans_at(const ls_mask *mask, int64_t S, int64_t q, const int *documents,
                    ls_span out[LS_MASK_SPANS]) {
    int n = put_span(0, S, 0, out);
    for (int t = 0; t < mask->n; t++) {
        ls_span left[LS_MASK_SPANS], term[2];
        int n_left = n;
        memcpy(left, out, sizeof left[0] * (size_t)n_left);
        n = intersect(left, n_left, term, term_spans(&mask->term[t], S, q, documents[t], term), out);
    }
    return n;
}

int ls_mask_spans(const ls_mask *mask, int64_t S, int64_t q, ls_span out[LS_MASK_SPANS]) {
    int documents[LS_MASK_TERMS] = {0};
    for (int t = 0; t < mask->n; t++)
        if (mask->term[t].kind == LS_MASK_DOCUMENTS) documents[t] = find_document(&mask->term[t], q);
    return spans_at(mask, S, q, documents, out);
}

/*
 * Only a window term with first tokens hides a stretch inside what is visible (from N up to the window), and
 * only if no other window hides at least as much at both ends of that stretch. Each such stretch may cut one
 * span in two.
 */
int ls_mask_width(const ls_mask *mask) {
    int width = 1;
    for (int t = 0; t < mask->n; t++) {
        const ls_mask_term *term = &mask->term[t];
        bool cuts = term->kind == LS_MASK_WINDOW && term->first > 0;
        for (int i = 0; i < mask->n; i++) {
            const ls_mask_term *other = &mask->term[i];
            bool covers = i != t && other->kind == LS_MASK_WINDOW && other->first <= term->first &&
                          other->window <= term->window;
            bool same = covers && other->first == term->first && other->window == term->window;
            if (covers && (!same || i < t)) cuts = false;
        }
        width += cuts;
    }
    return width;
}

void ls_mask_table(const ls_mask *mask, int64_t S, const int32_t *positions, int64_t n, ls_span *out) {
    int width = ls_mask_width(mask);
    for (int64_t i = 0; i < n; i++) {
        ls_span spans[LS_MASK_SPANS];
        int count = ls_mask_spans(mask, S, positions[i], spans);
        LS_ASSERT(count <= width);
        for (int j = 0; j < width; j++) out[i * width + j] = j < count ? spans[j] : (ls_span){0, 0};
    }
}

/* Spans of one query after the other: documents are found by moving on. */
typedef struct walk {
    int documents[LS_MASK_TERMS];
} walk;

static int walk_to(walk *w, const ls_mask *mask, int64_t S, int64_t q, ls_span out[LS_MASK_SPANS]) {
    for (int t = 0; t < mask->n; t++)
        if (mask->term[t].kind == LS_MASK_DOCUMENTS)
            while (mask->term[t].ends[w->documents[t] + 1] <= q) w->documents[t]++;
    return spans_at(mask, S, q, w->documents, out);
}

int64_t ls_mask_area(const ls_mask *mask, int64_t S) {
    walk w = {0};
    const int64_t asked = ls_min(S, LS_MASK_MOST_ASKED);
    int64_t area = 0;
    for (int64_t i = 0; i < asked; i++) {
        ls_span spans[LS_MASK_SPANS];
        const int n =
            walk_to(&w, mask, S, (2 * i + 1) * S / (2 * asked), spans); /* in the middle of its share */
        for (int j = 0; j < n; j++) area += spans[j].hi - spans[j].lo;
    }
    return asked == S ? area : (int64_t)((double)area * ((double)S / (double)asked));
}

/* The part that holds a position, of n with these starts. */
static int part_of(const int64_t *start, int n, int64_t position) {
    int part = (int)(position * n / start[n]); /* or the one behind it */
    while (start[part + 1] <= position) part++;
    return part;
}

/*
 * A span begins in one part and ends in another: both are counted at once, the whole parts between them by how many queries begin and stop
 * to see the whole of them, which is summed up once per part of queries.
 */
void ls_mask_areas(const ls_mask *mask, int64_t S, int n, double weight, double *area) {
    walk w = {0};
    ls_arena *scratch = ls_arena_create();
    int64_t *start = LS_NEW_ARRAY(scratch, int64_t, n + 1), *count = LS_NEW_ARRAY(scratch, int64_t, n),
            *change = LS_NEW_ARRAY(scratch, int64_t, n + 1);
    for (int i = 0; i <= n; i++) start[i] = ls_part_start(S, n, i);
    for (int i = 0; i < n; i++) {
        memset(change, 0, sizeof *change * (size_t)(n + 1));
        memset(count, 0, sizeof *count * (size_t)n);
        for (int64_t q = start[i]; q < start[i + 1]; q++) {
            ls_span spans[LS_MASK_SPANS];
            const int n_spans = walk_to(&w, mask, S, q, spans);
            for (int s = 0; s < n_spans; s++) {
                const int first = part_of(start, n, spans[s].lo), last = part_of(start, n, spans[s].hi - 1);
                count[first] += ls_min(spans[s].hi, start[first + 1]) - spans[s].lo;
                if (first == last) continue;
                count[last] += spans[s].hi - start[last];
                change[first + 1]++;
                change[last]--;
            }
        }
        int64_t whole = 0; /* queries that see the whole part */
        for (int j = 0; j < n; j++) {
            whole += change[j];
            area[(int64_t)i * n + j] += weight * (double)(count[j] + whole * (start[j + 1] - start[j]));
        }
    }
    ls_arena_destroy(scratch);
}

static bool term_equal(const ls_mask_term *a, const ls_mask_term *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case LS_MASK_CAUSAL:
        return true;
    case LS_MASK_WINDOW:
        return a->window == b->window && a->first == b->first;
    case LS_MASK_PREFIX:
        return a->first == b->first;
    case LS_MASK_DOCUMENTS:
        return a->n_ends == b->n_ends && memcmp(a->ends, b->ends, sizeof *a->ends * (size_t)a->n_ends) == 0;
    }
    return false;
}

/* Every term of a stands in b: an intersection knows neither order nor repetition. */
static bool terms_within(const ls_mask *a, const ls_mask *b) {
    for (int i = 0; i < a->n; i++) {
        bool found = false;
        for (int j = 0; j < b->n && !found; j++) found = term_equal(&a->term[i], &b->term[j]);
        if (!found) return false;
    }
    return true;
}

bool ls_mask_equal(const ls_mask *a, const ls_mask *b) { return terms_within(a, b) && terms_within(b, a); }
