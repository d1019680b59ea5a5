/* The optimiser's state in memory of the host: each piece comes and goes for its update. */
#include "compile/optimizer/optimizer.h"

void ls_build_kernel_on_state(ls_builder *b, const ls_kernel_build *k) {
    ls_kernel_build call = *k;
    for (int i = 0; i < k->n_out; i++) {
        const ls_operand *state = &k->out[i];
        if (b->image->buffers[state->buffer].space != LS_HOST) continue;
        call.out[i] = ls_build_private(b, LS_BUFFER_OPTIMIZER, b->image->buffers[state->buffer].name, state->view.dtype,
                                       state->view.ndim, state->view.size);
        ls_build_fetch(b, *state, call.out[i]);
    }
    ls_build_kernel(b, &call);
    for (int i = 0; i < k->n_out; i++)
        if (call.out[i].buffer != k->out[i].buffer) ls_build_offload(b, call.out[i], k->out[i]);
}
