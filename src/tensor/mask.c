/* Masks as spans of visible keys; masks as text. */
#include "tensor/mask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

ls_mask ls_mask_causal(void) { return (ls_mask){.n = 1, .term = {{.kind = LS_MASK_CAUSAL}}}; }

/* The document of position q: the largest d with ends[d] <= q < ends[d+1]. */
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

/* Appends a span to out[0, n) unless it is empty; returns the new number of spans. */
static int add_span(int64_t lo, int64_t hi, int n, ls_span *out) {
    if (lo >= hi) return n;
    out[n] = (ls_span){(int32_t)lo, (int32_t)hi};
    return n + 1;
}

/*
 * The keys that one term allows for query q; returns the number of spans. document: the document of q, if the term is
 * of kind documents.
 */
static int term_spans(const ls_mask_term *term, int64_t S, int64_t q, int document, ls_span out[2]) {
    switch (term->kind) {
    case LS_MASK_CAUSAL:
        return add_span(0, q + 1, 0, out);
    case LS_MASK_PREFIX:
        return add_span(0, ls_min(S, ls_max(q + 1, term->first)), 0, out);
    case LS_MASK_DOCUMENTS:
        return add_span(term->ends[document], term->ends[document + 1], 0, out);
    case LS_MASK_WINDOW: {
        int64_t from = ls_max(0, q - term->window + 1), first = ls_min(term->first, q + 1);
        if (first >= from) return add_span(0, q + 1, 0, out);
        return add_span(from, q + 1, add_span(0, first, 0, out), out);
    }
    }
    ls_panic(__FILE__, __LINE__, "mask term of unknown kind %d", (int)term->kind);
}

static int intersect(const ls_span *a, int n_a, const ls_span *b, int n_b, ls_span *out) {
    int n = 0;
    for (int i = 0, j = 0; i < n_a && j < n_b;) {
        n = add_span(ls_max(a[i].lo, b[j].lo), ls_min(a[i].hi, b[j].hi), n, out);
        if (a[i].hi < b[j].hi)
            i++;
        else
            j++;
    }
    return n;
}

