/* The calls of the attention kernels, which the forward and backward passes of all strategies use. */
#include "compile/attention/attention.h"

/* direction: LS_FORWARD or LS_BACKWARD. */
static ls_kernel_build call_of(const ls_builder *b, const ls_attention_call *call, ls_kernel_id kernel, int direction) {
    const int64_t *q = call->q.view.size;
    const double each = ls_attention_flops(direction, (double)q[3], (double)call->v.view.size[3]);
    return (ls_kernel_build){.op = ls_contracts[kernel].name,
                             .kernel = kernel,
                             .dtype = b->image->dtype,
                             .params = &call->params,
                             .params_bytes = sizeof call->params,
                             .flops = each * call->area.pairs * (double)(q[0] * q[2]),
                             .rows = call->area.queries * (double)(q[0] * q[2]),
                             .n_in = 5,
                             .in = {call->q, call->k, call->v, call->spans, call->positions}};
}

/* The call with the band that its spans describe. */
static ls_attention_call told(ls_builder *b, const ls_attention_call *call) {
    ls_attention_call out = *call;
    out.params.band = ls_band_of(b, call);
    b->image->tells_masks |= out.params.band.known;
    return out;
}

void ls_build_attention(ls_builder *b, const ls_attention_call *call, ls_operand o, ls_operand lse) {
    const ls_attention_call own = told(b, call);
    ls_kernel_build build = call_of(b, &own, LS_KERNEL_ATTENTION, LS_FORWARD);
    build.n_out = 2;
    build.out[0] = o;
    build.out[1] = lse;
    ls_build_kernel(b, &build);
}

void ls_build_attention_grad(ls_builder *b, const ls_attention_call *call, const ls_attention_given *given,
                             ls_operand dq, ls_operand dk, ls_operand dv) {
    const ls_attention_call own = told(b, call);
    ls_kernel_build build = call_of(b, &own, LS_KERNEL_ATTENTION_GRAD, LS_BACKWARD);
    build.n_in = 8;
    build.in[5] = given->grad_o;
    build.in[6] = given->lse;
    build.in[7] = given->delta;
    build.n_out = 3;
    build.out[0] = dq;
    build.out[1] = dk;
    build.out[2] = dv;
    ls_build_kernel(b, &build);
}

ls_operand ls_positions_seen(ls_builder *b, int mask) {
    const int me = ls_ring_index(b);
    const int64_t tokens = ls_seen_in_front(b, mask, me, ls_blocks(b));
    int64_t first = -1, next = -1, at = 0;
    bool whole = true;
    for (int j = 0; j < ls_blocks(b); j++) {
        const ls_token_set *seen = ls_seen(b, mask, me, j);
        for (int i = 0; i < seen->n; i++) {
            const int64_t start = ls_block_start(b, j) + seen->range[i].start;
            if (first < 0) first = next = start;
            whole &= start == next;
            next = start + seen->range[i].count;
        }
    }
    if (whole) return ls_key_positions(b, mask, first, tokens);
    const ls_operand copy = ls_build_private(b, LS_BUFFER_ACTIVATION, "positions seen", LS_I32, 1, &tokens);
    for (int j = 0; j < ls_blocks(b); j++) {
        const ls_token_set *seen = ls_seen(b, mask, me, j);
        for (int i = 0; i < seen->n; at += seen->range[i++].count)
            ls_build_copy(b,
                          ls_key_positions(b, mask, ls_block_start(b, j) + seen->range[i].start, seen->range[i].count),
                          ls_operand_slice(copy, 0, at, seen->range[i].count));
    }
    return copy;
}
