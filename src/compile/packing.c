/*
 * The flat space holds all parameters in this order: the parameters that are updated element by element (first those
 * that tp cuts, then the whole ones whose gradients are summed over tp, then the rest, each in the order of
 * declaration); the parameters that the optimiser updates as whole matrices, shape by shape; the parameters that are
 * not trained, which have values only; and last the untrained ones that are kept in another type. The flat space is cut
 * between parameters into groups. The gradients of a group lie together and are complete together, and its parameters
 * are gathered together if ranks keep only shards. A group is cut into buckets of equal size, each of which travels in
 * one piece. Every rank owns a piece of each bucket; a rank's pieces are its shard. All pieces of a bucket have the
 * same size, for which groups are padded.
 */
#include "compile/redistribute/redistribute.h"

enum {
    BUCKET_BYTES = 16 << 20,       /* of gradients: large enough that latency does not matter */
    LEAST_BUCKETS = 4,             /* about as many in a small model, so that it can overlap too */
    MANY_BUCKETS = 64,             /* where there would be more, buckets become larger instead, */
    MOST_BUCKET_BYTES = 120 << 20, /* up to this: a rank has slots for two of them, and some more (reduce_scatter.c) */
};

static int64_t in_units(int64_t elements) { return (int64_t)ls_round_up((size_t)elements, LS_FLAT_UNIT); }

/* The axes of heads and features along which a parameter's gradient is a partial sum. */
static ls_axes summed_axes(const ls_builder *b, int parameter) {
    const ls_graph *g = b->job->graph;
    const ls_axes features = ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE);
    ls_axes summed = 0;
    for (int t = 1; t < g->n_tensors && features != 0; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role == LS_ROLE_ACCUMULATOR && info->of.id == parameter) summed |= b->sharding->tensor[t].partial;
    }
    return summed & features;
}

/* The error: along these axes a rank has only a part of each matrix, and nothing gathers the parts for the update. */
static void refuse_matrix(ls_builder *b, const ls_flat *flat) {
    char axes[64];
    ls_mesh_text(&b->target->mesh, flat->cut, axes, sizeof axes);
    ls_build_fail(b, ls_error(LS_USAGE,
                              "--optimizer %s updates whole matrices, and \"%s\" is cut along --mesh %s; expected "
                              "another optimizer, or a mesh without it",
                              ls_job_optimizer(b->job)->name, flat->name, axes));
}

/* number: of the parameter, in the order of declaration. */
static void lay_parameter(ls_builder *b, int t, int number) {
    const ls_tensor_info *info = &b->job->graph->tensors[t];
    ls_image *image = b->image;
    b->packing->flat_of[t] = image->n_flats++;
    ls_flat *flat = &image->flats[b->packing->flat_of[t]];
    *flat = (ls_flat){.name = ls_arena_strdup(image->arena, info->name),
                      .shape = info->shape,
                      .number = number,
                      .whole_count = ls_shape_elements(&info->shape),
                      .dtype = info->dtype,
                      .trained = !info->frozen,
                      .borrowed = info->borrowed,
                      .added = info->added,
                      .elsewhere = info->elsewhere,
                      .group = ls_update_group(b, info, number),
                      .matrix = info->matrix};
    for (int d = 0; d < info->shape.ndim; d++) {
        if (b->sharding->tensor[t].cut[d] == 0) continue;
        LS_ASSERT(flat->cut == 0);
        flat->cut = b->sharding->tensor[t].cut[d];
        flat->cut_dim = d;
        flat->units = b->sharding->units[t * LS_MAX_DIMS + d];
    }
    if (flat->matrix && flat->cut != 0) refuse_matrix(b, flat);
    flat->count = ls_flat_part(image, flat, b->target->rank);
    flat->summed = summed_axes(b, t);
}

static ls_axes cut_axes(const ls_builder *b, int t) {
    ls_axes axes = 0;
    for (int d = 0; d < LS_MAX_DIMS; d++) axes |= b->sharding->tensor[t].cut[d];
    return axes;
}

