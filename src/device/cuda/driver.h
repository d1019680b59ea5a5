/*
 * The CUDA driver, loaded when it is needed: Longspan is built without NVIDIA's toolkit, and runs on machines without a
 * GPU. The types, numbers and prototypes are those of the driver's binary interface (tests/cuda/check_driver.c compares
 * them with the toolkit's header, if it is installed).
 */
#ifndef LS_DEVICE_CUDA_DRIVER_H
#define LS_DEVICE_CUDA_DRIVER_H

#include "base/base.h"

typedef struct CUctx_st *ls_cuda_context;
typedef struct CUstream_st *ls_cuda_stream;
typedef struct CUgraph_st *ls_cuda_graph;
typedef struct CUgraphNode_st *ls_cuda_node;
typedef struct CUgraphExec_st *ls_cuda_executable; /* a graph that can be launched */
typedef unsigned long long ls_cuda_address;

/* Results; any other number is an error too. */
enum {
    LS_CUDA_SUCCESS = 0,
    LS_CUDA_INVALID_VALUE = 1,
    LS_CUDA_OUT_OF_MEMORY = 2,
    LS_CUDA_NOT_INITIALIZED = 3,
    LS_CUDA_NO_DEVICE = 100,
    LS_CUDA_NOT_READY = 600,
    LS_CUDA_PEER_ACCESS_ALREADY_ENABLED = 704
};

enum {
    LS_CUDA_64_BIT_STREAM_WORDS = 122,  /* an attribute: streams can wait for and write words of 64 bits */
    LS_CUDA_PROCESSORS = 16,            /* attributes: multiprocessors */
    LS_CUDA_CACHE_BYTES = 38,           /* the cache that they share */
    LS_CUDA_STREAM_NON_BLOCKING = 1,    /* it does not wait for the default stream */
    LS_CUDA_HOST_PORTABLE = 1,          /* pinned for all contexts; for memory that is allocated or registered */
    LS_CUDA_HOST_MAPPED = 2,            /* with an address for the device; for both, as well */
    LS_CUDA_WAIT_WORD = 4,              /* operations on a word of 64 bits: wait for it */
    LS_CUDA_WRITE_WORD = 5,             /* or set it */
    LS_CUDA_WAIT_GEQ = 0,               /* until the word is the value or greater */
    LS_CUDA_WRITE_DEFAULT = 0,          /* after all earlier writes of the stream are visible everywhere */
    LS_CUDA_CAPTURE_RELAXED = 2,        /* the thread that captures may make any call meanwhile */
    LS_CUDA_CAPTURE_ACTIVE = 1,         /* a stream is captured, and the capture is valid */
    LS_CUDA_IPC_ENABLE_PEER_ACCESS = 1, /* memory of another process may be another device's */
    LS_CUDA_MEMORY_HOST = 1,            /* kinds of memory in a copy */
    LS_CUDA_MEMORY_DEVICE = 2,
    LS_CUDA_MEMORY_KIND = 2, /* an attribute of an address: the kind of its memory, if the driver knows the address */
};

#ifndef __cuda_cuda_h__ /* the toolkit's header, in the test that compares */
/* A handle of memory of a device, for other processes. */
struct CUipcMemHandle_st {
    char reserved[64];
};
/* The unique id of a device among those of all hosts. */
struct CUuuid_st {
    char bytes[16];
};
/* A copy of `Height` rows. For each side, the fields of its kind of memory are used. */
struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    unsigned srcMemoryType;
    const void *srcHost;
    ls_cuda_address srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    unsigned dstMemoryType;
    void *dstHost;
    ls_cuda_address dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
};
/* An operation of a stream on a word; the driver's two forms have the same layout. */
union CUstreamBatchMemOpParams_union {
    unsigned operation;
    struct {
        unsigned operation;
        ls_cuda_address address;
        uint64_t value64;
        unsigned flags;
        ls_cuda_address alias; /* the driver's own */
    } waitValue, writeValue;
    uint64_t pad[6];
};
/* The operations on words of a node of a graph, one after the other. */
struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st {
    ls_cuda_context ctx;
    unsigned count;
    union CUstreamBatchMemOpParams_union *paramArray;
    unsigned flags;
};
struct CUgraphEdgeData_st;
#endif

