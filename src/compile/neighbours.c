/*
 * Ops that need neighbours along the sequence. Input 0 is extended by the tokens before and after the rank's own, which
 * other ranks may hold (redistribute/halo.c); then the op's kernel is called for each run of positions.
 */
#include "compile/redistribute/redistribute.h"

/* Tokens from .. from + count - 1 of the tensor, if it has tokens; a weight is returned whole. */
static ls_operand tokens_at(const ls_builder *b, ls_tensor t, ls_operand o, int64_t from, int64_t count) {
    const int dim = ls_shape_dim_of(&ls_graph_tensor(b->job->graph, t)->shape, LS_FACTOR_SEQUENCE);
    const bool has = dim >= 0 && (b->image->layout.P == 1 || b->sharding->tensor[t.id].cut[dim] != 0);
    return has ? ls_operand_slice(o, dim, from, count) : o;
}

/*
 * A sum over tokens to which the calls add. If sums are canonical, runs are chunks, and the sum is made along a tree.
 */
typedef struct sum_of_runs {
    ls_operand made;
    ls_chunk_sum tree;
} sum_of_runs;

static sum_of_runs begin_sum(ls_builder *b, ls_operand sum, int n_runs) {
    const ls_operand made =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over tokens", sum.view.dtype, sum.view.ndim, sum.view.size);
    return (sum_of_runs){made, ls_chunk_sum_begin(b, "sum over some chunks", made, 0, n_runs)};
}

/* The operand to which the run's call adds. */
static ls_operand addend_of_run(ls_builder *b, const sum_of_runs *s, int run) {
    const ls_operand addend = ls_chunk_sum_addend(&s->tree, run);
    ls_build_fill(b, addend);
    return addend;
}

/* Calls the op's kernel once for each run: on input 0 with its neighbours, and on the run's part of everything else. */
static void call_by_runs(ls_builder *b, const ls_node *node, const ls_neighbours *around, ls_operand x) {
    const ls_layout_run *runs;
    const int n_runs = ls_my_runs(b, &runs);
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
    sum_of_runs sum[LS_NODE_OUTPUTS];
    bool is_sum[LS_NODE_OUTPUTS];
    for (int o = 0; o < node->n_out; o++) {
        out[o] = ls_lower_tensor(b, node->out[o]);
        is_sum[o] = b->target->canonical && node->op->in_place[o] > 0;
        if (is_sum[o]) sum[o] = begin_sum(b, out[o], n_runs);
    }
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
        for (int o = 0; o < node->n_out; o++)
            call.out[o] = is_sum[o] ? addend_of_run(b, &sum[o], r) : tokens_at(b, node->out[o], out[o], at, count);
        call.flops = ls_lower_flops(node->op, &call);
        ls_build_kernel(b, &call);
        for (int o = 0; o < node->n_out; o++)
            if (is_sum[o]) ls_chunk_sum_add(b, &sum[o].tree, r, 0, call.out[o].view.size[0]);
        at += count;
        from += all;
    }
    for (int o = 0; o < node->n_out; o++)
        if (is_sum[o]) ls_build_accumulate(b, sum[o].made, out[o]);
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

/* Which ranks hold a rank's neighbours depends on where its runs begin and end. */
static ls_axes tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding) {
    return (void)graph, (void)node, (void)sharding, ls_mesh_head_axes(mesh);
}

const ls_lowering ls_lowering_shift = {.lower = lower, .tells_apart = tells_apart, .ordered = true},
                  ls_lowering_conv = {.lower = lower, .tells_apart = tells_apart, .ordered = true},
                  ls_lowering_conv_silu_grad = {.lower = lower, .tells_apart = tells_apart, .ordered = true},
                  ls_lowering_conv_dw = {.lower = lower, .tells_apart = tells_apart, .ordered = true};
