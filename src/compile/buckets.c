/*
 * Gradients are partial sums over all ranks. Where the last addition to a group is done, its buckets leave to be
 * reduced and scattered (redistribute/reduce_scatter.c), while the backward pass goes on.
 */
#include "compile/redistribute/redistribute.h"

/*
 * This rank's sums of a group: one addend of all nodes, or, where sums are canonical, one of each unit of nodes that
 * adds to the group. Each is a buffer made on first use.
 */
typedef struct sums {
    int n_units; /* that add to it */
    ls_operand *addend;
    int n, unit; /* addends so far; the last one's unit */
    size_t capacity;
} sums;

struct ls_reduction {
    int *last_writer;           /* by flat: the last of the nodes that add to its gradients, or -1 */
    int *bucket;                /* in the order in which they leave */
    int *when;                  /* by place in that order: the node after which it may leave */
    int left;                   /* so many have left */
    ls_reduce_scatter *buckets; /* in that order */
    ls_operand all;             /* this rank's sums where they outlive programs; buffer -1: each group has its own */
    sums *groups;               /* by group, then */
    int unit;                   /* the first node of those that are being lowered */
    int *unit_of;               /* by flat: the last unit so far that adds to its gradients, or -1 */
};

/* --- where gradients lie ------------------------------------------------------------------------------------------ */

/*
 * Zeroes what no node of the unit writes of a group's gradients: parameters that nothing there depends on, and what
 * lies between parameters.
 */
static void fill_gaps(ls_builder *b, int g, ls_operand all) {
    const ls_group *group = &b->groups[g];
    const ls_reduction *r = b->reduction;
    int64_t written = 0; /* or zeroed, from the group's start on */
    for (int f = 0; f <= b->image->n_flats; f++) {
        const bool past = f == b->image->n_flats;
        const ls_flat *flat = &b->image->flats[f];
        const int64_t start = past ? group->count : flat->start - group->start;
        if (!past && (start < 0 || start >= group->count || r->unit_of[f] != r->unit)) continue;
        if (start > written) ls_build_fill(b, ls_operand_slice(all, 0, written, start - written));
        if (!past) written = start + flat->count;
    }
}

/* The addend of the unit. */
static ls_operand addend_of(ls_builder *b, int g) {
    const ls_reduction *r = b->reduction;
    const ls_group *group = &b->groups[g];
    sums *s = &r->groups[g];
    if (r->all.buffer >= 0) return ls_operand_slice(r->all, 0, group->start, group->count);
    if (s->n == 0 || s->unit != r->unit) {
        const ls_operand all = ls_build_private(b, LS_BUFFER_GRADIENT, ls_group_name(b, "gradients", g),
                                                b->image->accumulator, 1, &group->count);
        ls_group_note(b, g, all);
        fill_gaps(b, g, all);
        *LS_PUSH(b->image->arena, s->addend, s->n, s->capacity) = all;
        s->unit = r->unit;
    }
    return s->addend[s->n - 1];
}

ls_operand ls_reduction_place(ls_builder *b, ls_tensor sum) {
    const ls_flat *flat = &b->image->flats[b->flat_of[sum.id]];
    const int g = ls_group_of(b, b->flat_of[sum.id]);
    return ls_operand_slice(addend_of(b, g), 0, flat->start - b->groups[g].start, flat->count);
}

/* By parameter to whose gradients nodes first .. past - 1 add: that becomes `mark`, or the node. */
enum { THE_NODE = -1 };

static void mark_sums(const ls_builder *b, int first, int past, int mark, int *of_flat) {
    const ls_graph *g = b->job->graph;
    for (int n = first; n < past; n++) {
        for (int o = 0; o < g->nodes[n].n_out; o++) {
            const ls_tensor storage = ls_graph_tensor(g, g->nodes[n].out[o])->storage;
            const bool sum = ls_graph_tensor(g, storage)->role == LS_ROLE_ACCUMULATOR;
            if (sum && b->flat_of[storage.id] >= 0) of_flat[b->flat_of[storage.id]] = mark == THE_NODE ? n : mark;
        }
    }
}

void ls_reduction_unit(ls_builder *b, int first, int past) {
    ls_reduction *r = b->reduction;
    if (r == NULL) return;
    r->unit = first;
    mark_sums(b, first, past, first, r->unit_of);
}

/* --- all buckets -------------------------------------------------------------------------------------------------- */

/* By flat: none yet. */
static int *no_nodes(const ls_builder *b) {
    int *of_flat = LS_NEW_ARRAY(b->image->arena, int, b->image->n_flats + 1);
    for (int f = 0; f < b->image->n_flats; f++) of_flat[f] = -1;
    return of_flat;
}

