/*
 * The optimiser's state in memory of the host: each piece is fetched for its update, and offloaded if the update
 * changes it.
 */
#include "compile/optimizer/optimizer.h"

/* A fetched copy of an operand in memory of the host; any other operand itself. */
static ls_operand fetched(ls_builder *b, ls_operand state) {
    if (b->image->buffers[state.buffer].space != LS_HOST) return state;
    const ls_operand here = ls_build_private(b, LS_BUFFER_OPTIMIZER, b->image->buffers[state.buffer].name,
                                             state.view.dtype, state.view.ndim, state.view.size);
    ls_build_fetch(b, state, here);
    return here;
}

void ls_build_kernel_on_state(ls_builder *b, const ls_kernel_build *k) {
    ls_kernel_build call = *k;
    for (int i = 0; i < k->n_in; i++) call.in[i] = fetched(b, k->in[i]);
    for (int i = 0; i < k->n_out; i++) call.out[i] = fetched(b, k->out[i]);
    ls_build_kernel(b, &call);
    for (int i = 0; i < k->n_out; i++)
        if (call.out[i].buffer != k->out[i].buffer) ls_build_offload(b, call.out[i], k->out[i]);
}
