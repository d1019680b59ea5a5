/* Calling one kernel from a test: views over arrays, a poisoned workspace, random and poisoned data. */
#ifndef LS_TESTS_SUPPORT_KERNEL_CALL_H
#define LS_TESTS_SUPPORT_KERNEL_CALL_H

#include "kernel/kernel.h"

/* A dense view: VIEW(data, LS_F64, rows, columns). */
#define VIEW(data, dtype, ...) \
    ls_view_dense((data), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* ls_kernel_find by the contract's name. call may be NULL. */
ls_status find_kernel(const char *name, ls_dtype dtype, ls_isa isa, const ls_kernel_call *call, const ls_kernel **out);

/* Whether this process may run it, and the instruction set that it is for. */
bool kernel_runs_here(const ls_kernel *kernel);
const char *kernel_isa_name(const ls_kernel *kernel);

/*
 * Prepares the kernel for the call, runs or launches it with a workspace full of NaN, behind which nothing may be
 * written, releases it. Ends the process with the message when the kernel refuses the call. pool NULL: one thread.
 */
void call_kernel(const ls_kernel *kernel, ls_kernel_call *call, ls_pool *pool);
/* The same on a pool of `threads`; run_kernel finds the kernel first. */
void call_kernel_on(const ls_kernel *kernel, int threads, ls_kernel_call call);
void run_kernel(const char *name, ls_dtype dtype, ls_isa isa, int threads, ls_kernel_call call);

/*
 * Set-up of a group of tests over the instruction sets of this machine: names those it lacks, whose kernels do not run.
 * Returns 0.
 */
int say_missing_isas(void **state);

/* The status that prepare gives for this call. */
ls_status prepare_kernel(const char *name, ls_dtype dtype, ls_isa isa, ls_kernel_call call);

/* n standard normal numbers of a stream; n NaN. */
void fill_normal(double *x, int64_t n, uint64_t stream);
void fill_nan(double *x, int64_t n);

/* max |a - b| / max |b|, or infinity where a NaN stands. */
double largest_error(const double *a, const double *b, int64_t n);

#endif
