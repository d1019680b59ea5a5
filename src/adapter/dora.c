/*
 * DoRA (Liu et al., arXiv 2402.09353): the rows of W + scaling·BA are given the lengths m. Their own lengths follow
 * from
 *
 *     ‖w + s·bA‖² = ‖w‖² + Σ_r b_r (2s (A wᵀ)_r + s² (b A Aᵀ)_r)
 *
 * so the only other matrix of W's size is that of the squares of W, which are summed at once. Derivatives treat the
 * lengths as constants (section 4.3 of the paper).
 */
#include "adapter/adapter_impl.h"

/* The squared lengths of W's rows: G[to]. */
static ls_tensor squares(ls_graph *g, ls_tensor w, bool transposed) {
    const ls_map_step square = {.code = LS_MAP_MUL, .a = 0, .b = 0};
    const ls_tensor squared = ls_map(g, &w, 1, &(ls_expression){.step = &square, .n_steps = 1, .wide = 1});
    return ls_reduce_sum(g, squared, transposed ? 1U : 2U, false);
}

/* 1 / ‖W + s·BA‖ for each row: G[to]; no gradients pass through it. */
static ls_tensor one_over_lengths(ls_graph *g, const ls_dora *d) {
    const double s = d->module->scaling;
    const ls_tensor w = d->base->in[1];
    /* A Wᵀ, [r, to]; the rows of A take the place of tokens */
    const ls_tensor across =
        ls_graph_add(g, d->base->op, d->base->params, d->base->params_bytes, (ls_tensor[]){d->a, w}, 2, -1);
    const ls_tensor within = ls_linear(g, d->b, ls_linear(g, d->a, d->a, LS_NO_TENSOR), LS_NO_TENSOR); /* B A Aᵀ */
    const ls_tensor turned[] = {across, ls_permute_dims(g, within, (int[]){1, 0}),
                                ls_permute_dims(g, d->b, (int[]){1, 0})};
    const ls_map_step steps[] = {{.code = LS_MAP_NUMBER, .number = 2 * s}, {.code = LS_MAP_MUL, .a = 0, .b = 3},
                                 {.code = LS_MAP_NUMBER, .number = s * s}, {.code = LS_MAP_MUL, .a = 1, .b = 5},
                                 {.code = LS_MAP_ADD, .a = 4, .b = 6},     {.code = LS_MAP_MUL, .a = 2, .b = 7}};
    const ls_tensor terms =
        ls_map(g, turned, 3, &(ls_expression){.step = steps, .n_steps = LS_COUNT(steps), .wide = 1});
    const ls_tensor change = ls_reduce_sum(g, terms, 1U, false);
    const ls_map_step lengths[] = {{.code = LS_MAP_ADD, .a = 0, .b = 1}, {.code = LS_MAP_RSQRT, .a = 2}};
    const ls_tensor one_over =
        ls_named(g,
                 ls_map(g, (ls_tensor[]){squares(g, w, d->module->transposed), change}, 2,
                        &(ls_expression){.step = lengths, .n_steps = LS_COUNT(lengths), .wide = 1}),
                 "%s.one_over_norm", d->module->name);
    if (one_over.id != 0) g->tensors[one_over.id].constant = true;
    return one_over;
}

/*
 * A single expression, so that the gradient of m is a sum over tokens that is added directly to its accumulator; a run
 * of tiles then need not end there.
 */
ls_tensor ls_dora_add(ls_graph *g, const ls_dora *d) {
    const bool biased = d->bias.id != 0;
    const int n = biased ? 5 : 4;
    const ls_tensor in[] = {d->product, d->low, d->magnitude, one_over_lengths(g, d), d->bias};
    const ls_map_step steps[] = {{.code = LS_MAP_NUMBER, .number = d->module->scaling},
                                 {.code = LS_MAP_MUL, .a = 1, .b = n},
                                 {.code = LS_MAP_ADD, .a = 0, .b = n + 1},
                                 {.code = LS_MAP_MUL, .a = 2, .b = 3},
                                 {.code = LS_MAP_MUL, .a = n + 2, .b = n + 3},
                                 {.code = LS_MAP_ADD, .a = n + 4, .b = 4}};
    if (g->status.code != LS_OK) return LS_NO_TENSOR;
    const bool wide = ls_graph_tensor(g, d->product)->dtype != g->dtype;
    return ls_map(g, in, n, &(ls_expression){.step = steps, .n_steps = biased ? 6 : 5, .wide = wide ? 1 : 0});
}
