/*
 * shift: moves tokens along the sequence: y[i] = x[i-n], or 0 if i-n is outside. Some of the x[i-n] are on other ranks
 * (compile/redistribute/halo.c). The gradient is the shift by -n.
 */
#include "graph/graph_impl.h"

static ls_status shift_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    if (x->shape.ndim < 2 || x->shape.dim[0].factor != LS_FACTOR_BATCH || x->shape.dim[1].factor != LS_FACTOR_SEQUENCE)
        return ls_op_input_error(g, node, 0, "[B,S,..] with the batch and the sequence first");
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

/* Beyond the sequence all tokens are 0, so moving further than its length changes nothing. */
static ls_neighbours shift_neighbours(const ls_graph *g, const ls_node *node) {
    const ls_shift_params *params = node->params;
    const int64_t S = ls_graph_tensor(g, node->in[0])->shape.dim[1].size;
    const int64_t tokens = ls_max(-S, ls_min(S, params->tokens));
    return (ls_neighbours){.before = tokens, .after = -tokens};
}

static void shift_gradient(ls_gradient *d, const ls_node *node) {
    const ls_shift_params *params = node->params;
    if (ls_gradient_wanted(d, 0))
        ls_gradient_add(d, 0, ls_shift(ls_gradient_graph(d), ls_gradient_out(d, 0), -params->tokens));
}

/* --- generation: of numbers moved to later tokens, the last tokens + 1 rows are kept --------------------------------
 */

static ls_tensor shift_prefill(ls_next *n, const ls_node *node, ls_tensor *state) {
    ls_graph *g = ls_next_graph(n);
    const ls_tensor x = ls_next_tensor(n, node->in[0]);
    const ls_tensor_info *info = ls_graph_tensor(g, x);
    const ls_shape *s = &info->shape;
    const int64_t tokens = ((const ls_shift_params *)node->params)->tokens;
    if (tokens < 0 || info->dtype != g->dtype)
        return ls_graph_fail(
            g, ls_error(LS_UNSUPPORTED,
                        "op shift (\"%s\") moves %s, and has no rule for one token more: a model with it cannot "
                        "continue a sequence token by token",
                        info->name,
                        tokens < 0 ? "later tokens to earlier places" : "numbers of another type than the graph's"));
    int64_t E = 1;
    for (int d = 2; d < s->ndim; d++) E *= s->dim[d].size;
    const ls_tensor rows = ls_reshape(g, x, 3, (int64_t[]){s->dim[0].size, s->dim[1].size, E});
    *state = ls_prefill_rows(n, rows, ls_min(tokens, s->dim[1].size) + 1);
    return ls_graph_add(g, node->op, node->params, node->params_bytes, &x, 1, -1);
}

static ls_tensor shift_next(ls_next *n, const ls_node *node) {
    ls_graph *g = ls_next_graph(n);
    const ls_tensor x = ls_next_tensor(n, node->in[0]), rows = ls_next_state(n);
    const ls_shape s = ls_graph_tensor(g, x)->shape;
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < s.ndim; d++) size[d] = s.dim[d].size;
    const int64_t row[] = {1, 1, ls_graph_tensor(g, rows)->shape.dim[2].size};
    const ls_tensor in[] = {[LS_SHIFT_NEXT_ROWS] = rows, [LS_SHIFT_NEXT_X] = ls_reshape(g, x, 3, row)};
    const ls_tensor y = ls_graph_add(g, &ls_op_shift_next, NULL, 0, in, LS_COUNT(in), -1);
    return ls_reshape(g, y, s.ndim, size);
}

static ls_status next_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    static const int of[] = {LS_SHIFT_NEXT_X, LS_SHIFT_NEXT_ROWS};
    for (int o = 0; o < 2; o++) {
        out[o].dtype = ls_graph_tensor(g, node->in[of[o]])->dtype;
        out[o].shape = ls_graph_tensor(g, node->in[of[o]])->shape;
    }
    return ls_ok();
}

const ls_op ls_op_shift = {.name = "shift",
                           .reach = LS_REACH_NEIGHBOURS,
                           .neighbours = shift_neighbours,
                           .least_in = 1,
                           .most_in = 1,
                           .n_out = 1,
                           .shape = shift_shape,
                           .gradient = shift_gradient,
                           .dims = "*>*",
                           .next = shift_next,
                           .prefill = shift_prefill};

/* For one token: the row of the token that is `tokens` before it; and the rows, with its own added at the end. */
const ls_op ls_op_shift_next = {.name = "shift_next",
                                .reach = LS_REACH_ALL,
                                .least_in = 2,
                                .most_in = 2,
                                .n_out = 2,
                                .in_place = {0, 1 + LS_SHIFT_NEXT_ROWS},
                                .shape = next_shape,
                                .dims = "ATc,ABc>ABc,ATc"};

ls_tensor ls_shift(ls_graph *g, ls_tensor x, int64_t tokens) {
    const ls_shift_params params = {.tokens = ls_max(tokens, -INT64_MAX)};
    return ls_graph_add(g, &ls_op_shift, &params, sizeof params, &x, 1, -1);
}
