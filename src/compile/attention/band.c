/*
 * Which band of keys the queries of a call see, for kernels that describe masks by their shape instead of by spans. The
 * band follows from the mask and from the runs of positions of the call's queries and keys: between two runs of the
 * same step, causal masks and windows are bands.
 */
#include "compile/attention/attention.h"

static const ls_attention_band unknown = {.known = false};

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ls_ceil_div(-a, b); }

/* --- runs of positions -------------------------------------------------------------------------------------------- */

typedef struct runs {
    ls_layout_run *at;
    int n;
    size_t capacity;
    int64_t count; /* positions in all runs */
} runs;

static int64_t last_of(const ls_layout_run *r) { return r->first + (r->count - 1) * r->step; }

/* Appends a run; joins it with the last one if both together are one run. */
static void append(ls_arena *scratch, runs *r, ls_layout_run next) {
    ls_layout_run *last = r->n > 0 ? &r->at[r->n - 1] : NULL;
    const int64_t gap = last != NULL ? next.first - last_of(last) : 0;
    r->count += next.count;
    if (gap > 0 && (last->count == 1 || last->step == gap) && (next.count == 1 || next.step == gap)) {
        last->step = gap;
        last->count += next.count;
    } else {
        *LS_PUSH(scratch, r->at, r->n, r->capacity) = next;
    }
}

/* The rank that holds an entry of the table of positions. */
static int rank_at(const ls_layout *layout, int64_t entry) {
    int low = 0, past = layout->P; /* start(low) <= entry < start(past) */
    while (past - low > 1) {
        const int middle = low + (past - low) / 2;
        if (ls_layout_start(layout, middle) <= entry)
            low = middle;
        else
            past = middle;
    }
    return low;
}

/* The runs of positions in entries start .. start + count - 1 of a slice's table of positions. */
static runs find_runs(const ls_layout *layout, int slice, ls_arena *scratch, int64_t start, int64_t count) {
    const int64_t before = slice * layout->S;
    runs out = {.n = 0};
    for (int p = rank_at(layout, start); out.count < count; p++) {
        const ls_layout_run *held;
        const int n = ls_layout_runs(layout, p, &held);
        int64_t at = ls_layout_start(layout, p);
        for (int i = 0; i < n && out.count < count; at += held[i++].count) {
            const int64_t skipped = ls_max(0, start - at), left = ls_min(held[i].count - skipped, count - out.count);
            if (left > 0)
                append(scratch, &out,
                       (ls_layout_run){before + held[i].first + skipped * held[i].step, left, held[i].step});
        }
    }
    return out;
}

/* --- two runs ----------------------------------------------------------------------------------------------------- */

/* A run of queries and a run of keys, and the band that is known so far. */
typedef struct pair {
    const ls_layout_run *q, *k;
    int64_t step; /* of both runs; 0: their steps differ */
    ls_attention_band band;
} pair;

static ls_attention_band everything(int64_t queries, int64_t keys) {
    return (ls_attention_band){.known = true, .low = 1 - queries, .high = keys - 1};
}

static pair pair_of(const ls_layout_run *q, const ls_layout_run *k) {
    const int64_t step = q->count == 1 ? k->step : q->step;
    return (pair){q, k, k->count == 1 || k->step == step ? step : 0, everything(q->count, k->count)};
}

/* Hides keys at higher positions than the query. false: what is left is no band. */
static bool hide_later(pair *p) {
    if (last_of(p->k) <= p->q->first) return true;
    if (p->step == 0) return false;
    p->band.high = ls_min(p->band.high, floor_div(p->q->first - p->k->first, p->step));
    return true;
}

/* Hides keys before the `window` positions that end at the query's. */
static bool hide_earlier(pair *p, int64_t window) {
    if (p->k->first > last_of(p->q) - window) return true;
    if (p->step == 0) return false;
    p->band.low = ls_max(p->band.low, -floor_div(p->k->first + window - 1 - p->q->first, p->step));
    return true;
}

