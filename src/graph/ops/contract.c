/*
 * contract: y[n,i,j] = the sum over k of a[n,i,k] b[n,k,j], for each token; an operand without tokens is the same for
 * all tokens. contract_sum adds such products of all tokens to a sum: the gradient of an operand without tokens.
 * equation.c reduces equations with any letters to these ops.
 */
#include "graph/ops/contract_impl.h"

/* The number of dimensions of tokens, which come first. */
static int tokens_of(const ls_shape *s) {
    int n = 0;
    while (n < s->ndim && s->dim[n].factor != LS_FACTOR_NONE) n++;
    return n;
}

static ls_status check_operand(const ls_graph *g, const ls_node *node, int i, int tokens) {
    const ls_tensor_info *t = ls_graph_tensor(g, node->in[i]);
    if (t->dtype != g->dtype || t->shape.ndim != tokens + 3)
        return ls_op_input_error(g, node, i, "%s of three dimensions beside those of tokens", ls_dtype_name(g->dtype));
    return ls_ok();
}

/* Finds the sizes of n, i, j and k; a has n, i and k, and b has n, k and j. */
static ls_status contract_sizes(const ls_graph *g, const ls_node *node, int64_t size[4]) {
    const ls_contract_node *p = node->params;
    const ls_shape *a = &ls_graph_tensor(g, node->in[0])->shape, *b = &ls_graph_tensor(g, node->in[1])->shape;
    const int of_a = tokens_of(a), of_b = tokens_of(b);
    LS_TRY(check_operand(g, node, 0, of_a));
    LS_TRY(check_operand(g, node, 1, of_b));
    for (int d = 0; d < of_a && d < of_b; d++)
        if (a->dim[d].size != b->dim[d].size || a->dim[d].factor != b->dim[d].factor)
            return ls_op_input_error(g, node, 1, "the tokens of \"%s\"", ls_graph_tensor(g, node->in[0])->name);
    const ls_dim *x = a->dim + of_a, *y = b->dim + of_b;
    size[0] = x[0].size;
    size[1] = x[p->transpose_a ? 2 : 1].size;
    size[2] = y[p->transpose_b ? 1 : 2].size;
    size[3] = x[p->transpose_a ? 1 : 2].size;
    if (y[0].size != size[0] || y[p->transpose_b ? 2 : 1].size != size[3])
        return ls_op_input_error(g, node, 1, "%lld products over %lld elements", (long long)size[0],
                                 (long long)size[3]);
    return ls_ok();
}

static ls_status contract_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    int64_t size[4];
    LS_TRY(contract_sizes(g, node, size));
    const ls_shape *a = &ls_graph_tensor(g, node->in[0])->shape, *b = &ls_graph_tensor(g, node->in[1])->shape;
    const ls_shape *of = tokens_of(a) > 0 ? a : b;
    out->dtype = g->dtype;
    out->shape = *of;
    out->shape.ndim = tokens_of(of);
    for (int i = 0; i < 3; i++) out->shape.dim[out->shape.ndim++] = (ls_dim){size[i], LS_FACTOR_NONE};
    return ls_ok();
}

static ls_status sum_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    int64_t size[4];
    LS_TRY(contract_sizes(g, node, size));
    return ls_rule_sum_shape(g, node, out);
}

/* Writes the dimensions of one operand, as in "abnik,nkj>abnij" or, for a sum, "abnik,abnkj,nij>nij". */
static char *write_operand(const ls_graph *g, ls_tensor t, const char *letters, char *text) {
    const int tokens = tokens_of(&ls_graph_tensor(g, t)->shape);
    for (int d = 0; d < tokens; d++) *text++ = (char)('a' + d);
    for (const char *c = letters; *c != 0; c++) *text++ = *c;
    return text;
}

static void contract_dims(const ls_graph *g, const ls_node *node, char *text) {
    const ls_contract_node *p = node->params;
    text = write_operand(g, node->in[0], p->transpose_a ? "nki" : "nik", text);
    *text++ = ',';
    text = write_operand(g, node->in[1], p->transpose_b ? "njk" : "nkj", text);
    if (node->n_in == 3) {
        *text++ = ',';
        text = write_operand(g, node->in[2], "nij", text);
    }
    *text++ = '>';
    *write_operand(g, node->out[0], "nij", text) = 0;
}

