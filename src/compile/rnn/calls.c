/* Calls of the kernels of recurrent cells, each on some of a site's tokens. */
#include "compile/rnn/rnn.h"

static ls_kernel_build call_of(const ls_builder *b, const ls_rnn_site *s, ls_kernel_id kernel, const ls_rnn_part *part,
                               double times) {
    return (ls_kernel_build){.op = ls_contracts[kernel].name,
                             .kernel = kernel,
                             .dtype = b->image->dtype,
                             .params = &s->params,
                             .params_bytes = sizeof s->params,
                             .flops = times * (double)(part->sequences * part->count * s->H) *
                                      ls_rnn_flops(s->params.kind, (double)s->D)};
}

static ls_operand part_of(ls_operand o, const ls_rnn_part *part) {
    return ls_operand_slice(ls_operand_slice(o, 0, part->first, part->sequences), 1, part->from, part->count);
}

static void give_inputs(ls_kernel_build *call, const ls_rnn_tensors *t, const ls_rnn_part *part) {
    call->in[call->n_in++] = part_of(t->x, part);
    call->in[call->n_in++] = t->weight;
    call->in[call->n_in++] = t->bias;
    call->in[call->n_in++] = part_of(t->places, part);
}

void ls_rnn_forward(ls_builder *b, const ls_rnn_site *s, const ls_rnn_part *part, ls_operand state) {
    ls_kernel_build call = call_of(b, s, LS_KERNEL_RNN, part, 1);
    give_inputs(&call, &s->tensors, part);
    call.out[call.n_out++] = part_of(s->tensors.y, part);
    call.out[call.n_out++] = state;
    ls_build_kernel(b, &call);
}

void ls_rnn_backward(ls_builder *b, const ls_rnn_site *s, const ls_rnn_part *part, ls_operand front,
                     ls_operand behind) {
    const ls_rnn_tensors *t = &s->tensors;
    ls_kernel_build call = call_of(b, s, LS_KERNEL_RNN_GRAD, part, 3);
    give_inputs(&call, t, part);
    call.in[call.n_in++] = part_of(t->y, part);
    call.in[call.n_in++] = part_of(t->dy, part);
    call.in[call.n_in++] = front;
    call.out[call.n_out++] = part_of(t->dx, part);
    call.out[call.n_out++] = t->dweight;
    call.out[call.n_out++] = t->dbias;
    call.out[call.n_out++] = behind;
    ls_build_kernel(b, &call);
}

void ls_rnn_keep(ls_builder *b, const ls_rnn_site *s, int64_t first, int64_t past, ls_operand state) {
    if (s->tensors.last.buffer < 0 || past != b->image->layout.S) return;
    ls_build_copy(b, state, ls_operand_slice(s->tensors.last, 1, first, state.view.size[1]));
}

ls_operand ls_rnn_states(ls_builder *b, const ls_rnn_site *s, const char *name, int64_t n) {
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, b->image->accumulator, 4,
                            (int64_t[]){n, s->B, s->H, s->size});
}

ls_operand ls_rnn_state_at(ls_operand states, int64_t i, int64_t first, int64_t sequences) {
    const ls_operand o = ls_operand_slice(states, 0, i, 1);
    return ls_operand_slice(ls_operand_dense(o.buffer, o.offset, o.view.dtype, 3, &o.view.size[1]), 0, first,
                            sequences);
}

ls_operand ls_rnn_unread(ls_builder *b, const ls_rnn_site *s) {
    const int64_t size[] = {s->B, s->tensors.x.view.size[1], s->H, s->D};
    return ls_build_private(b, LS_BUFFER_ACTIVATION, "y again", b->image->dtype, 4, size);
}
