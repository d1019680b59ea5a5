/*
 * As much of the CUDA runtime as the kernels of src/kernel/cuda use, for a host without a GPU: this file stands in for
 * the toolkit's of that name when they are compiled for tests. Blocks run one after the other, in a random order. The
 * threads of a block are fibres of one host thread. Warp after warp, in a random order, they run from one barrier of
 * the block to the next, and within a warp from one of the warp to the next, so that a missing barrier shows; a barrier
 * that some threads do not reach ends the process with a message, and so does what lanes of a warp do together where
 * some are not there (warps.h). Grids run one at a time. Shared memory is filled with NaN before each block.
 */
#ifndef LS_TESTS_CUDA_RUNTIME_H
#define LS_TESTS_CUDA_RUNTIME_H

#include "warps.h"
#include "watch/watch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

typedef enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 } cudaError_t;
typedef struct emulated_stream *cudaStream_t;
static inline const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess             ? "no error"
           : error == cudaErrorInvalidValue ? "invalid argument"
                                            : "invalid configuration argument";
}

namespace emulation {

enum { MOST_THREADS = 1024, MOST_SHARED = 227 * 1024 };

extern unsigned number; /* of the thread that runs, within its block; its lane is number % WARP */
extern char shared_memory[MOST_SHARED];
/* Of a block on the device that is emulated; the environment variable EMULATED_SHARED says another number. */
int most_shared();
/* Launches of the kernel may ask for so much; without that for 48 KiB. */
cudaError_t allow_shared(const void *function, int bytes);
/* Of the device, its major number: 9, or what EMULATED_CAPABILITY says. */
int capability();
/*
 * EMULATED_BLOCKS, for operands that are more than this host has memory for: so many blocks of a grid are executed, at
 * least two, the first and the last among them; of bytes that are set or copied only ENDS at both ends are.
 */
int most_blocks();
enum { ENDS = 64 };

/* Returns when all threads of the block that have not ended are at the same place. */
void block_barrier(const place &at);
/* The same as block_barrier, and how many threads gave true. */
unsigned count(bool is, const place &at);
/* Ends the process with a message that names the thread and the kernel. */
[[noreturn]] void fail(const char *what);

/* Copies that have been asked for and are done when the thread waits for their group. */
void copy_later(void *to, const void *from, size_t bytes);
void commit_copies();
void wait_copies(int most_open);

} // namespace emulation

/* Of the thread that runs. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static constexpr int warpSize = emulation::WARP;

static inline void __syncthreads(emulation::place at = emulation::place::current()) { emulation::block_barrier(at); }
static inline int __syncthreads_or(int is, emulation::place at = emulation::place::current()) {
    return emulation::count(is != 0, at) > 0;
}
static inline int __syncthreads_and(int is, emulation::place at = emulation::place::current()) {
    return emulation::count(is == 0, at) == 0;
}
static inline void __syncwarp(unsigned mask = emulation::ALL_LANES, emulation::place at = emulation::place::current()) {
    emulation::meet("__syncwarp", mask, at);
    if (mask == emulation::ALL_LANES) WATCHED(watch_warp_barrier);
}

/* The value of lane `from`. */
template <typename T>
static inline T emulated_shuffle(const char *what, unsigned mask, T value, unsigned from, const emulation::place &at) {
    static_assert(sizeof(T) <= emulation::EXCHANGE, "too large a value for a shuffle");
    const char *all = emulation::exchange(what, mask, &value, sizeof value, at);
    emulation::need_lane(from);
    T result;
    memcpy(&result, all + from * emulation::EXCHANGE, sizeof result);
    return result;
}
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int lane, emulation::place at = emulation::place::current()) {
    return emulated_shuffle("__shfl_sync", mask, value, (unsigned)lane % emulation::WARP, at);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int by, emulation::place at = emulation::place::current()) {
    return emulated_shuffle("__shfl_xor_sync", mask, value, ((emulation::number ^ (unsigned)by) % emulation::WARP), at);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, int delta, emulation::place at = emulation::place::current()) {
    const unsigned lane = emulation::number % emulation::WARP, from = lane + (unsigned)delta;
    return emulated_shuffle("__shfl_down_sync", mask, value, from < emulation::WARP ? from : lane, at);
}

