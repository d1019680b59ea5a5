/*
 * linear: y = x·Wᵀ (+ bias), and its gradient dx = dy·W, dW += dyᵀ·x, db += column sums of dy.
 * With a transposed weight: y = x·W, dx = dy·Wᵀ, dW += xᵀ·dy. All products are the kernel matmul. If the tokens are
 * cut, y and dx are cut too, and dW is a partial sum.
 */
#include "graph/graph_impl.h"

#include <string.h>

typedef struct linear_params {
    ls_matmul_params matmul; /* read by the kernel. transpose_b: the weight is [N,K], otherwise [K,N] */
    bool wide;               /* the result has type G */
} linear_params;

static int64_t last(const ls_tensor_info *t) { return t->shape.dim[t->shape.ndim - 1].size; }

static ls_status linear_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *w = ls_graph_tensor(g, node->in[1]);
    const linear_params *params = node->params;
    if (x->dtype != g->dtype || x->shape.ndim < 1) return ls_op_input_error(g, node, 0, "activations [..,K]");
    if (x->shape.dim[x->shape.ndim - 1].factor != LS_FACTOR_NONE)
        return ls_op_input_error(g, node, 0, "a last dimension that is neither batch nor sequence");
    const int K = params->matmul.transpose_b ? 1 : 0, N = 1 - K; /* dimensions of the weight */
    if (w->dtype != g->dtype || w->shape.ndim != 2 || w->shape.dim[K].size != last(x))
        return ls_op_input_error(g, node, 1, K == 1 ? "a weight [N,%lld]" : "a weight [%lld,N]", (long long)last(x));
    if (node->n_in == 3) {
        const ls_tensor_info *b = ls_graph_tensor(g, node->in[2]);
        if (b->dtype != g->dtype || b->shape.ndim != 1 || last(b) != w->shape.dim[N].size)
            return ls_op_input_error(g, node, 2, "a bias [%lld]", (long long)w->shape.dim[N].size);
    }
    out->dtype = params->wide ? g->accumulator : g->dtype;
    out->shape = x->shape;
    out->shape.dim[x->shape.ndim - 1].size = w->shape.dim[N].size;
    return ls_ok();
}

static ls_status dx_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *dy = ls_graph_tensor(g, node->in[0]), *w = ls_graph_tensor(g, node->in[1]);
    out->dtype = g->dtype;
    out->shape = dy->shape;
    const ls_matmul_params *params = node->params;
    out->shape.dim[dy->shape.ndim - 1].size = w->shape.dim[params->transpose_b ? 0 : 1].size;
    return ls_ok();
}

static void linear_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    const linear_params *params = node->params;
    strcpy(text, params->matmul.transpose_b ? "*k,nk,n>*n" : "*k,kn,n>*n");
}

static void dx_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    const ls_matmul_params *params = node->params;
    strcpy(text, params->transpose_b ? "*n,kn>*k" : "*n,nk>*k");
}

static const ls_matmul_params dw_adds = {.transpose_a = true, .accumulate = true};
static const ls_matmul_params dw_writes = {.transpose_a = true};

ls_tensor ls_linear_sum(ls_graph *g, ls_tensor a, ls_tensor b, ls_tensor sum) {
    const ls_tensor in[] = {a, b, sum};
    return ls_graph_add(g, &ls_op_linear_dw, &dw_adds, sizeof dw_adds, in, LS_COUNT(in), -1);
}

