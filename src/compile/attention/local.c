/*
 * local: one rank holds the whole sequence, and nothing is sent. Results are made in type G. Where they are kept in a
 * narrower type, this is done for a few heads at a time, so that little memory of type G is needed at once.
 */
#include "compile/attention/attention.h"

/*
 * KV heads at a time: so many that o or dq in type G takes as much as the device is given, but at least one. A sink is
 * merged into o and lse of all heads at once.
 */
static int64_t heads_at_a_time(const ls_builder *b, const ls_site *site) {
    const ls_dtype G = b->image->accumulator;
    if (G == b->image->dtype || site->forward.sink >= 0) return site->Hkv;
    const int64_t most = ls_max(site->D[LS_KEYS], site->D[LS_VALUES]);
    const int64_t bytes = ls_view_elements(&site->q.view) / site->D[LS_KEYS] * most * (int64_t)ls_dtype_bytes(G);
    const int64_t groups = ls_max(1, ls_min(site->Hkv, ls_ceil_div(bytes, ls_tiles_of(b->target).wide)));
    return ls_ceil_div(site->Hkv, groups);
}

/* Some KV heads with the query heads that share them. */
typedef struct group {
    int64_t kv, n_kv, q, n_q;
} group;

static group group_at(const ls_site *site, int64_t kv, int64_t most) {
    const int64_t share = site->params.group, n = ls_min(most, site->Hkv - kv);
    const int64_t q = ls_max(kv * share - site->skipped, 0), end = ls_min((kv + n) * share - site->skipped, site->Hq);
    return (group){kv, n, q, end - q};
}

static ls_operand q_heads(ls_operand o, const group *g) { return ls_operand_slice(o, 2, g->q, g->n_q); }
static ls_operand q_rows(ls_operand o, const group *g) { return ls_operand_slice(o, 1, g->q, g->n_q); }
static ls_operand kv_heads(ls_operand o, const group *g) { return ls_operand_slice(o, 2, g->kv, g->n_kv); }

static ls_attention_call call_of(ls_builder *b, const ls_site *site, const group *g) {
    const int me = ls_ring_index(b);
    ls_attention_params params = site->params;
    params.first_q = (int)(site->skipped + g->q - g->kv * params.group);
    return (ls_attention_call){.params = params,
                               .q = q_heads(site->q, g),
                               .k = kv_heads(site->k, g),
                               .v = kv_heads(site->v, g),
                               .spans = b->image->masks[site->mask].spans,
                               .positions =
                                   ls_key_positions(b, site->mask, ls_block_start(b, me), ls_block_tokens(b, me)),
                               .area = ls_seen_areas(b, site->mask, me, me)};
}

/* Where a group's part of a result is made: directly in the result, or in a buffer of type G that all groups share. */
static ls_operand made_in(const ls_builder *b, ls_operand place, ls_operand room) {
    if (place.view.dtype == b->image->accumulator) return place;
    return ls_operand_dense(room.buffer, room.offset, room.view.dtype, 4, place.view.size);
}

/* A buffer of type G for so many heads of D elements; none if results are made directly in their tensors. */
static ls_operand room_for(ls_builder *b, const ls_site *site, int64_t heads, int64_t D, const char *name) {
    const ls_dtype G = b->image->accumulator;
    const int64_t size[] = {site->B, site->q.view.size[1], heads, D};
    if (G == b->image->dtype) return (ls_operand){.buffer = -1};
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, G, 4, size);
}

static void keep(ls_builder *b, ls_operand made, ls_operand place) {
    if (made.view.dtype != place.view.dtype)
        ls_build_cast(b, made, place);
    else if (made.buffer != place.buffer)
        ls_build_copy(b, made, place);
}

