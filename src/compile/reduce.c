/*
 * Gradients are partial sums over the ranks that have the same part of a parameter: those along all axes except tp.
 * After the last addition to a group, its buckets are reduced and scattered over these ranks
 * (redistribute/reduce_scatter.c) while the backward pass continues. Gradients that must also be summed over tp are
 * summed at the end of a step (ls_lowering_features).
 */
#include "compile/pass.h"
#include "compile/redistribute/redistribute.h"

#include <limits.h>
#include <stdlib.h>

/* The reduce-scatters of all buckets, in the order in which they begin. */
typedef struct reduction {
    int n;
    ls_addends *addends;
    ls_reduce_scatter *buckets; /* once their slots exist */
    bool adds;                  /* they add to the shard's sums of earlier micro-batches */
    int begun;
    int group;           /* of the last bucket of the list; -1: none yet */
    ls_group_sum **sums; /* the sums of that group on this rank */
    int n_sums;
} reduction;

/* The reduce-scatter of one bucket. Params of the node that begins it. */
typedef struct leaving {
    reduction *of;
    int bucket;
    ls_group_sum **sums; /* the sums of its group on this rank */
    int n_sums;          /* 0: the sums outlive programs */
} leaving;

/* --- lowering ----------------------------------------------------------------------------------------------------- */

static void lower_slots(ls_builder *b, const ls_program_node *node) {
    reduction *r = node->params;
    r->buckets = ls_reduce_scatter_make(b, "gradients", "gradient slots", b->packing->stages, b->image->accumulator,
                                        r->n, r->addends);
}

/* The bucket's elements of an operand that has all elements of the group. */
static ls_operand bucket_of(const ls_builder *b, const ls_bucket *bucket, ls_operand all) {
    return ls_operand_slice(all, 0, bucket->start - b->packing->groups[bucket->group].start, bucket->count);
}

/* Begins to reduce the bucket's sums into the shards of their owners. */
static void lower_reduce(ls_builder *b, const ls_program_node *node) {
    const leaving *l = node->params;
    const ls_bucket *bucket = &b->packing->buckets[l->bucket];
    ls_operand *from = LS_NEW_ARRAY(b->image->arena, ls_operand, l->n_sums + 1);
    if (l->n_sums == 0) from[0] = ls_operand_slice(ls_bound(b, LS_BIND_GRADIENTS), 0, bucket->start, bucket->count);
    for (int i = 0; i < l->n_sums; i++) from[i] = bucket_of(b, bucket, l->sums[i]->all);
    if (l->of->begun++ == 0) ls_reduce_scatter_expect(b, l->of->buckets);
    ls_reduce_scatter_begin(b, l->of->buckets, from, ls_bucket_shard(b, l->bucket), l->of->adds);
}

static void lower_reduced(ls_builder *b, const ls_program_node *node) {
    const reduction *r = node->params;
    ls_reduce_scatter_finish(b, r->buckets);
}

static const ls_lowering slots_made = {.name = "reduce slots", .lower = lower_slots},
                         reduce = {.name = "reduce", .lower = lower_reduce},
                         reduced = {.name = "reduced", .lower = lower_reduced};

/* --- when each bucket leaves -------------------------------------------------------------------------------------- */

/* A bucket, and the index in the list of the last node that adds to its group; INT_MAX: none does. */
typedef struct turn {
    int bucket, after;
} turn;

static int by_turn(const void *x, const void *y) {
    const turn *a = x, *c = y;
    return a->after != c->after ? (a->after > c->after ? 1 : -1) : c->bucket - a->bucket;
}

