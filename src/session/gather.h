/* Tensors whose parts lie on the ranks, put together in the order of the whole array. */
#ifndef LS_SESSION_GATHER_H
#define LS_SESSION_GATHER_H

#include "session/step.h"

/* Gets rows of the whole array (bytes from its beginning, one stride at most) and their bytes, without gaps. */
typedef ls_status (*ls_rows_write)(void *context, const ls_range *rows, const void *data);

/*
 * Whether this rank holds some of the tensor, and is the first of the ranks that hold the same copy or the same part.
 */
bool ls_rank_contributes(const ls_rank *rank, const ls_binding *binding);

/*
 * Calls `write` for all parts of a tensor, on rank 0 or, with `everywhere`, on every rank; NULL: this rank needs none.
 * Of a partial sum, `write` gets the term of every rank, for each element in the order of the ranks; of equal copies,
 * it gets that of the first rank alone. Collective; needs no memory for parts.
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

/*
 * The same for one micro-batch of the programs that ran last, which may have run several, each in slices. LS_INVALID:
 * nothing of that name is fetched.
 */
LS_MUST_USE ls_status ls_rank_gather_micro(const ls_rank *rank, const char *name, int64_t micro_batch, void *whole);
LS_MUST_USE ls_status ls_rank_gather_micro_home(const ls_rank *rank, const char *name, int64_t micro_batch,
                                                void *whole);
/*
 * Copies this rank's part of an input of a micro-batch, all its slices, from the whole array. Does nothing where there
 * is no such input.
 */
LS_MUST_USE ls_status ls_rank_scatter_micro(const ls_rank *rank, const char *name, int64_t micro_batch,
                                            const void *whole);

/* --- parameters (gather_flat.c) ----------------------------------------------------------------------------------- */

/* Gets n elements of a parameter, from element `whole` of it on. */
typedef ls_status (*ls_flat_write)(void *context, const ls_flat *flat, int64_t whole, const void *data, int64_t n);
/*
 * Calls `write` for all that ranks have of parameters, or of one (`only`; NULL: of all), in the bound tensor of the
 * flat space of that name and type, on rank 0 or, with `everywhere`, on every rank; NULL: this rank needs none. Where
 * ranks along tp hold the same elements, `write` gets them from each. Collective; needs no memory for the elements.
 */
LS_MUST_USE ls_status ls_rank_gather_flat(const ls_rank *rank, const char *name, ls_dtype dtype, const ls_flat *only,
                                          bool everywhere, ls_flat_write write, void *context);

#endif
