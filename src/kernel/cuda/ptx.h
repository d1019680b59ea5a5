/*
 * Instructions that CUDA C++ has no name for (PTX ISA 8.0). tests/cuda/kernel/cuda/ptx.h stands in for this file where
 * kernels are compiled for a host.
 */
#ifndef LS_CUDA_PTX_H
#define LS_CUDA_PTX_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* The bytes of shared memory for which the launch asks. */
#define LS_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]

/*
 * d += a b, by a warp, of bf16 with sums in f32: a [16,16] by rows, b [16,8] by columns. With g = lane / 4 and t =
 * lane % 4, a register holds two neighbours: a rows g and g + 8 (a[0], a[1]) of columns 2t and on, then of columns 2t
 * + 8 and on; b rows 2t and on, then 2t + 8 and on, of column g; d rows g (d[0], d[1]) and g + 8 of columns 2t and on.
 */
static __device__ __forceinline__ void ls_mma(float d[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ __forceinline__ unsigned ls_shared_address(const void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}

/*
 * Four matrices [8,8] of bf16 from shared memory, by a warp: lane 8 i + j gives the address of row j of matrix i. r[i]
 * is two neighbours of row g of matrix i, columns 2t and on; transposed, of column g, rows 2t and on.
 */
static __device__ __forceinline__ void ls_load_matrices(unsigned r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ls_shared_address(row)));
}
static __device__ __forceinline__ void ls_load_transposed(unsigned r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ls_shared_address(row)));
}

/*
 * Copies 16 bytes, from and to multiples of 16, while the thread goes on; zeros instead where `is` is false. Copies
 * since the last commit are a group; a wait returns when all but the last MOST_OPEN groups have been done. Other
 * threads see them after a barrier.
 */
static __device__ __forceinline__ void ls_copy_16(void *shared, const void *global, bool is) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(ls_shared_address(shared)), "l"(global),
                 "r"(is ? 16 : 0));
}
static __device__ __forceinline__ void ls_copy_commit() { asm volatile("cp.async.commit_group;"); }
template <int MOST_OPEN> static __device__ __forceinline__ void ls_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(MOST_OPEN));
}

#endif
