/* AdamW (Loshchilov, Hutter, arXiv 1711.05101): two moments of each element, and one call of its kernel for a piece. */
#include "compile/compile_impl.h"

static const ls_optimizer_state states[] = {{"optimizer.m", "m"}, {"optimizer.v", "v"}};

/*
 * Elements behind the end of a parameter in its last unit are updated with it. They and their gradients are zeros and
 * stay so; with an epsilon of 0, which options refuse, they would be 0/0.
 */
static void update(ls_builder *b, const ls_update_piece *piece) {
    const ls_hyperparameters *hyper = &b->job->hyper;
    const ls_adamw_params params = {hyper->beta1, hyper->beta2, hyper->epsilon};
    ls_build_kernel(b,
                    &(ls_kernel_build){.op = "adamw",
                                       .kernel = LS_KERNEL_ADAMW,
                                       .dtype = b->image->dtype,
                                       .params = &params,
                                       .params_bytes = sizeof params,
                                       .flops = 15.0 * (double)piece->count,
                                       .n_in = 4,
                                       .in = {piece->gradients, piece->control, piece->groups, piece->settings},
                                       .n_out = 4,
                                       .out = {piece->masters, piece->state[0], piece->state[1], piece->parameters}});
}

const ls_optimizer ls_optimizer_adamw = {.states = states, .n_states = LS_COUNT(states), .update = update};
