/*
 * For the files of this folder: element types, the sizes of a call, launches, and sums over a block in a fixed order.
 * Arithmetic is in f32, and a result is rounded once, when it is stored, as in the kernels of cpu/.
 */
#ifndef LS_KERNEL_CUDA_IMPL_H
#define LS_KERNEL_CUDA_IMPL_H

#include "kernel/cuda/ptx.h"

extern "C" {
#include "kernel/kernel_impl.h"
}

typedef __nv_bfloat16 bf16;

template <ls_kernel_id ID, ls_dtype T> static ls_status cuda_check(const ls_kernel_call *call, void **state) {
    *state = nullptr;
    return ls_kernel_check(ID, T, call);
}

/*
 * The row of one element type: the symbol that table.c lists. supports and workspace may be nullptr. refuses_: prepare
 * may return that the device lacks something that the kernel needs.
 */
#define CUDA_ROW_OF(symbol, ID, T, launch_, workspace_, supports_, prepare_, refuses_) \
    extern "C" {                                                                       \
    extern const ls_kernel symbol;                                                     \
    const ls_kernel symbol = {.id = LS_KERNEL_##ID,                                    \
                              .dtype = T,                                              \
                              .device = LS_DEVICE_CUDA,                                \
                              .supports = supports_,                                   \
                              .workspace = workspace_,                                 \
                              .prepare = prepare_,                                     \
                              .refuses = refuses_,                                     \
                              .launch = launch_};                                      \
    }
