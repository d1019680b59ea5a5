/*
 * The flat space: all parameters in the order of declaration. It is cut at parameters into groups, whose gradients lie together
 * and are complete together, and a group into buckets of equal size, which travel at once. Every rank owns a piece of each
 * bucket; its pieces are its shard.
 */
#include "compile/compile_impl.h"

enum {
    BUCKET_BYTES = 16 << 20,   /* of gradients: long enough that latency does not count */
    LEAST_BUCKETS = 4,         /* about so many in a small model, that it may overlap too */
    MOST_BUCKETS = 16,         /* at any number of ranks; */
    MOST_BUCKET_PIECES = 1024, /* and of few ranks more: an instruction or ten for each */
};

static void lay_parameters(ls_builder *b) {
    const ls_graph *g = b->job->graph;
    ls_image *image = b->image;
    image->flats = LS_NEW_ARRAY(image->arena, ls_flat, g->n_tensors);
    image->settings = LS_NEW_ARRAY(image->arena, ls_adamw_settings, g->n_tensors);
    b->flat_of = LS_NEW_ARRAY(image->arena, int, g->n_tensors);
    int64_t at = 0;
    for (int t = 0; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        b->flat_of[t] = info->role == LS_ROLE_ACCUMULATOR && info->of.id != 0 ? b->flat_of[info->of.id] : -1;
        if (t == 0 || info->role != LS_ROLE_PARAMETER) continue;
        const int f = image->n_flats++;
        b->flat_of[t] = f;
        image->flats[f] = (ls_flat){.name = ls_arena_strdup(image->arena, info->name),
                                    .shape = info->shape,
                                    .start = at,
                                    .count = ls_shape_elements(&info->shape),
                                    .group = ls_update_group(b, info, f)};
        at = (int64_t)ls_round_up((size_t)(at + ls_shape_elements(&info->shape)), LS_FLAT_UNIT);
    }
    image->flat_elements = ls_max(at / LS_FLAT_UNIT, ls_mesh_ranks(&b->target->mesh)) * LS_FLAT_UNIT;
}

/* Elements that a bucket is to have at least: of every bucket, each rank has a piece. */
static int64_t bucket_elements(const ls_builder *b) {
    const int P = ls_mesh_ranks(&b->target->mesh);
    const int64_t all = b->image->flat_elements / LS_FLAT_UNIT;
    if (P == 1) return b->image->flat_elements; /* nothing travels */
    int64_t units = BUCKET_BYTES / LS_FLAT_UNIT / (int64_t)ls_dtype_bytes(b->image->accumulator);
    units = ls_min(units, ls_ceil_div(all, LEAST_BUCKETS));
    units = ls_max(units, ls_ceil_div(all, ls_max(MOST_BUCKETS, MOST_BUCKET_PIECES / P)));
    return ls_max(units, P) * LS_FLAT_UNIT;
}

/* As few parameters as make a bucket; what is left at the end joins the last group. */
static void cut_groups(ls_builder *b, int64_t least) {
    ls_image *image = b->image;
    b->groups = LS_NEW_ARRAY(image->arena, ls_group, image->n_flats + 1);
    int64_t start = 0;
    for (int f = 0; f < image->n_flats; f++) {
        const int64_t end = f + 1 < image->n_flats ? image->flats[f + 1].start : image->flat_elements;
        if (end - start < least && f + 1 < image->n_flats) continue;
        if (end - start < least && b->n_groups > 0)
            b->groups[b->n_groups - 1].count += end - start;
        else
            b->groups[b->n_groups++] = (ls_group){.start = start, .count = end - start};
        start = end;
    }
}

static void cut_buckets(ls_builder *b, int64_t least) {
    ls_image *image = b->image;
    for (int g = 0; g < b->n_groups; g++) b->n_buckets += (int)ls_max(1, b->groups[g].count / least);
    b->buckets = LS_NEW_ARRAY(image->arena, ls_bucket, b->n_buckets);
    int n = 0;
    for (int g = 0; g < b->n_groups; g++) {
        ls_group *group = &b->groups[g];
        const int64_t units = group->count / LS_FLAT_UNIT;
        group->first_bucket = n;
        group->n_buckets = (int)ls_max(1, group->count / least);
        for (int i = 0; i < group->n_buckets; i++) {
            const int64_t from = ls_part_start(units, group->n_buckets, i);
            const int64_t to = ls_part_start(units, group->n_buckets, i + 1);
            b->buckets[n++] = (ls_bucket){group->start + from * LS_FLAT_UNIT, (to - from) * LS_FLAT_UNIT, g};
        }
    }
}

void ls_lay_flat(ls_builder *b) {
    ls_image *image = b->image;
    lay_parameters(b);
    ls_find_stages(b);
    const int64_t least = bucket_elements(b);
    cut_groups(b, least);
    cut_buckets(b, least);
    image->n_pieces = b->n_buckets;
    image->pieces = LS_NEW_ARRAY(image->arena, ls_flat_piece, image->n_pieces + 1);
    for (int k = 0; k < b->n_buckets; k++) {
        image->pieces[k] = ls_bucket_part(b, k, b->n_stages - 1, b->target->rank);
        image->pieces[k].at = image->shard_count;
        image->shard_count += image->pieces[k].count;
    }
}
