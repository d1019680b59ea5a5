/* Rows of `scale` for f32, each with a fault that the watch must find, and rows without one that it must not. */
#ifndef LS_TESTS_CUDA_WATCH_PLANTED_H
#define LS_TESTS_CUDA_WATCH_PLANTED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "kernel/kernel_impl.h"

/* clang-format off */
#define PLANTED(X)                                                                                                 \
    X(right), X(right_in_warps), X(right_copy), X(no_block_barrier), X(no_warp_barrier), X(late_block_barrier),    \
    X(between_blocks), X(of_another_block), X(unwritten_shared), X(unwritten_output), X(read_beside),              \
    X(write_beside), X(write_input), X(no_wait), X(wait_without_barrier), X(overwritten_copy), X(beyond_shared),   \
    X(by_columns)
/* clang-format on */
#define PLANTED_NAME(name) planted_##name
extern const ls_kernel PLANTED(PLANTED_NAME);

#ifdef __cplusplus
}
#endif

#endif
