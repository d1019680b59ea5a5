/*
 * The linear recurrence over ranks: each run of a rank's positions is an affine map of the state; the scan finds the
 * state from which each run begins (redistribute/scan.c); then one call of the kernel for each run computes the
 * results. A state has one number for each element, or a few numbers that matrices mix.
 */
#include "compile/redistribute/redistribute.h"

static void follow(ls_builder *b, const void *context, ls_operand maps, bool reverse, ls_operand state) {
    (void)context;
    const ls_recurrence_params params = {.backwards = reverse};
    const ls_view *v = &state.view;
    ls_build_kernel(b, &(ls_kernel_build){
                           .op = "recurrence_follow",
                           .kernel = LS_KERNEL_RECURRENCE_FOLLOW,
                           .dtype = b->image->dtype,
                           .params = &params,
                           .params_bytes = sizeof params,
                           .flops = (double)ls_view_elements(&maps.view),
                           .n_in = 1,
                           .in = {maps},
                           .n_out = 1,
                           .out = {ls_operand_dense(state.buffer, state.offset, v->dtype, 3, &v->size[1])},
                       });
}

/*
 * A tensor without dimensions of states, [B,n,E], with these dimensions of size 1: a gate [B,n,1,1,E], an x or h
 * [B,n,1,E].
 */
static ls_operand with_states(ls_operand o, int ndim) {
    ls_view *v = &o.view;
    const int64_t E = v->size[v->ndim - 1], stride = v->stride[v->ndim - 1];
    for (int d = v->ndim - 1; d < ndim - 1; d++) {
        v->size[d] = 1;
        v->stride[d] = E;
    }
    v->size[ndim - 1] = E;
    v->stride[ndim - 1] = stride;
    v->ndim = ndim;
    return o;
}

static const ls_recurrence_params *kernel_params(const ls_node *node) {
    return &((const ls_recurrence_node *)node->params)->kernel;
}

/* A call of one of the node's two kernels on tokens from .. from + count - 1 of its inputs. */
static ls_kernel_build call_of(const ls_builder *b, const ls_node *node, ls_kernel_id kernel, const ls_operand in[2],
                               int64_t from, int64_t count) {
    const ls_operand first = ls_operand_slice(in[0], 1, from, count), second = ls_operand_slice(in[1], 1, from, count);
    return (ls_kernel_build){.op = ls_contracts[kernel].name,
                             .kernel = kernel,
                             .dtype = b->image->dtype,
                             .params = kernel_params(node),
                             .params_bytes = sizeof(ls_recurrence_params),
                             .flops = 2.0 * (double)ls_view_elements(&first.view),
                             .n_in = 2,
                             .in = {first, second},
                             .n_out = 1};
}

static ls_operand make(ls_builder *b, const char *name, int ndim, const int64_t *size) {
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, b->image->accumulator, ndim, size);
}

/*
 * Exchanges the maps of runs and applies them: `states` gets the state from which each of this rank's runs begins.
 * Returns the maps of this rank's runs.
 */
static ls_operand scan(ls_builder *b, const ls_node *node, const ls_operand in[2], ls_operand states) {
    const ls_view *v = &states.view;
    const int64_t K = v->size[2];
    const ls_operand maps = make(b, "maps", 5, (int64_t[]){v->size[0], K + 1, v->size[1], K, v->size[3]});
    const ls_layout_run *runs;
    const int n = ls_my_runs(b, &runs);
    int64_t from = 0;
    for (int i = 0; i < v->size[0]; i++) {
        const ls_operand map = ls_operand_slice(maps, 0, i, 1);
        if (i >= n) {
            ls_build_fill(b, map);
            continue;
        }
        ls_kernel_build call = call_of(b, node, LS_KERNEL_RECURRENCE_MAP, in, from, runs[i].count);
        call.out[0] = ls_operand_dense(map.buffer, map.offset, map.view.dtype, 4, &map.view.size[1]);
        ls_build_kernel(b, &call);
        from += runs[i].count;
    }
    ls_scan s = ls_scan_begin(b, kernel_params(node)->backwards, maps);
    ls_scan_finish(b, &s, follow, NULL, states);
    return maps;
}

