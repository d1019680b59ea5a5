/*
 * How gradients are added up over all ranks, and parameters handed to all: a bucket is reduced and scattered among ranks with
 * neighbouring numbers, then each part among the ranks that hold the same part (and gathered the other way). That sends no more bytes than
 * everyone to everyone at once, in far fewer messages: of 64 ranks each has 7 + 7 peers, not 63. (Chan, Heimlich, Purkayastha and van de
 * Geijn, "Collective communication: theory, practice, and experience", 2007, section 7: the mesh.) Few ranks take one stage: fewer waits.
 */
#include "compile/compile_impl.h"

enum { MANY_RANKS = 16 };

void ls_find_stages(ls_builder *b) {
    const int P = ls_mesh_ranks(&b->target->mesh);
    int near = P;
    if (P >= MANY_RANKS) {
        near = 1;
        while (near * near < P || P % near != 0) near++;
    }
    b->stage[0] = (ls_stage){.ranks = near, .stride = 1};
    b->stage[1] = (ls_stage){.ranks = P / near, .stride = near};
    b->n_stages = near < P ? 2 : 1;
}

int ls_stage_place(const ls_stage *stage, int rank) { return rank / stage->stride % stage->ranks; }

int ls_stage_peer(const ls_builder *b, int stage, int j) {
    const ls_stage *s = &b->stage[stage];
    const int me = b->target->rank, mine = ls_stage_place(s, me);
    return me + ((mine + j + s->ranks) % s->ranks - mine) * s->stride;
}

int ls_stage_channel(const ls_builder *b, int stage, int j) {
    int before = 0;
    for (int s = 0; s < stage; s++) before += b->stage[s].ranks - 1;
    return before + j;
}

/* Ranks that share a bucket's part after that stage. */
static int sharers(const ls_builder *b, int stage) {
    int n = ls_mesh_ranks(&b->target->mesh);
    for (int s = 0; s <= stage; s++) n /= b->stage[s].ranks;
    return n;
}

ls_flat_piece ls_bucket_part(const ls_builder *b, int bucket, int stage, int rank) {
    const ls_bucket *whole = &b->buckets[bucket];
    const int64_t units = whole->count / LS_FLAT_UNIT;
    const int P = ls_mesh_ranks(&b->target->mesh), count = sharers(b, stage);
    int first = 0; /* of the P pieces, those that are left lie together */
    for (int s = 0; s <= stage; s++) first += ls_stage_place(&b->stage[s], rank) * sharers(b, s);
    const int64_t from = ls_part_start(units, P, first), to = ls_part_start(units, P, first + count);
    LS_ASSERT(from < to);
    return (ls_flat_piece){whole->start + from * LS_FLAT_UNIT, (to - from) * LS_FLAT_UNIT, 0};
}

int64_t ls_largest_part(const ls_builder *b, int stage) {
    const int P = ls_mesh_ranks(&b->target->mesh);
    int64_t piece = 0;
    for (int k = 0; k < b->n_buckets; k++)
        piece = ls_max(piece, ls_ceil_div(b->buckets[k].count / LS_FLAT_UNIT, P) * LS_FLAT_UNIT);
    return piece * sharers(b, stage);
}