/* A bit for each lane of the mask that gives true. */
static inline unsigned emulated_vote(const char *what, unsigned mask, bool is, const emulation::place &at) {
    const char *all = emulation::exchange(what, mask, &is, sizeof is, at);
    unsigned bits = 0;
    for (int lane = 0; lane < emulation::WARP; lane++) bits |= (unsigned)all[lane * emulation::EXCHANGE] << lane;
    return bits & mask;
}
static inline unsigned __ballot_sync(unsigned mask, int is, emulation::place at = emulation::place::current()) {
    return emulated_vote("__ballot_sync", mask, is != 0, at);
}
static inline int __any_sync(unsigned mask, int is, emulation::place at = emulation::place::current()) {
    return emulated_vote("__any_sync", mask, is != 0, at) != 0;
}
static inline int __ffs(int x) { return __builtin_ffs(x); }

using std::max;
using std::min;
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __int_as_float(int x) {
    float f;
    memcpy(&f, &x, sizeof f);
    return f;
}
template <typename T> static inline T __ldg(const T *p) { return *p; }

typedef enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize } cudaFuncAttribute;
template <typename F> static inline cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute, int bytes) {
    return emulation::allow_shared((const void *)kernel, bytes);
}

typedef struct cudaFuncAttributes {
    size_t sharedSizeBytes; /* besides what a launch asks for: emulated kernels say no sizes */
} cudaFuncAttributes;
template <typename F> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *of, F *) {
    of->sharedSizeBytes = 0;
    return cudaSuccess;
}

typedef enum cudaDeviceAttr {
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrComputeCapabilityMajor
} cudaDeviceAttr;
static inline cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? emulation::capability() : emulation::most_shared();
    return cudaSuccess;
}

struct cudaLaunchAttribute;
typedef struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

namespace emulation {
/* The stream executes it, if the fake driver has been loaded (driver/fake.h); else it has been executed on return. */
void give(cudaStream_t stream, const std::function<void()> &work);
/* function: the kernel; call: a call of it, with its arguments. */
cudaError_t launch_grid(const cudaLaunchConfig_t &config, const void *function, const std::function<void()> &call);
/* f(at, n) for all bytes, or for the ends of them. */
template <typename F> static inline void on_bytes(size_t bytes, F f) {
    if (most_blocks() == INT32_MAX || bytes <= 2 * ENDS) {
        f(0, bytes);
        return;
    }
    f(0, ENDS);
    f(bytes - ENDS, ENDS);
}
} // namespace emulation

/*
 * Without a stream, or without the fake driver (driver/fake.h), the launch has been executed when it returns; else the
 * stream executes it.
 */
static inline cudaError_t cudaMemsetAsync(void *data, int byte, size_t bytes, cudaStream_t stream) {
    emulation::give(stream, [=] {
        emulation::on_bytes(bytes, [=](size_t at, size_t n) {
            memset((char *)data + at, byte, n);
            WATCHED(watch_stream_writes, (char *)data + at, n);
        });
    });
    return cudaSuccess;
}

typedef enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
} cudaMemcpyKind;
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                          cudaStream_t stream) {
    emulation::give(stream, [=] {
        emulation::on_bytes(bytes, [=](size_t at, size_t n) {
            memcpy((char *)to + at, (const char *)from + at, n);
            WATCHED(watch_stream_writes, (char *)to + at, n);
        });
    });
    return cudaSuccess;
}

template <typename... Expected, typename... Actual>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Expected...),
                                             Actual &&...actual) {
    const std::tuple<std::decay_t<Expected>...> arguments(std::forward<Actual>(actual)...);
    return emulation::launch_grid(*config, (const void *)kernel, [=] { std::apply(kernel, arguments); });
}

#endif
