/* The call of an optimiser's kernel. */
#include "compile/optimizer/optimizer.h"

void ls_build_update(ls_builder *b, ls_kernel_id kernel, const void *params, size_t params_bytes, int n_states,
                     const ls_update_piece *piece) {
    ls_kernel_build k = {.op = ls_contracts[kernel].name,
                         .kernel = kernel,
                         .dtype = b->image->dtype,
                         .params = params,
                         .params_bytes = params_bytes,
                         .n_in = 4,
                         .in = {piece->gradients, piece->control, piece->groups, piece->settings}};
    LS_ASSERT(n_states + 2 <= LS_KERNEL_OUTPUTS);
    k.out[k.n_out++] = piece->masters;
    for (int i = 0; i < n_states; i++) k.out[k.n_out++] = piece->state[i];
    k.out[k.n_out++] = piece->parameters;
    ls_build_kernel_on_state(b, &k);
}
