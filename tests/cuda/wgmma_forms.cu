#include "wgmma_forms.h"

#include "kernel/cuda/tiles_sm90.h"

namespace {

enum a_place { REGISTERS, BY_SUMMED, BY_OTHERS }; /* in shared memory: a row is an index that is summed over, or not */

struct matrices {
    const bf16 *a, *b;
    float *d;
};

constexpr int K = WGMMA_SUMMED, M = WGMMA_ROWS;

/* a of 16 rows from `row` on and 16 indices from k on, as registers have it. */
__device__ __forceinline__ void load_a(unsigned (&a)[4], const bf16 *from, int row, int k) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; i++) memcpy(&a[i], from + (row + g + i % 2 * 8) * K + k + 2 * t + i / 2 * 8, sizeof a[i]);
}

template <int ROWS, bool BY_SUMMED_> __device__ __forceinline__ uint64_t operand(const bf16 *t, int first, int k) {
    return BY_SUMMED_ ? summed_rows<ROWS>(t, k, first) : summed_elements<ROWS>(t, first, k);
}

template <a_place A, bool B_BY_SUMMED, int N, wgmma_fault FAULT>
__global__ void __launch_bounds__(CUDA_THREADS, 1) multiply(matrices m) {
    LS_DYNAMIC_SHARED(memory);
    if (!LS_HAS_WARP_GROUPS) return;
    constexpr int B_ROWS = B_BY_SUMMED ? K : N, B_ELEMENTS = B_BY_SUMMED ? N : K;
    constexpr int A_ROWS = A == BY_SUMMED ? K : M, A_ELEMENTS = A == BY_SUMMED ? M : K;
    bf16 *const a = (bf16 *)memory, *const b = a + M * K;
    load_panels<A_ELEMENTS, A_ROWS>(a, m.a, A_ELEMENTS, 0, A_ROWS, A_ELEMENTS);
    load_panels<B_ELEMENTS, B_ROWS>(b, m.b, B_ELEMENTS, 0, B_ROWS, B_ELEMENTS);
    ls_copy_commit();
    ls_copy_wait<0>();
    for (int i = threadIdx.x; FAULT == WGMMA_NO_SWIZZLE && i < N * K; i += CUDA_THREADS) b[i] = m.b[i];
    if (FAULT != WGMMA_NO_SHARED_FENCE) ls_shared_fence();
    if (FAULT != WGMMA_NO_BARRIER) __syncthreads();
    const int first = threadIdx.x / 128 * 64, row = threadIdx.x / 32 * 16;
    const bf16 *const b_at = b + (FAULT == WGMMA_UNALIGNED ? 8 * PANEL / 2 : 0);
    constexpr ls_order OF_B = B_BY_SUMMED ? LS_OTHERS_SIDE_BY_SIDE : LS_SUMMED_SIDE_BY_SIDE;
    float d[N / 8][4];
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) d[n][i] = 0.5F;
    unsigned of_a[K / 16][4];
#pragma unroll
    for (int k = 0; k < K; k += 16) {
        if constexpr (A == REGISTERS) load_a(of_a[k / 16], m.a, row, k);
    }
    if (FAULT == WGMMA_ONE_WARP && threadIdx.x < 32) return;
    if (FAULT == WGMMA_HALF_A_WARP && threadIdx.x % 32 < 16) return;
    if (FAULT != WGMMA_NO_PRODUCTS_FENCE) {
        if constexpr (A == REGISTERS)
            ls_products_fence(d, of_a);
        else
            ls_products_fence(d);
    }
