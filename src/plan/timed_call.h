/*
 * A kernel by itself, on data of its own: what is timed of one kernel is timed this way.
 *
 *     ls_timed_call timed;
 *     LS_TRY(ls_timed_call_open("matmul", LS_BF16, isa, pool, &call, &timed));
 *     double seconds = ls_timed_call_run(&timed);      as often as needed; the first meets cold caches
 *     ls_timed_call_close(&timed);
 */
#ifndef LS_PLAN_TIMED_CALL_H
#define LS_PLAN_TIMED_CALL_H

#include "base/base.h"
#include "kernel/kernel.h"

typedef struct ls_timed_call {
    const ls_kernel *kernel;
    ls_kernel_call call;
    void *state; /* the kernel's */
    ls_pool *pool;
    void *memory;
    size_t bytes;
} ls_timed_call;

/*
 * Of the call, operands and parameters count. Operands without data must be dense; they get memory as a rank's arenas have it, all
 * pages there, those of floating-point types filled with numbers in (-1, 1), others with zeros. What the call points to and the pool (NULL: this
 * thread alone) are borrowed. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_timed_call_open(const char *name, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                         const ls_kernel_call *call, ls_timed_call *out);
double ls_timed_call_run(const ls_timed_call *timed); /* seconds */
void ls_timed_call_close(ls_timed_call *timed);

/*
 * The same call on several cores at once, each on data of its own, as ranks of one thread would do it: what a core does while the
 * others want the same caches, memory and electricity.
 */
typedef struct ls_timed_crowd {
    ls_timed_call *member;
    double *seconds;
    int n;
    ls_pool *pool;
} ls_timed_crowd;

/* On all threads of the pool (NULL: this one alone), fewer where memory is short. */
LS_MUST_USE ls_status ls_timed_crowd_open(const char *name, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                                          const ls_kernel_call *call, ls_timed_crowd *out);
/* All begin together; seconds of one, the mean. */
double ls_timed_crowd_run(const ls_timed_crowd *crowd);
void ls_timed_crowd_close(ls_timed_crowd *crowd);

#endif