/* The keys that all terms allow for query q. documents[t]: the document of q, if term t is of kind documents. */
static int spans_at(const ls_mask *mask, int64_t S, int64_t q, const int *documents, ls_span out[LS_MASK_SPANS]) {
    int n = add_span(0, S, 0, out);
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
 * Only a window term with N > 0 first tokens can cut a span in two, because it hides the keys from N up to the window.
 * It cuts none if another window term hides all these keys and has no larger N.
 */
int ls_mask_width(const ls_mask *mask) {
    int width = 1;
    for (int t = 0; t < mask->n; t++) {
        const ls_mask_term *term = &mask->term[t];
        bool cuts = term->kind == LS_MASK_WINDOW && term->first > 0;
        for (int i = 0; i < mask->n; i++) {
            const ls_mask_term *other = &mask->term[i];
            bool covers =
                i != t && other->kind == LS_MASK_WINDOW && other->first <= term->first && other->window <= term->window;
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

/* Gives the spans of queries that come in ascending order, without a search for their documents. Starts zeroed. */
typedef struct query_cursor {
    int documents[LS_MASK_TERMS];
} query_cursor;

/* The spans of query q, which must not be before the query of the last call. */
static int cursor_spans(query_cursor *w, const ls_mask *mask, int64_t S, int64_t q, ls_span out[LS_MASK_SPANS]) {
    for (int t = 0; t < mask->n; t++)
        if (mask->term[t].kind == LS_MASK_DOCUMENTS)
            while (mask->term[t].ends[w->documents[t] + 1] <= q) w->documents[t]++;
    return spans_at(mask, S, q, w->documents, out);
}

int64_t ls_mask_area(const ls_mask *mask, int64_t S) {
    query_cursor w = {0};
    const int64_t samples = ls_min(S, LS_MASK_SAMPLES);
    int64_t area = 0;
    for (int64_t i = 0; i < samples; i++) {
        ls_span spans[LS_MASK_SPANS];
        const int n = cursor_spans(&w, mask, S, (2 * i + 1) * S / (2 * samples), spans); /* the middle of sample i */
        for (int j = 0; j < n; j++) area += spans[j].hi - spans[j].lo;
    }
    return samples == S ? area : (int64_t)((double)area * ((double)S / (double)samples));
}

/* The part that a position lies in; start: the starts of the n parts, then S. */
static int part_of(const int64_t *start, int n, int64_t position) {
    int part = (int)(position * n / start[n]); /* this part or the next */
    while (start[part + 1] <= position) part++;
    return part;
}

/*
 * For each part i of queries: `count` gets the keys of the parts in which a span begins or ends. For the parts of keys
 * that a span covers completely, `change` gets +1 at the first and -1 after the last: its prefix sum is the number of
 * spans that cover a part.
 */
void ls_mask_areas(const ls_mask *mask, int64_t S, int n, double weight, double *area) {
    query_cursor w = {0};
    ls_arena *scratch = ls_arena_create();
    int64_t *start = LS_NEW_ARRAY(scratch, int64_t, n + 1), *count = LS_NEW_ARRAY(scratch, int64_t, n),
            *change = LS_NEW_ARRAY(scratch, int64_t, n + 1);
    for (int i = 0; i <= n; i++) start[i] = ls_part_start(S, n, i);
    for (int i = 0; i < n; i++) {
        memset(change, 0, sizeof *change * (size_t)(n + 1));
        memset(count, 0, sizeof *count * (size_t)n);
        for (int64_t q = start[i]; q < start[i + 1]; q++) {
            ls_span spans[LS_MASK_SPANS];
            const int n_spans = cursor_spans(&w, mask, S, q, spans);
            for (int s = 0; s < n_spans; s++) {
                const int first = part_of(start, n, spans[s].lo), last = part_of(start, n, spans[s].hi - 1);
                count[first] += ls_min(spans[s].hi, start[first + 1]) - spans[s].lo;
                if (first == last) continue;
                count[last] += spans[s].hi - start[last];
                change[first + 1]++;
                change[last]--;
            }
        }
        int64_t whole = 0; /* spans that cover part j */
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

/* Whether every term of a is in b. Order and repetition do not matter in an intersection. */
static bool terms_within(const ls_mask *a, const ls_mask *b) {
    for (int i = 0; i < a->n; i++) {
        bool found = false;
        for (int j = 0; j < b->n && !found; j++) found = term_equal(&a->term[i], &b->term[j]);
        if (!found) return false;
    }
    return true;
}

bool ls_mask_equal(const ls_mask *a, const ls_mask *b) { return terms_within(a, b) && terms_within(b, a); }

bool ls_mask_has(const ls_mask *mask, ls_mask_kind kind) {
    for (int t = 0; t < mask->n; t++)
        if (mask->term[t].kind == kind) return true;
    return false;
}

/* ---- masks as text, and their check ---- */

static void print_term(const ls_mask_term *term, char *out, size_t bytes) {
    switch (term->kind) {
    case LS_MASK_CAUSAL:
        snprintf(out, bytes, "causal");
        return;
    case LS_MASK_PREFIX:
        snprintf(out, bytes, "prefix:%lld", (long long)term->first);
        return;
    case LS_MASK_DOCUMENTS:
        snprintf(out, bytes, "documents");
        return;
    case LS_MASK_WINDOW:
        if (term->first > 0)
            snprintf(out, bytes, "window:%lld:%lld", (long long)term->window, (long long)term->first);
        else
            snprintf(out, bytes, "window:%lld", (long long)term->window);
        return;
    }
}

void ls_mask_print(const ls_mask *mask, char *out, size_t bytes) {
    if (mask->n == 0) {
        snprintf(out, bytes, "full");
        return;
    }
    size_t used = 0;
    for (int t = 0; t < mask->n && used < bytes; t++) {
        char term[64] = "";
        print_term(&mask->term[t], term, sizeof term);
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", t > 0 ? "+" : "", term);
    }
}

/* Reads ":N" at *text with N >= least in decimal digits, and moves *text past it. */
static bool read_number(const char **text, int64_t least, int64_t *out) {
    const char *at = *text;
    if (at[0] != ':' || at[1] < '0' || at[1] > '9') return false;
    char *end;
    errno = 0;
    long long value = strtoll(at + 1, &end, 10);
    if (errno != 0 || value < least) return false;
    *text = end;
    *out = value;
    return true;
}

/* Reads ":W" or ":W:N", which follows "window". */
static bool read_window(const char *rest, ls_mask_term *term) {
    if (!read_number(&rest, 1, &term->window)) return false;
    return rest[0] == 0 || (read_number(&rest, 0, &term->first) && rest[0] == 0);
}

static bool read_prefix(const char *rest, ls_mask_term *term) {
    return read_number(&rest, 0, &term->first) && rest[0] == 0;
}

/* The rest of text after `name`; NULL when text does not begin with it. */
static const char *after(const char *text, const char *name) {
    size_t n = strlen(name);
    return strncmp(text, name, n) == 0 ? text + n : NULL;
}

ls_status ls_mask_add_term(ls_mask *mask, const char *text) {
    if (strcmp(text, "full") == 0) return ls_ok();

    ls_mask_term term = {.kind = LS_MASK_CAUSAL};
    const char *window = after(text, "window"), *prefix = after(text, "prefix");
    bool good = strcmp(text, "causal") == 0;
    if (window != NULL) {
        term.kind = LS_MASK_WINDOW;
        good = read_window(window, &term);
    } else if (prefix != NULL) {
        term.kind = LS_MASK_PREFIX;
        good = read_prefix(prefix, &term);
    }
    if (!good)
        return ls_error(LS_USAGE,
                        "mask term '%s', expected full, causal, window:W or window:W:N (W at least 1), prefix:N, or "
                        "documents:FILE",
                        text);
    if (mask->n >= LS_MASK_TERMS)
        return ls_error(LS_USAGE, "mask term '%s': the mask has %d terms already, expected at most %d", text,
                        LS_MASK_TERMS, LS_MASK_TERMS);
    mask->term[mask->n++] = term;
    return ls_ok();
}

static ls_status check_documents(const ls_mask_term *term, int64_t S) {
    if (term->ends == NULL) return ls_error(LS_INVALID, "documents: there are no ends (NULL)");
    if (term->n_ends < 2)
        return ls_error(LS_INVALID, "documents: %d cumulative lengths, expected at least 2 (from 0 to %lld)",
                        term->n_ends, (long long)S);
    if (term->ends[0] != 0)
        return ls_error(LS_INVALID, "documents: cumulative length 0 is %d, expected 0", term->ends[0]);
    for (int i = 1; i < term->n_ends; i++)
        if (term->ends[i] < term->ends[i - 1])
            return ls_error(LS_INVALID, "documents: cumulative length %d is %d, less than %d before it", i,
                            term->ends[i], term->ends[i - 1]);
    int last = term->n_ends - 1;
    if (term->ends[last] != S)
        return ls_error(LS_INVALID, "documents: the last cumulative length (entry %d) is %d, expected S = %lld", last,
                        term->ends[last], (long long)S);
    return ls_ok();
}

static ls_status check_term(const ls_mask_term *term, int i, int64_t S) {
    switch (term->kind) {
    case LS_MASK_CAUSAL:
        return ls_ok();
    case LS_MASK_WINDOW:
        if (term->window >= 0 && term->first >= 0 && (term->window > 0 || term->first > 0)) return ls_ok();
        return ls_error(LS_INVALID,
                        "mask term %d has window %lld, first %lld; expected at least 0, and one of them more", i,
                        (long long)term->window, (long long)term->first);
    case LS_MASK_PREFIX:
        if (term->first >= 0) return ls_ok();
        return ls_error(LS_INVALID, "mask term %d has first %lld; expected at least 0", i, (long long)term->first);
    case LS_MASK_DOCUMENTS:
        return check_documents(term, S);
    }
    return ls_error(LS_INVALID, "mask term %d is of kind %d; expected one of ls_mask_kind", i, (int)term->kind);
}

ls_status ls_mask_check(const ls_mask *mask, int64_t S) {
    if (mask->n < 0 || mask->n > LS_MASK_TERMS)
        return ls_error(LS_INVALID, "a mask of %d terms; expected 0 to %d", mask->n, LS_MASK_TERMS);
    for (int t = 0; t < mask->n; t++) LS_TRY(check_term(&mask->term[t], t, S));
    return ls_ok();
}
