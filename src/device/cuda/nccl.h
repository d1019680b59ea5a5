/*
 * The part of NCCL's interface that the route "nccl" uses (route_nccl.c). tests/cuda/check_nccl.c compares it with the
 * library's header.
 */
#ifndef LS_DEVICE_CUDA_NCCL_H
#define LS_DEVICE_CUDA_NCCL_H

#include "base/base.h"

#include <limits.h>

enum {
    LS_NCCL_OLDEST = 23102, /* 2.31.2: the first with more than one signal between two ranks */
    LS_NCCL_SUCCESS = 0,
    LS_NCCL_IN_PROGRESS = 7,
    LS_NCCL_INT8 = 0,
    LS_NCCL_WINDOW_SYMMETRIC = 1,
    LS_NCCL_UNSET = INT_MIN
};
#define LS_NCCL_MAGIC 0xcafebeefu

typedef struct ncclComm *ls_nccl_comm;
typedef struct ncclWindow_vidmem *ls_nccl_window;
struct CUstream_st;

#ifndef NCCL_H_ /* the library's header, in the test that compares */

/* The id by which the ranks of a communicator find each other. */
typedef struct ls_nccl_id {
    char bytes[128];
} ls_nccl_id;

/* The settings of a communicator, as of 2.31; a later library reads only `size` bytes. */
typedef struct ls_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster, least_ctas, most_ctas;
    const char *network;
    int split_share, traffic_class;
    const char *name;
    int collnet, cta_policy, shrink_share, nvls_ctas, channels_per_peer, nvlink_schedule, graph_usage;
    int rma_contexts, most_peers, graph_order, launch_order;
    int rma_signals; /* for each pair of ranks; signals are numbered from 0 */
    int rma_eager, host_cft;
} ls_nccl_config;

typedef struct ls_nccl_awaited {
    int count, peer, signal, context;
} ls_nccl_awaited;
#endif

/* X(function, (arguments)) for each function that is used. Each returns a result. */
#define LS_NCCL_FUNCTIONS(X)                                                                                           \
    X(ncclGetVersion, (int *version))                                                                                  \
    X(ncclGetUniqueId, (ls_nccl_id * id))                                                                              \
    X(ncclCommInitRankConfig, (ls_nccl_comm * comm, int ranks, ls_nccl_id id, int rank, ls_nccl_config *config))       \
    X(ncclCommDestroy, (ls_nccl_comm comm))                                                                            \
    X(ncclCommGetAsyncError, (ls_nccl_comm comm, unsigned *error))                                                     \
    X(ncclMemAlloc, (void **memory, size_t bytes))                                                                     \
    X(ncclMemFree, (void *memory))                                                                                     \
    X(ncclCommWindowRegister, (ls_nccl_comm comm, void *memory, size_t bytes, ls_nccl_window *window, int flags))      \
    X(ncclCommWindowDeregister, (ls_nccl_comm comm, ls_nccl_window window))                                            \
    X(ncclPutSignal, (const void *source, size_t count, unsigned type, int peer, ls_nccl_window window, size_t offset, \
                      int signal, int context, unsigned flags, ls_nccl_comm comm, struct CUstream_st *stream))         \
    X(ncclWaitSignal, (int n, ls_nccl_awaited *awaited, ls_nccl_comm comm, struct CUstream_st *stream))

#define LS_NCCL_MEMBER(function, arguments) unsigned(*function) arguments;
typedef struct ls_nccl {
    LS_NCCL_FUNCTIONS(LS_NCCL_MEMBER)
    /* The texts of the last failure, and of a result. */
    const char *(*ncclGetLastError)(ls_nccl_comm comm);
    const char *(*ncclGetErrorString)(unsigned result);
} ls_nccl;

#endif
