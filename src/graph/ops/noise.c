/* noise: adds uniform noise to the elements of each token, a function of its key. The gradient passes unchanged. */
#include "graph/graph_impl.h"

#include <math.h>

static ls_status noise_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_noise_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *keys = ls_graph_tensor(g, node->in[1]);
    ls_shape tokens = x->shape;
    LS_TRY(ls_rule_last(g, node, 0));
    tokens.ndim--;
    if (keys->dtype != LS_I32 || !ls_shape_equal(&keys->shape, &tokens))
        return ls_op_input_error(g, node, 1, "one i32 key for each row of \"%s\"", x->name);
    if (!(params->amplitude >= 0) || !isfinite(params->amplitude))
        return ls_error(LS_INVALID, "op noise: the amplitude is %g, expected a number of at least 0",
                        params->amplitude);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

static void noise_gradient(ls_gradient *d, const ls_node *node) {
    (void)node;
    if (ls_gradient_wanted(d, 0)) ls_gradient_add(d, 0, ls_gradient_out(d, 0));
}

static double flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in, (void)params;
    return 12.0 * (double)ls_view_elements(out);
}

const ls_op ls_op_noise = {.name = "noise",
                           .reach = LS_REACH_OWN,
                           .kernel = LS_KERNEL_NOISE,
                           .least_in = 2,
                           .most_in = 2,
                           .n_out = 1,
                           .shape = noise_shape,
                           .gradient = noise_gradient,
                           .dims = "*E,*>*E",
                           .flops = flops};

ls_tensor ls_noise(ls_graph *g, ls_tensor x, ls_tensor keys, double amplitude) {
    const ls_noise_params params = {.amplitude = amplitude};
    const ls_tensor in[] = {x, keys};
    return ls_graph_add(g, &ls_op_noise, &params, sizeof params, in, 2, -1);
}
