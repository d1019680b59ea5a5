/*
 * Ring self-attention (Li et al., "Sequence parallelism: long sequence training from system perspective", arXiv
 * 2105.13120), the predecessor of ring attention. Keys go round the ring, and each rank computes the scores of its
 * queries with all keys; the softmax is over whole rows; then values go round, and each rank adds their weighted sums.
 * Nothing is merged by log-sum-exp. In the backward pass values go round for the gradient of the weights, then keys for
 * the gradient of the queries, while each rank's parts of dV and dK go to the ranks of their blocks.
 *
 * It sends as many bytes as the ring, and keeps Hq n S scores, in type G, for the gradient. It exists for comparison:
 * its kernels are simple. They work in type G, to which keys and values are cast when they arrive.
 */
#include "compile/attention/attention.h"

/* --- the kernels -------------------------------------------------------------------------------------------------- */

/* A call in which some operand has a number for each pair of a query (of each query head) and a key. */
static ls_kernel_build call_of(const ls_builder *b, const ls_site *site, ls_kernel_id kernel) {
    return (ls_kernel_build){.op = ls_contracts[kernel].name,
                             .kernel = kernel,
                             .dtype = b->image->accumulator,
                             .params = &site->params,
                             .params_bytes = sizeof site->params};
}

/* Such a call for products over the elements of a head. */
static ls_kernel_build product_of(const ls_builder *b, const ls_site *site, ls_kernel_id kernel, ls_operand pairs,
                                  ls_operand values) {
    ls_kernel_build call = call_of(b, site, kernel);
    call.flops = 2 * (double)ls_view_elements(&pairs.view) * (double)values.view.size[3];
    call.n_in = 2;
    call.n_out = 1;
    return call;
}

/* pairs [B,heads,n,m] = q·k; q has the shape of queries, k the shape of keys. */
static void multiply(ls_builder *b, const ls_site *site, ls_operand q, ls_operand k, ls_operand pairs) {
    ls_kernel_build call = product_of(b, site, LS_KERNEL_ATTENTION_PRODUCTS, pairs, k);
    call.in[0] = q;
    call.in[1] = k;
    call.out[0] = pairs;
    ls_build_kernel(b, &call);
}

/* Sums of `values`, weighted by `pairs`. */
static void add_weighted(ls_builder *b, const ls_site *site, ls_kernel_id kernel, const ls_attention_params *params,
                         ls_operand pairs, ls_operand values, ls_operand sum) {
    ls_kernel_build call = product_of(b, site, kernel, pairs, values);
    call.params = params;
    call.in[0] = pairs;
    call.in[1] = values;
    call.out[0] = sum;
    ls_build_kernel(b, &call);
}

/* For each query, the weighted sum of values that have the shape of keys. first: written; else added to `sum`. */
static void add_to_queries(ls_builder *b, const ls_site *site, ls_operand pairs, ls_operand k, ls_operand sum,
                           bool first) {
    ls_attention_params params = site->params;
    params.accumulate_dq = !first;
    add_weighted(b, site, LS_KERNEL_ATTENTION_WEIGHTED, &params, pairs, k, sum);
}

/* For each key, the weighted sum of values that have the shape of queries. */
static void sum_for_keys(ls_builder *b, const ls_site *site, ls_operand pairs, ls_operand q, ls_operand sum) {
    add_weighted(b, site, LS_KERNEL_ATTENTION_WEIGHTED_BACK, &site->params, pairs, q, sum);
}

/* The same values in type G. */
static ls_operand widened(ls_builder *b, ls_operand values) {
    const ls_dtype G = b->image->accumulator;
    if (values.view.dtype == G) return values;
    const ls_operand wide = ls_build_private(b, LS_BUFFER_ACTIVATION, "wide", G, 4, values.view.size);
    ls_build_cast(b, values, wide);
    return wide;
}

/* --- rounds of keys or values ------------------------------------------------------------------------------------- */

/* What a callback needs where my queries meet one range of some block. */
typedef struct meeting {
    ls_operand come;      /* the range's keys or values, in type G: [B,count,kv heads,D] */
    ls_operand pairs;     /* the range's columns of the rows: [B,heads,n,count] */
    ls_operand positions; /* i32[count] */
    ls_operand part;      /* backward only: where to make the range's gradient */
    bool first;
} meeting;

/* The columns of one range of a block in the rows of scores, which have the tokens that I see, block after block. */
static ls_operand columns_of(ls_builder *b, const ls_site *site, ls_operand scores, int block, int index) {
    const int me = ls_ring_index(b);
    const ls_token_set *seen = ls_seen(b, site->mask, me, block);
    int64_t at = ls_seen_in_front(b, site->mask, me, block);
    for (int i = 0; i < index; i++) at += seen->range[i].count;
    return ls_operand_slice(scores, 3, at, seen->range[index].count);
}

/* Called once for each range that my queries meet. */
typedef void (*meet_range)(ls_builder *b, const ls_site *site, void *context, const meeting *m);

/*
 * Keys or values (w) go once round the ring; each range of them meets its columns of `rows`. *sum: their gradient;
 * NULL: forward pass.
 */