static void lay_trained_of(ls_builder *b, ls_axes cut, ls_axes summed) {
    const ls_graph *g = b->job->graph;
    for (int t = 1, number = 0; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        const bool is = cut_axes(b, t) == cut && summed_axes(b, t) == summed;
        if (is && !info->matrix && !info->frozen) lay_parameter(b, t, number);
        number++;
    }
}

/*
 * First come the parameters that axes of heads and features cut, then those for which ranks along these axes have
 * different terms of the gradient: all parameters of a group are cut and summed along the same axes.
 */
static void lay_trained(ls_builder *b) {
    const ls_axes features = ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE);
    for (ls_axes cut = features; cut != 0; cut = (cut - 1) & features)
        for (ls_axes summed = features & ~cut; summed != 0; summed = (summed - 1) & features & ~cut)
            lay_trained_of(b, cut, summed);
    for (ls_axes cut = features; cut != 0; cut = (cut - 1) & features) lay_trained_of(b, cut, 0);
    for (ls_axes summed = features; summed != 0; summed = (summed - 1) & features) lay_trained_of(b, 0, summed);
    lay_trained_of(b, 0, 0);
}

/* Lays out the matrices from tensor t on that have its shape. number: of the parameter t. */
static void lay_alike(ls_builder *b, int t, int number) {
    const ls_graph *g = b->job->graph;
    const ls_shape *shape = &g->tensors[t].shape;
    for (; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        const bool alike = info->matrix && info->shape.dim[0].size == shape->dim[0].size &&
                           info->shape.dim[1].size == shape->dim[1].size;
        if (alike) lay_parameter(b, t, number);
        number++;
    }
}

/* In files, parameters that are updated element by element are in the order of declaration, however they are cut. */
static void number_flats(ls_image *image) {
    int n = 0; /* the number of these parameters, which come first */
    while (n < image->n_flats && image->flats[n].trained && !image->flats[n].matrix) n++;
    int *declared = LS_NEW_ARRAY(image->arena, int, n + 1);
    for (int f = 0; f < n; f++) declared[f] = image->flats[f].number;
    for (int f = 0; f < n; f++) {
        image->flats[f].number = 0;
        for (int i = 0; i < n; i++) image->flats[f].number += declared[i] < declared[f];
    }
    for (int f = n; f < image->n_flats; f++) image->flats[f].number = f;
}

static void lay_parameters(ls_builder *b) {
    const ls_graph *g = b->job->graph;
    ls_image *image = b->image;
    image->flats = LS_NEW_ARRAY(image->arena, ls_flat, g->n_tensors);
    image->settings = LS_NEW_ARRAY(image->arena, ls_update_settings, g->n_tensors);
    b->packing->flat_of = LS_NEW_ARRAY(image->arena, int, g->n_tensors);
    for (int t = 0; t < g->n_tensors; t++) b->packing->flat_of[t] = -1;
    lay_trained(b);
    for (int t = 1, number = 0; t < g->n_tensors; t++) {
        if (g->tensors[t].role != LS_ROLE_PARAMETER) continue;
        if (b->packing->flat_of[t] < 0 && g->tensors[t].matrix) lay_alike(b, t, number);
        number++;
    }
    for (int kept = 0; kept < 2; kept++) {
        for (int t = 1, number = 0; t < g->n_tensors; t++) {
            const ls_tensor_info *info = &g->tensors[t];
            if (info->role != LS_ROLE_PARAMETER) continue;
            if (info->frozen && (info->dtype != g->dtype) == kept) lay_parameter(b, t, number);
            number++;
        }
    }
    number_flats(image);
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role == LS_ROLE_ACCUMULATOR && info->of.id != 0)
            b->packing->flat_of[t] = b->packing->flat_of[info->of.id];
    }
}

/* Elements that a parameter takes in the flat space: the same number on every rank, whatever the sizes of the parts. */
static int64_t room_of(const ls_builder *b, const ls_flat *flat) {
    int64_t most = flat->count;
    for (int rank = 0; rank < ls_mesh_ranks(&b->target->mesh) && flat->cut != 0; rank++)
        most = ls_max(most, ls_flat_part(b->image, flat, rank));
    return in_units(most);
}

