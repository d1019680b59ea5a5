/* Gathers tensors whose parts lie on the ranks, in the order of the whole array. */
#ifndef LS_SESSION_GATHER_H
#define LS_SESSION_GATHER_H

#include "session/step.h"

/*
 * Receives rows of the whole array (bytes from its beginning, with at most one stride) and their bytes, without gaps.
 */
typedef ls_status (*ls_rows_write)(void *context, const ls_range *rows, const void *data);

/*
 * Whether this rank holds some of the tensor, and is the first of the ranks that hold the same copy or the same part.
 */
bool ls_rank_contributes(const ls_rank *rank, const ls_binding *binding);

/*
 * Calls `write` for all parts of a tensor, on rank 0 or, if `everywhere`, on every rank; NULL: this rank needs none.
 * For a partial sum, `write` gets the terms of all ranks, for each element in the order of the ranks. If ranks hold
 * equal copies, `write` gets only that of the first rank. Collective; needs no memory for parts.
 */
LS_MUST_USE ls_status ls_rank_gather(const ls_rank *rank, const ls_binding *binding, bool everywhere,
                                     ls_rows_write write, void *context);

/*
 * Gathers the whole array, in the order of its dimensions and in its own type. `whole` is this rank's memory, on rank 0
 * or, if `everywhere`, on every rank (NULL: this rank needs none); for the function ending in _home it is memory of the
 * caller of ls_session_run. Collective. Not for partial sums.
 */
LS_MUST_USE ls_status ls_rank_gather_tensor(const ls_rank *rank, const ls_binding *binding, bool everywhere,
                                            void *whole);
LS_MUST_USE ls_status ls_rank_gather_tensor_home(const ls_rank *rank, const ls_binding *binding, void *whole);

/*
 * The same for one micro-batch of the programs that ran last, which may have run several, each in slices. LS_INVALID:
 * no tensor of that name is fetched.
 */
LS_MUST_USE ls_status ls_rank_gather_micro(const ls_rank *rank, const char *name, int64_t micro_batch, void *whole);
LS_MUST_USE ls_status ls_rank_gather_micro_home(const ls_rank *rank, const char *name, int64_t micro_batch,
                                                void *whole);
/*
 * Copies this rank's part of an input of a micro-batch, all its slices, from the whole array. Does nothing if there is
 * no such input.
 */
LS_MUST_USE ls_status ls_rank_scatter_micro(const ls_rank *rank, const char *name, int64_t micro_batch,
                                            const void *whole);

/* --- parameters (gather_flat.c) ----------------------------------------------------------------------------------- */

/* Receives n elements of a parameter, from its element `whole` on. */
typedef ls_status (*ls_flat_write)(void *context, const ls_flat *flat, int64_t whole, const void *data, int64_t n);
/*
 * Calls `write` for all elements that ranks have of one parameter (`only`) or of all (NULL), in the bound tensor of the
 * flat space with this name and type; on rank 0 or, if `everywhere`, on every rank; write NULL: this rank needs none.
 * If ranks along tp hold the same elements, `write` gets them from each of these ranks. Collective; needs no memory for
 * the elements.
 */
LS_MUST_USE ls_status ls_rank_gather_flat(const ls_rank *rank, const char *name, ls_dtype dtype, const ls_flat *only,
                                          bool everywhere, ls_flat_write write, void *context);

#endif
