/* Kernels of the host as if they were a device's: a stream of the driver for tests (driver/fake.h) executes them. */
#ifndef LS_TESTS_CUDA_HOST_KERNELS_H
#define LS_TESTS_CUDA_HOST_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "kernel/kernel.h"

/* The same kernel with `launch` instead of `run`; it lives until the end of the process. */
const ls_kernel *kernel_on_stream(const ls_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