/* Hides what a term of the mask hides. The first N keys (term->first) are hidden less than the others. */
static bool apply(pair *p, const ls_mask_term *term) {
    const bool all_first = last_of(p->k) < term->first, none_first = p->k->first >= term->first;
    switch (term->kind) {
    case LS_MASK_CAUSAL:
        return hide_later(p);
    case LS_MASK_PREFIX:
        return all_first || ((none_first || p->q->first >= term->first - 1) && hide_later(p));
    case LS_MASK_WINDOW: {
        const bool inside = p->k->first > last_of(p->q) - term->window;
        return hide_later(p) && (all_first || inside || (none_first && hide_earlier(p, term->window)));
    }
    case LS_MASK_DOCUMENTS:
        return false;
    }
    return false;
}

static ls_attention_band band_between(const ls_mask *mask, const ls_layout_run *q, const ls_layout_run *k) {
    pair p = pair_of(q, k);
    for (int t = 0; t < mask->n; t++)
        if (!apply(&p, &mask->term[t])) return unknown;
    p.band.low = ls_min(p.band.low, k->count); /* a band that contains no key */
    p.band.high = ls_max(p.band.high, -q->count);
    return p.band;
}

ls_attention_band ls_mask_band(const ls_mask *mask, int64_t tokens) {
    const ls_layout_run all = {0, tokens, 1};
    return tokens > 0 ? band_between(mask, &all, &all) : unknown;
}

/* --- a call ------------------------------------------------------------------------------------------------------- */

/* Several runs are a band only if nothing is hidden between any two of them. */
static ls_attention_band band_of_all(const ls_mask *mask, const runs *q, const runs *k) {
    if (q->n == 1 && k->n == 1) return band_between(mask, q->at, k->at);
    for (int i = 0; i < q->n; i++) {
        for (int j = 0; j < k->n; j++) {
            const ls_attention_band whole = everything(q->at[i].count, k->at[j].count),
                                    is = band_between(mask, &q->at[i], &k->at[j]);
            if (!is.known || is.low > whole.low || is.high < whole.high) return unknown;
        }
    }
    return everything(q->count, k->count);
}

/* The mask whose table contains the spans; NULL: the spans are from elsewhere. */
static const ls_mask_binding *mask_of(const ls_image *image, const ls_operand *spans) {
    for (int m = 0; m < image->n_masks; m++)
        if (image->masks[m].spans.buffer == spans->buffer) return &image->masks[m];
    return NULL;
}

/* The index of an operand's first row in a table whose rows have `numbers` numbers. */
static int64_t row_in(const ls_operand *table, const ls_operand *part, int64_t numbers) {
    return (int64_t)(part->offset - table->offset) / (numbers * (int64_t)sizeof(int32_t));
}

ls_attention_band ls_band_of(const ls_builder *b, const ls_attention_call *call) {
    const ls_image *image = b->image;
    const ls_mask_binding *binding = mask_of(image, &call->spans);
    const int64_t queries = call->q.view.size[1], keys = call->k.view.size[1];
    const bool fixed = binding != NULL && call->positions.buffer == image->positions.buffer && b->job->n_documents == 0;
    if (!fixed || queries == 0 || keys == 0) return unknown;
    if (binding->mask.n == 0) return everything(queries, keys);
    const int64_t first_q = binding->query_start + row_in(&binding->spans, &call->spans, binding->spans.view.size[2]);
    ls_arena *scratch = ls_arena_create();
    const int64_t first_k = row_in(&image->positions, &call->positions, 1), S = image->layout.S;
    const runs q = find_runs(&image->layout, binding->slice, scratch, first_q, queries),
               k = find_runs(&image->layout, (int)(first_k / S), scratch, first_k % S, keys);
    const ls_attention_band band = band_of_all(&binding->mask, &q, &k);
    ls_arena_destroy(scratch);
    return band;
}
