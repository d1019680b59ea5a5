/*
 * Gathers parameters of which a rank keeps only its shard. A group is gathered for the nodes between two nodes that mix
 * tokens, and for the second of these two: once, in however many tiles the nodes run. While these nodes run, the next
 * group is being gathered; after the last of them the group's bytes are free. If two groups are in use at once (the
 * table of the logits and the last layer's group, or parameters for recomputed results), the next group waits until one
 * of them is free: at most two exist at a time. The backward pass, and results made again for it, gather a group again,
 * unless it is the last one that was gathered. (ZeRO stage 3: Rajbhandari et al., arXiv 1910.02054; one group ahead:
 * Zhao et al., "PyTorch FSDP", arXiv 2304.11277.)
 */
#include "compile/pass.h"
#include "compile/redistribute/redistribute.h"

/* One use of a group, by nodes first .. last of the graph. After node `last` the group's bytes are free. */
typedef struct use {
    int group, first, last;
} use;

typedef struct uses {
    use *list; /* in the order of their nodes */
    int n;
    size_t capacity;
} uses;

/* By group: its last use so far, and the segment of that use: the number of mixing nodes before it. */
typedef struct latest {
    int use, segment;
} latest;

/* Two sets of channels, used in turn: a use has ended when the one after the next begins. */
enum { SETS = 2 };

/* The index in flats of the parameter that a node reads as input i; -1: the input is no parameter. */
static int parameter_at(const ls_builder *b, const ls_node *node, int i) {
    const ls_tensor storage = ls_graph_tensor(b->job->graph, node->in[i])->storage;
    return ls_graph_tensor(b->job->graph, storage)->role == LS_ROLE_PARAMETER ? b->packing->flat_of[storage.id] : -1;
}

/*
 * By node of the graph, counted from the program's first node: the first graph node after those that stand together
 * with it.
 */
static int *find_ends(const ls_builder *b, const ls_program_nodes *nodes) {
    int *ends = LS_NEW_ARRAY(b->image->arena, int, b->row->end_node - b->row->first_node + 1);
    for (int first = 0, past; first < nodes->n; first = past) {
        past = ls_nodes_past(nodes, first);
        const int end = ls_nodes_end(nodes, first, past);
        for (int i = first; i < past; i++)
            if (nodes->list[i].of >= 0) ends[nodes->list[i].of - b->row->first_node] = end;
    }
    return ends;
}

/*
 * Finds the uses of all groups. A parameter that one of the nodes that stand together reads is in use up to the last of
 * them.
 */
static uses find_uses(const ls_builder *b, const ls_program_nodes *nodes) {
    const int *ends = find_ends(b, nodes);
    latest *of = LS_NEW_ARRAY(b->image->arena, latest, b->packing->n_groups + 1);
    uses found = {0};
    for (int i = 0; i < b->packing->n_groups; i++) of[i].use = -1;
    for (int n = b->row->first_node, segment = 0; n < b->row->end_node; n++) {
        const ls_node *node = &b->job->graph->nodes[n];
        for (int i = 0; i < node->n_in; i++) {
            const int flat = parameter_at(b, node, i);
            if (flat < 0) continue;
            latest *last = &of[ls_group_of(b, flat)];
            const bool there = last->use >= 0 && (last->segment == segment || last->use == found.n - 1);
            if (!there) {
                *LS_PUSH(b->image->arena, found.list, found.n, found.capacity) = (use){ls_group_of(b, flat), n, n};
                last->use = found.n - 1;
            }
            LS_ASSERT(last->use < found.n);
            found.list[last->use].last = ends[n - b->row->first_node] - 1;
            last->segment = segment;
        }
        segment += node->op->reach != LS_REACH_OWN;
    }
    return found;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* The new list so far, and the state of the gathers. */
typedef struct progress {
    const ls_builder *b;
    ls_program_nodes to;
    uses uses;
    int begun, finished; /* numbers of uses; at most one is begun and not finished: */
    int stages;          /* its stages that are still to be put into the list */
    ls_group_gather *now;
} progress;

static void begin(progress *p, int together) {
    const ls_builder *b = p->b;
    const int order = p->begun++;
    const int group = p->uses.list[order].group;
    const ls_flat *flat = &b->image->flats[b->packing->groups[group].first];
    p->now = ls_group_gather_make(b, ls_arena_printf(b->image->arena, "parameters.%d", order % SETS), group,
                                  ls_flat_values(b->image, flat), NULL);
    p->stages = b->packing->stages->n - 1;
    ls_nodes_put(b, &p->to, &ls_lowering_gather_expect, together, p->now);
    ls_nodes_put(b, &p->to, &ls_lowering_gather, together, p->now);
}

static void finish(progress *p, int together) {
    p->finished++;
    ls_nodes_put(p->b, &p->to, &ls_lowering_gathered, together, p->now);
}

/* The number of gathered groups that this node or a later one reads. */
static int count_used(const progress *p, int node) {
    int n = 0;
    for (int u = 0; u < p->finished; u++) n += p->uses.list[u].last >= node;
    return n;
}

/* Puts the gathers before nodes `together` to `end` - 1, which stand together. */
static void put_gathers(progress *p, int together, int end) {
    if (p->begun > p->finished && p->stages > 0) {
        ls_nodes_put(p->b, &p->to, &ls_lowering_gather_stage, together, p->now);
        p->stages--;
    }
    while (p->finished < p->uses.n && p->uses.list[p->finished].first < end) {
        if (p->begun == p->finished) begin(p, together);
        finish(p, together);
    }
    if (p->begun == p->finished && p->begun < p->uses.n && count_used(p, together) < 2) begin(p, together);
}

static ls_status run(const ls_builder *b, ls_program_nodes *nodes) {
    if (!b->packing->cut->parameters) return ls_ok();
    progress p = {.b = b, .uses = find_uses(b, nodes)};
    for (int first = 0, past; first < nodes->n; first = past) {
        past = ls_nodes_past(nodes, first);
        const int end = ls_nodes_end(nodes, first, past);
        if (end > 0) put_gathers(&p, nodes->list[first].together, end);
        ls_nodes_copy(b, &p.to, &nodes->list[first], past - first);
    }
    *nodes = p.to;
    return ls_ok();
}

const ls_pass ls_pass_gather = {
    .name = "gather", .about = "parameters of which a rank has its shard, for the nodes that read them", .run = run};
