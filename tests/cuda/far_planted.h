/* Rows of `scale` for f32 that tests/kernel/long_cuda_sizes.c must tell apart: two cut offsets off to 32 bits. */
#ifndef LS_TESTS_CUDA_FAR_PLANTED_H
#define LS_TESTS_CUDA_FAR_PLANTED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "kernel/kernel_impl.h"

extern const ls_kernel far_right, far_signed, far_unsigned;

#ifdef __cplusplus
}
#endif

#endif
