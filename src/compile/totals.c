/*
 * The scalars of a step, added over the ranks: loss, squared norm of the gradients, the wish to stop; where sums are
 * canonical once more, exactly. From them the step's learning rate and clipping follow.
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

void ls_totals_add_loss(ls_builder *b, ls_operand addend) {
    if (ls_program_reduces(b, b->row)) exact_sum(b, addend, false, ls_bound(b, LS_BIND_EXACT_LOSS));
}

/* Loss and squared norm once more, where sums are canonical, in place of those whose bits depend on the ranks. */
static void reduce_exactly(ls_builder *b, ls_operand shard) {
    const int64_t size[] = {2, LS_EXACT_WORDS};
    const ls_operand mine = ls_build_private(b, LS_BUFFER_ACTIVATION, "exact totals", LS_F64, 2, size);
    const ls_operand all = ls_build_private(b, LS_BUFFER_ACTIVATION, "exact totals", LS_F64, 2, size);
    const ls_operand squares = ls_operand_elements(mine, LS_TOTAL_SQUARES * LS_EXACT_WORDS, LS_EXACT_WORDS);
    ls_build_copy(b, ls_bound(b, LS_BIND_EXACT_LOSS),
                  ls_operand_elements(mine, LS_TOTAL_LOSS * LS_EXACT_WORDS, LS_EXACT_WORDS));
    ls_build_fill(b, squares);
    if (shard.buffer >= 0) exact_sum(b, shard, true, squares);
    ls_all_reduce sum = ls_all_reduce_begin(b, ls_build_team_of(b, LS_ALL_AXES), mine, all);
    ls_all_reduce_finish(b, &sum);
    ls_build_kernel(b, &(ls_kernel_build){.op = "exact_value",
                                          .kernel = LS_KERNEL_EXACT_VALUE,
                                          .dtype = b->image->accumulator,
                                          .n_in = 1,
                                          .in = {all},
                                          .n_out = 1,
                                          .out = {ls_operand_elements(ls_bound(b, LS_BIND_RESULT), LS_TOTAL_LOSS, 2)}});
}

/* This rank's scalars to the sum over all ranks. */
static void reduce_totals(ls_builder *b, ls_operand shard) {
    const ls_operand totals = ls_bound(b, LS_BIND_TOTALS), result = ls_bound(b, LS_BIND_RESULT);
    const ls_operand squares = ls_operand_slice(totals, 0, LS_TOTAL_SQUARES, 1);
    ls_build_fill(b, squares);
    if (shard.buffer >= 0)
        ls_build_kernel(b, &(ls_kernel_build){.op = "sum_squares",
                                              .kernel = LS_KERNEL_SUM_SQUARES,
                                              .dtype = b->image->accumulator,
                                              .n_in = 1,
                                              .in = {shard},
                                              .n_out = 1,
                                              .out = {squares}});
    ls_build_cast(b, ls_bound(b, LS_BIND_LOSS), ls_operand_slice(totals, 0, LS_TOTAL_LOSS, 1));
    ls_all_reduce sum = ls_all_reduce_begin(b, ls_build_team_of(b, LS_ALL_AXES), totals, result);
    ls_all_reduce_finish(b, &sum);
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

static void lower_totals(ls_builder *b, const ls_program_node *node) {
    (void)node;
    reduce_totals(b, b->packing->n_trained > 0 ? ls_bound(b, LS_BIND_SHARD) : (ls_operand){.buffer = -1});
}

const ls_lowering ls_lowering_totals = {.name = "totals", .lower = lower_totals},
                  ls_lowering_control = {.name = "control", .lower = lower_control};
