/* Kernels that move data: copy, cast and accumulate of strided views; fill; offload and fetch. */
#include <type_traits>

#include "kernel/cuda/pack.h"

/* --- where elements lie ------------------------------------------------------------------------------------------- */

/* A view without its dimensions of size 1, in which dimensions that follow each other without a gap are merged. */
struct places {
    int ndim;
    int64_t size[LS_MAX_DIMS], stride[LS_MAX_DIMS]; /* innermost first */
    /* The offset of element i in row-major order. */
    __device__ int64_t operator()(int64_t i) const {
        int64_t at = 0;
#pragma unroll
        for (int d = 0; d < LS_MAX_DIMS; d++) {
            if (d + 1 < ndim) {
                at += i % size[d] * stride[d];
                i /= size[d];
            } else if (d + 1 == ndim) {
                at += i * stride[d]; /* the outermost dimension needs no division */
            }
        }
        return at;
    }
};

static places places_of(const ls_view *v) {
    places p = {1, {1}, {1}};
    for (int d = v->ndim - 1; d >= 0; d--) {
        const int last = p.ndim - 1;
        if (v->size[d] == 1) continue;
        if (p.size[last] == 1) {
            p.size[last] = v->size[d];
            p.stride[last] = v->stride[d];
        } else if (v->stride[d] == p.size[last] * p.stride[last]) {
            p.size[last] *= v->size[d];
        } else {
            p.size[p.ndim] = v->size[d];
            p.stride[p.ndim++] = v->stride[d];
        }
    }
    return p;
}

/* Converts the places of elements to those of packs of N, if the view consists of whole packs. */
static bool in_packs(places *p, const void *data, int N) {
    if (!is_aligned(data) || p->stride[0] != 1 || p->size[0] % N != 0) return false;
    for (int d = 1; d < p->ndim; d++)
        if (p->stride[d] % N != 0) return false;
    p->size[0] /= N;
    for (int d = 1; d < p->ndim; d++) p->stride[d] /= N;
    return true;
}

/* --- copy, cast and accumulate ------------------------------------------------------------------------------------ */

template <typename Y, typename X> static __device__ __forceinline__ Y converted(X x) {
    if constexpr (std::is_same<X, Y>::value)
        return x;
    else if constexpr (std::is_same<Y, bf16>::value)
        return from_float<bf16>(x);
    else
        return (Y)to_float(x);
}

struct replace {
    template <typename X, typename Y, int N> __device__ void operator()(const pack<X, N> &x, pack<Y, N> *y) const {
        pack<Y, N> result;
#pragma unroll
        for (int k = 0; k < N; k++) result.at[k] = converted<Y>(x.at[k]);
        *y = result;
    }
};

struct add {
    template <typename X, typename Y, int N> __device__ void operator()(const pack<X, N> &x, pack<Y, N> *y) const {
        pack<Y, N> result = *y;
#pragma unroll
        for (int k = 0; k < N; k++) result.at[k] += converted<Y>(x.at[k]);
        *y = result;
    }
};

template <int N, typename X, typename Y, typename F>
static __global__ void __launch_bounds__(CUDA_THREADS)
    visit_pairs(F f, const X *x, places from, Y *y, places to, int64_t packs) {
    for (EACH(i, packs)) f(load_pack<N>(x + from(i) * N), (pack<Y, N> *)(y + to(i) * N));
}

/* Calls f(x[i], &y[i]) for packs of elements; x and y each have their own strides. */
template <typename X, typename Y, typename F>
static ls_status visit(const char *name, const ls_kernel_call *call, void *stream, F f) {
    constexpr int N = pack_size<X, Y>();
    const X *x = input<X>(call, 0);
    Y *y = output<Y>(call, 0);
    const int64_t n = ls_view_elements(&call->in[0]);
    const places from = places_of(&call->in[0]), to = places_of(&call->out[0]);
    places packs_from = from, packs_to = to;
    if (in_packs(&packs_from, x, N) && in_packs(&packs_to, y, N))
        return launch(name, stream, blocks_for(n / N), 0, visit_pairs<N, X, Y, F>, f, x, packs_from, y, packs_to,
                      n / N);
    return launch(name, stream, blocks_for(n), 0, visit_pairs<1, X, Y, F>, f, x, from, y, to, n);
}

template <typename T> static ls_status launch_copy(const ls_kernel_call *call, void *, void *stream) {
    return visit<T, T>("copy", call, stream, replace{});
}

typedef ls_status (*launch_cast_to)(const ls_kernel_call *call, void *stream);
template <typename T, typename Y> static ls_status cast_to(const ls_kernel_call *call, void *stream) {
    return visit<T, Y>("cast", call, stream, replace{});
}

/* Types of results, in the order of ls_dtype. */
template <typename T>
static constexpr launch_cast_to casts[] = {cast_to<T, float>, cast_to<T, double>, cast_to<T, bf16>};
static_assert(LS_F32 == 0 && LS_F64 == 1 && LS_BF16 == 2, "the order of casts");

