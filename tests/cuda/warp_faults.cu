#include "warp_faults.h"

#include "kernel/cuda/ptx_sm90.h"

namespace {

enum { THREADS = 64 };
constexpr unsigned ALL = ~0U, LOW = 0xffffU;

/* Whether the lane is one of the first half of its warp. */
__device__ bool is_low() { return threadIdx.x % 32 < 16; }
__device__ int lane() { return (int)threadIdx.x % 32; }
__device__ unsigned own_half() { return is_low() ? LOW : ~LOW; }

/* --- lanes that are elsewhere ------------------------------------------------------------------------------------- */

template <bool WRONG> __global__ void sync_in_a_branch(int *results) {
    if (!WRONG || is_low()) __syncwarp();
    __syncthreads();
    results[threadIdx.x] = 1;
}

template <bool WRONG> __global__ void sync_at_two_places(int *results) {
    if (WRONG && is_low())
        __syncwarp();
    else
        __syncwarp();
    results[threadIdx.x] = 1;
}

template <bool WRONG> __global__ void sync_with_two_masks(int *results) {
    __syncwarp(WRONG && is_low() ? LOW : ALL);
    results[threadIdx.x] = 1;
}

template <bool WRONG> __global__ void sync_of_others(int *results) {
    __syncwarp(WRONG ? LOW : own_half());
    results[threadIdx.x] = 1;
}

template <bool WRONG> __global__ void barriers_at_two_places(int *results) {
    if (WRONG && is_low())
        __syncthreads();
    else
        __syncthreads();
    results[threadIdx.x] = 1;
}

template <bool WRONG> __global__ void shuffle_in_a_branch(int *results) {
    int x = lane();
    if (!WRONG || is_low()) x = __shfl_xor_sync(ALL, x, 1);
    __syncwarp();
    results[threadIdx.x] = x;
}

template <bool WRONG> __global__ void shuffles_at_two_places(int *results) {
    const int x = WRONG && is_low() ? __shfl_xor_sync(ALL, lane(), 1) : __shfl_xor_sync(ALL, lane(), 2);
    results[threadIdx.x] = x;
}

template <bool WRONG> __global__ void more_rounds_of_some(int *results) {
    int x = lane();
    for (int i = 0; i < (WRONG && is_low() ? 3 : 2); i++) x += __shfl_xor_sync(ALL, x, 1);
    results[threadIdx.x] = x;
}

template <bool WRONG> __global__ void vote_in_a_branch(int *results) {
    int any = 1;
    if (!WRONG || is_low()) any = __any_sync(ALL, lane() == 3);
    __syncthreads();
    results[threadIdx.x] = any;
}

template <bool WRONG> __global__ void votes_with_two_masks(int *results) {
    const unsigned votes = __ballot_sync(WRONG && !is_low() ? ~1U : ALL, lane() < 2);
    results[threadIdx.x] = (int)votes;
}

template <bool WRONG> __global__ void product_in_a_branch(int *results) {
    const unsigned a[4] = {0}, b[2] = {0};
    float d[4] = {1, 1, 1, 1};
    if (!WRONG || is_low()) ls_mma(d, a, b);
    __syncthreads();
    results[threadIdx.x] = (int)d[0];
}

template <bool WRONG> __global__ void products_at_two_places(int *results) {
    const unsigned a[4] = {0}, b[2] = {0};
    float d[4] = {1, 1, 1, 1};
    if (WRONG && is_low())
        ls_mma(d, a, b);
    else
        ls_mma(d, a, b);
    results[threadIdx.x] = (int)d[0];
}

template <bool WRONG> __global__ void matrices_in_a_branch(int *results) {
    LS_DYNAMIC_SHARED(memory);
    for (int i = 0; i < 64; i++) memory[64 * threadIdx.x + i] = 0;
    __syncthreads();
    unsigned r[4] = {0};
    if (!WRONG || is_low()) ls_load_matrices(r, memory + 16 * lane());
    __syncthreads();
    results[threadIdx.x] = (int)r[0] + 1;
}

/* --- lanes that have ended ---------------------------------------------------------------------------------------- */

template <bool WRONG> __global__ void sync_with_the_ended(int *results) {
    results[threadIdx.x] = 1;
    if (WRONG && !is_low()) return;
    __syncwarp();
}

template <bool WRONG> __global__ void shuffle_with_the_ended(int *results) {
    results[threadIdx.x] = 1;
    if (lane() == 31) return;
    results[threadIdx.x] = __shfl_sync(WRONG ? ALL : ALL >> 1, lane(), 1);
}

template <bool WRONG> __global__ void vote_with_the_ended(int *results) {
    results[threadIdx.x] = 1;
    if (!is_low()) return;
    results[threadIdx.x] = (int)__ballot_sync(WRONG ? ALL : LOW, 1) == LOW;
}

template <bool WRONG> __global__ void product_with_the_ended(int *results) {
    const unsigned a[4] = {0}, b[2] = {0};
    float d[4] = {1, 1, 1, 1};
    results[threadIdx.x] = 1;
    if (WRONG && lane() % 8 == 0) return;
    ls_mma(d, a, b);
    results[threadIdx.x] = (int)d[0];
}

/* --- lanes that the mask does not name ---------------------------------------------------------------------------- */

template <bool WRONG> __global__ void read_of_another_half(int *results) {
    const int x = __shfl_xor_sync(own_half(), lane(), WRONG ? 16 : 8);
    results[threadIdx.x] = x;
}

template <bool WRONG> __global__ void read_of_the_ended(int *results) {
    results[threadIdx.x] = 1;
    if (!is_low()) return;
    results[threadIdx.x] = __shfl_down_sync(LOW, lane(), !WRONG && lane() >= 8 ? 0 : 8);
}

/* Halves that exchange by themselves, one more often than the other, and then together. */
template <bool WRONG> __global__ void halves(int *results) {
    int x = 1;
    for (int step = 1; step < (is_low() ? 16 : 8); step *= 2) x += __shfl_xor_sync(own_half(), x, step);
    results[threadIdx.x] = __shfl_sync(WRONG ? own_half() : ALL, x, 0) + __shfl_sync(ALL, x, 31);
}

/* ------------------------------------------------------------------------------------------------------------------ */

struct row {
    warp_fault is;
    void (*right)(int *), (*wrong)(int *);
};

#define ROW(kernel, sum, call, why) \
    { {#kernel, call " at warp_faults.cu:", why, sum}, kernel<false>, kernel<true> }
constexpr row rows[] = {
    ROW(sync_in_a_branch, 32, "__syncwarp", " waits for lanes 16-31 at a barrier of the block"),
    ROW(sync_at_two_places, 32, "__syncwarp", " waits for lanes 16-31 at __syncwarp at warp_faults.cu:"),
    ROW(sync_with_two_masks, 32, "__syncwarp", " waits for lanes 0-15, ended before"),
    ROW(sync_of_others, 32, "__syncwarp", " does not name its own lane"),
    ROW(barriers_at_two_places, 32, "a barrier", " while others wait at warp_faults.cu:"),
    ROW(shuffle_in_a_branch, 496, "__shfl_xor_sync", " waits for lanes 16-31 at __syncwarp at warp_faults.cu:"),
    ROW(shuffles_at_two_places, 496, "__shfl_xor_sync", " waits for lanes 16-31 at __shfl_xor_sync at warp_faults.cu:"),
    ROW(more_rounds_of_some, 1984, "__shfl_xor_sync", " waits for lanes 16-31, ended before"),
    ROW(vote_in_a_branch, 32, "__any_sync", " waits for lanes 16-31 at a barrier of the block"),
    ROW(votes_with_two_masks, 96, "__ballot_sync", " waits for lanes 16-31 there that name lanes 1-31"),
    ROW(product_in_a_branch, 32, "mma", " waits for lanes 16-31 at a barrier of the block"),
    ROW(products_at_two_places, 32, "mma", " waits for lanes 16-31 at mma at warp_faults.cu:"),
    ROW(matrices_in_a_branch, 32, "ldmatrix", " waits for lanes 16-31 at a barrier of the block"),
    ROW(sync_with_the_ended, 32, "__syncwarp", " waits for lanes 16-31, ended before"),
    ROW(shuffle_with_the_ended, 32, "__shfl_sync", " waits for lane 31, ended before"),
    ROW(vote_with_the_ended, 32, "__ballot_sync", " waits for lanes 16-31, ended before"),
    ROW(product_with_the_ended, 32, "mma", " waits for lanes 0, 8, 16, 24, ended before"),
    ROW(read_of_another_half, 496, "__shfl_xor_sync", ", which its mask does not name"),
    ROW(read_of_the_ended, 200, "__shfl_down_sync", ", which its mask does not name"),
    ROW(halves, 768, "__shfl_sync", " reads from lane 0, which its mask does not name"),
};

} // namespace

int warp_faults(void) { return sizeof rows / sizeof *rows; }
warp_fault warp_fault_of(int i) { return rows[i].is; }

static int launch(void (*kernel)(int *), size_t shared, int *results) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = shared;
    return (int)cudaLaunchKernelEx(&config, kernel, results);
}

int warp_fault_launch(int i, int wrong, int *results) {
    return launch(wrong ? rows[i].wrong : rows[i].right, 64 * THREADS, results);
}

int warp_launch_with_shared(int i, int bytes, int allowed, int *results) {
    const cudaError_t error =
        allowed == 0 ? cudaSuccess
                     : cudaFuncSetAttribute(rows[i].right, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed);
    return error != cudaSuccess ? (int)error : launch(rows[i].right, (size_t)bytes, results);
}
