/*
 * All-reduce: in each stage every member gets the addends of all members by an all-gather, and adds them in the order
 * of places. Every member adds the whole sum. This suits small sums (totals, a partial sum of one op), where latency
 * counts more than the repeated additions; large sums are reduce-scattered and then gathered (placement.c).
 */
#include "compile/redistribute/redistribute.h"

/* The operand as one row, [1, elements]. */
static ls_operand row_of(ls_operand o) {
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, 2, (int64_t[]){1, ls_view_elements(&o.view)});
}

static void begin_stage(ls_builder *b, ls_all_reduce *r, ls_operand part) {
    const ls_stage *s = &r->stages.stage[r->stage];
    const int64_t n = part.view.size[1];
    const ls_dtype dtype = part.view.dtype;
    const ls_stages direct = ls_stages_direct(b, s->team);
    r->to = r->stage + 1 == r->stages.n
                ? row_of(r->sum)
                : ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over near ranks", dtype, 2, part.view.size);
    r->slots =
        ls_build_symmetric(b, LS_BUFFER_SLOT, "reduce slots", s->ranks * r->most, dtype, 2, (int64_t[]){s->ranks, n});
    r->gather = ls_all_gather_expect(b, ls_arena_printf(b->image->arena, "reduce.%d", s->team), &direct, r->slots, 0);
    ls_all_gather_begin(b, &r->gather, part);
}

ls_all_reduce ls_all_reduce_begin(ls_builder *b, int team, ls_operand part, ls_operand sum, int64_t most) {
    const ls_team whole = b->image->teams[team];
    ls_all_reduce r = {.sum = sum, .most = most};
    LS_ASSERT(part.displacement == 0 && sum.displacement == 0);
    if (ls_team_size(&whole) == 1) {
        ls_build_copy(b, part, sum);
        return r;
    }
    r.stages = ls_stages_of(b, &whole);
    begin_stage(b, &r, row_of(part));
    return r;
}

void ls_all_reduce_finish(ls_builder *b, ls_all_reduce *r) {
    while (r->stage < r->stages.n) {
        ls_all_gather_finish(b, &r->gather);
        const int64_t n = r->to.view.size[1];
        ls_build_add_rows(b, r->slots, r->stages.stage[r->stage].ranks, ls_operand_elements(r->to, 0, n));
        if (++r->stage < r->stages.n) begin_stage(b, r, r->to);
    }
}