#define CUDA_ROW_FOR(symbol, ID, T, launch_, workspace_, supports_) \
    CUDA_ROW_OF(symbol, ID, T, launch_, workspace_, supports_, (cuda_check<LS_KERNEL_##ID, T>), false)
#define CUDA_ROW(symbol, ID, T, launch_, workspace_) CUDA_ROW_FOR(symbol, ID, T, launch_, workspace_, nullptr)
/* Rows for f32 and bf16; the launch is a template with the element type as its parameter. */
#define CUDA_ROWS(ID, name, launch_, workspace_)                         \
    CUDA_ROW(ls_cuda_f32_##name, ID, LS_F32, launch_<float>, workspace_) \
    CUDA_ROW(ls_cuda_bf16_##name, ID, LS_BF16, launch_<bf16>, workspace_)

/* --- element types ------------------------------------------------------------------------------------------------ */

static __device__ __forceinline__ float to_float(float x) { return x; }
static __device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }
template <typename T> static __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) { return __float2bfloat16_rn(x); }

/* --- ascending numbers -------------------------------------------------------------------------------------------- */

/* How many of n ascending numbers are less than `than`. */
template <typename K> static __device__ __forceinline__ int64_t count_less(const K *sorted, int64_t n, K than) {
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (sorted[middle] < than)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- the sizes of a call ------------------------------------------------------------------------------------------ */

template <typename T> static const T *input(const ls_kernel_call *call, int i) { return (const T *)call->in[i].data; }
template <typename T> static T *output(const ls_kernel_call *call, int i) { return (T *)call->out[i].data; }

/* Of a dense view: the size of its last dimension, and the product of the others. */
static inline int64_t columns_of(const ls_view *v) { return v->ndim > 0 ? v->size[v->ndim - 1] : 1; }
static inline int64_t rows_of(const ls_view *v) {
    int64_t n = 1;
    for (int d = 0; d + 1 < v->ndim; d++) n *= v->size[d];
    return n;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

enum { CUDA_THREADS = 256, CUDA_WARPS = CUDA_THREADS / 32 };

static const int64_t MOST_OF_GRID = INT32_MAX; /* blocks in a grid of one dimension */

/* Submits the kernel, in blocks of CUDA_THREADS threads; does nothing if there are no blocks. */
template <typename... Expected, typename... Actual>
static ls_status launch(const char *name, void *stream, int64_t blocks, size_t shared, void (*kernel)(Expected...),
                        Actual... actual) {
    if (blocks == 0) return ls_ok();
    if (blocks > MOST_OF_GRID)
        return ls_error(LS_UNSUPPORTED, "kernel %s: a grid of %lld blocks; a GPU takes at most %lld", name,
                        (long long)blocks, (long long)MOST_OF_GRID);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(CUDA_THREADS);
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, actual...);
    if (error == cudaSuccess) return ls_ok();
    return ls_error(LS_FAULT, "kernel %s: a grid of %lld blocks: %s", name, (long long)blocks,
                    cudaGetErrorString(error));
}

/* An attribute of the current device; `what` is its name in messages. */
static inline ls_status device_number(const char *name, const char *what, cudaDeviceAttr attribute, int *out) {
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(out, attribute, device);
    if (error == cudaSuccess) return ls_ok();
    return ls_error(LS_FAULT, "kernel %s: the %s of the device: %s", name, what, cudaGetErrorString(error));
}

/*
 * Lets the kernel's launches ask for as much shared memory as a block of the current device can have. Ranks that are
 * threads share this limit. It does not depend on the launch, so no rank sets it below what another rank needs.
 */
template <typename F> static ls_status allow_shared(const char *name, F *kernel) {
    int most;
    LS_TRY(device_number(name, "shared memory", cudaDevAttrMaxSharedMemoryPerBlockOptin, &most));
    cudaFuncAttributes of;
    cudaError_t error = cudaFuncGetAttributes(&of, kernel);
    most -= (int)of.sharedSizeBytes;
    if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    if (error == cudaSuccess) return ls_ok();
    return ls_error(LS_FAULT, "kernel %s: %d bytes of shared memory: %s", name, most, cudaGetErrorString(error));
}

/* For prepare: LS_UNSUPPORTED if a block of the current device has less shared memory than `bytes`. */
static inline ls_status check_shared(const char *name, size_t bytes) {
    int most;
    LS_TRY(device_number(name, "shared memory", cudaDevAttrMaxSharedMemoryPerBlockOptin, &most));
    if (bytes <= (size_t)most) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "kernel %s: a block needs %zu bytes of shared memory; the device has %d", name,
                    bytes, most);
}

/* For prepare: LS_UNSUPPORTED if the current device has no warp-group products (ptx_sm90.h). */
static inline ls_status check_warp_groups(const char *name) {
    int major;
    LS_TRY(device_number(name, "compute capability", cudaDevAttrComputeCapabilityMajor, &major));
    if (major == 9) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "kernel %s: the device has compute capability %d; expected 9", name, major);
}

/* The most blocks of a grid; threads loop if there are more elements. */
static const int64_t MOST_BLOCKS = 1 << 16;

/* The blocks for n elements, one element for each thread. */
static inline int64_t blocks_for(int64_t n) { return ls_min(MOST_BLOCKS, ls_ceil_div(n, (int64_t)CUDA_THREADS)); }
/* The elements of a thread: for (EACH(i, n)). */
#define EACH(i, n)                                                \
    int64_t i = (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x; \
    i < (n);                                                      \
    i += (int64_t)gridDim.x * CUDA_THREADS

/* --- sums over a warp, over a block ------------------------------------------------------------------------------- */

/* Each lane passes a number and gets the sum, which is always added in the same order. */
template <typename S> static __device__ __forceinline__ S warp_sum(S x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0U, x, step);
    return x;
}

/* The same for all threads of the block. */
template <typename S> static __device__ __forceinline__ S block_sum(S x) {
    __shared__ S of_warp[CUDA_WARPS];
    x = warp_sum(x);
    __syncthreads(); /* until here threads may still read the previous sum */
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    S sum = of_warp[0];
    for (int w = 1; w < CUDA_WARPS; w++) sum += of_warp[w];
    return sum;
}

template <typename S> static __device__ __forceinline__ S block_max(S x) {
    __shared__ S of_warp[CUDA_WARPS];
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0U, x, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    S most = of_warp[0];
    for (int w = 1; w < CUDA_WARPS; w++) most = fmaxf(most, of_warp[w]);
    return most;
}

#endif
