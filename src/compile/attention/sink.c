/*
 * Sinks: a logit per query head whose key every query sees and whose value is 0. That is a partial result like any
 * other block's (o = 0, lse = sink), so it is merged once, when a query has met all keys: never per hop and never per
 * rank. From then on lse is that of the whole row and the backward pass needs nothing else.
 */
#include "compile/attention/attention.h"

/* This rank's query heads of a vector over all of them. */
static ls_operand my_heads(ls_builder *b, const ls_site *site, ls_operand all) {
    return ls_my_heads(b, all, 0, &site->q_heads);
}

static ls_operand sink_of(ls_builder *b, const ls_site *site, const ls_attention_tensors *t) {
    return my_heads(b, site, ls_lower_input(b, t->node, t->sink));
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

/* Every rank adds what its queries and heads find; the sum over the ranks is the accumulator's business. */
void ls_sink_backward(ls_builder *b, const ls_site *site, const ls_attention_tensors *gradient, ls_operand delta) {
    if (gradient->sink < 0) return;
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention_sink_grad",
                                          .kernel = LS_KERNEL_ATTENTION_SINK_GRAD,
                                          .dtype = b->image->dtype,
                                          .flops = 2 * (double)ls_view_elements(&delta.view),
                                          .n_in = 3,
                                          .in = {sink_of(b, site, gradient), site->lse, delta},
                                          .n_out = 1,
                                          .out = {my_heads(b, site, ls_lower_tensor(b, gradient->dsink))}});
}
