/*
 * SGD with momentum (Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013),
 * in PyTorch's form: the decay is added to the gradient, and the momentum is a sum, not a mean.
 */
#include "compile/optimizer/optimizer.h"

static const ls_optimizer_state states[] = {{"optimizer.momentum", "momentum", false}};

static void update(ls_builder *b, const ls_update_piece *piece) {
    const ls_hyperparameters *hyper = &b->job->hyper;
    const ls_sgd_params params = {.momentum = hyper->momentum, .nesterov = hyper->nesterov != 0};
    ls_build_update(b, LS_KERNEL_SGD, &params, sizeof params, LS_COUNT(states), piece);
}

const ls_optimizer ls_optimizer_sgd = {
    .name = "sgd",
    .about = "a sum of gradients that fades; decay is a part of the gradient",
    .states = states,
    .n_states = LS_COUNT(states),
    .initial =
        {.beta1 = LS_LACKS, .beta2 = LS_LACKS, .epsilon = LS_LACKS, .weight_decay = 0, .momentum = 0.9, .nesterov = 0},
    .update = update,
};
