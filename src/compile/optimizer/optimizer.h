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

/* A state of a job whose parameters have an average: the last of its states (average.c). */
extern const ls_optimizer_state ls_average_state;
/* Adds the new masters of a piece to their average. */
void ls_build_average(ls_builder *b, const ls_update_piece *piece);
/* Lets masters and average of a piece change places, and sets the parameters to the new masters. */
void ls_build_exchange(ls_builder *b, const ls_update_piece *piece);

#endif
