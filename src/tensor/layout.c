/* Layouts: which positions each rank holds. */
#include "tensor/layout_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

int ls_layout_blocks(const ls_layout_need *need) { return need->P / (int)ls_max(1, need->members); }

int64_t ls_layout_block_tokens(const ls_layout_need *need, int block) {
    const int blocks = ls_layout_blocks(need);
    return ls_part_start(need->S, blocks, block + 1) - ls_part_start(need->S, blocks, block);
}

static int64_t part(const ls_layout_need *need, int p) {
    return ls_part_start(need->S, need->P, p + 1) - ls_part_start(need->S, need->P, p);
}

/* --- kinds that are formulas: one run ------------------------------------------ */

static ls_layout_run contiguous(const ls_layout_need *need, int p) {
    return (ls_layout_run){ls_part_start(need->S, need->P, p), part(need, p), 1};
}

/*
 * Rank p's stripe p, p+P, ... has ceil((S-p)/P) tokens, so the longer stripes are those of the first ranks, while floor(p*S/P)
 * puts the longer parts anywhere. The stripe that a rank gets is therefore chosen by length: the ranks with a longer part take
 * stripes 0, 1, ... in rank order, the others take the following ones.
 */
static ls_layout_run striped(const ls_layout_need *need, int p) {
    const int64_t shortest = need->S / need->P, longer = need->S % need->P, n = part(need, p);
    const int64_t longer_before = ls_part_start(need->S, need->P, p) - p * shortest;
    return (ls_layout_run){n > shortest ? longer_before : longer + p - longer_before, n, need->P};
}

/* --- and one that is a deal ------------------------------------------------------------------------------------------------- */

static void add_piece(ls_layout_pieces *pieces, ls_arena *arena, int64_t count, int block) {
    const int64_t at = pieces->n > 0 ? pieces->at[pieces->n - 1].end : 0;
    *LS_PUSH(arena, pieces->at, pieces->n, pieces->capacity) = (ls_layout_piece){at + count, block};
}

/*
 * Half of each block from the front, in the order of blocks, then the other halves, the blocks reversed. Of blocks, not ranks: what
 * another block sees of one is then often a run of its members' tokens, one after the other.
 */
static void deal_zigzag(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out) {
    const int blocks = ls_layout_blocks(need);
    for (int b = 0; b < blocks; b++)
        add_piece(out, scratch, ls_ceil_div(ls_layout_block_tokens(need, b), 2), b);
    for (int b = blocks - 1; b >= 0; b--) add_piece(out, scratch, ls_layout_block_tokens(need, b) / 2, b);
}

/* --- the table of kinds: a formula, or a deal ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    ls_layout_run (*formula)(const ls_layout_need *need, int p);
    void (*deal)(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out);
} kinds[LS_LAYOUTS] = {
    [LS_LAYOUT_CONTIGUOUS] = {"contiguous", contiguous, NULL},
    [LS_LAYOUT_ZIGZAG] = {"zigzag", NULL, deal_zigzag},
    [LS_LAYOUT_STRIPED] = {"striped", striped, NULL},
    [LS_LAYOUT_DOCUMENTS] = {"documents", NULL, ls_layout_deal_documents},
    [LS_LAYOUT_BALANCED] = {"balanced", NULL, ls_layout_deal_balanced},
};

/* --- making ---------------------------------------------------------------------------------------------------------------- */

typedef struct owned_run {
    ls_layout_run run;
    int rank;
    int before; /* of the same rank; -1: its first */
} owned_run;

typedef struct making {
    ls_arena *scratch;
    owned_run *runs;
    int n;
    size_t capacity;
    int *last; /* by rank; -1: none yet */
} making;

/* Adds positions behind those that the rank has; what continues its last run makes that longer. */
static void add_run(making *m, int rank, ls_layout_run run) {
    if (run.count == 0) return;
    ls_layout_run *last = m->last[rank] >= 0 ? &m->runs[m->last[rank]].run : NULL;
    if (last != NULL && last->step == 1 && run.step == 1 && last->first + last->count == run.first) {
        last->count += run.count;
        return;
    }
    owned_run *added = LS_PUSH(m->scratch, m->runs, m->n, m->capacity);
    *added = (owned_run){run, rank, m->last[rank]};
    m->last[rank] = m->n - 1;
}

static void make_by_formula(const ls_layout_need *need, ls_layout_kind kind, making *m) {
    for (int p = 0; p < need->P; p++) add_run(m, p, kinds[kind].formula(need, p));
}

