/* The table of this folder, which ends with NULL. */
#ifndef LS_KERNEL_CUDA_TABLE_H
#define LS_KERNEL_CUDA_TABLE_H

#include "kernel/kernel_impl.h"

extern const ls_kernel *const ls_cuda_kernels[];

#endif
