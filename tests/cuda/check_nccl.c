/*
 * Compares src/device/cuda/nccl.h with the library's header, where that is: compiled by the target cuda, never run.
 * Both are included, so that a prototype that differs is an error, and so is a number.
 */
#include <stddef.h>

#include <nccl.h>

typedef ncclUniqueId ls_nccl_id;
typedef ncclConfig_t ls_nccl_config;
typedef ncclWaitSignalDesc_t ls_nccl_awaited;
#include "device/cuda/nccl.h"

#define DECLARE(function, arguments) extern unsigned function arguments;
LS_NCCL_FUNCTIONS(DECLARE)
extern const char *ncclGetLastError(ls_nccl_comm comm);
extern const char *ncclGetErrorString(unsigned result);

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #theirs)
SAME(LS_NCCL_SUCCESS, ncclSuccess);
SAME(LS_NCCL_IN_PROGRESS, ncclInProgress);
SAME(LS_NCCL_INT8, ncclInt8);
SAME(LS_NCCL_WINDOW_SYMMETRIC, NCCL_WIN_COLL_SYMMETRIC);
SAME(LS_NCCL_MAGIC, NCCL_API_MAGIC);
SAME(LS_NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
SAME(LS_NCCL_OLDEST, NCCL_VERSION(2, 31, 2));
_Static_assert(4096 % NCCL_WIN_REQUIRED_ALIGNMENT == 0, "parts of the memory begin at pages");

/* The fields of our own declarations, which nccl.h leaves out here. */
SAME(sizeof(ncclUniqueId), 128);
SAME(sizeof(ncclWaitSignalDesc_t), 16);
SAME(offsetof(ncclWaitSignalDesc_t, peer), 4);
SAME(offsetof(ncclWaitSignalDesc_t, sigIdx), 8);
SAME(offsetof(ncclConfig_t, blocking), 16);
SAME(offsetof(ncclConfig_t, netName), 32);
SAME(offsetof(ncclConfig_t, commName), 48);
SAME(offsetof(ncclConfig_t, numRmaCtx), 84);
SAME(offsetof(ncclConfig_t, numRmaSig), 100);
SAME(offsetof(ncclConfig_t, hostCftMode), 108);