/* By group: the index in the list of the last node that adds to its gradients. */
static int *find_ends(const ls_builder *b, const ls_program_nodes *nodes) {
    const ls_graph *g = b->job->graph;
    int *last = LS_NEW_ARRAY(b->image->arena, int, b->packing->n_groups + 1);
    for (int i = 0; i < b->packing->n_groups; i++) last[i] = INT_MAX;
    for (int i = 0; i < nodes->n; i++) {
        const ls_node *node = nodes->list[i].of >= 0 ? ls_graph_node(b, &nodes->list[i]) : NULL;
        for (int o = 0; node != NULL && o < node->n_out; o++) {
            const ls_tensor storage = ls_graph_tensor(g, node->out[o])->storage;
            const int flat = b->packing->flat_of[storage.id];
            const bool adds = ls_graph_tensor(g, storage)->role == LS_ROLE_ACCUMULATOR && flat >= 0;
            if (adds) last[ls_group_of(b, flat)] = i;
        }
    }
    return last;
}

/*
 * All buckets in the order in which they leave. If the groups of several are complete at the same node, those later in
 * the flat space leave first.
 */
static turn *find_turns(const ls_builder *b, const ls_program_nodes *nodes) {
    const int *last = find_ends(b, nodes), n = b->image->n_trained_pieces;
    turn *turns = LS_NEW_ARRAY(b->image->arena, turn, n + 1);
    for (int k = 0; k < n; k++) turns[k] = (turn){k, last[b->packing->buckets[k].group]};
    qsort(turns, (size_t)n, sizeof *turns, by_turn);
    return turns;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* Finds the sums of the group; if nothing adds to it, appends a node that makes a sum of zeros. */
static void find_sums(const ls_builder *b, ls_program_nodes *to, int together, reduction *r, int group) {
    r->group = group;
    r->n_sums = ls_find_sums(b, to, group, &r->sums);
    if (r->n_sums > 0) return;
    (void)ls_put_empty_sum(b, to, together, group);
    r->n_sums = ls_find_sums(b, to, group, &r->sums);
}

/* Appends a bucket's node. The buckets of a group follow each other, so the sums are searched once for a group. */
static void put(const ls_builder *b, ls_program_nodes *to, int together, reduction *r, int bucket) {
    leaving *l = LS_NEW(b->image->arena, leaving);
    const int group = b->packing->buckets[bucket].group;
    *l = (leaving){.of = r, .bucket = bucket};
    if (ls_sums_leave(b)) {
        if (r->group != group) find_sums(b, to, together, r, group);
        l->sums = r->sums;
        l->n_sums = r->n_sums;
    }
    r->addends[r->n++] = (ls_addends){b->packing->buckets[bucket].count, (int)ls_max(1, l->n_sums)};
    ls_nodes_put(b, to, &reduce, together, l);
}

static ls_status run(const ls_builder *b, ls_program_nodes *nodes) {
    enum { BEFORE_ALL = -1 };
    if (!ls_program_reduces(b, b->row) || ls_gradients_stay(b) || b->packing->n_trained == 0) return ls_ok();
    const turn *turns = find_turns(b, nodes);
    const int n = b->image->n_trained_pieces;
    reduction *r = LS_NEW(b->image->arena, reduction);
    r->group = -1;
    r->addends = LS_NEW_ARRAY(b->image->arena, ls_addends, n + 1);
    r->adds = b->packing->cut->gradients && b->row->sums != LS_SUMS_BEGUN;
    ls_program_nodes to = {0};
    ls_nodes_put(b, &to, &slots_made, BEFORE_ALL, r);
    for (int first = 0, past; first < nodes->n; first = past) {
        past = ls_nodes_past(nodes, first);
        ls_nodes_copy(b, &to, &nodes->list[first], past - first);
        while (r->n < n && turns[r->n].after < past) put(b, &to, nodes->list[first].together, r, turns[r->n].bucket);
    }
    while (r->n < n) put(b, &to, b->row->end_node, r, turns[r->n].bucket);
    ls_nodes_put(b, &to, &reduced, b->row->end_node, r);
    *nodes = to;
    return ls_ok();
}

const ls_pass ls_pass_reduce = {
    .name = "reduce", .about = "a group's gradients leave when they are complete", .run = run};
