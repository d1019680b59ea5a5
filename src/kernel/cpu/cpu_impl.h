/*
 * The fast kernels, for the files of this folder. Each file is compiled once per isa and element type
 * (cmake/CpuKernels.cmake): `element` is the type of the arrays' elements; arithmetic is in vectors of f32.
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

/* The kernels of a variant need the features of a processor that the compiler may use in that variant. */
enum {
    LS_CPU_NEEDS = LS_FEATURE_BASELINE
#ifdef __AVX2__
                   | LS_FEATURE_AVX2
#endif
#ifdef __AVX512F__
                   | LS_FEATURE_AVX512
#endif
#ifdef __AVX512BF16__
                   | LS_FEATURE_AVX512_BF16
#endif
#ifdef __AMX_BF16__
                   | LS_FEATURE_AMX_BF16
#endif
};

/* The fields that are the same in every kernel of this variant. */
#define LS_CPU_VARIANT .dtype = LS_CPU_DTYPE, .device = LS_DEVICE_CPU, .needs = LS_CPU_NEEDS

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

/* Loads from element i on of an array of f32 (wide) or of `element`, for inputs that may be either. */
V_INLINE v_f32 v_load_either(const void *p, bool wide, int64_t i, int64_t count) {
    return wide ? v_load_f32((const float *)p + i, count) : v_load((const element *)p + i, count);
}

/* Of a dense view: the size of the last dimension, and the number of rows of that size. */
V_INLINE int64_t last_size(const ls_view *view) { return view->ndim > 0 ? view->size[view->ndim - 1] : 1; }
V_INLINE int64_t row_count(const ls_view *view) {
    const int64_t last = last_size(view);
    return last > 0 ? ls_view_elements(view) / last : 0;
}

/* A prepare that only checks the call against its contract. */
V_INLINE ls_status check_only(ls_kernel_id id, const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(id, LS_CPU_DTYPE, call);
}

/* Runs the body over n rows of `row` elements each, divided into parts over the threads; its context is the call. */
V_INLINE void run_elements(const ls_kernel_call *call, ls_pool *pool, int64_t n, int64_t row, ls_cpu_body body) {
    const int64_t elements_of_a_part = 16384; /* at least */
    const int64_t least = ls_max(1, elements_of_a_part / ls_max(1, row));
    ls_cpu_split(pool, n, ls_cpu_parts(n, least, call->threads), body, call);
}

/* --- sums of rows, for column_sum, reduce and embedding_grad ------------------------------------------------------ */

enum { COLUMN_BLOCK = 64, COLUMN_FLUSH_ROWS = 64 };

/*
 * out[0..columns) += the sum of rows order[0..rows) of x (order NULL: rows 0..rows-1), columns <= COLUMN_BLOCK. Row 0
 * begins with element `at` of x, which is f32 (wide) or of `element`; rows are `stride` elements apart. Sums over
 * COLUMN_FLUSH_ROWS rows are in f32; these are added in f64.
 */
V_INLINE void sum_rows(float *out, const void *x, bool wide, int64_t at, int64_t stride, const int32_t *order,
                       int64_t rows, int64_t columns) {
    enum { VECTORS = COLUMN_BLOCK / V_LANES };
    double total[COLUMN_BLOCK] = {0};
    for (int64_t first = 0; first < rows; first += COLUMN_FLUSH_ROWS) {
        v_f32 sum[VECTORS] = {{0}};
        const int64_t last = ls_min(rows, first + COLUMN_FLUSH_ROWS);
        for (int64_t i = first; i < last; i++) {
            const int64_t row = at + (order ? order[i] : i) * stride;
            for (int v = 0; v < VECTORS; v++)
                sum[v] += v_load_either(x, wide, row + v * V_LANES, columns - v * V_LANES);
        }
        for (int v = 0; v < VECTORS; v++) {
            for (int l = 0; l < V_LANES; l++) total[v * V_LANES + l] += (double)sum[v][l];
        }
    }
    for (int64_t c = 0; c < columns; c++) out[c] += (float)total[c];
}

#endif
