/*
 * What watches kernels that are compiled for the host: their accesses to memory are calls (hooks.cpp), by which races,
 * reads of what nobody wrote and accesses beside the operands are found (cells.cpp), and accesses that take a GPU more
 * turns than they must are counted (turns.cpp). The emulation and tests/support say what happens by these functions.
 * Programs without the watch do not have them: call them by WATCHED. docs/decisions/race-checker.md
 */
#ifndef LS_TESTS_CUDA_WATCH_H
#define LS_TESTS_CUDA_WATCH_H

#ifdef __cplusplus
extern "C" {
#endif

#include "kernel/kernel.h"

#define LS_WEAK __attribute__((weak))
#define WATCHED(function, ...)                         \
    do {                                               \
        if ((function) != NULL) function(__VA_ARGS__); \
    } while (0)

/*
 * Before a row is prepared for a call: its operands and its workspace of so many bytes get other places, far apart.
 * After the launch: they have their own places again, and what was written.
 */
LS_WEAK void watch_call_begins(const ls_kernel *kernel, ls_kernel_call *call, size_t workspace);
LS_WEAK void watch_call_ends(ls_kernel_call *call);

/*
 * A grid of a kernel, whose blocks have so many bytes of shared memory; each of its blocks, and a barrier that all of
 * it passed.
 */
LS_WEAK void watch_grid_begins(const void *kernel, size_t shared);
LS_WEAK void watch_block_begins(void);
LS_WEAK void watch_block_barrier(void);
LS_WEAK void watch_block_ends(void);
/* The thread passes a barrier of all lanes of its warp that orders memory. */
LS_WEAK void watch_warp_barrier(void);
/* The thread asks for a copy, has waited for it; a product of its warp group reads so much shared memory. */
LS_WEAK void watch_copy_begins(const void *to, const void *from, size_t bytes);
LS_WEAK void watch_copy_arrives(const void *to, size_t bytes);
LS_WEAK void watch_product_reads(const void *at, size_t bytes);
/* A stream has written so many bytes. */
LS_WEAK void watch_stream_writes(const void *data, size_t bytes);

/*
 * Accesses of the warps of the first block of each grid, since the last call began. Shared memory: turns that they take
 * because of its banks, and would take without conflicts. Global memory: sectors of 32 bytes, and how few would do.
 */
typedef struct watch_count {
    int64_t shared, turns, least_turns;
    int64_t global, sectors, least_sectors;
} watch_count;
LS_WEAK watch_count watch_counted(void);

#ifdef __cplusplus
}
#endif

#endif
