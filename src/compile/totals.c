/*
 * The scalars of a step, added over the ranks: loss, squared norm of the gradients, requests to stop. If sums are
 * canonical, loss and norm are added once more, exactly. The step's learning rate and clipping follow from the totals.
 */
#include "compile/pass.h"
#include "compile/redistribute/redistribute.h"

static void exact_sum(ls_builder *b, ls_operand of, bool squares, ls_operand words) {
    const ls_exact_params params = {squares};
    ls_build_kernel(b, &(ls_kernel_build){.op = "exact_sum",
                                          .kernel = LS_KERNEL_EXACT_SUM,
                                          .dtype = b->image->accumulator,
                                          .params = &params,
                                          .params_bytes = sizeof params,
                                          .n_in = 1,
                                          .in = {of},
                                          .n_out = 1,
                                          .out = {words}});
}

void ls_totals_teams(ls_builder *b) {
    const ls_axes features = ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE),
                  all[] = {LS_ALL_AXES & ~features, features};
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        const ls_team team = ls_mesh_team(&b->target->mesh, all[i]);
        if (ls_team_size(&team) > 1) (void)ls_stages_of(b, &team);
    }
}

void ls_totals_add_loss(ls_builder *b, ls_operand addend) {
    if (ls_program_reduces(b, b->row)) exact_sum(b, addend, false, ls_bound(b, LS_BIND_EXACT_LOSS));
}

/*
 * If sums are canonical: adds loss and squared norm once more, exactly; they replace those whose bits depend on the
 * ranks.
 */
static void reduce_exactly(ls_builder *b, ls_operand shard) {
    const int64_t size[] = {2, LS_EXACT_WORDS};
    const ls_operand mine = ls_build_private(b, LS_BUFFER_ACTIVATION, "exact totals", LS_F64, 2, size);
    const ls_operand all = ls_build_private(b, LS_BUFFER_ACTIVATION, "exact totals", LS_F64, 2, size);
    const ls_operand squares = ls_operand_elements(mine, LS_TOTAL_SQUARES * LS_EXACT_WORDS, LS_EXACT_WORDS);
    ls_build_copy(b, ls_bound(b, LS_BIND_EXACT_LOSS),
                  ls_operand_elements(mine, LS_TOTAL_LOSS * LS_EXACT_WORDS, LS_EXACT_WORDS));
    ls_build_fill(b, squares);
    if (shard.buffer >= 0) exact_sum(b, shard, true, squares);
    ls_all_reduce sum =
        ls_all_reduce_begin(b, ls_build_team_of(b, LS_ALL_AXES), mine, all, ls_view_elements(&all.view));
    ls_all_reduce_finish(b, &sum);
    ls_build_kernel(b, &(ls_kernel_build){.op = "exact_value",
                                          .kernel = LS_KERNEL_EXACT_VALUE,
                                          .dtype = b->image->accumulator,
                                          .n_in = 1,
                                          .in = {all},
                                          .n_out = 1,
                                          .out = {ls_operand_elements(ls_bound(b, LS_BIND_RESULT), LS_TOTAL_LOSS, 2)}});
}

static void sum_squares(ls_builder *b, ls_operand of, ls_operand to) {
    ls_build_fill(b, to);
    if (!ls_operand_is_empty(&of))
        ls_build_kernel(b, &(ls_kernel_build){.op = "sum_squares",
                                              .kernel = LS_KERNEL_SUM_SQUARES,
                                              .dtype = b->image->accumulator,
                                              .n_in = 1,
                                              .in = {of},
                                              .n_out = 1,
                                              .out = {to}});
}

static void all_reduce(ls_builder *b, ls_axes axes, ls_operand from, ls_operand to) {
    ls_all_reduce sum = ls_all_reduce_begin(b, ls_build_team_of(b, axes), from, to, ls_view_elements(&to.view));
    ls_all_reduce_finish(b, &sum);
}

/*
 * The number of the shard's elements in groups whose parameters are cut along axes of heads and features; these groups
 * come first.
 */
static int64_t cut_elements(const ls_builder *b) {
    const ls_packing *p = b->packing;
    int cut = 0;
    while (cut < p->n_trained && b->image->flats[p->groups[cut].first].cut != 0) cut++;
    return cut > 0 ? ls_groups_shard(b, 0, cut).view.size[0] : 0;
}

/*
 * Ranks along axes of heads and features have the same loss, and the same gradients of parameters that these axes do
 * not cut: both count once. The gradients of the other parameters, and requests to stop, are also added over these
 * axes.
 */
