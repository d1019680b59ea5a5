/*
 * The part of NVSHMEM's interface that the route "nvshmem" uses (route_nvshmem.c). tests/cuda/check_nvshmem.cpp
 * compares it with the library's headers.
 */
#ifndef LS_DEVICE_CUDA_NVSHMEM_H
#define LS_DEVICE_CUDA_NVSHMEM_H

#include "base/base.h"

enum {
    LS_NVSHMEM_OLDEST_MAJOR = 3,
    LS_NVSHMEM_BY_ID = 8,      /* processes find each other by an id that one of them has made */
    LS_NVSHMEM_SIGNAL_SET = 9, /* a signal sets the word (another kind adds to it) */
    LS_NVSHMEM_GEQ = 5         /* until the word is the value or greater */
};

/* The version that a struct contains: that of its layout, and its size in bytes. */
#define LS_NVSHMEM_VERSION(type) ((1 << 16) + (int)sizeof(type))

struct CUstream_st;

#ifndef _NVSHMEM_API_H_ /* the library's header, in the test that compares */
typedef struct ls_nvshmem_id {
    int version;
    char bytes[124];
} ls_nvshmem_id;

typedef struct ls_nvshmem_place {
    int version;
    ls_nvshmem_id *id;
    int rank, ranks;
} ls_nvshmem_place;

typedef struct ls_nvshmem_arguments {
    int version;
    ls_nvshmem_place place;
    char reserved[96];
} ls_nvshmem_arguments;

typedef struct ls_nvshmem_attributes {
    int version;
    void *mpi;
    ls_nvshmem_arguments arguments;
} ls_nvshmem_attributes;
#endif

/* X(result, function, (arguments)) for each function that is used. A result of type int is 0 if the call succeeded. */
#define LS_NVSHMEM_FUNCTIONS(X)                                                                            \
    X(void, nvshmemx_vendor_get_version_info, (int *major, int *minor, int *patch))                        \
    X(int, nvshmemx_get_uniqueid, (ls_nvshmem_id * id))                                                    \
    X(int, nvshmemx_set_attr_uniqueid_args,                                                                \
      (const int rank, const int ranks, const ls_nvshmem_id *id, ls_nvshmem_attributes *attributes))       \
    X(int, nvshmemx_hostlib_init_attr, (unsigned flags, ls_nvshmem_attributes *attributes))                \
    X(void, nvshmemx_hostlib_finalize, (void))                                                             \
    X(int, nvshmem_my_pe, (void))                                                                          \
    X(int, nvshmem_n_pes, (void))                                                                          \
    X(void *, nvshmem_malloc, (size_t bytes))                                                              \
    X(void, nvshmem_free, (void *memory))                                                                  \
    X(void, nvshmemx_putmem_on_stream,                                                                     \
      (void *target, const void *source, size_t bytes, int peer, struct CUstream_st *stream))              \
    X(void, nvshmemx_putmem_signal_on_stream,                                                              \
      (void *target, const void *source, size_t bytes, uint64_t *word, uint64_t value, int kind, int peer, \
       struct CUstream_st *stream))                                                                        \
    X(void, nvshmemx_signal_op_on_stream,                                                                  \
      (uint64_t * word, uint64_t value, int kind, int peer, struct CUstream_st *stream))                   \
    X(void, nvshmemx_signal_wait_until_on_stream,                                                          \
      (uint64_t * word, int condition, uint64_t value, struct CUstream_st *stream))                        \
    X(void, nvshmemx_quiet_on_stream, (struct CUstream_st * stream))

#define LS_NVSHMEM_MEMBER(result, function, arguments) result(*function) arguments;
typedef struct ls_nvshmem {
    LS_NVSHMEM_FUNCTIONS(LS_NVSHMEM_MEMBER)
} ls_nvshmem;

#endif
