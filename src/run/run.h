/*
 * run: executes programs. An executor is one rank's: it maps the private arena, takes the heap from the rank's end of the
 * world, prepares every kernel call once, and then runs programs without allocating anything.
 */
#ifndef LS_RUN_H
#define LS_RUN_H

#include "comm/comm.h"
#include "program/program.h"
#include "run/launch.h"
#include "run/memory.h"
#include "run/touch.h"
#include "run/trace.h"

/* Sums over the runs so far, in seconds. */
typedef struct ls_run_times {
    double total;
    double waiting; /* nothing could run: both queues waited for other ranks */
    double copying; /* inside puts */
} ls_run_times;

const char *ls_transport_for(int ranks); /* when none is named: "self" for one rank, else "shm" */

/*
 * The world that images of this skeleton need: heap bytes and signal words are the image's, the rest the caller's.
 * transport NULL: "self" for one rank, else "shm".
 */
LS_MUST_USE ls_status ls_world_for(const ls_image *image, const char *transport, bool may_spin,
                                   double wait_timeout, ls_world **out);

/*
 * Image and comm stay the caller's and must outlive the executor. Memory starts as zeros; tables (positions, mask
 * spans) are filled. LS_NO_MEMORY names the bytes; kernels' own refusals pass through.
 */
LS_MUST_USE ls_status ls_executor_create(const ls_image *image, ls_comm *comm, ls_executor **out);
void ls_executor_destroy(ls_executor *executor); /* NULL is allowed */

/*
 * Runs the program to its end on this rank; the other ranks must run it too. Blocks while peers are behind. LS_PEER when a peer
 * died or stands still.
 */
LS_MUST_USE ls_status ls_executor_run(ls_executor *executor, int program);
ls_run_times ls_executor_times(const ls_executor *executor);
/* What was touched when the executor was made: both arenas, or nothing where memory is short. */
ls_touched ls_executor_touched(const ls_executor *executor);

/*
 * Runs the program like ls_executor_run and looks at every kernel's results on the way: *op and *tensor name the first that
 * is not finite (NULL: all are). For finding out after a step went wrong; slow.
 */
LS_MUST_USE ls_status ls_executor_run_checked(ls_executor *executor, int program, const char **op,
                                              const char **tensor);

/* Address of an operand's first element. */
void *ls_executor_address(const ls_executor *executor, const ls_operand *operand);
/* Address of a bound tensor's local part (dense); NULL when no such name is bound. */
void *ls_executor_tensor(const ls_executor *executor, const char *name);

/*
 * Copies this rank's part of a dense global array into the bound tensor, and back: each rank writes its elements of
 * `global` and leaves the others alone. Element types as bound.
 */
void ls_executor_scatter(ls_executor *executor, const ls_binding *binding, const void *global);
void ls_executor_gather(const ls_executor *executor, const ls_binding *binding, void *global);

/*
 * Packed documents of the batch that the next programs run on: in sequence b of the whole batch those that end at ends[b*room + 1], ...,
 * n_ends[b] cumulative lengths from 0 to S. From then on attention shows what its mask shows inside each document; programs are as
 * they were: they send and compute at most what they were made for. ends NULL: no documents again. LS_UNSUPPORTED: a mask has no room
 * for another term.
 */
LS_MUST_USE ls_status ls_executor_set_documents(ls_executor *executor, const int32_t *ends, const int *n_ends,
                                                int64_t room);

ls_pool *ls_executor_pool(const ls_executor *executor);
const ls_image *ls_executor_image(const ls_executor *executor);

#endif
