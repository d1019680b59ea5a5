/*
 * Rotary positions (arXiv 2104.09864): rope_table computes cosines and sines from the positions, once for all layers,
 * and rotate rotates heads by them. Both work token by token, so the sequence may be cut; positions are global.
 */
#include "graph/graph_impl.h"

#include <string.h>

typedef struct table_params {
    ls_rope_params rope; /* read by the kernel */
    int64_t D;
} table_params;

static ls_status table_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *positions = ls_graph_tensor(g, node->in[0]);
    const table_params *params = node->params;
    if (positions->dtype != LS_I32 || positions->shape.ndim >= LS_MAX_DIMS)
        return ls_op_input_error(g, node, 0, "i32 positions");
    if (params->D < 2 || params->D % 2 != 0)
        return ls_error(LS_INVALID, "op rope_table: head size %lld, expected an even number", (long long)params->D);
    out->dtype = g->accumulator;
    out->shape = positions->shape;
    out->shape.dim[out->shape.ndim++] = (ls_dim){params->D, LS_FACTOR_NONE};
    return ls_ok();
}

static ls_status rotate_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]), *table = ls_graph_tensor(g, node->in[1]);
    const int n = x->shape.ndim;
    if (n < 2 || x->dtype != g->dtype) return ls_op_input_error(g, node, 0, "heads [..,H,D]");
    bool fits = table->dtype == g->accumulator && table->shape.ndim == n - 1 &&
                table->shape.dim[n - 2].size == x->shape.dim[n - 1].size;
    for (int i = 0; fits && i < n - 2; i++) {
        fits = table->shape.dim[i].size == x->shape.dim[i].size && table->shape.dim[i].factor == x->shape.dim[i].factor;
    }
    if (!fits) return ls_op_input_error(g, node, 1, "a rope table for the tokens of \"%s\"", x->name);
    out->dtype = x->dtype;
    out->shape = x->shape;
    return ls_ok();
}

static ls_tensor add_rotate(ls_graph *g, ls_tensor x, ls_tensor table, bool inverse) {
    const ls_rotate_params params = {.inverse = inverse};
    const ls_tensor in[] = {x, table};
    return ls_graph_add(g, &ls_op_rotate, &params, sizeof params, in, 2, -1);
}

static void rotate_gradient(ls_gradient *d, const ls_node *node) {
    const ls_rotate_params *params = node->params;
    if (ls_gradient_wanted(d, 0))
        ls_gradient_add(d, 0, add_rotate(ls_gradient_graph(d), ls_gradient_out(d, 0), node->in[1], !params->inverse));
}

static double table_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in, (void)params;
    return 40.0 * (double)ls_view_elements(out); /* a rough count for a sine or cosine in f64 */
}

static double rotate_flops(const ls_view *in, const ls_view *out, const void *params) {
    (void)in, (void)params;
    return 3.0 * (double)ls_view_elements(out);
}

const ls_op ls_op_rope_table = {.name = "rope_table",
                                .reach = LS_REACH_OWN,
                                .kernel = LS_KERNEL_ROPE_TABLE,
                                .least_in = 1,
                                .most_in = 1,
                                .n_out = 1,
                                .shape = table_shape,
                                .dims = "*>*D",
                                .flops = table_flops};

const ls_op ls_op_rotate = {.name = "rotate",
                            .reach = LS_REACH_OWN,
                            .kernel = LS_KERNEL_ROTATE,
                            .least_in = 2,
                            .most_in = 2,
                            .n_out = 1,
                            .shape = rotate_shape,
                            .gradient = rotate_gradient,
                            .dims = "*hD,*D>*hD",
                            .addends = 1U << 0,
                            .flops = rotate_flops};

_Static_assert((int)LS_ROPE_PAIRS == (int)LS_ROPE_MOST_PAIRS, "of the public header too");

static ls_status rope_params(const ls_rope *rope, int64_t D, ls_rope_params *out) {
    *out = (ls_rope_params){.theta = rope->theta,
                            .factor = rope->factor,
                            .original_length = rope->original_length,
                            .length = rope->length,
                            .low_factor = rope->low_factor,
                            .high_factor = rope->high_factor,
                            .beta_fast = rope->beta_fast,
                            .beta_slow = rope->beta_slow,
                            .attention_factor = rope->attention_factor,
                            .mscale = rope->mscale,
                            .mscale_all_dim = rope->mscale_all_dim,
                            .untruncated = rope->untruncated};
    LS_TRY(ls_rope_find(rope->scaling != NULL ? rope->scaling : "default", &out->scaling));
    memcpy(out->short_factor, rope->short_factor, sizeof out->short_factor);
    memcpy(out->long_factor, rope->long_factor, sizeof out->long_factor);
    return ls_rope_check(out, D);
}

ls_tensor ls_rope_table(ls_graph *g, ls_tensor positions, int64_t D, const ls_rope *rope) {
    table_params params = {.D = D};
    if (rope == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op rope_table: the rope is NULL"));
    const ls_status status = rope_params(rope, D, &params.rope);
    if (status.code != LS_OK) return ls_graph_fail(g, status);
    return ls_graph_add(g, &ls_op_rope_table, &params, sizeof params, &positions, 1, -1);
}

ls_tensor ls_rotate(ls_graph *g, ls_tensor x, ls_tensor table) { return add_rotate(g, x, table, false); }
