/*
 * AdamW (Loshchilov, Hutter, arXiv 1711.05101): two moments for each element, and one call of its kernel for each
 * piece.
 */
#include "compile/optimizer/optimizer.h"

static const ls_optimizer_state states[] = {{"optimizer.m", "m", false}, {"optimizer.v", "v", false}};

/*
 * Padding after the end of a parameter, in its last unit, is updated with it. The padding and its gradients are zeros
 * and stay zeros; with an epsilon of 0, which the options refuse, they would become 0/0.
 */
static void update(ls_builder *b, const ls_update_piece *piece) {
    const ls_hyperparameters *hyper = &b->job->hyper;
    const ls_adamw_params params = {hyper->beta1, hyper->beta2, hyper->epsilon};
    ls_build_update(b, LS_KERNEL_ADAMW, &params, sizeof params, LS_COUNT(states), piece);
}

const ls_optimizer ls_optimizer_adamw = {
    .name = "adamw",
    .about = "a moment and its square for each element, decay apart from the gradient",
    .states = states,
    .n_states = LS_COUNT(states),
    .initial =
        {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .momentum = LS_LACKS, .nesterov = LS_LACKS},
    .update = update,
};
