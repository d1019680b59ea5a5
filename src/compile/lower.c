/* Nodes to instructions: one kernel call per node, but for ops that have a lowering of their own. */
#include "compile/redistribute/redistribute.h"

#include <string.h>

ls_indices ls_indices_of(const ls_builder *b, const ls_dim *dim, ls_axes cut, int rank) {
    const ls_mesh *mesh = &b->target->mesh;
    const int parts = ls_mesh_size(mesh, cut), part = ls_mesh_index(mesh, cut, rank);
    if (cut != 0 && dim->factor == LS_FACTOR_SEQUENCE)
        return (ls_indices){ls_layout_start(&b->image->layout, part), ls_layout_count(&b->image->layout, part)};
    const int64_t start = ls_part_start(dim->size, parts, part);
    return (ls_indices){start, ls_part_start(dim->size, parts, part + 1) - start};
}

void ls_placements_size(const ls_builder *b, const ls_shape *shape, const ls_placements *spread,
                        int64_t size[LS_MAX_DIMS]) {
    for (int i = 0; i < shape->ndim; i++)
        size[i] = ls_indices_of(b, &shape->dim[i], spread->cut[i], b->target->rank).count;
}

void ls_local_size(const ls_builder *b, ls_tensor t, int64_t size[LS_MAX_DIMS]) {
    ls_placements_size(b, &ls_graph_tensor(b->job->graph, t)->shape, &b->sharding->tensor[t.id], size);
}

/* Tensor t as it lies at its storage's place. */
static ls_operand at_storage(const ls_builder *b, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    const ls_operand base = b->tensor[info->storage.id];
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, t, size);
    return ls_operand_dense(base.buffer, base.offset, info->dtype, info->shape.ndim, size);
}

/* Elements of a tensor on the rank that has most of it. */
static int64_t most_elements(const ls_builder *b, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    int64_t size[LS_MAX_DIMS], n = 1;
    ls_local_size(b, t, size);
    for (int i = 0; i < info->shape.ndim; i++)
        n *= info->shape.dim[i].factor == LS_FACTOR_SEQUENCE ? ls_max(size[i], ls_layout_most(&b->image->layout))
                                                             : size[i];
    return n;
}

ls_operand ls_lower_place(ls_builder *b, ls_buffer_kind kind, ls_tensor storage) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, storage);
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, storage, size);
    if (b->shared[storage.id])
        return ls_build_symmetric(b, kind, info->name, most_elements(b, storage), info->dtype, info->shape.ndim, size);
    if (ls_tile_is_inner(b, storage)) {
        size[0] = ls_tile_rows(b);
        size[1] = 1;
    }
    return ls_build_private(b, kind, info->name, info->dtype, info->shape.ndim, size);
}

ls_operand ls_lower_tensor(ls_builder *b, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    const ls_tensor storage = info->storage;
    if (b->tensor[storage.id].buffer < 0) {
        const bool sum = ls_graph_tensor(b->job->graph, storage)->role == LS_ROLE_ACCUMULATOR;
        b->tensor[storage.id] = sum && b->reduction != NULL ? ls_reduction_place(b, storage)
                                                            : ls_lower_place(b, LS_BUFFER_ACTIVATION, storage);
    }
    const ls_operand whole = at_storage(b, t);
    return b->run != NULL ? ls_tile_view(b, t, whole) : whole;
}

void ls_lower_bind(ls_builder *b, ls_tensor t, ls_operand operand) {
    const ls_tensor storage = ls_graph_tensor(b->job->graph, t)->storage;
    LS_ASSERT(storage.id == t.id);
    if (b->tensor[t.id].buffer >= 0)
        ls_build_copy(b, operand, at_storage(b, t)); /* the host reads it: it has a place of its own */
    else
        b->tensor[t.id] = operand;
}

bool ls_lower_adds_here(const ls_builder *b, int n) {
    return ls_mesh_index(&b->target->mesh, b->sharding->first_only[n], b->target->rank) == 0;
}

/*
 * Where output o is the gradient sum of a parameter and nothing has been added to it yet: whether this node's kernel
 * may write what it would add. If it cannot, the sum is zeroed first.
 */