template <typename T> static ls_status launch_cast(const ls_kernel_call *call, void *, void *stream) {
    return casts<T>[call->out[0].dtype](call, stream);
}

template <typename T, typename G> static ls_status launch_add(const ls_kernel_call *call, void *, void *stream) {
    if (call->in[0].dtype == call->out[0].dtype) return visit<G, G>("accumulate", call, stream, add{});
    return visit<T, G>("accumulate", call, stream, add{});
}

/* --- fill --------------------------------------------------------------------------------------------------------- */

static ls_status launch_fill(const ls_kernel_call *call, void *, void *stream) {
    const size_t bytes = ls_view_bytes(&call->out[0]);
    if (bytes == 0) return ls_ok();
    const cudaError_t error = cudaMemsetAsync(call->out[0].data, 0, bytes, (cudaStream_t)stream);
    if (error == cudaSuccess) return ls_ok();
    return ls_error(LS_FAULT, "kernel fill: %zu bytes: %s", bytes, cudaGetErrorString(error));
}

/* --- offload and fetch -------------------------------------------------------------------------------------------- */

/* If the host's memory is pinned, the copy engines copy, and no multiprocessor is used. */
static ls_status copy_bytes(const char *name, const ls_kernel_call *call, void *stream, cudaMemcpyKind kind) {
    const size_t bytes = ls_view_bytes(&call->in[0]);
    if (bytes == 0) return ls_ok();
    const cudaError_t error = cudaMemcpyAsync(call->out[0].data, call->in[0].data, bytes, kind, (cudaStream_t)stream);
    if (error == cudaSuccess) return ls_ok();
    return ls_error(LS_FAULT, "kernel %s: %zu bytes: %s", name, bytes, cudaGetErrorString(error));
}

template <typename T> static ls_status launch_offload(const ls_kernel_call *call, void *, void *stream) {
    return copy_bytes("offload", call, stream, cudaMemcpyDeviceToHost);
}

template <typename T> static ls_status launch_fetch(const ls_kernel_call *call, void *, void *stream) {
    return copy_bytes("fetch", call, stream, cudaMemcpyHostToDevice);
}

CUDA_ROWS(OFFLOAD, offload, launch_offload, nullptr)
CUDA_ROWS(FETCH, fetch, launch_fetch, nullptr)
CUDA_ROW(ls_cuda_i32_offload, OFFLOAD, LS_I32, launch_offload<int32_t>, nullptr)
CUDA_ROW(ls_cuda_i32_fetch, FETCH, LS_I32, launch_fetch<int32_t>, nullptr)
/* Counters are i32, totals and sums of squares f64. */
CUDA_ROWS(COPY, copy, launch_copy, nullptr)
CUDA_ROW(ls_cuda_f64_copy, COPY, LS_F64, launch_copy<double>, nullptr)
CUDA_ROW(ls_cuda_i32_copy, COPY, LS_I32, launch_copy<int32_t>, nullptr)
/* Supported for blocks of numbers only if they are contiguous. */
static bool lies_dense(const ls_kernel_call *call) {
    return ls_view_is_dense(&call->in[0]) && ls_view_is_dense(&call->out[0]);
}
static ls_status launch_copy_dense(const ls_kernel_call *call, void *, void *stream) {
    return copy_bytes("copy", call, stream, cudaMemcpyDeviceToDevice);
}
CUDA_ROW_FOR(ls_cuda_nf4_copy, COPY, LS_NF4, launch_copy_dense, nullptr, lies_dense)
CUDA_ROW_FOR(ls_cuda_int8_copy, COPY, LS_INT8, launch_copy_dense, nullptr, lies_dense)
CUDA_ROW_FOR(ls_cuda_fp8_copy, COPY, LS_FP8, launch_copy_dense, nullptr, lies_dense)
CUDA_ROW_FOR(ls_cuda_mxfp4_copy, COPY, LS_MXFP4, launch_copy_dense, nullptr, lies_dense)
CUDA_ROWS(CAST, cast, launch_cast, nullptr)
#define ACCUMULATE_ROW(symbol, dtype, T, G) CUDA_ROW(symbol, ACCUMULATE, dtype, (launch_add<T, G>), nullptr)
ACCUMULATE_ROW(ls_cuda_f32_accumulate, LS_F32, float, float)
ACCUMULATE_ROW(ls_cuda_bf16_accumulate, LS_BF16, bf16, float)
ACCUMULATE_ROW(ls_cuda_f64_accumulate, LS_F64, double, double)
CUDA_ROW(ls_cuda_f32_fill, FILL, LS_F32, launch_fill, nullptr)
CUDA_ROW(ls_cuda_bf16_fill, FILL, LS_BF16, launch_fill, nullptr)
CUDA_ROW(ls_cuda_f64_fill, FILL, LS_F64, launch_fill, nullptr)
CUDA_ROW(ls_cuda_i32_fill, FILL, LS_I32, launch_fill, nullptr)
