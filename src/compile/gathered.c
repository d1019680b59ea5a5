/*
 * Parameters of which a rank keeps its shard alone. A group of them is gathered for the nodes between two that mix
 * tokens, and for the second of these: once, however many tiles the nodes are run in. While they are lowered the next
 * group is on its way, and behind the last of them the bytes are free. Where two groups are in use at once (the table
 * of logits and the last layer's, or what is made again), the next one waits for one of them: two are there at a time.
 * The backward pass, and what is made again for it, gathers again; not where the group is the one that was gathered
 * last. (ZeRO stage 3: Rajbhandari et al., arXiv 1910.02054; one group ahead: Zhao et al., "PyTorch FSDP", arXiv
 * 2304.11277.)
 */
#include "compile/redistribute/redistribute.h"

/* Of a group: by the nodes from `first` on, before the next use of it. Behind node `last` its bytes are free. */
typedef struct use {
    int group, first, last;
} use;

struct ls_gathered {
    use *uses; /* in the order of their nodes */
    int n;
    int begun, finished; /* so many have; at most one is on its way */
    ls_operand all;      /* the elements of the last that was begun */
    ls_all_gather gather;
};

/* Channels of two uses in turn: one is over when the next but one begins. */
enum { SETS = 2 };

/* The parameter that a node reads as input i, by its index in flats; -1: that is none. */
static int parameter_at(const ls_builder *b, const ls_node *node, int i) {
    const ls_tensor storage = ls_graph_tensor(b->job->graph, node->in[i])->storage;
    return ls_graph_tensor(b->job->graph, storage)->role == LS_ROLE_PARAMETER ? b->flat_of[storage.id] : -1;
}

/* By group: its last use so far, and between which mixing nodes that was. */
typedef struct latest {
    int use, segment;
} latest;

static void find_uses(const ls_builder *b, ls_gathered *g) {
    latest *of = LS_NEW_ARRAY(b->image->arena, latest, b->n_groups + 1);
    size_t capacity = 0;
    int past = 0; /* of the run of tiles that node n is in: all of it reads what a node of it reads */
    for (int i = 0; i < b->n_groups; i++) of[i].use = -1;
    for (int n = b->row->first_node, segment = 0; n < b->end_node; n++) {
        const ls_node *node = &b->job->graph->nodes[n];
        if (n >= past) past = ls_tile_past(b, n);
        for (int i = 0; i < node->n_in; i++) {
            const int flat = parameter_at(b, node, i);
            if (flat < 0) continue;
            latest *last = &of[ls_group_of(b, flat)];
            const bool there = last->use >= 0 && (last->segment == segment || last->use == g->n - 1);
            if (!there) {
                *LS_PUSH(b->image->arena, g->uses, g->n, capacity) = (use){ls_group_of(b, flat), n, n};
                last->use = g->n - 1;
            }
            g->uses[last->use].last = past - 1;
            last->segment = segment;
        }
        segment += node->op->reach != LS_REACH_OWN;
    }
}

void ls_gathered_begin(ls_builder *b) {
    b->gathered = NULL;
    if (!b->cut->parameters) return;
    b->gathered = LS_NEW(b->image->arena, ls_gathered);
    find_uses(b, b->gathered);
}

static void begin(ls_builder *b, ls_gathered *g) {
    const int order = g->begun++, group = g->uses[order].group;
    const int64_t n = b->groups[group].count;
    g->all =
        ls_build_symmetric(b, LS_BUFFER_PARAMETER, ls_group_name(b, "parameters", group), n, b->image->dtype, 1, &n);
    ls_group_note(b, group, g->all);
    g->gather = ls_all_gather_expect(b, ls_arena_printf(b->image->arena, "parameters.%d", order % SETS), b->stages,
                                     ls_group_buckets(b, group, g->all), 1);
    ls_all_gather_begin(b, &g->gather, ls_group_pieces(b, group, ls_image_find(b->image, LS_BIND_PARAMETERS)->operand));
}

/* From here on nodes find the group's parameters there. */
static void finish(ls_builder *b, ls_gathered *g) {
    const ls_graph *graph = b->job->graph;
    const ls_group *group = &b->groups[g->uses[g->finished++].group];
    ls_all_gather_finish(b, &g->gather);
    for (int t = 1; t < graph->n_tensors; t++) {
        if (graph->tensors[t].role != LS_ROLE_PARAMETER) continue;
        const ls_flat *flat = &b->image->flats[b->flat_of[t]];
        if (flat->start >= group->start && flat->start < group->start + group->count)
            b->tensor[t] = ls_operand_slice(g->all, 0, flat->start - group->start, flat->count);
    }
}

/* How many groups are there that this node or one behind it reads. */
static int count_used(const ls_gathered *g, int node) {
    int n = 0;
    for (int u = 0; u < g->finished; u++) n += g->uses[u].last >= node;
    return n;
}

void ls_gathered_follow(ls_builder *b, int node) {
    ls_gathered *g = b->gathered;
    if (g == NULL) return;
    if (g->begun > g->finished && g->gather.stage > 0) ls_all_gather_advance(b, &g->gather);
    while (g->finished < g->n && g->uses[g->finished].first <= node) {
        if (g->begun == g->finished) begin(b, g);
        finish(b, g);
    }
    if (g->begun == g->finished && g->begun < g->n && count_used(g, node) < 2) begin(b, g);
}