/* By group: the node after which its gradients are complete; after the last one where none adds to them. */
static int *find_ends(const ls_builder *b) {
    int *last = LS_NEW_ARRAY(b->image->arena, int, b->n_groups + 1);
    for (int i = 0; i < b->n_groups; i++) last[i] = -1;
    for (int f = 0, i = 0; f < b->image->n_flats; f++) {
        while (b->groups[i].start + b->groups[i].count <= b->image->flats[f].start) i++;
        last[i] = (int)ls_max(last[i], b->reduction->last_writer[f]);
    }
    for (int i = 0; i < b->n_groups; i++) {
        if (last[i] < 0) last[i] = b->end_node;
    }
    return last;
}

/* Buckets by the node after which they may leave; of one node, the later ones of the flat space first. */
static void put_in_order(ls_builder *b, const int *last) {
    ls_reduction *r = b->reduction;
    r->bucket = LS_NEW_ARRAY(b->image->arena, int, b->n_buckets + 1);
    r->when = LS_NEW_ARRAY(b->image->arena, int, b->n_buckets + 1);
    for (int k = b->n_buckets - 1, n = 0; k >= 0; k--, n++) {
        const int when = last[b->buckets[k].group];
        int at = n;
        for (; at > 0 && r->when[at - 1] > when; at--) {
            r->when[at] = r->when[at - 1];
            r->bucket[at] = r->bucket[at - 1];
        }
        r->when[at] = when;
        r->bucket[at] = k;
    }
}

/* How many addends each group will have. */
static void count_units(ls_builder *b) {
    const ls_reduction *r = b->reduction;
    int *unit_of = no_nodes(b);
    for (int first = b->row->first_node, past; first < b->end_node; first = past) {
        past = ls_tile_unit(b, first);
        mark_sums(b, first, past, first, unit_of);
        for (int f = 0, last = -1; f < b->image->n_flats; f++) {
            const int g = ls_group_of(b, f);
            if (unit_of[f] != first || g == last) continue;
            r->groups[g].n_units++;
            last = g;
        }
    }
}

void ls_reduction_begin(ls_builder *b) {
    if (ls_gradients_stay(b) || b->image->n_flats == 0) return; /* the shard is the gradients */
    ls_reduction *r = LS_NEW(b->image->arena, ls_reduction);
    const ls_binding *gradients = ls_image_find(b->image, LS_BIND_GRADIENTS);
    r->all.buffer = -1;
    if (gradients != NULL && !gradients->sharded) r->all = gradients->operand;
    r->groups = LS_NEW_ARRAY(b->image->arena, sums, b->n_groups);
    r->unit_of = no_nodes(b);
    r->last_writer = no_nodes(b);
    b->reduction = r;
    mark_sums(b, b->row->first_node, b->end_node, THE_NODE, r->last_writer);
    count_units(b);
    put_in_order(b, find_ends(b));
    ls_addends *addends = LS_NEW_ARRAY(b->image->arena, ls_addends, b->n_buckets);
    for (int i = 0; i < b->n_buckets; i++) {
        const ls_bucket *bucket = &b->buckets[r->bucket[i]];
        addends[i] = (ls_addends){bucket->count, (int)ls_max(1, r->groups[bucket->group].n_units)};
    }
    r->buckets = ls_reduce_scatter_make(b, "gradients", "gradient slots", b->stages, b->image->accumulator,
                                        b->n_buckets, addends);
}

/* The next bucket's sums to its owners' shards. */
static void leave(ls_builder *b) {
    ls_reduction *r = b->reduction;
    if (r->left == 0) ls_reduce_scatter_expect(b, r->buckets);
    const int k = r->bucket[r->left++];
    const ls_bucket *bucket = &b->buckets[k];
    const ls_flat_piece *piece = &b->image->pieces[k];
    const sums *s = &r->groups[bucket->group];
    const ls_operand shard = ls_image_find(b->image, LS_BIND_SHARD)->operand;
    const int64_t at = bucket->start - b->groups[bucket->group].start;
    const int n = (int)ls_max(1, s->n_units);
    ls_operand *from = LS_NEW_ARRAY(b->image->arena, ls_operand, n);
    if (s->n == 0) /* none was made: nothing adds to it, or the sums outlive programs */
        from[0] = ls_operand_slice(addend_of(b, bucket->group), 0, at, bucket->count);
    for (int i = 0; i < s->n; i++) from[i] = ls_operand_slice(s->addend[i], 0, at, bucket->count);
    ls_reduce_scatter_begin(b, r->buckets, from, ls_operand_slice(shard, 0, piece->at, piece->count),
                            b->cut->gradients && b->row->sums != LS_SUMS_BEGUN);
}

void ls_reduction_follow(ls_builder *b, int node) {
    const ls_reduction *r = b->reduction;
    while (r != NULL && r->left < b->n_buckets && r->when[r->left] <= node) leave(b);
}

void ls_reduction_end(ls_builder *b) {
    if (b->reduction == NULL) return;
    while (b->reduction->left < b->n_buckets) leave(b);
    ls_reduce_scatter_finish(b, b->reduction->buckets);
    b->reduction = NULL;
}
