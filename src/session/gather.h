/* Tensors whose parts lie on the ranks, put together in the order of the whole array. */
#ifndef LS_SESSION_GATHER_H
#define LS_SESSION_GATHER_H

#include "session/step.h"

/* Gets rows of the whole array (bytes from its beginning, one stride at most) and their bytes, without gaps. */
typedef ls_status (*ls_rows_write)(void *context, const ls_range *rows, const void *data);

/* Of ranks that hold equal copies of a tensor, or of their part of it, whether this is the first. */
bool ls_rank_contributes(const ls_rank *rank, const ls_binding *binding);

/*
 * Calls `write` for all parts of a tensor, on rank 0 or, with `everywhere`, on every rank; NULL: this rank needs none.
 * Of a partial sum each rank's term comes, for each element in the order of the ranks. Of ranks that hold equal copies
 * only the first one's comes. Collective; needs no memory for parts.
 */
LS_MUST_USE ls_status ls_rank_gather(const ls_rank *rank, const ls_binding *binding, bool everywhere,
                                     ls_rows_write write, void *context);

/*
 * The whole array, in the order of its dimensions and in its own type. `whole` is this rank's memory, on rank 0 or,
 * with `everywhere`, on every rank (NULL: this one needs none); with _home it is that of the caller of ls_session_run.
 * Collective. Not for partial sums.
 */
LS_MUST_USE ls_status ls_rank_gather_tensor(const ls_rank *rank, const ls_binding *binding, bool everywhere,
                                            void *whole);
LS_MUST_USE ls_status ls_rank_gather_tensor_home(const ls_rank *rank, const ls_binding *binding, void *whole);

#endif
