/*
 * Queries travel to resting keys and values: the common part of tokenring, decode and the backward pass of burst. In
 * tokenring and decode a block of queries goes from its owner directly to each rank whose keys it sees, and the partial
 * result that this rank finds goes directly back. As in the ring, hop h joins each block of queries with the keys of
 * the block h before it. The rounds are the hops over which any rank sees anything; round 0 is the owner's own keys.
 *
 * If the mask leaves nothing of a pair of blocks, no kernel runs in that round and nothing is sent, not even a signal:
 * both ends find that from the same mask.
 */
#include "compile/attention/attention.h"

static int hop_of(const ls_queries *q, int round) { return round > 0 ? q->hops[round - 1] : 0; }

int ls_queries_from(const ls_builder *b, const ls_queries *q, int round) { return ls_block_at(b, -hop_of(q, round)); }

int ls_queries_to(const ls_builder *b, const ls_queries *q, int round) { return ls_block_at(b, hop_of(q, round)); }

bool ls_queries_see_mine(ls_builder *b, const ls_queries *q, int round) {
    return ls_seen(b, q->site->mask, ls_queries_from(b, q, round), ls_ring_index(b))->count > 0;
}

bool ls_mine_see_there(ls_builder *b, const ls_queries *q, int round) {
    return ls_seen(b, q->site->mask, ls_ring_index(b), ls_queries_to(b, q, round))->count > 0;
}

/* --- transfers ---------------------------------------------------------------------------------------------------- */

/* The dimension of tokens: the second of queries and results, the last of lse and delta. */
static int token_dim(ls_operand o) { return o.view.ndim == 4 ? 1 : 2; }

ls_operand ls_query_tokens(ls_operand o, int64_t tokens) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < o.view.ndim; i++) size[i] = o.view.size[i];
    size[token_dim(o)] = tokens;
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, o.view.ndim, size);
}

static ls_operand nothing_of(ls_operand o) { return ls_operand_slice(o, token_dim(o), 0, 0); }

/* The two ends of a channel are the same at every use, since both directions have channels of their own. */
static int channel(ls_builder *b, const ls_query_transfer *v, int i, int round) {
    return ls_build_channel(b, "%s.%s.%s.%d", v->q->site->strategy->name, v->back ? "back" : "out", v->name[i],
                            hop_of(v->q, round));
}

static ls_peer sender(ls_builder *b, const ls_query_transfer *v, int round) {
    return ls_rank_in_ring(b, v->back ? ls_queries_to(b, v->q, round) : ls_queries_from(b, v->q, round));
}

static ls_peer receiver(ls_builder *b, const ls_query_transfer *v, int round) {
    return ls_rank_in_ring(b, v->back ? ls_queries_from(b, v->q, round) : ls_queries_to(b, v->q, round));
}

static const ls_operand *slot_of(const ls_query_transfer *v, int i, int round) {
    return &v->slot[i * v->slots + (round - 1) % v->slots];
}

/* Whether a transfer has any data. sends: asked by the sender. */
static bool carries(ls_builder *b, const ls_query_transfer *v, int round, bool sends) {
    return v->back == sends ? ls_queries_see_mine(b, v->q, round) : ls_mine_see_there(b, v->q, round);
}

/* What arrives, in its slot. */
static ls_operand arriving(ls_builder *b, const ls_query_transfer *v, int i, int round) {
    const int64_t tokens = ls_block_tokens(b, v->back ? ls_ring_index(b) : ls_queries_from(b, v->q, round));
    const ls_operand all = ls_query_tokens(*slot_of(v, i, round), tokens);
    return carries(b, v, round, false) ? all : nothing_of(all);
}

static void ready(ls_builder *b, const ls_query_transfer *v, int round) {
    for (int i = 0; i < v->n; i++)
        ls_build_grant(b, channel(b, v, i, round), sender(b, v, round), arriving(b, v, i, round));
}

static ls_query_transfer begin(ls_builder *b, const ls_queries *q, bool back, int slots) {
    const int64_t most = ls_block_most(b);
    ls_query_transfer v = {.q = q,
                           .back = back,
                           .n = back ? q->n_found : q->n_own,
                           .name = back ? q->found_name : q->own_name,
                           .slots = (int)ls_min(slots, q->rounds)};
    v.slot = LS_NEW_ARRAY(b->image->arena, ls_operand, v.n * v.slots + 1);
    for (int k = 0; k < v.n * v.slots; k++) {
        const int i = k / v.slots;
        const ls_operand like = ls_query_tokens(back ? q->found[i] : q->own[i], most);
        const int64_t heads = like.view.size[like.view.ndim == 4 ? 2 : 1];
        const char *name = ls_arena_printf(b->image->arena, "%s slot %d", v.name[i], k % v.slots);
        v.slot[k] =
            ls_build_symmetric(b, LS_BUFFER_SLOT, name, ls_view_elements(&like.view) / heads * q->site->q_heads.most,
                               like.view.dtype, like.view.ndim, like.view.size);
    }
    for (int round = 1; round <= v.slots; round++) ready(b, &v, round);
    return v;
}

ls_query_transfer ls_query_transfer_out(ls_builder *b, const ls_queries *q, int slots) {
    return begin(b, q, false, slots);
}
ls_query_transfer ls_query_transfer_back(ls_builder *b, const ls_queries *q, int slots) {
    return begin(b, q, true, slots);
}