/* The state after the sequence, on the rank that has the end of the sequence; zeros on other ranks. */
static void keep_last(ls_builder *b, const ls_node *node, ls_operand maps, ls_operand states) {
    const ls_operand last = ls_lower_tensor(b, node->out[LS_RECURRENCE_LAST]);
    const ls_layout_run *runs;
    const int n = ls_my_runs(b, &runs);
    ls_build_fill(b, last);
    for (int i = 0; i < n; i++) {
        if (runs[i].first + runs[i].count != b->image->layout.S) continue;
        const ls_operand state = ls_operand_slice(states, 0, i, 1);
        ls_build_copy(b, ls_operand_dense(state.buffer, state.offset, state.view.dtype, 3, &state.view.size[1]), last);
        follow(b, NULL, ls_operand_slice(maps, 0, i, 1), false,
               ls_operand_dense(last.buffer, last.offset, last.view.dtype, 4,
                                (int64_t[]){1, last.view.size[0], last.view.size[1], last.view.size[2]}));
    }
}

static void lower(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    if (!ls_halo_can(b, node)) return;
    const ls_operand in[2] = {with_states(ls_lower_tensor(b, node->in[0]), 5),
                              with_states(ls_lower_tensor(b, node->in[1]), 4)};
    const ls_operand out = with_states(ls_lower_tensor(b, node->out[0]), 4);
    const ls_view *v = &out.view;
    const ls_operand states = make(b, "states", 4, (int64_t[]){ls_most_runs(b), v->size[0], v->size[2], v->size[3]});
    const ls_operand maps = scan(b, node, in, states);
    if (((const ls_recurrence_node *)node->params)->has_last) keep_last(b, node, maps, states);
    const ls_layout_run *runs;
    const int n_runs = ls_my_runs(b, &runs);
    int64_t from = 0;
    for (int i = 0; i < n_runs; i++) {
        const ls_operand state = ls_operand_slice(states, 0, i, 1);
        ls_kernel_build call = call_of(b, node, LS_KERNEL_RECURRENCE, in, from, runs[i].count);
        call.in[call.n_in++] = ls_operand_dense(state.buffer, state.offset, state.view.dtype, 3, &state.view.size[1]);
        call.out[0] = ls_operand_slice(out, 1, from, runs[i].count);
        ls_build_kernel(b, &call);
        from += runs[i].count;
    }
}

/* One more token, which all ranks have: its result, rounded, and the new state in the type of states. */
static void lower_next(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand in[2] = {with_states(ls_lower_tensor(b, node->in[LS_RECURRENCE_NEXT_GATE]), 5),
                              with_states(ls_lower_tensor(b, node->in[LS_RECURRENCE_NEXT_X]), 4)};
    const ls_operand state = ls_lower_kept(b, node, LS_RECURRENCE_NEXT_STATE);
    const ls_view *v = &state.view;
    const ls_operand map = make(b, "map", 5, (int64_t[]){1, v->size[1] + 1, v->size[0], v->size[1], v->size[2]});
    ls_kernel_build call = call_of(b, node, LS_KERNEL_RECURRENCE, in, 0, 1);
    call.in[call.n_in++] = state;
    call.out[0] = with_states(ls_lower_tensor(b, node->out[0]), 4);
    ls_build_kernel(b, &call);
    call = call_of(b, node, LS_KERNEL_RECURRENCE_MAP, in, 0, 1);
    call.out[0] = ls_operand_dense(map.buffer, map.offset, map.view.dtype, 4, &map.view.size[1]);
    ls_build_kernel(b, &call);
    follow(
        b, NULL, map, false,
        ls_operand_dense(state.buffer, state.offset, v->dtype, 4, (int64_t[]){1, v->size[0], v->size[1], v->size[2]}));
}

/* Which runs come before a rank's runs depends on where these begin. */
static ls_axes tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding) {
    return (void)graph, (void)node, (void)sharding, ls_mesh_head_axes(mesh);
}

const ls_lowering ls_lowering_recurrence = {.lower = lower, .tells_apart = tells_apart, .ordered = true},
                  ls_lowering_recurrence_back = {.lower = lower, .tells_apart = tells_apart, .ordered = true},
                  ls_lowering_recurrence_next = {.lower = lower_next};
