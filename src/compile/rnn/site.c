/* Recurrent cells on this rank: the tensors of a node, and its lowering. */
#include "compile/rnn/rnn.h"

/* --- the description of a node ------------------------------------------------------------------------------------ */

/* The places of the tokens, with a last dimension of size 1 added; `places.id` 0: the node has none. */
static ls_operand places_of(ls_builder *b, ls_tensor places, ls_operand x) {
    if (places.id == 0) return ls_operand_nothing(x, LS_I32, 3);
    ls_operand o = ls_lower_tensor(b, places);
    o.view.size[2] = o.view.stride[2] = 1;
    o.view.ndim = 3;
    return o;
}

static ls_rnn_site make_site(ls_builder *b, const ls_node *node, ls_tensor x, ls_tensor weight, ls_tensor bias,
                             ls_tensor places) {
    const ls_rnn_node *p = node->params;
    const ls_rnn_sizes sizes = ls_rnn_sizes_of(p->kernel.kind);
    ls_rnn_site s = {.node = node, .params = p->kernel};
    ls_rnn_tensors *t = &s.tensors;
    t->x = ls_lower_tensor(b, x);
    t->weight = ls_lower_tensor(b, weight);
    t->bias = bias.id != 0 ? ls_lower_tensor(b, bias) : ls_operand_nothing(t->weight, b->image->dtype, 2);
    t->places = places_of(b, places, t->x);
    t->dy.buffer = t->last.buffer = -1;
    s.B = t->x.view.size[0];
    s.H = t->x.view.size[2];
    s.D = t->x.view.size[3] / sizes.gates;
    s.size = sizes.states * s.D;
    s.heads = ls_sizes_of(b, x, 2, b->sharding->tensor[x.id].cut[2]);
    return s;
}

static ls_rnn_site forward_site(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_rnn_node *p = node->params;
    ls_rnn_site s = make_site(b, node, node->in[LS_RNN_X], node->in[LS_RNN_WEIGHT],
                              p->has_bias ? node->in[LS_RNN_OPTIONS] : LS_NO_TENSOR,
                              p->has_places ? node->in[LS_RNN_OPTIONS + p->has_bias] : LS_NO_TENSOR);
    s.forward = at->of;
    s.tensors.y = ls_lower_tensor(b, node->out[LS_RNN_Y]);
    if (p->has_last) {
        s.tensors.last = ls_lower_tensor(b, node->out[LS_RNN_LAST]);
        ls_build_fill(b, s.tensors.last);
    }
    return s;
}

static ls_rnn_site gradient_site(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_rnn_node *p = node->params;
    const int places = p->has_bias ? LS_RNN_GRAD_BIAS_SUM + 1 : LS_RNN_GRAD_SUM + 1;
    ls_rnn_site s = make_site(b, node, node->in[LS_RNN_X], node->in[LS_RNN_WEIGHT],
                              p->has_bias ? node->in[LS_RNN_GRAD_BIAS] : LS_NO_TENSOR,
                              p->has_places ? node->in[places] : LS_NO_TENSOR);
    ls_rnn_tensors *t = &s.tensors;
    s.forward = node->forward;
    t->y = ls_lower_tensor(b, node->in[LS_RNN_GRAD_Y]);
    t->dy = ls_lower_tensor(b, node->in[LS_RNN_GRAD_DY]);
    t->dx = ls_lower_tensor(b, node->out[0]);
    t->dweight = ls_lower_sum(b, at->of, ls_lower_tensor(b, node->out[1]));
    t->dbias = p->has_bias ? ls_lower_sum(b, at->of, ls_lower_tensor(b, node->out[2]))
                           : ls_operand_nothing(t->dweight, b->image->accumulator, 2);
    return s;
}

/* --- lowering ----------------------------------------------------------------------------------------------------- */

#define WAY(name) &ls_rnn_way_##name.way
static const ls_state_way *const ways[] = {LS_RNN_WAYS(WAY)};

const char *ls_rnn_way_name(int i) { return i >= 0 && i < (int)LS_COUNT(ways) ? ways[i]->name : NULL; }

static const ls_rnn_way *way_of(ls_builder *b, const ls_rnn_site *site) {
    const ls_state_way *way = NULL;
    const ls_status found = ls_state_way_of(b, b->target->rnn_way, "recurrent cells", ways, LS_COUNT(ways), site, &way);
    if (found.code != LS_OK) ls_build_fail(b, found);
    return (const ls_rnn_way *)(const void *)way;
}

static void lower_forward(ls_builder *b, const ls_program_node *at) {
    ls_rnn_site site = forward_site(b, at);
    const ls_rnn_way *way = way_of(b, &site);
    if (way != NULL) way->forward(b, &site);
}

static void lower_gradient(ls_builder *b, const ls_program_node *at) {
    ls_rnn_site site = gradient_site(b, at);
    const ls_rnn_way *way = way_of(b, &site);
    if (way != NULL) way->backward(b, &site);
}

/* One token, which all ranks have; ranks along feature axes each have some heads and their states. */
static void lower_next(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_tensor *in = &node->in[LS_RNN_NEXT_INPUTS];
    ls_rnn_site s =
        make_site(b, node, in[LS_RNN_X], in[LS_RNN_WEIGHT],
                  ((const ls_rnn_node *)node->params)->has_bias ? in[LS_RNN_OPTIONS] : LS_NO_TENSOR, LS_NO_TENSOR);
    s.tensors.y = ls_lower_tensor(b, node->out[0]);
    ls_rnn_forward(b, &s, &(ls_rnn_part){.count = 1, .sequences = 1}, ls_lower_kept(b, node, LS_RNN_NEXT_STATE));
}

/* A rank's instructions depend on its place: on which runs come before its own, and which heads it gets. */
static ls_axes tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding) {
    return (void)graph, (void)node, (void)sharding, ls_mesh_head_axes(mesh);
}

/*
 * has_heads: the way "heads" sends heads to all ranks of a sequence, the way "chain" sends the states of heads there.
 */
const ls_lowering ls_lowering_rnn = {.has_heads = true, .lower = lower_forward, .tells_apart = tells_apart},
                  ls_lowering_rnn_grad = {.lower = lower_gradient, .tells_apart = tells_apart},
                  ls_lowering_rnn_biased_grad = {.lower = lower_gradient, .tells_apart = tells_apart},
                  ls_lowering_rnn_next = {.has_heads = true, .lower = lower_next};
