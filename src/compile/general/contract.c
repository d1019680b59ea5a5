/*
 * contract and contract_sum: one call of the kernel contract on views of the node's operands. An operand without tokens
 * is the same for every token. In a sum over tokens, the tokens are one of the dimensions that are summed over.
 */
#include "compile/compile_impl.h"

enum { M, N, FIRST, SECOND, THIRD };

/* The number of tokens of an operand, all dimensions before its last three; 0: it has no tokens. */
static int64_t tokens_of(const ls_operand *x) {
    int64_t n = x->view.ndim > 3 ? 1 : 0;
    for (int d = 0; d + 3 < x->view.ndim; d++) n *= x->view.size[d];
    return n;
}

static void set(ls_operand *x, int d, int64_t size, int64_t stride) {
    x->view.size[d] = size;
    x->view.stride[d] = stride;
}

/*
 * A view with ndim dimensions: dimension d of the operand's last three becomes dimension at[d], the `count` tokens
 * dimension at[3]. All other dimensions have one element.
 */
static ls_operand placed(ls_operand x, int ndim, int64_t count, const int at[4]) {
    const ls_view is = x.view;
    const int64_t own = tokens_of(&x), row = is.size[is.ndim - 3] * is.stride[is.ndim - 3];
    x.view.ndim = ndim;
    for (int d = 0; d < ndim; d++) set(&x, d, 1, 1);
    for (int d = 0; d < 3; d++) set(&x, at[d], is.size[is.ndim - 3 + d], is.stride[is.ndim - 3 + d]);
    if (at[3] >= 0) set(&x, at[3], count, own > 0 ? row : 0);
    return x;
}

static void call_kernel(ls_builder *b, const ls_node *node, ls_kernel_build *call) {
    call->op = node->op->name;
    call->kernel = LS_KERNEL_CONTRACT;
    call->dtype = b->job->graph->dtype;
    call->params = node->params;
    call->params_bytes = sizeof(ls_contract_params);
    call->n_in = 2;
    call->n_out = 1;
    call->flops = ls_lower_flops(node->op, call);
    ls_build_kernel(b, call);
}

/* a [M,N,I,K,1], b [M,N,K,1,J], y [M,N,I,J] */
static void lower_contract(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_contract_node *p = node->params;
    const ls_operand y = ls_lower_tensor(b, node->out[0]);
    const int64_t tokens = ls_max(1, tokens_of(&y));
    ls_kernel_build call = {.in = {placed(ls_lower_tensor(b, node->in[0]), 5, tokens,
                                          p->transpose_a ? (int[]){N, SECOND, FIRST, M} : (int[]){N, FIRST, SECOND, M}),
                                   placed(ls_lower_tensor(b, node->in[1]), 5, tokens,
                                          p->transpose_b ? (int[]){N, THIRD, FIRST, M} : (int[]){N, FIRST, THIRD, M})},
                            .out = {placed(y, 4, tokens, (int[]){N, FIRST, SECOND, M})}};
    call_kernel(b, node, &call);
}

/* a [1,N,I,M,K], b [1,N,M,K,J], sum [1,N,I,J]. Summed over are M, the tokens, and K, a dimension of each token. */
static void lower_sum(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_contract_node *p = node->params;
    const ls_operand sum = ls_lower_sum(b, at->of, ls_lower_tensor(b, node->out[0]));
    const ls_operand first = ls_lower_tensor(b, node->in[0]), second = ls_lower_tensor(b, node->in[1]);
    const int64_t tokens = tokens_of(&first);
    ls_kernel_build call = {
        .in = {placed(first, 5, tokens,
                      p->transpose_a ? (int[]){N, THIRD, FIRST, SECOND} : (int[]){N, FIRST, THIRD, SECOND}),
               placed(second, 5, tokens,
                      p->transpose_b ? (int[]){N, THIRD, SECOND, FIRST} : (int[]){N, SECOND, THIRD, FIRST})},
        .out = {placed(sum, 4, 1, (int[]){N, FIRST, SECOND, -1})}};
    call_kernel(b, node, &call);
}

const ls_lowering ls_lowering_contract = {.lower = lower_contract};
const ls_lowering ls_lowering_contract_sum = {.lower = lower_sum};
