/*
 * Ops that need neighbours along the sequence: input 0 with the tokens before and after a rank's own, which other ranks
 * may hold (redistribute/halo.c), then the op's kernel for each run of positions.
 */
#include "compile/redistribute/redistribute.h"

/* The tensor's tokens from..from+count of a run, if this rank has its own alone; of weights it has the whole. */
static ls_operand tokens_at(const ls_builder *b, ls_tensor t, ls_operand o, int64_t from, int64_t count) {
    const int dim = ls_shape_dim_of(&ls_graph_tensor(b->job->graph, t)->shape, LS_FACTOR_SEQUENCE);
    return dim >= 0 && b->sharding->tensor[t.id].cut[dim] != 0 ? ls_operand_slice(o, dim, from, count) : o;
}

/*
 * One call of the op's kernel for each run: on input 0 with its neighbours, and on the run's part of everything else.
 */
static void call_by_runs(ls_builder *b, const ls_node *node, const ls_neighbours *around, ls_operand x) {
    const ls_layout_run *runs;
    const int n_runs = ls_halo_runs(b, &runs);
    ls_operand in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
    ls_tensor of[LS_NODE_INPUTS]; /* the tensors of `in` */
    int n_in = 0;
    for (int i = 0; i < node->n_in; i++) {
        if (ls_op_writes_input(node->op, i)) continue;
        of[n_in] = node->in[i];
        in[n_in++] = i == 0 ? x : ls_lower_tensor(b, node->in[i]);
    }
    for (int i = node->n_in; i < node->op->most_in; i++) {
        of[n_in] = node->in[0];
        in[n_in++] = ls_operand_nothing(x, x.view.dtype, 3);
    }
    for (int o = 0; o < node->n_out; o++) out[o] = ls_lower_tensor(b, node->out[o]);
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < x.view.ndim; i++) size[i] = i == 1 ? ls_halo_tokens(b, around) : x.view.size[i];
    const ls_operand wide =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "tokens and neighbours", x.view.dtype, x.view.ndim, size);
    const ls_halo halo = ls_halo_begin(b, around, x, wide);
    ls_halo_finish(b, &halo);
    int64_t at = 0, from = 0;
    for (int r = 0; r < n_runs; r++) {
        const int64_t count = runs[r].count, all = count + around->before + around->after;
        ls_kernel_build call = {.op = node->op->name,
                                .kernel = node->op->kernel,
                                .dtype = b->image->dtype,
                                .params = node->params,
                                .params_bytes = node->params_bytes,
                                .n_in = n_in,
                                .n_out = node->n_out,
                                .in = {ls_operand_slice(wide, 1, from, all)}};
        for (int i = 1; i < n_in; i++) call.in[i] = tokens_at(b, of[i], in[i], at, count);
        for (int o = 0; o < node->n_out; o++) call.out[o] = tokens_at(b, node->out[o], out[o], at, count);
        call.flops = ls_lower_flops(node->op, &call);
        ls_build_kernel(b, &call);
        at += count;
        from += all;
    }
}

static void lower(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    if (!ls_halo_can(b, node)) return;
    const ls_neighbours around = node->op->neighbours(b->job->graph, node);
    const ls_operand x = ls_lower_tensor(b, node->in[0]);
    if (node->op->kernel != LS_KERNEL_NONE) {
        call_by_runs(b, node, &around, x);
        return;
    }
    const ls_halo halo = ls_halo_begin(b, &around, x, ls_lower_tensor(b, node->out[0]));
    ls_halo_finish(b, &halo);
}

/* Who holds a rank's neighbours depends on where its runs begin and end. */
static ls_axes tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding) {
    return (void)graph, (void)node, (void)sharding, ls_mesh_head_axes(mesh);
}

const ls_lowering ls_lowering_shift = {.lower = lower, .tells_apart = tells_apart, .ordered = true},
                  ls_lowering_conv = {.lower = lower, .tells_apart = tells_apart},
                  ls_lowering_conv_dw = {.lower = lower, .tells_apart = tells_apart};
