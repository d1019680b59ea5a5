/*
 * Tokens to heads: an all-to-all that brings each rank some heads of the whole sequence, so that it needs no state of
 * another rank, and one that takes the results back, as Ulysses does for attention.
 */
#include "compile/redistribute/redistribute.h"

#include <stdlib.h>

static int by_position(const void *a, const void *b) {
    const int64_t x = ((const ls_stretch *)a)->position, y = ((const ls_stretch *)b)->position;
    return (x > y) - (x < y);
}

static void find_stretches(ls_builder *b, ls_by_heads *w) {
    const ls_layout *layout = &b->image->layout;
    w->stretch = LS_NEW_ARRAY(b->image->arena, ls_stretch, layout->P * ls_layout_most_runs(layout));
    int n = 0;
    for (int p = 0; p < layout->P; p++) {
        const ls_layout_run *runs;
        const int held = ls_layout_runs(layout, p, &runs);
        int64_t from = ls_layout_start(layout, p);
        for (int i = 0; i < held; from += runs[i++].count)
            w->stretch[n++] = (ls_stretch){runs[i].first, from, runs[i].count};
    }
    qsort(w->stretch, (size_t)n, sizeof *w->stretch, by_position);
    for (int i = 0; i < n; i++) {
        ls_stretch *last = w->n > 0 ? &w->stretch[w->n - 1] : NULL;
        if (last != NULL && last->from + last->count == w->stretch[i].from)
            last->count += w->stretch[i].count;
        else
            w->stretch[w->n++] = w->stretch[i];
    }
}

static ls_parts make_parts(ls_builder *b, int P, int64_t total) {
    return (ls_parts){.total = total,
                      .start = LS_NEW_ARRAY(b->image->arena, int64_t, P),
                      .count = LS_NEW_ARRAY(b->image->arena, int64_t, P)};
}

ls_parts ls_parts_of_heads(ls_builder *b, const ls_by_heads *by, int64_t heads, int64_t each, int64_t most) {
    const int P = ls_build_team_size(b, by->team);
    ls_parts parts = make_parts(b, P, heads * each);
    for (int p = 0; p < P; p++) {
        parts.start[p] = ls_part_start(heads, P, p) * each;
        parts.count[p] = ls_part_start(heads, P, p + 1) * each - parts.start[p];
    }
    parts.most_total = most * each;
    parts.most = ls_ceil_div(most, P) * each;
    ls_parts_find_sharers(&parts, &b->image->teams[by->team]);
    return parts;
}

static ls_parts parts_of_tokens(ls_builder *b, int P) {
    const ls_layout *layout = &b->image->layout;
    ls_parts parts = make_parts(b, P, layout->S);
    for (int p = 0; p < P; p++) {
        parts.start[p] = ls_layout_start(layout, p);
        parts.count[p] = ls_layout_count(layout, p);
    }
    parts.most = ls_layout_most(layout);
    parts.most_total = layout->S;
    parts.sharers = ls_layout_is_even(layout);
    return parts;
}

/* Each token has one mark, which goes to all ranks. */
static ls_parts parts_of_marks(ls_builder *b, const ls_by_heads *w) {
    const int P = ls_build_team_size(b, w->team);
    ls_parts parts = make_parts(b, P, 1);
    for (int p = 0; p < P; p++) parts.count[p] = 1;
    parts.most = parts.most_total = 1;
    ls_parts_find_sharers(&parts, &b->image->teams[w->team]);
    return parts;
}

ls_by_heads ls_by_heads_of(ls_builder *b) {
    ls_by_heads by = {.team = ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE))};
    by.tokens = parts_of_tokens(b, ls_build_team_size(b, by.team));
    by.marks = parts_of_marks(b, &by);
    find_stretches(b, &by);
    return by;
}

ls_status ls_by_heads_fits(const ls_builder *b, const ls_node *node, const char *what, int64_t least) {
    const int P = b->image->layout.P;
    if (least >= P) return ls_halo_fits(b, node);
    return ls_error(LS_UNSUPPORTED, "op %s \"%s\", by heads: %lld %s on %d ranks, expected at least one on each",
                    node->op->name, ls_graph_tensor(b->job->graph, node->out[0])->name, (long long)least, what, P);
}

void ls_move(ls_builder *b, ls_moves *m, const char *label, ls_operand from, const ls_parts *heads, ls_operand *to) {
    if (ls_view_elements(&from.view) == 0) return;
    const ls_recut recut = {.label = label,
                            .team = m->by->team,
                            .from_dim = m->back ? 2 : 1,
                            .to_dim = m->back ? 1 : 2,
                            .from = m->back ? heads : &m->by->tokens,
                            .to = m->back ? &m->by->tokens : heads};
    m->to[m->n] = to;
    m->under_way[m->n++] = ls_all_to_all_begin(b, &recut, from);
}

void ls_end_moves(ls_builder *b, ls_moves *m) {
    for (int i = 0; i < m->n; i++) {
        const ls_operand result = ls_all_to_all_finish(b, &m->under_way[i]);
        if (m->back)
            ls_build_copy(b, result, *m->to[i]);
        else
            *m->to[i] = result;
    }
    for (int i = 0; i < m->n; i++) ls_all_to_all_settle(b, &m->under_way[i]);
}