ls_tensor ls_contract_normal(ls_graph *g, ls_tensor a, bool transpose_a, ls_tensor b, bool transpose_b) {
    const ls_contract_node params = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    const ls_tensor in[] = {a, b};
    return ls_graph_add(g, &ls_op_contract, &params, sizeof params, in, 2, -1);
}

/* The gradient of operand i is the product of p and q, summed over the tokens if the operand has none. */
static void add_gradient(ls_gradient *d, const ls_node *node, int i, ls_tensor p, bool transpose_p, ls_tensor q,
                         bool transpose_q) {
    ls_graph *g = ls_gradient_graph(d);
    const bool has = tokens_of(&ls_graph_tensor(g, node->in[i])->shape) > 0;
    if (has || tokens_of(&ls_graph_tensor(g, node->out[0])->shape) == 0) {
        ls_gradient_add(d, i, ls_contract_normal(g, p, transpose_p, q, transpose_q));
        return;
    }
    const ls_contract_node params = {{.accumulate = true}, transpose_p, transpose_q};
    const ls_tensor in[] = {p, q, ls_gradient_sum(d, i)};
    ls_gradient_summed(d, i, ls_graph_add(g, &ls_op_contract_sum, &params, sizeof params, in, 3, -1));
}

/* dA = dY Bᵀ and dB = Aᵀ dY, in the layouts of the operands. */
static void contract_gradient(ls_gradient *d, const ls_node *node) {
    const ls_contract_node *p = node->params;
    const ls_tensor a = node->in[0], b = node->in[1], dy = ls_gradient_out(d, 0);
    const bool ta = p->transpose_a, tb = p->transpose_b;
    if (ls_gradient_wanted(d, 0))
        ta ? add_gradient(d, node, 0, b, tb, dy, true) : add_gradient(d, node, 0, dy, false, b, !tb);
    if (ls_gradient_wanted(d, 1))
        tb ? add_gradient(d, node, 1, dy, true, a, ta) : add_gradient(d, node, 1, a, !ta, dy, false);
}

/*
 * The tensor of the new token, as three dimensions: contract_next multiplies these as if they had no tokens, and then
 * restores the dimensions of the token in the result.
 */
static ls_tensor matrices_of(ls_next *n, ls_tensor t) {
    const ls_tensor one = ls_next_tensor(n, t);
    const ls_shape *s = &ls_graph_tensor(ls_next_graph(n), one)->shape;
    const int first = s->ndim - 3;
    return first == 0 ? one
                      : ls_reshape(ls_next_graph(n), one, 3,
                                   (int64_t[]){s->dim[first].size, s->dim[first + 1].size, s->dim[first + 2].size});
}

static ls_tensor contract_next(ls_next *n, const ls_node *node) {
    const ls_contract_node *p = node->params;
    const ls_shape shape = ls_next_shape(n, node->out[0]);
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < shape.ndim; d++) size[d] = shape.dim[d].size;
    const ls_tensor y = ls_contract_normal(ls_next_graph(n), matrices_of(n, node->in[0]), p->transpose_a,
                                           matrices_of(n, node->in[1]), p->transpose_b);
    return ls_reshape(ls_next_graph(n), y, shape.ndim, size);
}

/* Two operations for each pair. The kernel's operands are a [M,N,I,K,L] and b [M,N,K,L,J]. */
static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)out, (void)params;
    return 2.0 * (double)ls_view_elements(&in[0]) * (double)in[1].size[in[1].ndim - 1];
}

const ls_op ls_op_contract = {.name = "contract",
                              .reach = LS_REACH_OWN,
                              .kernel = LS_KERNEL_CONTRACT,
                              .least_in = 2,
                              .most_in = 2,
                              .n_out = 1,
                              .shape = contract_shape,
                              .gradient = contract_gradient,
                              .dims_of = contract_dims,
                              .addends = 1U << 0,
                              .flops = flops,
                              .next = contract_next};

const ls_op ls_op_contract_sum = {.name = "contract_sum",
                                  .reach = LS_REACH_OWN,
                                  .kernel = LS_KERNEL_CONTRACT,
                                  .least_in = 3,
                                  .most_in = 3,
                                  .n_out = 1,
                                  .in_place = {3},
                                  .shape = sum_shape,
                                  .dims_of = contract_dims,
                                  .flops = flops};
