/*
 * USP: Ulysses within blocks of ranks, a ring between blocks (Fang, Zhao, "USP: a unified sequence parallelism
 * approach", arXiv 2405.07719). What happens between blocks is the strategy's; this file does what happens within
 * blocks, for all strategies. Plain Ulysses (one block) and the plain ring (one rank per block) are its special cases.
 */
#include "compile/attention/attention.h"

/* Whether no other rank has tokens of the sequence. */
static bool is_alone(const ls_builder *b) {
    return ls_mesh_sequence_ranks(&b->target->mesh) == 1 && !b->target->canonical;
}

/* The heads of keys or values that this rank's queries use, as if there were no others. */
static ls_operand used_heads(ls_builder *b, const ls_site *site, const char *name, ls_operand all) {
    if (!site->kv_whole || is_alone(b)) return ls_site_kv(b, site, all);
    const ls_operand used = ls_site_kv(b, site, all);
    const int64_t capacity =
        site->B * ls_layout_most(&b->image->layout) * site->kv_heads.most_total * used.view.size[3];
    const ls_operand copy = ls_exchange_room(b, name, used.view.dtype, used.view.ndim, used.view.size, capacity);
    ls_build_copy(b, used, copy);
    return copy;
}

/* Gathers queries, keys and values of this rank's heads, for all tokens of its block. */
static void gather_inputs(ls_builder *b, ls_site *site, const ls_attention_tensors *t) {
    const ls_operand q = ls_lower_tensor(b, t->q), k = used_heads(b, site, "k", ls_lower_tensor(b, t->k)),
                     v = used_heads(b, site, "v", ls_lower_tensor(b, t->v));
    site->q = q;
    site->k = k;
    site->v = v;
    site->scores.buffer = -1;
    if (ls_block_members(b) == 1) return;
    const ls_all_to_all xq = ls_to_heads_begin(b, "q", q, &site->q_heads, 1, 2);
    const ls_all_to_all xk = ls_to_heads_begin(b, "k", k, &site->kv_heads, 1, 2);
    const ls_all_to_all xv = ls_to_heads_begin(b, "v", v, &site->kv_heads, 1, 2);
    site->q = ls_all_to_all_finish(b, &xq);
    site->k = ls_all_to_all_finish(b, &xk);
    site->v = ls_all_to_all_finish(b, &xv);
    ls_all_to_all_settle(b, &xq);
    ls_all_to_all_settle(b, &xk);
    ls_all_to_all_settle(b, &xv);
}

/* A buffer for this rank's query heads with D elements each, for all tokens of its block; it will be exchanged. */
static ls_operand room_of_heads(ls_builder *b, const ls_site *site, const char *name, ls_dtype dtype, int64_t D) {
    const int64_t capacity = site->B * ls_block_most(b) * site->q_heads.most * D, *q = site->q.view.size;
    return ls_exchange_room(b, name, dtype, 4, (int64_t[]){q[0], q[1], q[2], D}, capacity);
}

/* The same in type G, in which results are made; it can be exchanged only if G is the working type. */
static ls_operand wide_room_of_heads(ls_builder *b, const ls_site *site, const char *name, int64_t D) {
    const ls_dtype G = b->image->accumulator;
    const int64_t *q = site->q.view.size;
    if (G == b->image->dtype) return room_of_heads(b, site, name, G, D);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, G, 4, (int64_t[]){q[0], q[1], q[2], D});
}

/* The values in the working type; the operand itself if it already has this type. */
static ls_operand narrowed(ls_builder *b, ls_operand wide, const char *name) {
    if (wide.view.dtype == b->image->dtype) return wide;
    const ls_operand narrow =
        ls_build_private(b, LS_BUFFER_ACTIVATION, name, b->image->dtype, wide.view.ndim, wide.view.size);
    ls_build_cast(b, wide, narrow);
    return narrow;
}

/* Sends the heads back to the ranks of their tokens. */
static ls_operand scattered(ls_builder *b, ls_operand mine, const ls_parts *heads, const char *label, int token,
                            int head) {
    if (ls_block_members(b) == 1) return mine;
    const ls_all_to_all x = ls_to_tokens_begin(b, label, mine, heads, token, head);
    const ls_operand result = ls_all_to_all_finish(b, &x);
    ls_all_to_all_settle(b, &x);
    return result;
}

