/*
 * Gradients are partial sums over all ranks. Where the last addition to a group is done, its buckets leave, each part
 * for the rank that owns it, or that adds it up for others (stages.c), while the backward pass goes on. What arrives is
 * added, in rank order, when the next bucket has left, and goes on to the next stage; then its slot is handed over for
 * the next bucket but one. So a rank needs slots for two buckets, however many there are.
 */
#include "compile/compile_impl.h"

enum { SETS = 2 }; /* of slots: one is filled while the other is read */

struct ls_reduction {
    int *last_writer; /* by flat: the last of the nodes that add to its gradients, or -1 */
    int *bucket;      /* in the order in which they leave */
    int *when;        /* by place in that order: the node after which it may leave */
    int left;         /* so many have left */
    ls_operand slots[LS_TEAM_DIGITS];
    int64_t most[LS_TEAM_DIGITS]; /* elements of a slot */
    ls_operand *partial; /* by place in that order: this rank's sum over the first stage, where there is a second */
    ls_operand all;      /* gradients that outlive programs; buffer -1: each group has a buffer, made on first use */
    ls_operand *groups;  /* by group, then; buffer -1: not yet made */
};

/* --- where gradients lie ------------------------------------------------------------------------------------------ */

static const char *name_of_group(const ls_builder *b, int g) {
    const ls_image *image = b->image;
    int f = 0;
    while (image->flats[f].start < b->groups[g].start) f++;
    return ls_arena_printf(image->arena, "gradients from %s", image->flats[f].name);
}

/*
 * Zeroes what no node writes of a group's gradients: parameters that nothing depends on, and what lies between
 * parameters.
 */
static void fill_gaps(ls_builder *b, int g) {
    const ls_group *group = &b->groups[g];
    const ls_operand all = b->reduction->groups[g];
    int64_t written = 0; /* or zeroed, from the group's start on */
    for (int f = 0; f <= b->image->n_flats; f++) {
        const bool past = f == b->image->n_flats;
        const ls_flat *flat = &b->image->flats[f];
        const int64_t start = past ? group->count : flat->start - group->start;
        if (!past && (start < 0 || start >= group->count || b->reduction->last_writer[f] < 0)) continue;
        if (start > written) ls_build_fill(b, ls_operand_slice(all, 0, written, start - written));
        if (!past) written = start + flat->count;
    }
}

static ls_operand group_operand(ls_builder *b, int g) {
    ls_reduction *r = b->reduction;
    const ls_group *group = &b->groups[g];
    if (r->all.buffer >= 0) return ls_operand_slice(r->all, 0, group->start, group->count);
    if (r->groups[g].buffer < 0) {
        r->groups[g] =
            ls_build_private(b, LS_BUFFER_GRADIENT, name_of_group(b, g), b->image->accumulator, 1, &group->count);
        fill_gaps(b, g);
    }
    return r->groups[g];
}

ls_operand ls_reduction_place(ls_builder *b, ls_tensor sum) {
    const ls_flat *flat = &b->image->flats[b->flat_of[sum.id]];
    int g = 0;
    while (b->groups[g].start + b->groups[g].count <= flat->start) g++;
    return ls_operand_slice(group_operand(b, g), 0, flat->start - b->groups[g].start, flat->count);
}

/* --- one bucket --------------------------------------------------------------------------------------------------- */

static int64_t bucket_count(const ls_builder *b, int order) { return b->buckets[b->reduction->bucket[order]].count; }

/*
 * Of what this rank has added up before the stage, the part that goes to the rank `shift` places further in it, or
 * stays.
 */
static ls_operand part_of(ls_builder *b, int order, int stage, int shift) {
    const ls_bucket *bucket = &b->buckets[b->reduction->bucket[order]];
    ls_operand sum = stage > 0 ? b->reduction->partial[order]
                               : ls_operand_slice(group_operand(b, bucket->group), 0,
                                                  bucket->start - b->groups[bucket->group].start, bucket->count);
    const ls_stage *s = &b->stage[stage];
    return ls_build_share(b, sum, 0, ls_stage_count(b, bucket->count, stage), s->team, shift);
}

/*
 * The slots of a stage for a bucket that leaves as the given one: one for each rank of the stage, in the order of their
 * places.
 */
static ls_operand slots_of(const ls_builder *b, int order, int stage) {
    const ls_reduction *r = b->reduction;
    const int ranks = b->stage[stage].ranks;
    return ls_operand_slice(r->slots[stage], 0, order % SETS * ranks * r->most[stage],
                            ranks * ls_stage_count(b, bucket_count(b, order), stage));
}

/* The slot of the rank that stands `shift` places further. */
static ls_operand slot_of(ls_builder *b, int order, int stage, int shift) {
    return ls_build_share(b, slots_of(b, order, stage), 0, ls_stage_count(b, bucket_count(b, order), stage),
                          b->stage[stage].team, shift);
}

static int channel_of(ls_builder *b, int order, int stage, int j) {
    return ls_build_channel(b, "gradients.%d.%d", order % SETS, ls_stage_channel(b, stage, j));
}

static void hand_over(ls_builder *b, int order, int stage) {
    if (order >= b->n_buckets) return;
    for (int j = 1; j < b->stage[stage].ranks; j++)
        ls_build_grant(b, channel_of(b, order, stage, j), ls_build_peer(b, b->stage[stage].team, -j),
                       slot_of(b, order, stage, -j));
}

