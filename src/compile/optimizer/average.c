/*
 * An exponential moving average of the trained parameters (Polyak, Juditsky, "Acceleration of stochastic approximation
 * by averaging", SIAM 1992, with weights that fade): after each step average = decay average + (1 - decay) weights, of
 * masters, in type G. It is a state like those of the optimiser, and lies where they do.
 *
 * The program `exchange` swaps the masters with their average: readers of parameters then find the average, and the
 * last weights after it has run again. It moves bits and computes nothing.
 */
#include "compile/optimizer/optimizer.h"

/* Checkpoints are saved after an exchange: the buffer of the average then has the last weights. */
const ls_optimizer_state ls_average_state = {LS_BIND_AVERAGE, LS_AVERAGE_SAVED, false};

static ls_operand average_of(const ls_builder *b, const ls_update_piece *piece) {
    return piece->state[b->image->n_states - 1];
}

void ls_build_average(ls_builder *b, const ls_update_piece *piece) {
    const double decay = b->job->average;
    const ls_combine_params params = {1 - decay, decay};
    ls_build_kernel_on_state(b, &(ls_kernel_build){.op = "combine",
                                                   .kernel = LS_KERNEL_COMBINE,
                                                   .dtype = b->image->accumulator,
                                                   .params = &params,
                                                   .params_bytes = sizeof params,
                                                   .n_in = 1,
                                                   .in = {piece->masters},
                                                   .n_out = 1,
                                                   .out = {average_of(b, piece)}});
}

/* A copy in private memory. */
static ls_operand take(ls_builder *b, ls_operand from) {
    const ls_buffer *buffer = &b->image->buffers[from.buffer];
    const ls_operand copy =
        ls_build_private(b, LS_BUFFER_OPTIMIZER, buffer->name, from.view.dtype, from.view.ndim, from.view.size);
    if (buffer->space == LS_HOST)
        ls_build_fetch(b, from, copy);
    else
        ls_build_copy(b, from, copy);
    return copy;
}

static void put(ls_builder *b, ls_operand from, ls_operand to) {
    if (b->image->buffers[to.buffer].space == LS_HOST)
        ls_build_offload(b, from, to);
    else
        ls_build_copy(b, from, to);
}

void ls_build_exchange(ls_builder *b, const ls_update_piece *piece) {
    const ls_operand average = average_of(b, piece);
    const ls_operand masters = take(b, piece->masters), averages = take(b, average);
    put(b, averages, piece->masters);
    put(b, masters, average);
    if (piece->masters.buffer != piece->parameters.buffer) ls_build_cast(b, averages, piece->parameters);
}