/* Complete results by heads (o, dq), in the working type, in which they are sent back to the ranks of their tokens. */
static ls_operand for_exchange(ls_builder *b, const ls_site *site, ls_operand wide, const char *label) {
    if (wide.view.dtype == b->image->dtype) return wide;
    const ls_operand narrow = room_of_heads(b, site, label, b->image->dtype, wide.view.size[3]);
    ls_build_cast(b, wide, narrow);
    return narrow;
}

static bool is_fetched(const ls_builder *b, ls_tensor t) {
    for (int i = 0; i < b->job->n_fetch; i++) {
        if (b->job->fetch[i].id == t.id) return true;
    }
    return false;
}

/* Attends across blocks to the keys of each slice. */
static void across_forward(ls_builder *b, ls_site *site, ls_operand o) {
    for (ls_site *keys = site; keys != NULL; keys = ls_slice_before(b, site, keys)) {
        ls_site with = ls_site_with(b, site, keys);
        (b->target->canonical ? ls_canonical_forward : site->strategy->across_forward)(b, &with, o);
        keys->k = with.k; /* they may have moved to where other ranks can read them */
        keys->v = with.v;
        keys->scores = with.scores;
    }
}

/*
 * dk and dv are those of the site's own keys, with the contributions of later slices; those of earlier slices are
 * carried.
 */
static void across_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                            ls_operand *dk, ls_operand *dv) {
    for (ls_site *keys = site; keys != NULL; keys = ls_slice_before(b, site, keys)) {
        ls_site with = ls_site_with(b, site, keys);
        ls_operand part[LS_KV];
        (b->target->canonical ? ls_canonical_backward : site->strategy->across_backward)(
            b, &with, grad_o, delta, dq, &part[LS_KEYS], &part[LS_VALUES]);
        keys->k = with.k;
        keys->v = with.v;
        if (keys != site) {
            ls_slice_carry(b, keys, part);
            continue;
        }
        *dk = part[LS_KEYS];
        *dv = part[LS_VALUES];
        if (!ls_slice_is_carried(site)) continue;
        ls_build_accumulate(b, site->carried[LS_KEYS], *dk);
        ls_build_accumulate(b, site->carried[LS_VALUES], *dv);
    }
}

void ls_usp_forward(ls_builder *b, ls_site *site) {
    const ls_dtype G = b->image->accumulator;
    gather_inputs(b, site, &site->forward);
    const ls_view *q = &site->q.view;
    site->lse = ls_build_private(b, LS_BUFFER_ACTIVATION, "lse", G, 3, (int64_t[]){q->size[0], q->size[2], q->size[1]});
    if (is_alone(b)) {
        ls_local_forward(b, site);
    } else {
        const ls_operand o = wide_room_of_heads(b, site, "o", site->D[LS_VALUES]);
        across_forward(b, site, o);
        ls_sink_forward(b, site, o);
        const ls_operand narrow = for_exchange(b, site, o, "o");
        ls_lower_bind(b, site->forward.o, scattered(b, narrow, &site->q_heads, "o", 1, 2));
    }
    if (!is_fetched(b, site->forward.lse)) return; /* the gradient uses site->lse */
    ls_lower_bind(b, site->forward.lse, scattered(b, site->lse, &site->q_heads, "lse", 2, 1));
}

/*
 * Gradients of KV heads. The parts of all ranks that use a head have arrived, in type G, and are added in the order of
 * these ranks. If no head is used by two ranks, the parts are the result.
 */
static void bind_kv(ls_builder *b, const ls_site *site, ls_tensor t, ls_operand parts, const char *label) {
    ls_operand sum = parts;
    if (b->target->canonical) {
        sum = ls_canonical_kv(b, site, parts, label);
    } else if (ls_block_members(b) > 1 && site->kv_parts.total != site->Hkv) {
        sum = ls_build_private(b, LS_BUFFER_ACTIVATION, label, parts.view.dtype, 4,
                               (int64_t[]){site->B, parts.view.size[1], site->Hkv, parts.view.size[3]});
        ls_build_fill(b, sum);
        for (int u = 0; u < ls_block_members(b); u++) {
            const int64_t n = site->kv_heads.count[u];
            ls_build_accumulate(b, ls_operand_slice(parts, 2, site->kv_parts.start[u], n),
                                ls_operand_slice(sum, 2, site->kv_heads.start[u], n));
        }
    }
    sum = narrowed(b, sum, label);
    if (site->kv_whole) {
        const ls_operand all = ls_lower_tensor(b, t);
        ls_build_fill(b, all);
        ls_build_copy(b, sum, ls_site_kv(b, site, all));
    } else {
        ls_lower_bind(b, t, sum);
    }
}

