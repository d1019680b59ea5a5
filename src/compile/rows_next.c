/*
 * A convolution and a shift for one more token: the kept rows of the last tokens move up by one, and the new token's
 * row is put after them.
 */
#include "compile/compile_impl.h"

static ls_operand rows_of(ls_operand rows, int64_t first, int64_t count) {
    return ls_operand_slice(rows, 1, first, count);
}

static void move_up(ls_builder *b, ls_operand rows) {
    const int64_t size[] = {rows.view.size[0], rows.view.size[1] - 1, rows.view.size[2]};
    if (size[1] == 0) return;
    const ls_operand later = ls_build_private(b, LS_BUFFER_ACTIVATION, "later rows", rows.view.dtype, 3, size);
    ls_build_copy(b, rows_of(rows, 1, size[1]), later);
    ls_build_copy(b, later, rows_of(rows, 0, size[1]));
}

static void add_row(ls_builder *b, ls_operand rows, ls_operand x) {
    move_up(b, rows);
    ls_build_copy(b, x, rows_of(rows, rows.view.size[1] - 1, 1));
}

static void lower_shift(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand rows = ls_lower_kept(b, node, LS_SHIFT_NEXT_ROWS);
    add_row(b, rows, ls_lower_tensor(b, node->in[LS_SHIFT_NEXT_X]));
    ls_build_copy(b, rows_of(rows, 0, 1), ls_lower_tensor(b, node->out[0]));
}

static void lower_conv(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand rows = ls_lower_kept(b, node, LS_CONV_NEXT_ROWS), y = ls_lower_tensor(b, node->out[0]);
    add_row(b, rows, ls_lower_tensor(b, node->in[LS_CONV_NEXT_X]));
    ls_build_kernel(b, &(ls_kernel_build){.op = node->op->name,
                                          .kernel = LS_KERNEL_CONV,
                                          .dtype = b->image->dtype,
                                          .params = node->params,
                                          .params_bytes = node->params_bytes,
                                          .flops = 2.0 * (double)ls_view_elements(&rows.view),
                                          .n_in = 3,
                                          .in = {rows, ls_lower_tensor(b, node->in[LS_CONV_NEXT_WEIGHT]),
                                                 ls_operand_nothing(y, y.view.dtype, 3)},
                                          .n_out = 1,
                                          .out = {y}});
}

const ls_lowering ls_lowering_conv_next = {.lower = lower_conv}, ls_lowering_shift_next = {.lower = lower_shift};
