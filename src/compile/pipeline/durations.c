/*
 * Predicts how long the turns of a pipeline take: the sum of their nodes, each as one call of its kernel on all tokens,
 * divided evenly over the ranks of a stage. Transfers between ranks of a stage are not counted.
 */
#include "compile/pipeline/pipeline.h"

#include <limits.h>
#include <math.h>

ls_status ls_durations_rates(const ls_target *target, ls_dtype dtype, ls_rates *out) {
    const char *name;
    ls_device_traits device;
    LS_TRY(ls_device_choose(target->device, &name, &device));
    /* With one thread; with more, everything takes less in proportion. */
    *out = ls_rates_of(device.submits ? LS_DEVICE_CUDA : LS_DEVICE_CPU, target->isa, dtype, 1);
    return ls_ok();
}

static ls_operand operand_of(const ls_graph *g, ls_tensor t, int place) {
    const ls_tensor_info *info = ls_graph_tensor(g, t);
    int64_t size[LS_MAX_DIMS] = {0};
    for (int d = 0; d < info->shape.ndim; d++) size[d] = info->shape.dim[d].size;
    return ls_operand_dense(place, 0, info->dtype, info->shape.ndim, size);
}

/* The call of the node's kernel; no two operands share memory. */
typedef struct node_call {
    ls_kernel kernel;
    ls_instr instr;
    ls_operand in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
} node_call;

static void make_call(const ls_graph *g, const ls_node *node, node_call *call) {
    ls_view in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
    call->kernel = (ls_kernel){.id = node->op->kernel};
    call->instr = (ls_instr){.kind = LS_INSTR_KERNEL, .kernel = &call->kernel, .in = call->in, .out = call->out};
    for (int i = 0; i < node->n_in; i++) {
        if (ls_op_writes_input(node->op, i)) continue;
        call->in[call->instr.n_in] = operand_of(g, node->in[i], i);
        in[call->instr.n_in] = call->in[call->instr.n_in].view;
        call->instr.n_in++;
    }
    for (int o = 0; o < node->n_out; o++) {
        call->out[o] = operand_of(g, node->out[o], LS_NODE_INPUTS + o);
        out[o] = call->out[o].view;
    }
    call->instr.n_out = node->n_out;
    if (node->op->flops != NULL)
        call->instr.flops = node->op->flops(in, out, node->params);
    else if (node->op->kernel != LS_KERNEL_NONE)
        call->instr.flops = (double)ls_view_elements(&out[0]);
}

/*
 * For a node with a mask, or the gradient of one: the number of pairs that the mask leaves to the queries of a slice,
 * divided by that of a full mask over the slice's own keys. Since the mask shows no later slices, slices 0 .. i
 * together have the pairs of a sequence of their length.
 */
static double share_of(const ls_graph *g, const ls_node *node, ls_slice_of which) {
    const ls_mask *mask = ls_node_mask(node);
    if (mask == NULL) return 1;
    const int64_t S = ls_graph_tensor(g, node->in[0])->shape.dim[1].size; /* [B, S, heads, D] */
    const int first = which.slice < 0 ? 0 : which.slice, past = which.slice < 0 ? which.slices : which.slice + 1;
    const int64_t area = ls_mask_area(mask, past * S) - (first > 0 ? ls_mask_area(mask, first * S) : 0);
    return (double)area / ((double)S * (double)S * (past - first));
}

/*
 * An op without a kernel is lowered to several calls. If it states no flops and is a gradient, it takes more time than
 * the forward op by the factor of the gradient of attention.
 */
double ls_node_seconds(const ls_graph *g, const ls_node *node, ls_slice_of which, const ls_rates *rates) {
    node_call call;
    make_call(g, node, &call);
    if (node->op->kernel != LS_KERNEL_NONE) return ls_instr_seconds(&call.instr, INFINITY, rates);
    const bool gradient = node->op->flops == NULL && node->forward >= 0;
    const ls_node *of = gradient ? &g->nodes[node->forward] : node;
    if (gradient) make_call(g, of, &call);
    const int direction = gradient ? LS_BACKWARD : LS_FORWARD;
    const double more = ls_attention_flops(direction, 1, 1) / ls_attention_flops(LS_FORWARD, 1, 1);
    return call.instr.flops * more * share_of(g, of, which) * rates->core.attention[direction].flop;
}

void ls_turns_take(ls_pipelining *of, const ls_graph *g, const ls_graph_chunks *chunks, const ls_job_program *row,
                   const ls_rates *rates, int ranks, ls_arena *arena) {
    enum { LONGEST = 1000 }; /* units of the clock that the longest turn takes */
    const int of_slice = of->chunks * LS_TURN_KINDS, n = of->slices * of_slice;
    double *seconds = LS_NEW_ARRAY(arena, double, n), most = 0;
    int *takes = LS_NEW_ARRAY(arena, int, n);
    for (int i = row->first_node; i < ls_min(row->end_node, g->n_nodes); i++) {
        if (chunks->node[i] < 0) continue;
        const ls_turn_kind kind = i < ls_forward_nodes(g) ? LS_TURN_FORWARD
                                  : chunks->weight[i]     ? LS_TURN_WEIGHTS
                                                          : LS_TURN_BACKWARD;
        for (int slice = 0; slice < of->slices; slice++) {
            double *turn = &seconds[slice * of_slice + chunks->node[i] * LS_TURN_KINDS + (int)kind];
            *turn += ls_node_seconds(g, &g->nodes[i], (ls_slice_of){slice, of->slices}, rates);
            most = fmax(most, *turn);
        }
    }
    const int64_t turns = (int64_t)of->stages * ls_pipelining_turns(of);
    const double units = (double)ls_max(1, ls_min(LONGEST, INT_MAX / 4 / turns));
    for (int i = 0; i < n; i++) takes[i] = (int)fmax(1, most > 0 ? floor(seconds[i] / most * units) : 0);
    of->takes = takes;
    of->unit = most / units / ranks;
}