/* Sends the gradients of my heads to the ranks of their tokens, all three at the same time. */
static void deliver_gradients(ls_builder *b, const ls_site *site, const ls_attention_tensors *gradient, ls_operand dq,
                              ls_operand dk, ls_operand dv) {
    dq = for_exchange(b, site, dq, "dq");
    if (ls_block_members(b) > 1) {
        const ls_all_to_all xq = ls_to_tokens_begin(b, "dq", dq, &site->q_heads, 1, 2);
        const ls_all_to_all xk = ls_to_tokens_begin(b, "dk", dk, &site->kv_parts, 1, 2);
        const ls_all_to_all xv = ls_to_tokens_begin(b, "dv", dv, &site->kv_parts, 1, 2);
        dq = ls_all_to_all_finish(b, &xq);
        dk = ls_all_to_all_finish(b, &xk);
        dv = ls_all_to_all_finish(b, &xv);
        ls_all_to_all_settle(b, &xq);
        ls_all_to_all_settle(b, &xk);
        ls_all_to_all_settle(b, &xv);
    }
    ls_lower_bind(b, gradient->dq, dq);
    bind_kv(b, site, gradient->dk, dk, "dk");
    bind_kv(b, site, gradient->dv, dv, "dv");
}

/* Whether the gradient reads other tensors than the forward pass did; then the gathered inputs no longer exist. */
static bool made_again(const ls_site *site, const ls_attention_tensors *gradient) {
    const ls_attention_tensors *was = &site->forward;
    return gradient->q.id != was->q.id || gradient->k.id != was->k.id || gradient->v.id != was->v.id;
}

/*
 * If the forward node is in another program, its gathered inputs no longer exist; only the tensors of the tokens and
 * lse do. Gathers them again.
 */
static void gather_kept(ls_builder *b, ls_site *site, const ls_attention_tensors *gradient) {
    gather_inputs(b, site, gradient);
    site->lse = ls_lower_tensor(b, gradient->lse);
    if (ls_block_members(b) == 1) return;
    const ls_all_to_all x = ls_to_heads_begin(b, "lse", site->lse, &site->q_heads, 2, 1);
    site->lse = ls_all_to_all_finish(b, &x);
    ls_all_to_all_settle(b, &x);
}

void ls_usp_backward(ls_builder *b, ls_site *site, const ls_attention_tensors *gradient) {
    const ls_dtype G = b->image->accumulator;
    if (site->forward.node < b->row->first_node)
        gather_kept(b, site, gradient);
    else if (made_again(site, gradient))
        gather_inputs(b, site, gradient);
    const ls_operand o = ls_lower_tensor(b, gradient->o);
    ls_operand grad_o = ls_lower_tensor(b, gradient->grad_o);
    const ls_view *v = &grad_o.view;
    ls_operand delta = ls_exchange_room(b, "delta", G, 3, (int64_t[]){v->size[0], v->size[2], v->size[1]},
                                        v->size[0] * v->size[2] * ls_layout_most(&b->image->layout));
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention_delta",
                                          .kernel = LS_KERNEL_ATTENTION_DELTA,
                                          .dtype = b->image->dtype,
                                          .flops = 2 * (double)ls_view_elements(v),
                                          .n_in = 2,
                                          .in = {o, grad_o},
                                          .n_out = 1,
                                          .out = {delta}});
    if (ls_block_members(b) > 1) {
        const ls_all_to_all xo = ls_to_heads_begin(b, "do", grad_o, &site->q_heads, 1, 2);
        const ls_all_to_all xd = ls_to_heads_begin(b, "delta", delta, &site->q_heads, 2, 1);
        grad_o = ls_all_to_all_finish(b, &xo);
        delta = ls_all_to_all_finish(b, &xd);
        ls_all_to_all_settle(b, &xo);
        ls_all_to_all_settle(b, &xd);
    }
    ls_sink_backward(b, site, gradient, delta);
    if (is_alone(b)) {
        ls_local_backward(b, site, gradient, grad_o, delta);
        return;
    }
    const ls_operand dq = wide_room_of_heads(b, site, "dq", site->D[LS_KEYS]);
    ls_operand dk, dv;
    across_backward(b, site, grad_o, delta, dq, &dk, &dv);
    deliver_gradients(b, site, gradient, dq, dk, dv);
}

const ls_strategy ls_strategy_usp = {
    .name = "usp",
    .about = "ulysses within blocks of ranks, a ring between the blocks",
    .reads_in_place = true,
    .applicable = ls_strategy_heads,
    .across_forward = ls_ring_forward,
    .across_backward = ls_ring_backward,
};
