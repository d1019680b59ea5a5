/* Layouts: which positions each rank holds. */
#include "tensor/layout.h"

#include <string.h>

#include "base/base.h"

static const char *const names[LS_LAYOUTS] = {
    [LS_LAYOUT_CONTIGUOUS] = "contiguous",
    [LS_LAYOUT_ZIGZAG] = "zigzag",
    [LS_LAYOUT_STRIPED] = "striped",
};

int64_t ls_layout_start(const ls_layout *layout, int p) { return ls_part_start(layout->S, layout->P, p); }

/*
 * Striped: rank p's stripe p, p+P, ... has ceil((S-p)/P) tokens, so the longer stripes are those of the first
 * ranks, while floor(p*S/P) puts the longer parts anywhere. The stripe that a rank gets is therefore chosen
 * by length: the ranks with a longer part take stripes 0, 1, ... in rank order, the others take the following
 * ones.
 */
static int64_t stripe_of(const ls_layout *layout, int p) {
    int64_t shortest = layout->S / layout->P, longer = layout->S % layout->P;
    int64_t longer_before = ls_layout_start(layout, p) - p * shortest;
    return ls_layout_count(layout, p) > shortest ? longer_before : longer + p - longer_before;
}

int64_t ls_layout_count(const ls_layout *layout, int p) {
    LS_ASSERT(p >= 0 && p < layout->P);
    return ls_layout_start(layout, p + 1) - ls_layout_start(layout, p);
}

int64_t ls_layout_most(const ls_layout *layout) { return ls_ceil_div(layout->S, layout->P); }

/* Front runs in rank order from 0, back runs in reverse rank order up to S; they meet in the middle. */
static int zigzag(const ls_layout *layout, int p, ls_layout_run out[LS_LAYOUT_RUNS]) {
    int64_t before_front = 0, before_back = 0;
    for (int i = 0; i < p; i++) {
        int64_t n = ls_layout_count(layout, i);
        before_front += ls_ceil_div(n, 2);
        before_back += n / 2;
    }
    int64_t n = ls_layout_count(layout, p);
    out[0] = (ls_layout_run){before_front, ls_ceil_div(n, 2), 1};
    out[1] = (ls_layout_run){layout->S - before_back - n / 2, n / 2, 1};
    return n > 1 ? 2 : 1;
}

int ls_layout_runs(const ls_layout *layout, int p, ls_layout_run out[LS_LAYOUT_RUNS]) {
    int64_t n = ls_layout_count(layout, p);
    switch (layout->kind) {
    case LS_LAYOUT_ZIGZAG:
        return zigzag(layout, p, out);
    case LS_LAYOUT_STRIPED:
        out[0] = (ls_layout_run){stripe_of(layout, p), n, layout->P};
        return 1;
    default:
        out[0] = (ls_layout_run){ls_layout_start(layout, p), n, 1};
        return 1;
    }
}

void ls_layout_positions(const ls_layout *layout, int p, int32_t *out) {
    ls_layout_run runs[LS_LAYOUT_RUNS];
    const int n = ls_layout_runs(layout, p, runs);
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < runs[r].count; i++) *out++ = (int32_t)(runs[r].first + i * runs[r].step);
}

const char *ls_layout_name(ls_layout_kind kind) {
    LS_ASSERT((unsigned)kind < LS_LAYOUTS);
    return names[kind];
}

ls_status ls_layout_parse(const char *text, ls_layout_kind *out) {
    for (int kind = 0; kind < LS_LAYOUTS; kind++) {
        if (strcmp(text, names[kind]) == 0) {
            *out = (ls_layout_kind)kind;
            return ls_ok();
        }
    }
    return ls_error(LS_USAGE, "unknown layout '%s', expected contiguous, zigzag or striped", text);
}