/* The gradient between a group's queries and the keys of an earlier slice; that of the queries is added to `dq`. */
static void grad_of_earlier(ls_builder *b, const ls_site *site, ls_site *keys, const group *g,
                            const ls_attention_given *given, ls_operand dq) {
    ls_operand room[LS_KV];
    const ls_site with = ls_site_with(b, site, keys);
    ls_attention_call call = call_of(b, &with, g);
    ls_slice_room(b, keys, room);
    call.params.accumulate_dkv = true;
    ls_build_attention_grad(b, &call, given, dq, kv_heads(room[LS_KEYS], g), kv_heads(room[LS_VALUES], g));
}

void ls_local_forward(ls_builder *b, ls_site *site) {
    const ls_operand o = ls_lower_tensor(b, site->forward.o);
    const int64_t most = heads_at_a_time(b, site);
    const ls_operand room = room_for(b, site, ls_min(most * site->params.group, site->Hq), site->D[LS_VALUES], "o");
    for (int64_t kv = 0; kv < site->Hkv; kv += most) {
        const group g = group_at(site, kv, most);
        const ls_operand place = q_heads(o, &g), made = made_in(b, place, room);
        for (const ls_site *keys = site; keys != NULL; keys = ls_slice_before(b, site, keys)) {
            const ls_site with = ls_site_with(b, site, keys);
            const ls_attention_call call = call_of(b, &with, &g);
            ls_build_attention(b, &call, made, q_rows(site->lse, &g));
        }
        ls_sink_forward(b, site, made);
        keep(b, made, place);
    }
}

void ls_local_backward(ls_builder *b, ls_site *site, const ls_attention_tensors *gradient, ls_operand grad_o,
                       ls_operand delta) {
    enum { DQ, DK, DV, RESULTS };
    const ls_tensor result[RESULTS] = {gradient->dq, gradient->dk, gradient->dv};
    const int64_t most = heads_at_a_time(b, site);
    const int64_t D = site->D[LS_KEYS], E = site->D[LS_VALUES];
    const ls_operand room[RESULTS] = {room_for(b, site, ls_min(most * site->params.group, site->Hq), D, "dq"),
                                      room_for(b, site, most, D, "dk"), room_for(b, site, most, E, "dv")};
    const bool carried = ls_slice_is_carried(site);
    for (int i = DK; i < RESULTS && site->kv_whole; i++) ls_build_fill(b, ls_lower_tensor(b, result[i]));
    for (int64_t kv = 0; kv < site->Hkv; kv += most) {
        const group g = group_at(site, kv, most);
        ls_attention_call call = call_of(b, site, &g);
        const ls_attention_given given = {q_heads(grad_o, &g), q_rows(site->lse, &g), q_rows(delta, &g)};
        ls_operand place[RESULTS], made[RESULTS];
        for (int i = 0; i < RESULTS; i++) {
            const ls_operand whole = ls_lower_tensor(b, result[i]);
            place[i] = i == DQ ? q_heads(whole, &g) : kv_heads(ls_site_kv(b, site, whole), &g);
            made[i] = carried && i != DQ ? kv_heads(site->carried[i - DK], &g) : made_in(b, place[i], room[i]);
        }
        call.params.accumulate_dkv = carried;
        ls_build_attention_grad(b, &call, &given, made[DQ], made[DK], made[DV]);
        for (ls_site *keys = ls_slice_before(b, site, site); keys != NULL; keys = ls_slice_before(b, site, keys))
            grad_of_earlier(b, site, keys, &g, &given, made[DQ]);
        for (int i = 0; i < RESULTS; i++) keep(b, made[i], place[i]);
    }
}

static ls_status applicable(const ls_strategy *strategy, const ls_attention_problem *p) {
    (void)strategy;
    const int ranks = ls_mesh_sequence_ranks(&p->mesh);
    if (ranks != 1) return ls_error(LS_USAGE, "strategy local: %d ranks share the sequence, expected 1", ranks);
    return ls_ok();
}

const ls_strategy ls_strategy_local = {
    .name = "local",
    .about = "one rank holds the whole sequence",
    .reads_in_place = true,
    .ordered = true,
    .applicable = applicable,
};