/* The number of ranks that divide the flat space among them. */
static int sharers(const ls_builder *b) {
    const ls_mesh *mesh = &b->target->mesh;
    return ls_mesh_size(mesh, ls_mesh_shard_axes(mesh));
}

bool ls_gradients_stay(const ls_builder *b) { return sharers(b) == 1 && !b->packing->cut->gradients; }

/* The wanted number of elements of a bucket, a piece for each rank. */
static int64_t bucket_elements(const ls_builder *b) {
    int64_t all = 0;
    for (int f = 0; f < b->image->n_flats; f++) all += room_of(b, &b->image->flats[f]);
    if (ls_gradients_stay(b)) return all;
    const int64_t element = (int64_t)ls_dtype_bytes(b->image->accumulator);
    const int64_t few = ls_min(BUCKET_BYTES / element, ls_ceil_div(all, LEAST_BUCKETS));
    return ls_min(MOST_BUCKET_BYTES / element, ls_max(few, ls_ceil_div(all, MANY_BUCKETS)));
}

/* The number of buckets into which `count` elements are cut: of about the wanted size, none larger than the most. */
static int64_t count_buckets(const ls_builder *b, int64_t count, int64_t wanted) {
    if (ls_gradients_stay(b)) return 1;
    const int64_t most = MOST_BUCKET_BYTES / (int64_t)ls_dtype_bytes(b->image->accumulator);
    return ls_max(1, ls_max((count + wanted / 2) / wanted, ls_ceil_div(count, most)));
}

/* Ends the group of parameters first .. past - 1: its parameters, buckets and padding. */
static void end_group(ls_builder *b, int first, int past, int64_t least) {
    ls_image *image = b->image;
    const int64_t unit = (int64_t)LS_FLAT_UNIT * sharers(b);
    ls_group *group = &b->packing->groups[b->packing->n_groups++];
    int64_t whole = 0;
    *group = (ls_group){.start = image->flat_elements, .first = first, .past = past};
    for (int f = first; f < past; f++) {
        image->flats[f].start = group->start + group->count;
        image->flats[f].whole_start = image->whole_elements + whole;
        whole += in_units(image->flats[f].whole_count);
        group->count += room_of(b, &image->flats[f]);
    }
    group->first_bucket = b->packing->n_buckets;
    const int64_t bucket = ls_ceil_div(ls_ceil_div(group->count, count_buckets(b, group->count, least)), unit) * unit;
    group->n_buckets = (int)ls_ceil_div(group->count, bucket);
    group->count = group->n_buckets * bucket;
    for (int i = 0; i < group->n_buckets; i++)
        *LS_PUSH(image->arena, b->packing->buckets, b->packing->n_buckets, b->packing->bucket_capacity) =
            (ls_bucket){group->start + i * bucket, bucket, b->packing->n_groups - 1};
    image->flat_elements += group->count;
    image->whole_elements += ls_max(whole, group->count);
}

/* Groups of as few parameters as fill a bucket; the rest at the end joins the last group. ends: by parameter. */
static void end_by_size(const ls_builder *b, int64_t least, bool *ends) {
    const ls_image *image = b->image;
    int64_t after = 0; /* elements of the parameters after the group */
    for (int f = 0; f < b->image->n_flats; f++) after += room_of(b, &image->flats[f]);
    for (int64_t f = 0, count = 0; f < b->image->n_flats; f++) {
        count += room_of(b, &image->flats[f]);
        after -= room_of(b, &image->flats[f]);
        ends[f] = count >= least && after >= least;
        if (ends[f]) count = 0;
    }
}

/*
 * Whether the parameter has a row for each token of the vocabulary: with other parameters its group would be too large.
 */