static void reduce_with_features(ls_builder *b, ls_axes features, ls_operand shard) {
    enum { WHOLE = LS_TOTALS, ALL };
    const int64_t n = ALL, two = 2, cut = shard.buffer >= 0 ? cut_elements(b) : 0;
    const ls_operand totals = ls_bound(b, LS_BIND_TOTALS), result = ls_bound(b, LS_BIND_RESULT);
    const ls_operand mine = ls_build_private(b, LS_BUFFER_ACTIVATION, "totals", LS_F64, 1, &n),
                     sums = ls_build_private(b, LS_BUFFER_ACTIVATION, "totals", LS_F64, 1, &n),
                     squares = ls_build_private(b, LS_BUFFER_ACTIVATION, "squares", LS_F64, 1, &two),
                     over_all = ls_build_private(b, LS_BUFFER_ACTIVATION, "totals", LS_F64, 1, &two);
    const ls_operand none = {.buffer = -1};
    sum_squares(b, cut > 0 ? ls_operand_slice(shard, 0, 0, cut) : none,
                ls_operand_slice(totals, 0, LS_TOTAL_SQUARES, 1));
    sum_squares(b, shard.buffer >= 0 ? ls_operand_slice(shard, 0, cut, shard.view.size[0] - cut) : none,
                ls_operand_slice(mine, 0, WHOLE, 1));
    ls_build_cast(b, ls_bound(b, LS_BIND_LOSS), ls_operand_slice(totals, 0, LS_TOTAL_LOSS, 1));
    ls_build_copy(b, totals, ls_operand_slice(mine, 0, 0, LS_TOTALS));
    all_reduce(b, LS_ALL_AXES & ~features, mine, sums);
    _Static_assert(LS_TOTAL_STOP == LS_TOTAL_SQUARES + 1, "they are reduced together");
    all_reduce(b, features, ls_operand_slice(sums, 0, LS_TOTAL_SQUARES, 2), over_all);
    ls_build_copy(b, ls_operand_slice(over_all, 0, 0, 1), ls_operand_slice(squares, 0, 0, 1));
    ls_build_copy(b, ls_operand_slice(sums, 0, WHOLE, 1), ls_operand_slice(squares, 0, 1, 1));
    ls_build_copy(b, ls_operand_slice(sums, 0, LS_TOTAL_LOSS, 1), ls_operand_slice(result, 0, LS_TOTAL_LOSS, 1));
    ls_build_add_rows(b, squares, 2, ls_operand_slice(result, 0, LS_TOTAL_SQUARES, 1));
    ls_build_copy(b, ls_operand_slice(over_all, 0, 1, 1), ls_operand_slice(result, 0, LS_TOTAL_STOP, 1));
}

/* Replaces this rank's scalars by their sums over all ranks. */
static void reduce_totals(ls_builder *b, ls_operand shard) {
    const ls_axes features = ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE);
    if (features != 0) {
        reduce_with_features(b, features, shard);
        return;
    }
    const ls_operand totals = ls_bound(b, LS_BIND_TOTALS), result = ls_bound(b, LS_BIND_RESULT);
    sum_squares(b, shard, ls_operand_slice(totals, 0, LS_TOTAL_SQUARES, 1));
    ls_build_cast(b, ls_bound(b, LS_BIND_LOSS), ls_operand_slice(totals, 0, LS_TOTAL_LOSS, 1));
    all_reduce(b, LS_ALL_AXES, totals, result);
    if (b->target->canonical) reduce_exactly(b, shard);
}

static void lower_control(ls_builder *b, const ls_program_node *node) {
    (void)node;
    ls_build_kernel(b, &(ls_kernel_build){.op = "step_control",
                                          .kernel = LS_KERNEL_STEP_CONTROL,
                                          .dtype = b->image->accumulator,
                                          .n_in = 2,
                                          .in = {ls_bound(b, LS_BIND_RESULT), ls_bound(b, LS_BIND_HYPER)},
                                          .n_out = 1,
                                          .out = {ls_bound(b, LS_BIND_CONTROL)}});
}

static ls_axes summed_axes(const ls_builder *b, int group) {
    return b->image->flats[b->packing->groups[group].first].summed;
}

/*
 * If ranks along axes of heads and features have different terms of gradients, their shards are added over these axes
 * once in a step. These ranks all have the shard of the same elements.
 */
static void lower_features(ls_builder *b, const ls_program_node *node) {
    (void)node;
    const ls_packing *p = b->packing;
    for (int first = 0, past; first < p->n_trained; first = past) {
        const ls_axes axes = summed_axes(b, first);
        for (past = first + 1; past < p->n_trained && summed_axes(b, past) == axes;) past++;
        if (axes == 0) continue;
        const ls_operand terms = ls_groups_shard(b, first, past);
        const ls_operand sum =
            ls_build_private(b, LS_BUFFER_GRADIENT, "summed over features", terms.view.dtype, 1, terms.view.size);
        all_reduce(b, axes, terms, sum);
        ls_build_copy(b, sum, terms);
    }
}

static void lower_totals(ls_builder *b, const ls_program_node *node) {
    (void)node;
    reduce_totals(b, b->packing->n_trained > 0 ? ls_bound(b, LS_BIND_SHARD) : (ls_operand){.buffer = -1});
}

const ls_lowering ls_lowering_features = {.name = "sum over features", .lower = lower_features},
                  ls_lowering_totals = {.name = "totals", .common = true, .lower = lower_totals},
                  ls_lowering_control = {.name = "control", .lower = lower_control};
