/* Nodes to instructions: each node has its lowering. For most ops this is one call of the op's kernel. */
#include "compile/compile_impl.h"

bool ls_lower_adds_here(const ls_builder *b, int n) {
    return ls_mesh_index(&b->target->mesh, b->sharding->first_only[n], b->target->rank) == 0;
}

ls_operand ls_lower_sum(ls_builder *b, int n, ls_operand sum) {
    if (ls_lower_adds_here(b, n)) return sum;
    const ls_operand unread =
        ls_build_private(b, LS_BUFFER_WORKSPACE, "not counted here", sum.view.dtype, sum.view.ndim, sum.view.size);
    ls_build_fill(b, unread); /* the kernel adds to it */
    return unread;
}

/*
 * If nothing has been added yet to the sum that is output o: whether this node's kernel can write the sum instead of
 * adding to it. If it cannot, the sum is zeroed here.
 */
static bool writes_sum(ls_builder *b, const ls_program_node *at, int o) {
    const ls_node *node = ls_graph_node(b, at);
    if (!(at->begins & 1U << o) || (b->tile != NULL && b->tile->goes_on)) return false;
    if (node->op->writes != NULL && ls_lower_adds_here(b, at->of)) return true;
    ls_build_fill(b, ls_lower_tensor(b, ls_graph_tensor(b->job->graph, node->out[o])->storage));
    return false;
}

double ls_lower_flops(const ls_op *op, const ls_kernel_build *call) {
    ls_view in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
    for (int i = 0; i < call->n_in; i++) in[i] = call->in[i].view;
    for (int i = 0; i < call->n_out; i++) out[i] = call->out[i].view;
    return op->flops != NULL ? op->flops(in, out, call->params) : (double)ls_view_elements(&out[0]);
}

static void lower_call(ls_builder *b, const ls_program_node *at) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = ls_graph_node(b, at);
    const ls_op *op = node->op;
    if (op->kernel == LS_KERNEL_NONE) { /* the output is the memory of the input */
        (void)ls_lower_tensor(b, node->in[0]);
        return;
    }
    ls_kernel_build call = {.op = op->name, .kernel = op->kernel, .dtype = g->dtype, .params = node->params};
    static const ls_embedding_params not_padded = {.padding = -1};
    for (int i = 0; i < node->n_in; i++) {
        const ls_operand operand = ls_lower_tensor(b, node->in[i]);
        const bool local = ls_is_local_id(b, at->of, i);
        if (local && op->lookup.padded) call.params = &not_padded; /* local ids mark what does not count */
        if (!ls_op_writes_input(op, i)) call.in[call.n_in++] = local ? ls_local_ids(b, at->of, operand) : operand;
    }
    for (int o = 0; o < node->n_out; o++) {
        if (writes_sum(b, at, o)) call.params = op->writes;
        ls_operand operand = ls_lower_tensor(b, node->out[o]);
        if (op->in_place[o] > 0) operand = ls_lower_sum(b, at->of, operand);
        call.out[call.n_out++] = operand;
    }
    if (op->kernel_by_input) call.dtype = call.in[0].view.dtype;
    if (node->n_in == 0) call.dtype = call.out[0].view.dtype; /* zeros of a sum are G, not T */
    call.params_bytes = node->params != NULL ? node->params_bytes : 0;
    call.flops = ls_lower_flops(op, &call);
    ls_build_kernel(b, &call);
}

const ls_lowering ls_lowering_called = {.lower = lower_call};

static void lower_node(ls_builder *b, const ls_program_node *node) {
    const bool own = node->of >= 0 && node->lowering != &ls_lowering_called; /* such a lowering adds and never writes */
    for (int o = 0; own && o < ls_graph_node(b, node)->n_out; o++) (void)writes_sum(b, node, o);
    node->lowering->lower(b, node);
}

/*
 * Begins the epoch of node i of the list. The lists of different stages differ, so a node that ranks of all stages
 * lower alike gets an epoch that does not depend on the list: before all nodes, in a new slot.
 */
static void begin_epoch(ls_builder *b, const ls_program_node *node, int i) {
    const ls_node_slots *slots = &b->sharding->slots;
    const bool common = node->lowering->common, behind = node->together >= b->row->end_node;
    ls_epoch epoch = {.node = i};
    if (slots->node != NULL) {
        epoch.slot = node->together < 0 ? 0 : behind ? slots->last : slots->node[node->together].slot;
        epoch.slot = (int)ls_max(epoch.slot, b->channels.epoch.slot);
        if (common) epoch = (ls_epoch){.slot = epoch.slot + 1, .node = -1};
    }
    b->channels.common = slots->node == NULL || common;
    b->channels.epoch = epoch;
}

void ls_lower_nodes(ls_builder *b, const ls_program_node *list, int n) {
    for (int i = 0; i < n && b->status.code == LS_OK; i += 1 + list[i].n_body) {
        if (b->tile == NULL) begin_epoch(b, &list[i], i); /* nodes of a tile are part of their region's epoch */
        lower_node(b, &list[i]);
    }
}
