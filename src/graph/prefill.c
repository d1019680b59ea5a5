/*
 * Shared by the rules for the prefill of states (decode.c). After the given tokens there are places for the tokens to
 * come, which must not influence a state.
 */
#include "graph/graph_impl.h"

ls_tensor ls_prefill_behind(ls_next *n, int ndim) {
    const ls_tensor behind = ls_next_behind(n);
    const ls_shape *s = &ls_graph_tensor(ls_next_graph(n), behind)->shape;
    int64_t size[LS_MAX_DIMS] = {s->dim[0].size, s->dim[1].size};
    for (int d = 2; d < ndim; d++) size[d] = 1;
    return ls_reshape(ls_next_graph(n), behind, ndim, size);
}

ls_tensor ls_prefill_kept(ls_graph *g, ls_tensor x, ls_dtype dtype) {
    return ls_map(g, &x, 1, &(ls_expression){.wide = dtype != g->dtype});
}

/* [1,S,1]: 1 for the given token that is `from_end` tokens before the last, 0 elsewhere. */
static ls_tensor is_last(ls_next *n, int64_t from_end) {
    const ls_map_step step[] = {{LS_MAP_NUMBER, 0, 0, 0, -1 - (double)from_end}, {LS_MAP_EQ, 0, 1, 0, 0}};
    const ls_tensor behind = ls_prefill_behind(n, 3);
    return ls_map(ls_next_graph(n), &behind, 1, &(ls_expression){.step = step, .n_steps = LS_COUNT(step)});
}

ls_tensor ls_prefill_given(ls_next *n, ls_tensor x) {
    static const ls_map_step step[] = {
        {LS_MAP_NUMBER, 0, 0, 0, 0}, {LS_MAP_LT, 0, 2, 0, 0}, {LS_MAP_WHERE, 3, 1, 2, 0}};
    ls_graph *g = ls_next_graph(n);
    const bool wide = ls_graph_tensor(g, x)->dtype != g->dtype;
    const ls_tensor in[] = {ls_prefill_behind(n, ls_graph_tensor(g, x)->shape.ndim), x};
    return ls_map(g, in, 2, &(ls_expression){.step = step, .n_steps = LS_COUNT(step), .wide = wide});
}

ls_tensor ls_prefill_rows(ls_next *n, ls_tensor x, int64_t width) {
    ls_graph *g = ls_next_graph(n);
    const int64_t E = ls_graph_tensor(g, x)->shape.dim[2].size, size[] = {1, width, E};
    const ls_shape rows = {2, {{width, LS_FACTOR_NONE}, {E, LS_FACTOR_NONE}}};
    ls_tensor *last = LS_NEW_ARRAY(g->arena, ls_tensor, width);
    for (int64_t i = 0; i < width; i++) last[i] = is_last(n, width - 1 - i);
    const ls_tensor sum =
        ls_linear_sum(g, ls_concat(g, 2, (int)width, last), ls_prefill_given(n, x), ls_zeros(g, &rows));
    return ls_prefill_kept(g, ls_reshape(g, sum, 3, size), g->dtype);
}
