/* What the files of optimisers share. */
#ifndef LS_COMPILE_OPTIMIZER_H
#define LS_COMPILE_OPTIMIZER_H

#include "compile/compile_impl.h"

/*
 * One call of an optimiser's kernel for the piece: from gradients, control, groups and settings to masters, the first
 * n_states states, and parameters.
 */
void ls_build_update(ls_builder *b, ls_kernel_id kernel, const void *params, size_t params_bytes, int n_states,
                     const ls_update_piece *piece);

/* The state that holds the average of parameters; if a job has one, it is the last of the job's states (average.c). */
extern const ls_optimizer_state ls_average_state;
/* Updates the average of a piece with its new masters. */
void ls_build_average(ls_builder *b, const ls_update_piece *piece);
/* Swaps masters and average of a piece, and sets the parameters to the new masters. */
void ls_build_exchange(ls_builder *b, const ls_update_piece *piece);

#endif