static bool is_table(const ls_flat *flat, int64_t vocabulary) {
    bool table = false;
    for (int i = 0; i < flat->shape.ndim && flat->shape.ndim > 1; i++)
        table = table || flat->shape.dim[i].size == vocabulary;
    return table;
}

/*
 * A group has the parameters that are first read between the same two nodes that mix tokens, or by the second of these.
 * A parameter that nothing reads belongs to the group of the one before it.
 */
static void end_by_use(const ls_builder *b, bool *ends) {
    const ls_graph *g = b->job->graph;
    const ls_image *image = b->image;
    const int64_t vocabulary = ls_logits_width(g);
    int *segment = LS_NEW_ARRAY(image->arena, int, image->n_flats + 1); /* by parameter; 0: nothing has read it */
    for (int n = 0, now = 1; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const ls_tensor storage = ls_graph_tensor(g, g->nodes[n].in[i])->storage;
            const bool parameter = ls_graph_tensor(g, storage)->role == LS_ROLE_PARAMETER;
            if (parameter && segment[b->packing->flat_of[storage.id]] == 0)
                segment[b->packing->flat_of[storage.id]] = now;
        }
        now += g->nodes[n].op->reach != LS_REACH_OWN;
    }
    for (int f = 0; f + 1 < image->n_flats; f++) {
        if (segment[f + 1] == 0) segment[f + 1] = segment[f];
        ends[f] = segment[f + 1] != segment[f] || is_table(&image->flats[f], vocabulary) ||
                  is_table(&image->flats[f + 1], vocabulary);
    }
}

/*
 * Whether a group must end after the parameter: a whole matrix has its own group, and all parameters of a group have
 * the same type, are all trained or all not, and are cut along the same axes.
 */
static bool must_end(const ls_image *image, int f) {
    if (f + 1 == image->n_flats) return true;
    const ls_flat *flat = &image->flats[f], *next = &image->flats[f + 1];
    return flat->matrix || next->matrix || flat->trained != next->trained || flat->dtype != next->dtype ||
           flat->cut != next->cut || flat->summed != next->summed;
}

static bool is_any_here(const ls_image *image, int first, int past) {
    bool any = false;
    for (int f = first; f < past; f++) any |= !image->flats[f].elsewhere;
    return any;
}

static void cut_groups(ls_builder *b, int64_t least) {
    const ls_image *image = b->image;
    b->packing->groups = LS_NEW_ARRAY(image->arena, ls_group, image->n_flats + 1);
    bool *ends = LS_NEW_ARRAY(image->arena, bool, image->n_flats + 1);
    if (b->packing->cut->parameters || b->target->canonical)
        end_by_use(b, ends);
    else
        end_by_size(b, least, ends);
    for (int f = 0, first = 0; f < image->n_flats; f++) {
        if (!ends[f] && !must_end(image, f)) continue;
        if (is_any_here(image, first, f + 1)) end_group(b, first, f + 1, least);
        first = f + 1;
    }
}

/* Each stage has its own groups; for the host, whole parameters lie one after the other. */
static void place_whole(ls_image *image) {
    image->whole_elements = 0;
    for (int f = 0; f < image->n_flats; f++) {
        image->flats[f].whole_start = image->whole_elements;
        image->whole_elements += in_units(image->flats[f].whole_count);
    }
}

static void find_stages(ls_builder *b) {
    const ls_team team = ls_mesh_team(&b->target->mesh, ls_mesh_shard_axes(&b->target->mesh));
    const ls_stages stages = ls_stages_of(b, &team);
    b->packing->stages = ls_arena_copy(b->image->arena, &stages, sizeof stages);
    b->image->owners = ls_stages_owners(b, b->packing->stages);
}

/* Counts the buckets of parameters in type T. */
static void count_typed(ls_builder *b) {
    ls_image *image = b->image;
    const ls_packing *p = b->packing;
    while (image->n_typed_pieces < p->n_buckets &&
           image->flats[p->groups[p->buckets[image->n_typed_pieces].group].first].dtype == image->dtype)
        image->n_typed_pieces++;
}

