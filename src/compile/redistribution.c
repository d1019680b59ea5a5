/*
 * Redistribution nodes: where a tensor is spread over the ranks otherwise than its reader needs it, a node between the
 * two changes its placements. This pass inserts these nodes into the graph, so that no other lowering has to know about
 * redistribution; their own lowering is redistribute/placement.c. Tensors that the host reads must have all heads and
 * features, with partial sums added up: for them a node is inserted after the node that makes them.
 */
#include "compile/compile_impl.h"

#include <string.h>

/* A tensor with the placements that some nodes need. */
typedef struct brought {
    ls_placements spread;
    ls_tensor tensor;
    bool gathered, backward; /* made whole from parts; for readers in the backward pass */
    struct brought *next;
} brought;

typedef struct insertion {
    ls_job *job;
    ls_axes features;
    ls_rewriting graph;
    const ls_sharding *sharding; /* of the old graph */
    ls_arena *arena;
    ls_sharding out;
    brought **as;            /* by tensor: the redistributed tensors made since the current program began */
    const brought *gathered; /* the last of these that was gathered */
    bool backward;           /* the current node belongs to the backward pass */
    size_t tensor_capacity, wanted_capacity, node_capacity, unit_capacity;
    int n_tensors, n_wanted, n_nodes, n_units;
    ls_tensor *fetch; /* redistributed tensors for the host, besides those that the job fetches */
    int n_fetch;
    size_t fetch_capacity;
} insertion;

static bool differs(const ls_graph *g, const ls_sharding *s, int n, int i) {
    return !ls_placements_equal(&s->wanted[n * LS_NODE_INPUTS + i], &s->tensor[g->nodes[n].in[i].id]);
}

bool ls_is_redistributed(const ls_graph *g, const ls_sharding *s, ls_axes axes) {
    bool is = false;
    for (int n = 0; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const ls_placements *have = &s->tensor[g->nodes[n].in[i].id], *want = &s->wanted[n * LS_NODE_INPUTS + i];
            for (int d = 0; d < LS_MAX_DIMS; d++) is |= ((have->cut[d] ^ want->cut[d]) & axes) != 0;
        }
    }
    return is;
}

/* of: a tensor of the old graph with the same shape. */
static ls_tensor push_tensor(insertion *p, int of, const ls_tensor_info *info, const ls_placements *spread) {
    ls_graph *to = p->graph.to;
    *LS_PUSH(p->arena, to->tensors, to->n_tensors, to->tensor_capacity) = *info;
    for (int d = 0; d < LS_MAX_DIMS && p->sharding->units != NULL; d++)
        *LS_PUSH(p->arena, p->out.units, p->n_units, p->unit_capacity) = p->sharding->units[of * LS_MAX_DIMS + d];
    *LS_PUSH(p->arena, p->out.tensor, p->n_tensors, p->tensor_capacity) = *spread;
    return ls_graph_at(to, to->n_tensors - 1);
}

/* Appends the decisions about the node that was added last. */
static void push_decisions(insertion *p, const ls_placements *wanted, ls_axes first_only) {
    *LS_PUSH(p->arena, p->out.first_only, p->n_nodes, p->node_capacity) = first_only;
    for (int i = 0; i < LS_NODE_INPUTS; i++)
        *LS_PUSH(p->arena, p->out.wanted, p->n_wanted, p->wanted_capacity) = wanted[i];
}

/* Adds the node that makes a tensor with placements `want` from `from`: tensor t itself, or a redistributed t. */
static ls_tensor add_redistribute(insertion *p, ls_tensor t, ls_tensor from, const ls_placements *want) {
    ls_tensor_info info = *ls_graph_tensor(p->graph.from, t);
    info.role = LS_ROLE_VALUE;
    info.of = LS_NO_TENSOR;
    info.boundary = false; /* the tensor from which it is made is the boundary */
    info.name = ls_arena_printf(p->arena, "%s redistributed", info.name);
    info.output = 0;
    const ls_tensor made = push_tensor(p, t.id, &info, want);
    p->graph.to->tensors[made.id].storage = made;
    const ls_node node = {.op = &ls_op_redistribute, .n_in = 1, .in = {from}, .n_out = 1, .out = {made}, .forward = -1};
    const ls_placements wanted[LS_NODE_INPUTS] = {p->out.tensor[from.id]};
    ls_rewriting_add(&p->graph, &node);
    push_decisions(p, wanted, 0);
    return made;
}

/*
 * Whether a redistributed tensor can still be used. What was gathered for the forward pass is freed before the backward
 * pass, unless nothing else has been gathered since.
 */
static bool is_there(const insertion *p, const brought *as) {
    return as->backward == p->backward || !as->gathered || p->gathered == as;
}