/* X(function, (arguments)) for each function that is used. Each returns a result. */
#define LS_CUDA_FUNCTIONS(X)                                                                                      \
    X(cuInit, (unsigned flags))                                                                                   \
    X(cuDriverGetVersion, (int *version))                                                                         \
    X(cuGetErrorName, (unsigned result, const char **name))                                                       \
    X(cuGetErrorString, (unsigned result, const char **text))                                                     \
    X(cuDeviceGetCount, (int *count))                                                                             \
    X(cuDeviceGet, (int *device, int ordinal))                                                                    \
    X(cuDeviceGetName, (char *name, int room, int device))                                                        \
    X(cuDeviceGetUuid_v2, (struct CUuuid_st * uuid, int device))                                                  \
    X(cuDeviceGetAttribute, (int *value, unsigned attribute, int device))                                         \
    X(cuDeviceTotalMem_v2, (size_t * bytes, int device))                                                          \
    X(cuDevicePrimaryCtxRetain, (ls_cuda_context * context, int device))                                          \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                                 \
    X(cuCtxSetCurrent, (ls_cuda_context context))                                                                 \
    X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                   \
    X(cuMemGetInfo_v2, (size_t * unused, size_t * total))                                                         \
    X(cuMemAlloc_v2, (ls_cuda_address * address, size_t bytes))                                                   \
    X(cuMemFree_v2, (ls_cuda_address address))                                                                    \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                              \
    X(cuMemFreeHost, (void *memory))                                                                              \
    X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                                         \
    X(cuMemHostUnregister, (void *memory))                                                                        \
    X(cuMemHostGetDevicePointer_v2, (ls_cuda_address * address, void *memory, unsigned flags))                    \
    X(cuMemcpyHtoDAsync_v2, (ls_cuda_address to, const void *from, size_t bytes, ls_cuda_stream stream))          \
    X(cuMemcpyDtoHAsync_v2, (void *to, ls_cuda_address from, size_t bytes, ls_cuda_stream stream))                \
    X(cuMemcpy2DAsync_v2, (const struct CUDA_MEMCPY2D_st *copy, ls_cuda_stream stream))                           \
    X(cuMemcpyDtoDAsync_v2, (ls_cuda_address to, ls_cuda_address from, size_t bytes, ls_cuda_stream stream))      \
    X(cuPointerGetAttribute, (void *value, unsigned attribute, ls_cuda_address address))                          \
    X(cuIpcGetMemHandle, (struct CUipcMemHandle_st * handle, ls_cuda_address address))                            \
    X(cuIpcOpenMemHandle_v2, (ls_cuda_address * address, struct CUipcMemHandle_st handle, unsigned flags))        \
    X(cuIpcCloseMemHandle, (ls_cuda_address address))                                                             \
    X(cuDeviceCanAccessPeer, (int *able, int device, int peer))                                                   \
    X(cuCtxEnablePeerAccess, (ls_cuda_context peer, unsigned flags))                                              \
    X(cuMemsetD8Async, (ls_cuda_address at, unsigned char value, size_t bytes, ls_cuda_stream stream))            \
    X(cuStreamCreateWithPriority, (ls_cuda_stream * stream, unsigned flags, int priority))                        \
    X(cuStreamDestroy_v2, (ls_cuda_stream stream))                                                                \
    X(cuStreamQuery, (ls_cuda_stream stream))                                                                     \
    X(cuStreamSynchronize, (ls_cuda_stream stream))                                                               \
    X(cuStreamBatchMemOp_v2,                                                                                      \
      (ls_cuda_stream stream, unsigned count, union CUstreamBatchMemOpParams_union *ops, unsigned flags))         \
    X(cuStreamBeginCapture_v2, (ls_cuda_stream stream, unsigned mode))                                            \
    X(cuStreamEndCapture, (ls_cuda_stream stream, ls_cuda_graph * graph))                                         \
    X(cuStreamGetCaptureInfo_v3, (ls_cuda_stream stream, unsigned *status, uint64_t *id, ls_cuda_graph *graph,    \
                                  const ls_cuda_node **last, const struct CUgraphEdgeData_st **edges, size_t *n)) \
    X(cuGraphInstantiateWithFlags, (ls_cuda_executable * exec, ls_cuda_graph graph, unsigned long long flags))    \
    X(cuGraphExecBatchMemOpNodeSetParams,                                                                         \
      (ls_cuda_executable exec, ls_cuda_node node, const struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st *ops))        \
    X(cuGraphUpload, (ls_cuda_executable exec, ls_cuda_stream stream))                                            \
    X(cuGraphLaunch, (ls_cuda_executable exec, ls_cuda_stream stream))                                            \
    X(cuGraphExecDestroy, (ls_cuda_executable exec))                                                              \
    X(cuGraphDestroy, (ls_cuda_graph graph))

typedef struct CUipcMemHandle_st ls_cuda_memory_handle;
typedef union CUstreamBatchMemOpParams_union ls_cuda_word_op;
typedef struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st ls_cuda_word_ops;

#define LS_CUDA_FIELD(function, arguments) unsigned(*function) arguments;
typedef struct ls_cuda_driver {
    LS_CUDA_FUNCTIONS(LS_CUDA_FIELD)
} ls_cuda_driver;

/*
 * Loads libcuda.so.1, or the file that LONGSPAN_CUDA_DRIVER names (for tests), and initialises it. The driver is never
 * unloaded. LS_UNSUPPORTED: the driver is missing or too old, or finds no device.
 */
LS_MUST_USE ls_status ls_cuda_driver_load(ls_cuda_driver *out);

/* Whether this process has loaded and initialised the driver; if so, processes forked from it cannot use the driver. */
bool ls_cuda_driver_is_used(void);

/*
 * LS_OK if the result is LS_CUDA_SUCCESS; else LS_FAULT or LS_NO_MEMORY, with the call, the error's name and text, and
 * the formatted description of what was asked for.
 */
LS_MUST_USE ls_status ls_cuda_check(const ls_cuda_driver *driver, unsigned result, const char *call, const char *format,
                                    ...) LS_PRINTF(4, 5);

#endif