static void linear_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    ls_tensor dy = ls_gradient_out(d, 0);
    if (ls_graph_tensor(g, dy)->dtype != g->dtype) dy = ls_cast(g, dy, g->dtype);
    const bool transposed = !((const linear_params *)node->params)->matmul.transpose_b;
    if (ls_gradient_wanted(d, 0)) {
        const ls_matmul_params params = {.transpose_b = transposed};
        const ls_tensor in[] = {dy, node->in[1]};
        ls_gradient_add(d, 0, ls_graph_add(g, &ls_op_linear_dx, &params, sizeof params, in, 2, -1));
    }
    if (ls_gradient_wanted(d, 1)) {
        const ls_tensor x = node->in[0];
        ls_gradient_summed(d, 1, ls_linear_sum(g, transposed ? x : dy, transposed ? dy : x, ls_gradient_sum(d, 1)));
    }
    if (node->n_in == 3 && ls_gradient_wanted(d, 2)) {
        const ls_tensor in[] = {dy, ls_gradient_sum(d, 2)};
        ls_gradient_summed(d, 2, ls_graph_add(g, &ls_op_column_sum, NULL, 0, in, 2, -1));
    }
}

/* 2·M·N·K: the result has M·N elements; K is the dimension of A that is summed over. */
static double matmul_flops(const ls_view *in, const ls_view *out, const void *params) {
    const ls_matmul_params *p = params;
    const ls_view a = ls_view_rows(in[0]);
    return 2.0 * (double)ls_view_elements(out) * (double)(p->transpose_a ? a.size[0] : a.size[1]);
}

const ls_op ls_op_linear = {.name = "linear",
                            .reach = LS_REACH_OWN,
                            .kernel = LS_KERNEL_MATMUL,
                            .least_in = 2,
                            .most_in = 3,
                            .n_out = 1,
                            .shape = linear_shape,
                            .gradient = linear_gradient,
                            .dims_of = linear_dims,
                            .in_blocks = &ls_op_linear_blocks,
                            .addends = 1U << 0 | 1U << 2,
                            .flops = matmul_flops};

const ls_op ls_op_linear_dx = {.name = "linear_dx",
                               .reach = LS_REACH_OWN,
                               .kernel = LS_KERNEL_MATMUL,
                               .least_in = 2,
                               .most_in = 2,
                               .n_out = 1,
                               .shape = dx_shape,
                               .dims_of = dx_dims,
                               .in_blocks = &ls_op_linear_dx_blocks,
                               .addends = 1U << 0,
                               .flops = matmul_flops};

const ls_op ls_op_linear_dw = {.name = "linear_dw",
                               .reach = LS_REACH_OWN,
                               .kernel = LS_KERNEL_MATMUL,
                               .least_in = 3,
                               .most_in = 3,
                               .n_out = 1,
                               .in_place = {3},
                               .writes = &dw_writes,
                               .shape = ls_rule_sum_shape,
                               .dims = "*a,*b,ab>ab",
                               .flops = matmul_flops};

const ls_op ls_op_column_sum = {.name = "column_sum",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_COLUMN_SUM,
                                .least_in = 2,
                                .most_in = 2,
                                .n_out = 1,
                                .in_place = {2},
                                .shape = ls_rule_sum_shape,
                                .dims = "*n,n>n"};

/* transposed: the weight is [K,N]. */
static ls_tensor add_linear(ls_graph *g, ls_tensor x, ls_tensor weight, ls_tensor bias, bool transposed, bool wide) {
    const linear_params params = {.matmul = {.transpose_b = !transposed}, .wide = wide};
    const ls_tensor in[] = {x, weight, bias};
    return ls_graph_add(g, &ls_op_linear, &params, sizeof params, in, bias.id != 0 ? 3 : 2, -1);
}

ls_tensor ls_linear(ls_graph *g, ls_tensor x, ls_tensor weight, ls_tensor bias) {
    return add_linear(g, x, weight, bias, false, false);
}

ls_tensor ls_linear_transposed(ls_graph *g, ls_tensor x, ls_tensor weight, ls_tensor bias) {
    return add_linear(g, x, weight, bias, true, false);
}

ls_tensor ls_linear_wide(ls_graph *g, ls_tensor x, ls_tensor weight) {
    return add_linear(g, x, weight, LS_NO_TENSOR, false, true);
}
