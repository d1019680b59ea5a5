/*
 * cpu, for itself: what every kernel file of this folder includes. A file is compiled once per isa and element type
 * (cmake/CpuKernels.cmake); `element` is what its arrays hold, arithmetic is in f32 vectors.
 */
#ifndef LS_KERNEL_CPU_IMPL_H
#define LS_KERNEL_CPU_IMPL_H

#include "kernel/cpu/simd.h"
#include "kernel/cpu/split.h"
#include "kernel/kernel_impl.h"

/* LS_CPU_NAME(rmsnorm) is the symbol ls_cpu_avx2_bf16_rmsnorm in that variant. */
#define LS_CPU_JOIN_(isa, element, name) ls_cpu_##isa##_##element##_##name
#define LS_CPU_JOIN(isa, element, name) LS_CPU_JOIN_(isa, element, name)
#define LS_CPU_NAME(name) LS_CPU_JOIN(LS_CPU_ISA, LS_CPU_ELEMENT, name)

/* LS_CPU_ISA is a bare word; LS_CPU_LEVEL is the ls_isa that it stands for. */
#define LS_CPU_LEVEL_base LS_ISA_BASE
#define LS_CPU_LEVEL_avx2 LS_ISA_AVX2
#define LS_CPU_LEVEL_avx512 LS_ISA_AVX512
#define LS_CPU_LEVEL_avx512bf16 LS_ISA_AVX512BF16
#define LS_CPU_LEVEL_amx LS_ISA_AMX
#define LS_CPU_PASTE_(a, b) a##b
#define LS_CPU_PASTE(a, b) LS_CPU_PASTE_(a, b)
#define LS_CPU_LEVEL LS_CPU_PASTE(LS_CPU_LEVEL_, LS_CPU_ISA)

#if LS_CPU_ELEMENT_BF16
#define LS_CPU_ELEMENT bf16
#define LS_CPU_DTYPE LS_BF16
typedef ls_bf16 element;
V_INLINE v_f32 v_load(const element *p, int64_t count) { return v_load_bf16(p, count); }
V_INLINE void v_store(element *p, v_f32 v, int64_t count) { v_store_bf16(p, v, count); }
V_INLINE float element_to_f32(element x) { return ls_bf16_to_f32(x); }
V_INLINE element element_from_f32(float x) { return ls_bf16_from_f32(x); }
#else
#define LS_CPU_ELEMENT f32
#define LS_CPU_DTYPE LS_F32
typedef float element;
V_INLINE v_f32 v_load(const element *p, int64_t count) { return v_load_f32(p, count); }
V_INLINE void v_store(element *p, v_f32 v, int64_t count) { v_store_f32(p, v, count); }
V_INLINE float element_to_f32(element x) { return x; }
V_INLINE element element_from_f32(float x) { return x; }
#endif

/* From an array of f32 (wide) or of `element`, for inputs that may be either. */
V_INLINE v_f32 v_load_either(const void *p, bool wide, int64_t i, int64_t count) {
    return wide ? v_load_f32((const float *)p + i, count) : v_load((const element *)p + i, count);
}

/* n merged leading dimensions and the size of the last one, of a dense view. */
V_INLINE int64_t last_size(const ls_view *view) { return view->ndim > 0 ? view->size[view->ndim - 1] : 1; }
V_INLINE int64_t row_count(const ls_view *view) {
    const int64_t last = last_size(view);
    return last > 0 ? ls_view_elements(view) / last : 0;
}

/* The prepare of a kernel that has nothing to make: the call is checked against the contract of its name. */
V_INLINE ls_status check_only(const char *name, const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(name, LS_CPU_DTYPE, call);
}

/* Deals `n` elements, or rows of `row` elements each, to the threads; the call is the body's context. */
V_INLINE void run_elements(const ls_kernel_call *call, ls_pool *pool, int64_t n, int64_t row,
                           ls_cpu_body body) {
    const int64_t worth_a_task = 16384;
    const int64_t least = ls_max(1, worth_a_task / ls_max(1, row));
    ls_cpu_split(pool, n, ls_cpu_parts(n, least, call->threads), body, call);
}

#endif
