/*
 * Instructions that only compute capability 9.0 has (sm_90a, PTX ISA 8.0): products of a warp group, which is four
 * warps, the first of which has a number that is a multiple of four. tests/cuda/kernel/cuda/ptx_sm90.h replaces this
 * file when kernels are compiled for the host.
 *
 * The products are asynchronous. The behaviour is undefined if one of these rules is broken, and the replacement
 * detects it:
 *  - Call ls_products_fence before the first product, and after other instructions wrote sums or a.
 *  - Call ls_products_commit and ls_products_wait before sums are read or written, and before a or b is overwritten.
 *  - After a thread wrote an operand to shared memory, by a store or by a copy that it waited for, it calls
 *    ls_shared_fence, and then all threads that multiply pass a barrier.
 *  - All warps of a group execute the same products, with all lanes.
 */
#ifndef LS_CUDA_PTX_SM90_H
#define LS_CUDA_PTX_SM90_H

#include "kernel/cuda/ptx.h"

/* For other GPUs the kernels are compiled too, but do nothing: their rows refuse these GPUs. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define LS_HAS_WARP_GROUPS true
#else
#define LS_HAS_WARP_GROUPS false
#endif

/* Along which index an operand is contiguous in shared memory: the one that is summed over, or the other one. */
enum ls_order { LS_SUMMED_SIDE_BY_SIDE = 0, LS_OTHERS_SIDE_BY_SIDE = 1 };

/*
 * The descriptor of an operand in shared memory, with the swizzle of 128 bytes: bits 4 to 6 of an element's address are
 * xor'ed with bits 7 to 9. A row has 64 elements (128 bytes), and 8 rows are a pattern of 1,024 bytes, which begins at
 * a multiple of 1,024. Distances are in bytes, multiples of 16.
 *  - SUMMED_SIDE_BY_SIDE: a row is a row of a or a column of b. `stride` is the distance of patterns; `leading` is not
 *    used. `at` may be within a row, at a multiple of 32 bytes.
 *  - OTHERS_SIDE_BY_SIDE: a row belongs to one value of the index that is summed over. `stride` is the distance from 8
 *    of these values to the next 8, `leading` the distance from 64 values of the other index to the next 64.
 */
static __device__ __forceinline__ uint64_t ls_descriptor(const void *at, unsigned leading, unsigned stride) {
    const uint64_t address = ls_shared_address(at);
    return (address & 0x3ffffU) >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | 1ULL << 62;
}

/*
 * d = a b, or if adds d += a b, of bf16 with sums in f32: a [64,16], b [16,N], d [64,N] with N = 8 TILES. Warp w of the
 * group has 16 rows of d, from 16 w on, in the layout of ls_mma's d; if a is in registers, the warp has the same rows
 * of a, in the layout of ls_mma's a. B, A: the orders of operands in shared memory, which descriptors describe.
 */
template <ls_order B, int TILES>
static __device__ __forceinline__ void ls_multiply(float (&d)[TILES][4], const unsigned (&a)[4], uint64_t b, bool adds);
template <ls_order A, ls_order B, int TILES>
static __device__ __forceinline__ void ls_multiply(float (&d)[TILES][4], uint64_t a, uint64_t b, bool adds);

#define LS_SUMS_1(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define LS_SUMS_4(n) LS_SUMS_1(n), LS_SUMS_1(n + 1), LS_SUMS_1(n + 2), LS_SUMS_1(n + 3)
#define LS_SUMS_8 LS_SUMS_4(0), LS_SUMS_4(4)
#define LS_SUMS_16 LS_SUMS_8, LS_SUMS_4(8), LS_SUMS_4(12)
#define LS_NAMES_8                                                                                                   \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
    "%30,%31"
#define LS_NAMES_16                                                                                             \
    LS_NAMES_8                                                                                                  \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
    "%58,%59,%60,%61,%62,%63"

/* The instruction with a in registers, and with a in shared memory; the operands after the sums have these numbers. */
#define LS_MULTIPLY_REGISTERS(TILES, N, a0, a1, a2, a3, of_b, adds_, order)                   \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds_ ", 0;\n"                           \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" LS_NAMES_##TILES \
                 "}, {" a0 "," a1 "," a2 "," a3 "}, " of_b ", p, 1, 1, " order ";\n}\n"       \
                 : LS_SUMS_##TILES                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds), "n"((int)B))
#define LS_MULTIPLY_SHARED(TILES, N, of_a, of_b, adds_, order_a, order_b)                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds_ ", 0;\n"                           \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" LS_NAMES_##TILES \
                 "}, " of_a "," of_b ", p, 1, 1, " order_a ", " order_b ";\n}\n"              \
                 : LS_SUMS_##TILES                                                            \
                 : "l"(a), "l"(b), "r"((int)adds), "n"((int)A), "n"((int)B))

template <ls_order B, int TILES>
static __device__ __forceinline__ void ls_multiply(float (&d)[TILES][4], const unsigned (&a)[4], uint64_t b,
                                                   bool adds) {
    static_assert(TILES == 8 || TILES == 16);
    if constexpr (TILES == 8)
        LS_MULTIPLY_REGISTERS(8, "64", "%32", "%33", "%34", "%35", "%36", "%37", "%38");
    else
        LS_MULTIPLY_REGISTERS(16, "128", "%64", "%65", "%66", "%67", "%68", "%69", "%70");
}

template <ls_order A, ls_order B, int TILES>
static __device__ __forceinline__ void ls_multiply(float (&d)[TILES][4], uint64_t a, uint64_t b, bool adds) {
    static_assert(TILES == 8 || TILES == 16);
    if constexpr (TILES == 8)
        LS_MULTIPLY_SHARED(8, "64", "%32", "%33", "%34", "%35", "%36");
    else
        LS_MULTIPLY_SHARED(16, "128", "%64", "%65", "%66", "%67", "%68");
}

/* Makes the compiler treat these registers as read and written here, so that it moves no access across this place. */
template <int N> static __device__ __forceinline__ void ls_registers(float (&x)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("" : "+f"(x[n][0]), "+f"(x[n][1]), "+f"(x[n][2]), "+f"(x[n][3])::"memory");
}
template <int N> static __device__ __forceinline__ void ls_registers(unsigned (&x)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("" : "+r"(x[n][0]), "+r"(x[n][1]), "+r"(x[n][2]), "+r"(x[n][3])::"memory");
}

/*
 * Orders earlier accesses to registers before the products that follow. used: the registers with sums and a of these
 * products.
 */
template <typename... T> static __device__ __forceinline__ void ls_products_fence(T &...used) {
    (ls_registers(used), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/* Makes a group of the products since the last commit. */
static __device__ __forceinline__ void ls_products_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Returns when all groups but the last MOST_OPEN are complete. done: the registers with sums and a of those groups. */
template <int MOST_OPEN, typename... T> static __device__ __forceinline__ void ls_products_wait(T &...done) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(MOST_OPEN) : "memory");
    (ls_registers(done), ...);
}

/* Makes this thread's writes to shared memory visible to products after the next barrier. */
static __device__ __forceinline__ void ls_shared_fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* 2^x with 22 correct bits; 0 if the result is less than 2^-126. */
static __device__ __forceinline__ float ls_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
