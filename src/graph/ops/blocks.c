/*
 * linear_blocks, linear_dx_blocks: the products of linear with a frozen matrix that is kept in blocks of numbers
 * (LS_NF4 ...), which are decoded during the product; decode: the numbers of such a matrix, for all other ops. Only the
 * compiler adds them (compile/kept.c), after differentiation. A row of the matrix is whole blocks, so a dimension of
 * numbers is the product of the blocks and the numbers of one block; ranks can share the blocks.
 */
#include "graph/graph_impl.h"

#include <string.h>

static void product_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    const ls_matmul_params *params = node->params;
    strcpy(text, params->transpose_b ? "*(kq),nk,n>*n" : "*k,kn,(nq)>*(nq)");
}

static void dx_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    const ls_matmul_params *params = node->params;
    strcpy(text, params->transpose_b ? "*(nq),kn>*k" : "*n,nk>*(kq)");
}

static double product_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)params;
    return 2.0 * (double)ls_view_elements(out) * (double)in[0].size[in[0].ndim - 1];
}

const ls_op ls_op_linear_blocks = {.name = "linear_blocks",
                                   .reach = LS_REACH_OWN,
                                   .kernel = LS_KERNEL_MATMUL_BLOCKS,
                                   .least_in = 2,
                                   .most_in = 3,
                                   .n_out = 1,
                                   .shape = ls_rule_same_shape,
                                   .dims_of = product_dims,
                                   .addends = 1U << 0 | 1U << 2,
                                   .flops = product_flops};

const ls_op ls_op_linear_dx_blocks = {.name = "linear_dx_blocks",
                                      .reach = LS_REACH_OWN,
                                      .kernel = LS_KERNEL_MATMUL_BLOCKS,
                                      .least_in = 2,
                                      .most_in = 2,
                                      .n_out = 1,
                                      .shape = ls_rule_same_shape,
                                      .dims_of = dx_dims,
                                      .addends = 1U << 0,
                                      .flops = product_flops};

const ls_op ls_op_decode = {.name = "decode",
                            .reach = LS_REACH_OWN,
                            .kernel = LS_KERNEL_DECODE,
                            .least_in = 1,
                            .most_in = 1,
                            .n_out = 1,
                            .shape = ls_rule_same_shape,
                            .dims = "*k>*(kq)"};

ls_node ls_decode_node(ls_tensor from, ls_tensor to) {
    return (ls_node){.op = &ls_op_decode, .n_in = 1, .in = {from}, .n_out = 1, .out = {to}, .forward = -1};
}