static void go_round(ls_builder *b, ls_site *site, int w, ls_operand rows, meet_range meet, void *context,
                     ls_operand *sum) {
    const bool backward = sum != NULL;
    const ls_kv_transfer *transfer = ls_kv_transfer_of(b);
    void *state = transfer->begin(b, site, (ls_kv_pass){w, w + 1, backward});
    int hop = 0;
    do {
        const int block = ls_block_at(b, hop);
        const bool used = ls_hop_is_used(b, site->mask, hop);
        const ls_token_set *seen = ls_seen(b, site->mask, ls_ring_index(b), block), *room = NULL;
        ls_kv_block here;
        ls_operand part[LS_KV] = {{0}};
        transfer->receive_block(b, state, hop, &here);
        if (used && backward) room = transfer->gradient_room(b, state, hop, part);
        for (int i = 0; i < seen->n; i++) {
            const ls_token_range range = seen->range[i];
            const meeting m = {.come = widened(b, ls_tokens_at(here.kv[w], here.tokens, range)),
                               .pairs = columns_of(b, site, rows, block, i),
                               .positions =
                                   ls_key_positions(b, site->mask, ls_block_start(b, block) + range.start, range.count),
                               .part = backward ? ls_tokens_at(part[w], room, range) : (ls_operand){.buffer = -1},
                               .first = hop == 0 && i == 0};
            meet(b, site, context, &m);
        }
        transfer->release_block(b, state, hop);
        if (used && backward) transfer->send_gradient(b, state, hop, part);
        hop = ls_next_hop(b, site->mask, hop);
    } while (hop > 0);
    ls_operand sums[LS_KV];
    if (backward) {
        transfer->sum_gradients(b, state, sums);
        *sum = sums[w];
    }
    transfer->end(b, state);
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

static void score(ls_builder *b, const ls_site *site, void *context, const meeting *m) {
    const ls_operand *q = context;
    multiply(b, site, *q, m->come, m->pairs);
}

/* The scores of my queries with all keys that they see: q·k, not scaled and not masked. */
static void make_scores(ls_builder *b, ls_site *site) {
    const int64_t *q = site->q.view.size;
    const int64_t size[] = {site->B, q[2], q[1], ls_seen_in_front(b, site->mask, ls_ring_index(b), ls_blocks(b))};
    ls_operand wide = widened(b, site->q);
    site->scores = ls_build_private(b, LS_BUFFER_ACTIVATION, "scores", b->image->accumulator, 4, size);
    go_round(b, site, LS_KEYS, site->scores, score, &wide, NULL);
}

static void add_values(ls_builder *b, const ls_site *site, void *context, const meeting *m) {
    const ls_operand *o = context;
    add_to_queries(b, site, m->pairs, m->come, *o, m->first);
}

static void rsa_forward(ls_builder *b, ls_site *site, ls_operand o) {
    make_scores(b, site);
    const ls_operand weights =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "weights", b->image->accumulator, 4, site->scores.view.size);
    ls_kernel_build call = call_of(b, site, LS_KERNEL_ATTENTION_SOFTMAX);
    call.n_in = 3;
    call.in[0] = site->scores;
    call.in[1] = b->image->masks[site->mask].spans;
    call.in[2] = ls_positions_seen(b, site->mask);
    call.n_out = 2;
    call.out[0] = weights;
    call.out[1] = site->lse;
    ls_build_kernel(b, &call);
    go_round(b, site, LS_VALUES, weights, add_values, &o, NULL);
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

typedef struct gradient {
    ls_operand grad_o, q, delta, dq;
} gradient;

/* The gradient of the values; and the gradient of the scores, which replaces the scores. */
static void grad_of_values(ls_builder *b, const ls_site *site, void *context, const meeting *m) {
    const gradient *g = context;
    const ls_operand weights =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "weights", b->image->accumulator, 4, m->pairs.view.size);
    multiply(b, site, g->grad_o, m->come, weights);
    ls_kernel_build call = call_of(b, site, LS_KERNEL_ATTENTION_SOFTMAX_GRAD);
    call.n_in = 4;
    call.in[0] = b->image->masks[site->mask].spans;
    call.in[1] = m->positions;
    call.in[2] = site->lse;
    call.in[3] = g->delta;
    call.n_out = 2;
    call.out[0] = m->pairs;
    call.out[1] = weights;
    ls_build_kernel(b, &call);
    sum_for_keys(b, site, weights, g->grad_o, m->part);
}

static void grad_of_keys(ls_builder *b, const ls_site *site, void *context, const meeting *m) {
    const gradient *g = context;
    add_to_queries(b, site, m->pairs, m->come, g->dq, m->first);
    sum_for_keys(b, site, m->pairs, g->q, m->part);
}

/* The scores no longer exist if the forward pass was in another program, or is recomputed. */
static void rsa_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                         ls_operand *dk, ls_operand *dv) {
    if (site->scores.buffer < 0) make_scores(b, site);
    gradient g = {.grad_o = widened(b, grad_o), .q = widened(b, site->q), .delta = delta, .dq = dq};
    go_round(b, site, LS_VALUES, site->scores, grad_of_values, &g, dv);
    go_round(b, site, LS_KEYS, site->scores, grad_of_keys, &g, dk);
}

const ls_strategy ls_strategy_rsa = {
    .name = "rsa",
    .about = "keys go round, then values; each rank keeps all scores of its queries",
    .reads_in_place = true,
    .unsliced = "keeps scores of a slice with its own keys alone",
    .applicable = ls_strategy_heads,
    .across_forward = rsa_forward,
    .across_backward = rsa_backward,
};
