/*
 * Compares src/device/cuda/driver.h with the toolkit's header, where that is: compiled by the target cuda, never run.
 * Both are included, so that a prototype that differs is an error, and so is a number.
 */
#include <cuda.h>

#include "device/cuda/driver.h"

#define DECLARE(function, arguments) extern unsigned function arguments;
LS_CUDA_FUNCTIONS(DECLARE)

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(LS_CUDA_SUCCESS, CUDA_SUCCESS);
SAME(LS_CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(LS_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(LS_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(LS_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(LS_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(LS_CUDA_64_BIT_STREAM_WORDS, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME(LS_CUDA_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(LS_CUDA_CACHE_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(LS_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(LS_CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(LS_CUDA_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(LS_CUDA_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(LS_CUDA_HOST_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(LS_CUDA_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
SAME(LS_CUDA_WRITE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(LS_CUDA_WAIT_WORD, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SAME(LS_CUDA_WRITE_WORD, CU_STREAM_MEM_OP_WRITE_VALUE_64);
SAME(LS_CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(LS_CUDA_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(LS_CUDA_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(LS_CUDA_IPC_ENABLE_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(sizeof(CUipcMemHandle), 64);
SAME(sizeof(CUuuid), 16);
SAME(LS_CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(LS_CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(LS_CUDA_MEMORY_KIND, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);

/* The fields of our own declarations, which driver.h leaves out here. */
SAME(offsetof(CUstreamBatchMemOpParams, waitValue.address), 8);
SAME(offsetof(CUstreamBatchMemOpParams, waitValue.value64), 16);
SAME(offsetof(CUstreamBatchMemOpParams, waitValue.flags), 24);
SAME(offsetof(CUstreamBatchMemOpParams, waitValue.alias), 32);
SAME(offsetof(CUstreamBatchMemOpParams, writeValue.address), 8);
SAME(offsetof(CUstreamBatchMemOpParams, writeValue.value64), 16);
SAME(offsetof(CUstreamBatchMemOpParams, writeValue.flags), 24);
SAME(offsetof(CUstreamBatchMemOpParams, writeValue.alias), 32);
SAME(sizeof(CUstreamBatchMemOpParams), 48);
SAME(offsetof(CUDA_BATCH_MEM_OP_NODE_PARAMS, count), 8);
SAME(offsetof(CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray), 16);
SAME(offsetof(CUDA_BATCH_MEM_OP_NODE_PARAMS, flags), 24);
SAME(sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS), 32);
SAME(offsetof(CUDA_MEMCPY2D, srcMemoryType), 16);
SAME(offsetof(CUDA_MEMCPY2D, srcHost), 24);
SAME(offsetof(CUDA_MEMCPY2D, srcDevice), 32);
SAME(offsetof(CUDA_MEMCPY2D, srcPitch), 48);
SAME(offsetof(CUDA_MEMCPY2D, dstXInBytes), 56);
SAME(offsetof(CUDA_MEMCPY2D, dstMemoryType), 72);
SAME(offsetof(CUDA_MEMCPY2D, dstHost), 80);
SAME(offsetof(CUDA_MEMCPY2D, dstDevice), 88);
SAME(offsetof(CUDA_MEMCPY2D, dstPitch), 104);
SAME(offsetof(CUDA_MEMCPY2D, WidthInBytes), 112);
SAME(sizeof(CUDA_MEMCPY2D), 128);