static bool writes_sum(ls_builder *b, int n, int o) {
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_tensor sum = ls_graph_tensor(b->job->graph, node->out[o])->storage;
    if (b->begun == NULL || node->op->in_place[o] == 0 || b->flat_of[sum.id] < 0) return false;
    bool *begun = &b->begun[b->flat_of[sum.id]];
    if (*begun) return false;
    *begun = true;
    if (node->op->writes != NULL && ls_lower_adds_here(b, n)) return true;
    ls_build_fill(b, ls_lower_tensor(b, sum));
    return false;
}

double ls_lower_flops(const ls_op *op, const ls_kernel_build *call) {
    ls_view in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
    for (int i = 0; i < call->n_in; i++) in[i] = call->in[i].view;
    for (int i = 0; i < call->n_out; i++) out[i] = call->out[i].view;
    return op->flops != NULL ? op->flops(in, out, call->params) : (double)ls_view_elements(&out[0]);
}

static void lower_call(ls_builder *b, int n) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = &g->nodes[n];
    const ls_op *op = node->op;
    if (op->kernel == LS_KERNEL_NONE) { /* the output lies where the input lies */
        (void)ls_lower_tensor(b, node->in[0]);
        return;
    }
    ls_kernel_build call = {.op = op->name, .kernel = op->kernel, .dtype = g->dtype, .params = node->params};
    for (int i = 0; i < node->n_in; i++) {
        const ls_operand operand = ls_lower_tensor(b, node->in[i]);
        if (!ls_op_writes_input(op, i)) call.in[call.n_in++] = operand;
    }
    for (int o = 0; o < node->n_out; o++) {
        if (writes_sum(b, n, o)) call.params = op->writes;
        ls_operand operand = ls_lower_tensor(b, node->out[o]);
        if (op->in_place[o] > 0 && !ls_lower_adds_here(b, n)) {
            operand = ls_build_private(b, LS_BUFFER_WORKSPACE, "not counted here", operand.view.dtype,
                                       operand.view.ndim, operand.view.size);
            ls_build_fill(b, operand); /* the kernel adds to it */
        }
        call.out[call.n_out++] = operand;
    }
    if (op->kernel_by_input) call.dtype = call.in[0].view.dtype;
    if (node->n_in == 0) call.dtype = call.out[0].view.dtype; /* zeros of a sum are G, not T */
    call.params_bytes = node->params != NULL ? node->params_bytes : 0;
    call.flops = ls_lower_flops(op, &call);
    ls_build_kernel(b, &call);
}

static const ls_lowering called = {.lower = lower_call};

typedef struct lowered_op {
    const ls_op *op;
    const ls_lowering *lowering;
} lowered_op;

#define ROW(op) \
    { &ls_op_##op, &ls_lowering_##op }
static const lowered_op table[] = {LS_LOWERED_OPS(ROW)};

const ls_lowering *ls_lowering_of(const ls_op *op) {
    for (size_t i = 0; i < LS_COUNT(table); i++)
        if (table[i].op == op) return table[i].lowering;
    return &called;
}

void ls_lower_node(ls_builder *b, int n) {
    ls_gathered_follow(b, n);
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_lowering *lowering = ls_lowering_of(node->op);
    if (lowering != &called)
        for (int o = 0; o < node->n_out; o++) (void)writes_sum(b, n, o);
    lowering->lower(b, n);
}

void ls_lower_shared(ls_builder *b, ls_tensor t) {
    if (t.id != 0) b->shared[ls_graph_tensor(b->job->graph, t)->storage.id] = true;
}

void ls_lower_share(ls_builder *b, int n_nodes) {
    const ls_graph *g = b->job->graph;
    b->shared = LS_NEW_ARRAY(b->image->arena, bool, g->n_tensors);
    for (int n = 0; n < n_nodes; n++) {
        const ls_lowering *lowering = ls_lowering_of(g->nodes[n].op);
        if (lowering->share != NULL) lowering->share(b, n);
    }
}

void ls_lower_nodes(ls_builder *b) {
    int unit = b->row->first_node; /* where the next one begins */
    for (int n = b->row->first_node; n < b->end_node && b->status.code == LS_OK;) {
        ls_offload_follow(b, n);
        if (n == unit) ls_reduction_unit(b, n, unit = ls_tile_unit(b, n));
        const int past = ls_tile_lower(b, n);
        if (past == n) ls_lower_node(b, n);
        n = ls_max(past, n + 1);
        ls_reduction_follow(b, n - 1);
    }
}