/* Tensor t with placements `want`: made from t itself or from a redistributed t, whichever sends least. */
static ls_tensor bring(insertion *p, ls_tensor t, const ls_placements *want) {
    ls_tensor from = t;
    const ls_placements *have = &p->sharding->tensor[t.id];
    double least = ls_placements_travel(have, want);
    for (brought *as = p->as[t.id]; as != NULL; as = as->next) {
        if (!is_there(p, as)) continue;
        if (ls_placements_equal(&as->spread, want)) {
            as->backward = p->backward;
            return as->tensor;
        }
        const double travel = ls_placements_travel(&as->spread, want);
        if (travel < 0 || travel >= least) continue;
        from = as->tensor;
        have = &as->spread;
        least = travel;
    }
    brought *made = LS_NEW(p->arena, brought);
    *made = (brought){.spread = *want,
                      .tensor = add_redistribute(p, t, from, want),
                      .gathered = ls_placements_gather(have, want),
                      .backward = p->backward,
                      .next = p->as[t.id]};
    p->as[t.id] = made;
    if (made->gathered) p->gathered = made;
    return made->tensor;
}

static void copy_node(insertion *p, int n) {
    ls_node node = p->graph.from->nodes[n];
    for (int i = 0; i < node.n_in; i++)
        if (differs(p->graph.from, p->sharding, n, i))
            node.in[i] = bring(p, node.in[i], &p->sharding->wanted[n * LS_NODE_INPUTS + i]);
    ls_rewriting_copy(&p->graph, n, node);
    push_decisions(p, &p->sharding->wanted[n * LS_NODE_INPUTS], p->sharding->first_only[n]);
}

/* The placements of a tensor that the host reads. */
static ls_placements for_host(const ls_placements *spread, ls_axes features) {
    ls_placements want = *spread;
    want.partial &= ~features;
    for (int d = 0; d < LS_MAX_DIMS; d++) want.cut[d] &= ~features;
    return want;
}

static bool is_fetched_in_parts(const ls_job *job, const ls_sharding *s, ls_axes features, int f) {
    const ls_placements *have = &s->tensor[job->fetch[f].id], want = for_host(have, features);
    return !ls_placements_equal(have, &want);
}

/*
 * For an output of the node that the host reads, adds a redistributed tensor, which the host reads instead. The parts
 * stay if a later program reads them.
 */
static void bring_fetched(insertion *p, int n) {
    const ls_job *job = p->job;
    for (int f = 0; f < job->n_fetch; f++) {
        const ls_tensor t = job->fetch[f];
        if (ls_graph_tensor(p->graph.from, t)->producer != n || !is_fetched_in_parts(job, p->sharding, p->features, f))
            continue;
        const ls_placements want = for_host(&p->sharding->tensor[t.id], p->features);
        const ls_tensor whole = add_redistribute(p, t, t, &want);
        p->graph.to->tensors[whole.id].name = ls_graph_tensor(p->graph.from, t)->name;
        p->graph.to->tensors[t.id].name =
            ls_arena_printf(p->arena, "%s in parts", ls_graph_tensor(p->graph.from, t)->name);
        *LS_PUSH(p->arena, p->fetch, p->n_fetch, p->fetch_capacity) = whole;
    }
}

static bool begins_program(const ls_job_programs *programs, int n) {
    bool begins = false;
    for (int i = 0; i < programs->n; i++) begins |= programs->list[i].first_node == n;
    return begins;
}

void ls_redistribute(ls_job *job, const ls_mesh *mesh, ls_arena *arena, ls_sharding *sharding) {
    const ls_axes features = ls_mesh_axes(mesh, LS_AXIS_FEATURE);
    const ls_graph *g = job->graph;
    bool any = false;
    for (int f = 0; f < job->n_fetch; f++) any |= is_fetched_in_parts(job, sharding, features, f);
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++) any |= differs(g, sharding, n, i);
    if (!any) return;
    insertion p = {.job = job,
                   .features = features,
                   .graph = ls_rewriting_begin(g, arena),
                   .sharding = sharding,
                   .arena = arena,
                   .as = LS_NEW_ARRAY(arena, brought *, g->n_tensors)};
    for (int t = 0; t < g->n_tensors; t++) (void)push_tensor(&p, t, &g->tensors[t], &sharding->tensor[t]);
    for (int n = 0; n < g->n_nodes; n++) {
        if (begins_program(&job->programs, n)) memset(p.as, 0, sizeof *p.as * (size_t)g->n_tensors);
        p.backward = g->forward_nodes > 0 && n >= g->forward_nodes;
        ls_rewriting_reach(&p.graph, n);
        copy_node(&p, n);
        bring_fetched(&p, n);
    }
    for (int f = 0; f < job->n_fetch; f++) *LS_PUSH(arena, p.fetch, p.n_fetch, p.fetch_capacity) = job->fetch[f];
    job->fetch = p.fetch;
    job->n_fetch = p.n_fetch;
    ls_rewriting_end(&p.graph, job);
    *sharding = p.out;
}
