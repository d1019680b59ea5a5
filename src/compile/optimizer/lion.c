/*
 * Lion (Chen et al., "Symbolic discovery of optimization algorithms", arXiv 2302.06675): all elements' steps have one
 * size, and only their signs differ.
 */
#include "compile/optimizer/optimizer.h"

static const ls_optimizer_state states[] = {{"optimizer.m", "m", false}};

static void update(ls_builder *b, const ls_update_piece *piece) {
    const ls_hyperparameters *hyper = &b->job->hyper;
    const ls_lion_params params = {hyper->beta1, hyper->beta2};
    ls_build_update(b, LS_KERNEL_LION, &params, sizeof params, LS_COUNT(states), piece);
}

const ls_optimizer ls_optimizer_lion = {
    .name = "lion",
    .about =
        "the sign of a moment for each element; wants about a tenth of AdamW's learning rate and ten times its decay",
    .states = states,
    .n_states = LS_COUNT(states),
    .initial = {.beta1 = 0.9,
                .beta2 = 0.99,
                .epsilon = LS_LACKS,
                .weight_decay = 0.1,
                .momentum = LS_LACKS,
                .nesterov = LS_LACKS},
    .update = update,
};
