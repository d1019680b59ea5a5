/*
 * Compares src/device/cuda/nvshmem.h with the library's headers, where those are: compiled by the target cuda, never
 * run. Both are included, so that a prototype that differs is an error, and so is a number. In C++, since those headers
 * are.
 */
#include <cstddef>

#include <nvshmem_host.h>

typedef nvshmemx_uniqueid_t ls_nvshmem_id;
typedef nvshmemx_init_attr_t ls_nvshmem_attributes;
#include "device/cuda/nvshmem.h"

#define DECLARE(result, function, arguments) extern "C" result function arguments;
LS_NVSHMEM_FUNCTIONS(DECLARE)

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(LS_NVSHMEM_BY_ID, NVSHMEMX_INIT_WITH_UNIQUEID);
SAME(LS_NVSHMEM_SIGNAL_SET, NVSHMEM_SIGNAL_SET);
SAME(LS_NVSHMEM_GEQ, NVSHMEM_CMP_GE);
SAME(LS_NVSHMEM_OLDEST_MAJOR, NVSHMEM_VENDOR_MAJOR_VERSION);

/* The fields of our own declarations, which nvshmem.h leaves out here. */
SAME(sizeof(nvshmemx_uniqueid_t), 128);
SAME(sizeof(nvshmemx_uniqueid_args_t), 24);
SAME(sizeof(nvshmemx_init_args_t), 128);
SAME(sizeof(nvshmemx_init_attr_t), 144);
SAME(offsetof(nvshmemx_init_attr_t, args), 16);
SAME(offsetof(nvshmemx_init_args_t, uid_args), 8);
SAME(offsetof(nvshmemx_uniqueid_args_t, id), 8);
SAME(offsetof(nvshmemx_uniqueid_args_t, myrank), 16);
SAME(LS_NVSHMEM_VERSION(ls_nvshmem_attributes), NVSHMEM_INIT_ATTR_V1_IDENTIFIER);
