/* cast: the same values in another floating-point type. */
#include "graph/graph_impl.h"

typedef struct cast_params {
    ls_dtype dtype;
} cast_params;

static ls_status cast_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const cast_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    if ((unsigned)params->dtype >= LS_DTYPES)
        return ls_error(LS_INVALID, "op cast: element type %d, expected one of ls_dtype", (int)params->dtype);
    if (x->dtype == LS_I32 || params->dtype == LS_I32) return ls_op_input_error(g, node, 0, "floating-point types");
    out->dtype = params->dtype;
    out->shape = x->shape;
    return ls_ok();
}

static void cast_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    if (ls_gradient_wanted(d, 0))
        ls_gradient_add(d, 0, ls_cast(g, ls_gradient_out(d, 0), ls_graph_tensor(g, node->in[0])->dtype));
}

const ls_op ls_op_cast = {.name = "cast",
                          .reach = LS_REACH_OWN,
                          .kernel = LS_KERNEL_CAST,
                          .kernel_by_input = true,
                          .least_in = 1,
                          .most_in = 1,
                          .n_out = 1,
                          .shape = cast_shape,
                          .gradient = cast_gradient,
                          .dims = "*>*",
                          .expression = ls_rule_no_step};

ls_node ls_cast_node(ls_arena *arena, ls_tensor from, ls_tensor to, ls_dtype dtype) {
    const cast_params params = {dtype};
    return (ls_node){.op = &ls_op_cast,
                     .params = ls_arena_copy(arena, &params, sizeof params),
                     .params_bytes = sizeof params,
                     .n_in = 1,
                     .in = {from},
                     .n_out = 1,
                     .out = {to},
                     .forward = -1};
}

ls_tensor ls_cast(ls_graph *g, ls_tensor x, ls_dtype dtype) {
    const cast_params params = {dtype};
    return ls_graph_add(g, &ls_op_cast, &params, sizeof params, &x, 1, -1);
}