/* The positions of a block go to its members in ascending order, the first to the first. */
static void make_by_deal(const ls_layout_need *need, ls_layout_kind kind, making *m) {
    const int blocks = ls_layout_blocks(need), members = need->P / blocks;
    ls_layout_pieces pieces = {0};
    kinds[kind].deal(need, m->scratch, &pieces);
    int *member = LS_NEW_ARRAY(m->scratch, int, blocks);
    int64_t *room = LS_NEW_ARRAY(m->scratch, int64_t, blocks);
    for (int b = 0; b < blocks; b++) room[b] = part(need, b * members);
    int64_t at = 0;
    for (int64_t i = 0; i < pieces.n; i++) {
        const int b = pieces.at[i].block;
        while (at < pieces.at[i].end) {
            if (room[b] == 0) room[b] = part(need, b * members + ++member[b]);
            const int64_t count = ls_min(room[b], pieces.at[i].end - at);
            LS_ASSERT(member[b] < members && count > 0);
            add_run(m, b * members + member[b], (ls_layout_run){at, count, 1});
            room[b] -= count;
            at += count;
        }
    }
    LS_ASSERT(at == need->S);
}

ls_layout ls_layout_make(const ls_layout_need *need, ls_arena *arena) {
    LS_ASSERT(need->P >= 1 && need->P <= need->S && need->P % (int)ls_max(1, need->members) == 0);
    making m = {.scratch = ls_arena_create()};
    m.last = LS_NEW_ARRAY(m.scratch, int, need->P);
    for (int p = 0; p < need->P; p++) m.last[p] = -1;
    if (kinds[need->kind].formula != NULL)
        make_by_formula(need, need->kind, &m);
    else
        make_by_deal(need, need->kind, &m);
    LS_ASSERT(m.runs != NULL); /* every rank holds tokens */
    int *first_run = LS_NEW_ARRAY(arena, int, need->P + 1);
    ls_layout_run *runs = LS_NEW_ARRAY(arena, ls_layout_run, m.n);
    for (int i = 0; i < m.n; i++) first_run[m.runs[i].rank + 1]++;
    for (int p = 0; p < need->P; p++) first_run[p + 1] += first_run[p];
    for (int p = 0; p < need->P; p++) {
        int at = first_run[p + 1];
        for (int i = m.last[p]; i >= 0; i = m.runs[i].before) runs[--at] = m.runs[i].run;
    }
    ls_arena_destroy(m.scratch);
    return (ls_layout){need->kind, need->S, need->P, (int)ls_max(1, need->members), first_run, runs};
}

ls_layout ls_layout_copy(const ls_layout *layout, ls_arena *arena) {
    ls_layout copy = *layout;
    const size_t starts = sizeof *layout->first_run * (size_t)(layout->P + 1);
    copy.first_run = ls_arena_copy(arena, layout->first_run, starts);
    const size_t bytes = sizeof *layout->runs * (size_t)layout->first_run[layout->P];
    copy.runs = ls_arena_copy(arena, layout->runs, bytes);
    return copy;
}

/* --- reading --------------------------------------------------------------------------------------------------------------- */

int64_t ls_layout_start(const ls_layout *layout, int p) { return ls_part_start(layout->S, layout->P, p); }

int64_t ls_layout_count(const ls_layout *layout, int p) {
    LS_ASSERT(p >= 0 && p < layout->P);
    return ls_layout_start(layout, p + 1) - ls_layout_start(layout, p);
}

int64_t ls_layout_most(const ls_layout *layout) { return ls_ceil_div(layout->S, layout->P); }

int ls_layout_runs(const ls_layout *layout, int p, const ls_layout_run **out) {
    *out = layout->runs + layout->first_run[p];
    return layout->first_run[p + 1] - layout->first_run[p];
}

int ls_layout_most_runs(const ls_layout *layout) {
    int most = 0;
    for (int p = 0; p < layout->P; p++)
        most = (int)ls_max(most, layout->first_run[p + 1] - layout->first_run[p]);
    return most;
}

void ls_layout_positions(const ls_layout *layout, int p, int32_t *out) {
    const ls_layout_run *runs;
    const int n = ls_layout_runs(layout, p, &runs);
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < runs[r].count; i++) *out++ = (int32_t)(runs[r].first + i * runs[r].step);
}

const char *ls_layout_name(ls_layout_kind kind) {
    LS_ASSERT((unsigned)kind < LS_LAYOUTS);
    return kinds[kind].name;
}

ls_status ls_layout_parse(const char *text, ls_layout_kind *out) {
    char known[128] = "";
    for (int kind = 0; kind < LS_LAYOUTS; kind++) {
        if (strcmp(text, kinds[kind].name) == 0) {
            *out = (ls_layout_kind)kind;
            return ls_ok();
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", kind > 0 ? ", " : "", kinds[kind].name);
    }
    return ls_error(LS_USAGE, "unknown layout '%s', expected one of %s", text, known);
}
