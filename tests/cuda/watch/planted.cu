/*
 * y = x in blocks of CUDA_THREADS elements, which go through shared memory: thread t gives what thread 255 - t, or its
 * neighbour in the warp, has put there. Each fault is one line.
 */
#include "watch/planted.h"

#include "kernel/cuda/cuda_impl.h"

static constexpr int N = CUDA_THREADS, PITCH = 32;

struct vectors {
    const float *x;
    float *y;
    int64_t n;
};

/* --- barriers ----------------------------------------------------------------------------------------------------- */

enum barrier { OF_BLOCK, OF_WARP, NONE, LATE };

/* Turns the elements around, twice. NEIGHBOUR: within pairs. */
template <barrier B, bool NEIGHBOUR> static __global__ void turn(vectors v) {
    __shared__ float tile[N];
    const int t = threadIdx.x, other = NEIGHBOUR ? t ^ 1 : N - 1 - t;
    const int64_t e = (int64_t)blockIdx.x * N + t;
    tile[t] = e < v.n ? v.x[e] : 0;
    if (B == OF_BLOCK || B == LATE) __syncthreads();
    if (B == OF_WARP) __syncwarp();
    const float x = tile[other];
    if (B == OF_BLOCK) __syncthreads();
    if (B == OF_WARP) __syncwarp();
    tile[t] = x; /* LATE: while others read it */
    if (B != NONE) __syncthreads();
    if (e < v.n) v.y[e] = tile[other];
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* All blocks write y[0] first. */
static __global__ void write_first(vectors v) {
    const int64_t e = (int64_t)blockIdx.x * N + threadIdx.x;
    if (threadIdx.x == 0) v.y[0] = v.x[0];
    __syncthreads();
    if (e > 0 && e < v.n) v.y[e] = v.x[e];
}

/* The first thread reads y where the block before it has written, or will. */
static __global__ void read_before(vectors v) {
    const int64_t e = (int64_t)blockIdx.x * N + threadIdx.x;
    if (e < v.n) v.y[e] = v.x[e];
    __syncthreads();
    const int64_t before = (e + v.n - N) % v.n;
    if (threadIdx.x == 0 && v.y[before] != v.x[before]) v.y[e] = 0;
}

/* --- operands ----------------------------------------------------------------------------------------------------- */

enum place { SHARED, OUTPUT, BESIDE, WRITE_BESIDE, INPUT, BEYOND };

template <place P> static __global__ void misplaced(vectors v) {
    __shared__ float tile[N + 1];
    LS_DYNAMIC_SHARED(memory);
    float *const own = (float *)memory;
    const int t = threadIdx.x;
    const int64_t e = (int64_t)blockIdx.x * N + t;
    tile[t] = e < v.n ? v.x[e] : 0;
    own[t] = tile[t];
    __syncthreads();
    if (P == SHARED && t == 7 && own[N] > 0) own[t] = 0;
    if (P == BEYOND && t == 7) own[2 * N] = 1;
    if (P == OUTPUT && e < v.n && v.y[e] > 1e30f) own[t] = 1;
    if (P == BESIDE && t == 7 && v.x[v.n] > 1e30f) own[t] = 1;
    if (P == WRITE_BESIDE && t == 7) v.y[v.n] = 1;
    if (P == INPUT && t == 7) ((float *)v.x)[e] = 1;
    if (e < v.n) v.y[e] = own[t];
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

enum wait { NO_WAIT, NO_BARRIER, OVERWRITTEN, WHOLE };

template <wait W> static __global__ void copy(vectors v) {
    LS_DYNAMIC_SHARED(memory);
    float *const tile = (float *)memory;
    const int t = threadIdx.x;
    const int64_t first = (int64_t)blockIdx.x * N;
    if (t % 4 == 0) ls_copy_16(tile + t, v.x + first + t, true);
    ls_copy_commit();
    __syncwarp(); /* all copies have begun */
    if (W == OVERWRITTEN && t == 0) tile[0] = 1;
    if (W != NO_WAIT) ls_copy_wait<0>();
    if (W != NO_BARRIER) __syncthreads();
    v.y[first + t] = tile[t];
    ls_copy_wait<0>();
}

/* --- banks and sectors -------------------------------------------------------------------------------------------- */

/* A tile by rows, which a warp reads by columns: its lanes read words of one bank, and write sectors of their own. */
static __global__ void by_columns(vectors v) {
    __shared__ float tile[PITCH * PITCH];
    const int t = threadIdx.x % PITCH;
    for (int row = threadIdx.x / PITCH; row < PITCH; row += N / PITCH) tile[row * PITCH + t] = v.x[row * PITCH + t];
    __syncthreads();
    for (int c = threadIdx.x / PITCH; c < PITCH; c += N / PITCH) v.y[t * PITCH + c] = tile[t * PITCH + c];
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

template <auto KERNEL> static ls_status launch_planted(const ls_kernel_call *call, void *, void *stream) {
    const int64_t n = ls_view_elements(&call->in[0]), blocks = KERNEL == by_columns ? 1 : ls_ceil_div(n, (int64_t)N);
    return launch("scale", stream, blocks, (N + 1) * sizeof(float), KERNEL,
                  vectors{input<float>(call, 0), output<float>(call, 0), n});
}

#define ROW(name, ...) CUDA_ROW(planted_##name, SCALE, LS_F32, (launch_planted<__VA_ARGS__>), nullptr)
ROW(right, turn<OF_BLOCK, false>)
ROW(right_in_warps, turn<OF_WARP, true>)
ROW(no_block_barrier, turn<NONE, false>)
ROW(no_warp_barrier, turn<NONE, true>)
ROW(late_block_barrier, turn<LATE, false>)
ROW(between_blocks, write_first)
ROW(of_another_block, read_before)
ROW(unwritten_shared, misplaced<SHARED>)
ROW(unwritten_output, misplaced<OUTPUT>)
ROW(read_beside, misplaced<BESIDE>)
ROW(write_beside, misplaced<WRITE_BESIDE>)
ROW(write_input, misplaced<INPUT>)
ROW(beyond_shared, misplaced<BEYOND>)
ROW(no_wait, copy<NO_WAIT>)
ROW(wait_without_barrier, copy<NO_BARRIER>)
ROW(overwritten_copy, copy<OVERWRITTEN>)
ROW(right_copy, copy<WHOLE>)
ROW(by_columns, by_columns)
