/* The functions of the matmul kernel, the same for each isa (the library picks its own) and element type. */
#ifndef LS_KERNEL_CPU_MATMUL_IMPL_H
#define LS_KERNEL_CPU_MATMUL_IMPL_H

#include "kernel/kernel.h"

size_t ls_cpu_matmul_workspace(const ls_kernel_call *call);
LS_MUST_USE ls_status ls_cpu_matmul_prepare(ls_dtype dtype, const ls_kernel_call *call, void **state);
void ls_cpu_matmul_release(void *state);
void ls_cpu_matmul_run(const ls_kernel_call *call, void *state, ls_pool *pool);

#endif
