/* Linear recurrences on this rank: the tensors of a node, and its lowering. */
#include "compile/linear_recurrence/linear_recurrence.h"

/* --- the description of a node ------------------------------------------------------------------------------------ */

/* Adds a last dimension of size 1 to a tensor of gates that has no dimension for the elements of a key. */
static ls_operand with_elements(ls_operand o) {
    if (o.view.ndim == 4) return o;
    o.view.size[o.view.ndim] = 1;
    o.view.stride[o.view.ndim++] = 1;
    return o;
}

/* The recurrence's inputs begin at input `first` of the node, its optional ones at input `options`. */
static ls_linear_site make_site(ls_builder *b, const ls_node *node, int first, int options) {
    const ls_linear_recurrence_node *p = node->params;
    ls_linear_site s = {.node = node, .params = p->kernel};
    ls_linear_tensors *t = &s.tensors;
    t->grad_o.buffer = t->last.buffer = -1;
    const ls_dtype G = b->image->accumulator;
    t->q = ls_lower_tensor(b, node->in[first + LS_LINEAR_Q]);
    t->k = ls_lower_tensor(b, node->in[first + LS_LINEAR_K]);
    t->v = ls_lower_tensor(b, node->in[first + LS_LINEAR_V]);
    int at = options;
    t->decay = p->has_decay ? with_elements(ls_lower_tensor(b, node->in[at++])) : ls_operand_nothing(t->v, G, 4);
    t->beta = p->has_beta ? with_elements(ls_lower_tensor(b, node->in[at++])) : ls_operand_nothing(t->v, G, 4);
    t->places = p->has_places ? ls_lower_tensor(b, node->in[at++]) : ls_operand_nothing(t->v, LS_I32, 3);
    if (p->has_places) {
        t->places.view.size[2] = t->places.view.stride[2] = 1;
        t->places.view.ndim = 3;
    }
    s.B = t->v.view.size[0];
    s.K = t->k.view.size[2];
    s.D = t->k.view.size[3];
    s.H = t->v.view.size[2];
    s.E = t->v.view.size[3];
    const ls_tensor k = node->in[first + LS_LINEAR_K], v = node->in[first + LS_LINEAR_V];
    s.values = ls_sizes_of(b, v, 2, b->sharding->tensor[v.id].cut[2]);
    s.keys = ls_sizes_of(b, k, 2, b->sharding->tensor[k.id].cut[2]);
    s.map = s.D * s.E + ls_linear_recurrence_factors(&s.params, s.D, t->decay.view.size[3]);
    return s;
}

static ls_linear_site forward_site(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    ls_linear_site s = make_site(b, node, 0, LS_LINEAR_OPTIONS);
    s.forward = at->of;
    s.tensors.o = ls_lower_tensor(b, node->out[LS_LINEAR_O]);
    if (((const ls_linear_recurrence_node *)node->params)->has_last) {
        s.tensors.last = ls_lower_tensor(b, node->out[LS_LINEAR_LAST]);
        ls_build_fill(b, s.tensors.last);
    }
    return s;
}

static ls_linear_site gradient_site(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_linear_recurrence_node *p = node->params;
    ls_linear_site s = make_site(b, node, 0, LS_LINEAR_GRAD_OPTIONS);
    ls_linear_tensors *t = &s.tensors;
    s.forward = node->forward;
    t->grad_o = ls_lower_tensor(b, node->in[LS_LINEAR_GRAD_DO]);
    t->dq = ls_lower_tensor(b, node->out[LS_LINEAR_DQ]);
    t->dk = ls_lower_tensor(b, node->out[LS_LINEAR_DK]);
    t->dv = ls_lower_tensor(b, node->out[LS_LINEAR_DV]);
    int out = LS_LINEAR_D_OPTIONS;
    t->ddecay = p->has_decay ? with_elements(ls_lower_tensor(b, node->out[out++])) : t->decay;
    t->dbeta = p->has_beta ? with_elements(ls_lower_tensor(b, node->out[out++])) : t->beta;
    return s;
}

/* --- lowering ----------------------------------------------------------------------------------------------------- */

/*
 * Refuses nodes where the value heads of this rank are not those that use its key heads: ranks may share a key head
 * only if it is the only one.
 */
static ls_status check_heads(const ls_builder *b, const ls_linear_site *s) {
    const ls_shape *k = &ls_graph_tensor(b->job->graph, s->node->in[LS_LINEAR_K])->shape,
                   *v = &ls_graph_tensor(b->job->graph, s->node->in[LS_LINEAR_V])->shape;
    const int64_t keys = k->dim[2].size, each = v->dim[2].size / keys;
    if (keys == 1 || s->H == s->K * each) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "op %s \"%s\": %lld heads of keys are cut over more ranks along tp; expected one, or "
                    "at least as many as ranks",
                    s->node->op->name, ls_graph_tensor(b->job->graph, s->node->out[0])->name, (long long)keys);
}

#define WAY(name) &ls_linear_way_##name.way
static const ls_state_way *const ways[] = {LS_LINEAR_WAYS(WAY)};

const char *ls_recurrence_way_name(int i) { return i >= 0 && i < (int)LS_COUNT(ways) ? ways[i]->name : NULL; }

static const ls_linear_way *way_of(ls_builder *b, const ls_linear_site *site) {
    const ls_state_way *way = NULL;
    ls_status found = check_heads(b, site);
    if (found.code == LS_OK)
        found = ls_state_way_of(b, b->target->recurrence_way, "linear recurrences", ways, LS_COUNT(ways), site, &way);
    if (found.code != LS_OK) ls_build_fail(b, found);
    return (const ls_linear_way *)(const void *)way;
}

static void lower_forward(ls_builder *b, const ls_program_node *at) {
    ls_linear_site site = forward_site(b, at);
    const ls_linear_way *way = way_of(b, &site);
    if (way != NULL) way->forward(b, way, &site);
}

static void lower_gradient(ls_builder *b, const ls_program_node *at) {
    ls_linear_site site = gradient_site(b, at);
    const ls_linear_way *way = way_of(b, &site);
    if (way != NULL) way->backward(b, way, &site);
}

/* One token, which all ranks have; ranks along feature axes each have some heads and their states. */
static void lower_next(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const int first = LS_LINEAR_NEXT_INPUTS;
    ls_linear_site s = make_site(b, node, first, first + LS_LINEAR_OPTIONS);
    s.tensors.o = ls_lower_tensor(b, node->out[0]);
    ls_linear_forward(b, &s, &s.tensors, 0, 1, ls_lower_kept(b, node, LS_LINEAR_NEXT_STATE));
}

/* A rank's instructions depend on which runs come before its own. */
static ls_axes tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding) {
    return (void)graph, (void)node, (void)sharding, ls_mesh_head_axes(mesh);
}

/* has_heads: the way "heads" sends heads to all ranks of a sequence, the other ways send the states of heads there. */
const ls_lowering ls_lowering_linear_recurrence = {.has_heads = true,
                                                   .lower = lower_forward,
                                                   .tells_apart = tells_apart,
                                                   .ordered = true},
                  ls_lowering_linear_recurrence_unmasked = {.has_heads = true,
                                                            .lower = lower_forward,
                                                            .tells_apart = tells_apart,
                                                            .ordered = true},
                  ls_lowering_linear_recurrence_grad = {.lower = lower_gradient,
                                                        .tells_apart = tells_apart,
                                                        .ordered = true},
                  ls_lowering_linear_recurrence_next = {.has_heads = true, .lower = lower_next};