static void send(ls_builder *b, int order, int stage) {
    for (int j = 1; j < b->stage[stage].ranks; j++)
        ls_build_send(b, channel_of(b, order, stage, j), ls_build_peer(b, b->stage[stage].team, j),
                      part_of(b, order, stage, j), slot_of(b, order, stage, 0));
}

/* Where a stage's sum goes: into the shard, or to the next stage. */
static ls_operand sum_of(ls_builder *b, int order, int stage) {
    const ls_flat_piece *piece = &b->image->pieces[b->reduction->bucket[order]];
    if (stage + 1 == b->n_stages)
        return ls_operand_slice(ls_image_find(b->image, LS_BIND_SHARD)->operand, 0, piece->at, piece->count);
    const int64_t count = ls_stage_count(b, bucket_count(b, order), stage);
    return b->reduction->partial[order] =
               ls_build_private(b, LS_BUFFER_GRADIENT, "gradients of near ranks", b->image->accumulator, 1, &count);
}

/*
 * Adds the parts of all ranks of the stage in the order of their places; its own part goes through a slot like the
 * others'.
 */
static void collect(ls_builder *b, int order, int stage) {
    const int ranks = b->stage[stage].ranks;
    for (int j = 1; j < ranks; j++)
        ls_build_receive(b, channel_of(b, order, stage, j), ls_build_peer(b, b->stage[stage].team, -j),
                         slot_of(b, order, stage, -j));
    ls_build_copy(b, part_of(b, order, stage, 0), slot_of(b, order, stage, 0));
    ls_build_add_rows(b, slots_of(b, order, stage), ranks, sum_of(b, order, stage));
}

/* When that many buckets have left: each of the last few goes one stage on. */
static void go_on(ls_builder *b, int order) {
    for (int stage = 0; stage <= b->n_stages; stage++) {
        const int of = order - stage;
        if (of < 0 || of >= b->n_buckets) continue;
        if (stage > 0) collect(b, of, stage - 1);
        if (stage < b->n_stages) send(b, of, stage);
        if (stage > 0) hand_over(b, of + SETS, stage - 1);
    }
}

static void leave(ls_builder *b) {
    const int order = b->reduction->left++;
    for (int i = 0; order == 0 && i < SETS; i++) {
        for (int stage = 0; stage < b->n_stages; stage++) hand_over(b, i, stage);
    }
    go_on(b, order);
}

/* --- all buckets -------------------------------------------------------------------------------------------------- */

static int *find_last_writers(const ls_builder *b) {
    const ls_graph *g = b->job->graph;
    int *of_flat = LS_NEW_ARRAY(b->image->arena, int, b->image->n_flats + 1);
    for (int f = 0; f < b->image->n_flats; f++) of_flat[f] = -1;
    for (int n = b->row->first_node; n < b->end_node; n++) {
        for (int o = 0; o < g->nodes[n].n_out; o++) {
            const ls_tensor storage = ls_graph_tensor(g, g->nodes[n].out[o])->storage;
            const bool sum = ls_graph_tensor(g, storage)->role == LS_ROLE_ACCUMULATOR;
            if (sum && b->flat_of[storage.id] >= 0) of_flat[b->flat_of[storage.id]] = n;
        }
    }
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

void ls_reduction_begin(ls_builder *b) {
    const int P = ls_mesh_ranks(&b->target->mesh);
    if (P == 1 || b->image->n_flats == 0) return; /* the shard is the gradients */
    ls_reduction *r = LS_NEW(b->image->arena, ls_reduction);
    const ls_binding *gradients = ls_image_find(b->image, LS_BIND_GRADIENTS);
    r->all.buffer = -1;
    if (gradients != NULL) r->all = gradients->operand;
    r->groups = LS_NEW_ARRAY(b->image->arena, ls_operand, b->n_groups);
    for (int g = 0; g < b->n_groups; g++) r->groups[g].buffer = -1;
    b->reduction = r;
    r->last_writer = find_last_writers(b);
    put_in_order(b, find_ends(b));
    r->partial = LS_NEW_ARRAY(b->image->arena, ls_operand, b->n_buckets);
    for (int stage = 0; stage < b->n_stages; stage++) {
        for (int k = 0; k < b->n_buckets; k++)
            r->most[stage] = ls_max(r->most[stage], ls_stage_count(b, b->buckets[k].count, stage));
        const int64_t room = SETS * b->stage[stage].ranks * r->most[stage];
        r->slots[stage] =
            ls_build_symmetric(b, LS_BUFFER_SLOT, "gradient slots", room, b->image->accumulator, 1, &room);
    }
}

void ls_reduction_follow(ls_builder *b, int node) {
    const ls_reduction *r = b->reduction;
    while (r != NULL && r->left < b->n_buckets && r->when[r->left] <= node) leave(b);
}

void ls_reduction_end(ls_builder *b) {
    if (b->reduction == NULL) return;
    while (b->reduction->left < b->n_buckets) leave(b);
    for (int stage = 0; stage < b->n_stages; stage++) go_on(b, b->n_buckets + stage);
    b->reduction = NULL;
}
