/*
 * Instructions that CUDA C++ has no name for (PTX ISA 8.0). tests/cuda/kernel/cuda/ptx.h replaces this file when
 * kernels are compiled for the host.
 */
#ifndef LS_CUDA_PTX_H
#define LS_CUDA_PTX_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* Declares the dynamic shared memory, whose size the launch gives. */
#define LS_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]

/*
 * d += a b, computed by a warp, of bf16 with sums in f32: a [16,16], b [16,8], d [16,8]. Let g = lane / 4 and t =
 * lane % 4. A register of a or b holds two adjacent elements:
 *   a[0], a[1]: rows g and g + 8, columns 2t and 2t + 1;  a[2], a[3]: the same rows, columns 2t + 8 and 2t + 9
 *   b[0], b[1]: column g, rows 2t and 2t + 1; rows 2t + 8 and 2t + 9
 *   d[0], d[1]: row g, columns 2t and 2t + 1;  d[2], d[3]: row g + 8, the same columns
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
 * Loads four matrices [8,8] of bf16 from shared memory, by a warp: lane 8 i + j passes the address of row j of matrix
 * i. r[i] gets the elements in row g, columns 2t and 2t + 1 of matrix i; ls_load_transposed: in column g, rows 2t and
 * 2t + 1.
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
 * Begins to copy 16 bytes to shared memory, asynchronously, or to store 16 zero bytes if `is` is false; both addresses
 * are multiples of 16. ls_copy_commit makes a group of the copies since the last commit. ls_copy_wait returns when all
 * groups but the last MOST_OPEN are complete. Other threads see the copies after a barrier.
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