/* Counts the groups, buckets and elements of trained parameters. */
static void count_trained(ls_builder *b) {
    ls_packing *p = b->packing;
    for (int f = 0; f < b->image->n_flats; f++) p->trains |= b->image->flats[f].trained;
    while (p->n_trained < p->n_groups && b->image->flats[p->groups[p->n_trained].first].trained) p->n_trained++;
    for (int k = 0; k < p->n_buckets && p->buckets[k].group < p->n_trained; k++) {
        b->image->n_trained_pieces = k + 1;
        b->image->trained_elements = p->buckets[k].start + p->buckets[k].count;
    }
}

void ls_lay_flat(ls_builder *b) {
    ls_image *image = b->image;
    b->packing = LS_NEW(image->arena, ls_packing);
    b->packing->cut = ls_target_shard(b->target);
    lay_parameters(b);
    find_stages(b);
    cut_groups(b, bucket_elements(b));
    if (ls_mesh_stages(&b->target->mesh) > 1) place_whole(image);
    image->n_pieces = b->packing->n_buckets;
    image->pieces = LS_NEW_ARRAY(image->arena, ls_flat_piece, image->n_pieces + 1);
    count_trained(b);
    count_typed(b);
    for (int k = 0; k < b->packing->n_buckets; k++) {
        const int64_t count = ls_stages_piece_count(b->packing->stages, b->packing->buckets[k].count);
        image->pieces[k] = (ls_flat_piece){b->packing->buckets[k].start, count, image->shard_count};
        image->shard_count += count;
        if (k < image->n_trained_pieces) image->trained_shard = image->shard_count;
    }
}

int ls_group_of(const ls_builder *b, int flat) {
    int g = 0;
    while (b->packing->groups[g].start + b->packing->groups[g].count <= b->image->flats[flat].start) g++;
    return g;
}

void ls_group_note(const ls_builder *b, int group, ls_operand all) {
    b->image->buffers[all.buffer].flat = b->packing->groups[group].start;
}

ls_operand ls_group_buckets(const ls_builder *b, int group, ls_operand all) {
    const ls_group *g = &b->packing->groups[group];
    return ls_operand_dense(all.buffer, all.offset, all.view.dtype, 2,
                            (int64_t[]){g->n_buckets, g->count / g->n_buckets});
}

const char *ls_group_name(const ls_builder *b, const char *what, int group) {
    const ls_image *image = b->image;
    int f = 0;
    while (image->flats[f].elsewhere || image->flats[f].start < b->packing->groups[group].start) f++;
    return ls_arena_printf(image->arena, "%s from %s", what, image->flats[f].name);
}

ls_operand ls_group_pieces(const ls_builder *b, int group, const char *shard) {
    const ls_group *g = &b->packing->groups[group];
    const ls_flat_piece *first = &b->image->pieces[g->first_bucket];
    const ls_flat_piece all = {first->start, g->n_buckets * first->count, first->at};
    const ls_operand pieces = ls_image_part(b->image, shard, &all);
    return ls_operand_dense(pieces.buffer, pieces.offset, pieces.view.dtype, 2,
                            (int64_t[]){g->n_buckets, first->count});
}

ls_operand ls_group_parameter(const ls_builder *b, int group, int flat, ls_operand all) {
    const ls_flat *f = &b->image->flats[flat];
    return ls_operand_slice(all, 0, f->start - b->packing->groups[group].start, f->count);
}

ls_operand ls_bucket_shard(const ls_builder *b, int bucket) {
    return ls_image_part(b->image, LS_BIND_SHARD, &b->image->pieces[bucket]);
}

ls_operand ls_groups_shard(const ls_builder *b, int first, int past) {
    const ls_group *last = &b->packing->groups[past - 1];
    const ls_flat_piece *from = &b->image->pieces[b->packing->groups[first].first_bucket],
                        *to = &b->image->pieces[last->first_bucket + last->n_buckets - 1];
    return ls_image_part(b->image, LS_BIND_SHARD,
                         &(ls_flat_piece){from->start, to->at + to->count - from->at, from->at});
}