void ls_query_send(ls_builder *b, const ls_query_transfer *v, int round, const ls_operand from[]) {
    const bool full = carries(b, v, round, true);
    for (int i = 0; i < v->n; i++) {
        const ls_operand to = ls_query_tokens(*slot_of(v, i, round), from[i].view.size[token_dim(from[i])]);
        ls_build_send(b, channel(b, v, i, round), receiver(b, v, round), full ? from[i] : nothing_of(from[i]),
                      full ? to : nothing_of(to));
    }
}

void ls_query_receive(ls_builder *b, const ls_query_transfer *v, int round, ls_operand out[]) {
    for (int i = 0; i < v->n; i++) {
        out[i] = arriving(b, v, i, round);
        ls_build_receive(b, channel(b, v, i, round), sender(b, v, round), out[i]);
    }
}

void ls_query_release(ls_builder *b, const ls_query_transfer *v, int round) {
    if (round + v->slots <= v->q->rounds) ready(b, v, round + v->slots);
}

/* --- what is done ------------------------------------------------------------------------------------------------- */

void ls_round_results(ls_builder *b, const ls_queries *q, int round, ls_operand part[]) {
    const int64_t tokens = ls_block_tokens(b, ls_queries_from(b, q, round));
    for (int i = 0; i < q->n_found; i++) {
        const ls_view *v = &q->found[i].view;
        const char *name = ls_arena_printf(b->image->arena, "%s part", q->found_name[i]);
        part[i] = ls_build_private(b, LS_BUFFER_ACTIVATION, name, v->dtype, v->ndim,
                                   ls_query_tokens(q->found[i], tokens).view.size);
    }
}

void ls_copy_results(ls_builder *b, const ls_queries *q, const ls_operand part[]) {
    for (int i = 0; i < q->n_found; i++) ls_build_copy(b, part[i], q->found[i]);
}

/* The queries that are here in a round, with my keys. */
static ls_attention_call call_of(ls_builder *b, const ls_queries *q, int round, ls_operand queries) {
    const ls_site *site = q->site;
    const int me = ls_ring_index(b);
    return (ls_attention_call){.params = site->params,
                               .q = queries,
                               .k = site->k,
                               .v = site->v,
                               .spans = b->image->masks[site->mask + hop_of(q, round)].spans,
                               .positions =
                                   ls_key_positions(b, site->mask, ls_block_start(b, me), ls_block_tokens(b, me)),
                               .area = ls_seen_areas(b, site->mask, ls_queries_from(b, q, round), me)};
}

static void attend(ls_builder *b, const ls_queries *q, int round, const ls_operand in[], const ls_operand part[]) {
    const ls_attention_call call = call_of(b, q, round, in[0]);
    ls_build_attention(b, &call, part[0], part[1]);
}

static void merge(ls_builder *b, const ls_queries *q, const ls_operand part[]) {
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention_merge",
                                          .kernel = LS_KERNEL_ATTENTION_MERGE,
                                          .dtype = b->image->dtype,
                                          .n_in = 2,
                                          .in = {part[0], part[1]},
                                          .n_out = 2,
                                          .out = {q->found[0], q->found[1]}});
}

/* My own queries come first and write dk and dv; the parts of other ranks' queries are added to these. */
static void attend_back(ls_builder *b, const ls_queries *q, int round, const ls_operand in[], const ls_operand part[]) {
    ls_attention_call call = call_of(b, q, round, in[0]);
    call.params.accumulate_dkv = round > 0;
    const ls_attention_given given = {.grad_o = in[1], .lse = in[2], .delta = in[3]};
    ls_build_attention_grad(b, &call, &given, part[0], q->dkv[LS_KEYS], q->dkv[LS_VALUES]);
}

static void add(ls_builder *b, const ls_queries *q, const ls_operand part[]) {
    ls_build_accumulate(b, part[0], q->found[0]);
}

void ls_queries_forward(ls_builder *b, ls_site *site, ls_operand o) {
    static const char *const own[] = {"q"}, *const found[] = {"o", "lse"};
    ls_queries q = {.site = site,
                    .n_own = 1,
                    .own = {site->q},
                    .own_name = own,
                    .n_found = 2,
                    .found = {o, site->lse},
                    .found_name = found,
                    .attend = attend,
                    .join = merge};
    q.rounds = ls_hops(b, site->mask, &q.hops);
    site->strategy->query_schedule(b, &q);
}

void ls_queries_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                         ls_operand *dk, ls_operand *dv) {
    static const char *const own[] = {"q", "do", "lse", "delta"}, *const found[] = {"dq"};
    const int64_t rows = site->B * ls_block_most(b) * site->kv_heads.most;
    *dk = ls_exchange_room(b, "dk", b->image->accumulator, 4, site->k.view.size, rows * site->D[LS_KEYS]);
    *dv = ls_exchange_room(b, "dv", b->image->accumulator, 4, site->v.view.size, rows * site->D[LS_VALUES]);
    ls_queries q = {.site = site,
                    .n_own = 4,
                    .own = {site->q, grad_o, site->lse, delta},
                    .own_name = own,
                    .n_found = 1,
                    .found = {dq},
                    .found_name = found,
                    .dkv = {*dk, *dv},
                    .attend = attend_back,
                    .join = add};
    q.rounds = ls_hops(b, site->mask, &q.hops);
    site->strategy->query_schedule(b, &q);
}