#pragma unroll
    for (int k = 0; k < K; k += 16) {
        const uint64_t of_b = operand<B_ROWS, B_BY_SUMMED>(b_at, 0, k);
        if constexpr (A == REGISTERS) {
            ls_multiply<OF_B>(d, of_a[k / 16], of_b, true);
        } else {
            constexpr ls_order OF_A = A == BY_SUMMED ? LS_OTHERS_SIDE_BY_SIDE : LS_SUMMED_SIDE_BY_SIDE;
            ls_multiply<OF_A, OF_B>(d, operand<A_ROWS, A == BY_SUMMED>(a, first, k), of_b, true);
        }
    }
    if (FAULT != WGMMA_NO_COMMIT) ls_products_commit();
    if (FAULT == WGMMA_OVERWRITTEN) b[threadIdx.x] = from_float<bf16>(7);
    if (FAULT != WGMMA_NO_WAIT) ls_products_wait<0>(d, of_a);
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) m.d[(row + g + i / 2 * 8) * N + 8 * n + 2 * t + i % 2] = d[n][i];
}

template <a_place A, bool B_BY_SUMMED, int N, wgmma_fault FAULT> int launch_one(const matrices &m) {
    constexpr size_t shared = sizeof(bf16) * (M * K + N * K);
    cudaError_t error = cudaFuncSetAttribute(multiply<A, B_BY_SUMMED, N, FAULT>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(CUDA_THREADS);
    config.dynamicSmemBytes = shared;
    if (error == cudaSuccess) error = cudaLaunchKernelEx(&config, multiply<A, B_BY_SUMMED, N, FAULT>, m);
    return (int)error;
}

template <a_place A, bool B_BY_SUMMED, int N> int launch_form(const matrices &m, wgmma_fault fault) {
#define LAUNCH_OF(FAULT) \
    case FAULT:          \
        return launch_one<A, B_BY_SUMMED, N, FAULT>(m)
    switch (fault) {
        LAUNCH_OF(WGMMA_RIGHT);
#ifndef __CUDACC__ /* faults are for the host: what they do on a GPU is undefined */
        LAUNCH_OF(WGMMA_NO_PRODUCTS_FENCE);
        LAUNCH_OF(WGMMA_NO_COMMIT);
        LAUNCH_OF(WGMMA_NO_WAIT);
        LAUNCH_OF(WGMMA_NO_SHARED_FENCE);
        LAUNCH_OF(WGMMA_NO_BARRIER);
        LAUNCH_OF(WGMMA_NO_SWIZZLE);
        LAUNCH_OF(WGMMA_UNALIGNED);
        LAUNCH_OF(WGMMA_OVERWRITTEN);
        LAUNCH_OF(WGMMA_ONE_WARP);
        LAUNCH_OF(WGMMA_HALF_A_WARP);
#endif
    default:
        return (int)cudaErrorInvalidValue;
    }
}

struct form {
    wgmma_form is;
    int (*launch)(const matrices &m, wgmma_fault fault);
};

#define FORM(name, A, B_BY_SUMMED, N) \
    { {name, N, A == BY_SUMMED, B_BY_SUMMED}, launch_form<A, B_BY_SUMMED, N> }
constexpr form forms[] = {
    FORM("a in registers, b by columns, N 64", REGISTERS, false, 64),
    FORM("a in registers, b by columns, N 128", REGISTERS, false, 128),
    FORM("a in registers, b by rows, N 64", REGISTERS, true, 64),
    FORM("a in registers, b by rows, N 128", REGISTERS, true, 128),
    FORM("a by rows, b by columns, N 64", BY_OTHERS, false, 64),
    FORM("a by rows, b by columns, N 128", BY_OTHERS, false, 128),
    FORM("a by rows, b by rows, N 64", BY_OTHERS, true, 64),
    FORM("a by rows, b by rows, N 128", BY_OTHERS, true, 128),
    FORM("a by columns, b by columns, N 64", BY_SUMMED, false, 64),
    FORM("a by columns, b by columns, N 128", BY_SUMMED, false, 128),
    FORM("a by columns, b by rows, N 64", BY_SUMMED, true, 64),
    FORM("a by columns, b by rows, N 128", BY_SUMMED, true, 128),
};
static_assert(sizeof forms / sizeof *forms == WGMMA_FORMS);

} // namespace

wgmma_form wgmma_form_of(int i) { return forms[i].is; }

int wgmma_launch(int i, wgmma_fault fault, const void *a, const void *b, float *d) {
    return forms[i].launch({(const bf16 *)a, (const bf16 *)b, d}, fault);
}
