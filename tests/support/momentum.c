#include "support/momentum.h"

#include "compile/compile_impl.h"

static const ls_optimizer_state states[] = {{"optimizer.momentum", "momentum", false}};

static void update(ls_builder *b, const ls_update_piece *piece) {
    ls_build_accumulate(b, piece->gradients, piece->state[0]);
    ls_build_accumulate(b, piece->state[0], piece->masters);
    if (b->image->dtype != b->image->accumulator) ls_build_cast(b, piece->masters, piece->parameters);
}

const ls_optimizer momentum = {.states = states, .n_states = LS_COUNT(states), .update = update};
