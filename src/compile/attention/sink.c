/*
 * Sinks: a learned logit per query head, for a key that every query sees and whose value is 0. A sink is a partial
 * result like that of any block (o = 0, lse = sink). It is merged once, after a query has met all keys; not once per
 * hop or per rank. From then on lse includes it, and the backward pass needs nothing else.
 */
#include "compile/attention/attention.h"

/* This rank's query heads of a vector over all query heads. */
static ls_operand my_heads(ls_builder *b, const ls_site *site, ls_operand all) {
    return ls_my_heads(b, all, 0, &site->q_heads);
}

static ls_operand sink_of(ls_builder *b, const ls_site *site, const ls_attention_tensors *t) {
    return my_heads(b, site, ls_lower_tensor(b, b->job->graph->nodes[t->node].in[t->sink]));
}

void ls_sink_forward(ls_builder *b, const ls_site *site, ls_operand o) {
    if (site->forward.sink < 0) return;
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention_sink",
                                          .kernel = LS_KERNEL_ATTENTION_SINK,
                                          .dtype = b->image->dtype,
                                          .flops = (double)ls_view_elements(&o.view),
                                          .n_in = 1,
                                          .in = {sink_of(b, site, &site->forward)},
                                          .n_out = 2,
                                          .out = {o, site->lse}});
}

/* Adds to dsink what the queries of this lse and delta contribute. */
static void add(ls_builder *b, const ls_site *site, const ls_attention_tensors *gradient, ls_operand lse,
                ls_operand delta, ls_operand dsink) {
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention_sink_grad",
                                          .kernel = LS_KERNEL_ATTENTION_SINK_GRAD,
                                          .dtype = b->image->dtype,
                                          .flops = 2 * (double)ls_view_elements(&delta.view),
                                          .n_in = 3,
                                          .in = {sink_of(b, site, gradient), lse, delta},
                                          .n_out = 1,
                                          .out = {dsink}});
}

/* Some tokens of G[B,heads,n], as a dense copy. */
static ls_operand some_tokens(ls_builder *b, ls_operand all, int64_t start, int64_t count) {
    const ls_operand some = ls_operand_slice(all, 2, start, count);
    const ls_operand copy =
        ls_build_private(b, LS_BUFFER_ACTIVATION, "of a chunk", some.view.dtype, some.view.ndim, some.view.size);
    ls_build_copy(b, some, copy);
    return copy;
}

/* The same as a sum over my block's chunks; dsink must be zero. */
static void add_chunks(ls_builder *b, const ls_site *site, const ls_attention_tensors *gradient, ls_operand delta,
                       ls_operand dsink) {
    const int me = ls_ring_index(b);
    const ls_chunks chunks = ls_chunks_of(b, me, ls_blocks(b));
    const ls_chunk_sum sum = ls_chunk_sum_begin(b, "sum over some chunks", dsink, 0, chunks.n);
    for (int i = 0; i < chunks.n; i++) {
        const int64_t start = ls_chunk_start(b, chunks.first + i);
        const int64_t count = ls_chunk_start(b, chunks.first + i + 1) - start, at = start - ls_block_start(b, me);
        const ls_operand addend = ls_chunk_sum_addend(&sum, i);
        if (i > 0) ls_build_fill(b, addend);
        add(b, site, gradient, some_tokens(b, site->lse, at, count), some_tokens(b, delta, at, count), addend);
        ls_chunk_sum_add(b, &sum, i, 0, addend.view.size[0]);
    }
}

/*
 * Every rank adds what its own queries and heads contribute; the sum over the ranks is made with the other gradients.
 */
void ls_sink_backward(ls_builder *b, const ls_site *site, const ls_attention_tensors *gradient, ls_operand delta) {
    if (gradient->sink < 0) return;
    const ls_operand dsink = my_heads(b, site, ls_lower_tensor(b, gradient->dsink));
    if (b->target->canonical)
        add_chunks(b, site, gradient, delta, dsink);
    else
        add(b, site, gradient, site->lse, delta, dsink);
}
