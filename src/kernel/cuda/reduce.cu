/*
 * reduce: y[o,i] += the sum over r of x[o,r,i]. If I is 1, a warp or a block sums each row; else sums are those of
 * columns.
 */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/rows.h"

template <typename X> struct inner_element {
    const X *x;
    int64_t R, I;
    __device__ float operator()(int64_t r, int64_t c) const { return to_float(x[c / I * R * I + r * I + c % I]); }
};

template <typename X, int TEAM, bool PACKED>
static __global__ void __launch_bounds__(CUDA_THREADS) sum_of_rows(const X *x, float *y, int64_t rows, int64_t R) {
    constexpr int N = pack_size<X>();
    for (EACH_ROW(TEAM, i, rows)) {
        float sum = 0;
        for (EACH_GROUP(TEAM, N, e, R)) {
            const pack<float, N> a = load_group<PACKED, N>(x + i * R, e, R);
            for (int k = 0; k < N; k++) sum += a.at[k];
        }
        sum = team<TEAM>::sum(sum);
        if (team<TEAM>::lane() == 0) y[i] += sum;
    }
}

template <typename X> static ls_status reduce(const ls_kernel_call *call, void *stream) {
    const int64_t O = call->in[0].size[0], R = call->in[0].size[1], I = call->in[0].size[2];
    const X *x = input<X>(call, 0);
    float *y = output<float>(call, 0);
    if (R == 0 || O * I == 0) return ls_ok();
    if (I != 1) {
        LS_TRY(sum_columns("reduce", stream, inner_element<X>{x, R, I}, R, O * I, call->workspace));
        return add_columns("reduce", stream, count_parts(R), O * I, call->workspace, y);
    }
    return for_rows<X>(R, is_aligned(x), [&](auto threads, auto packed) {
        constexpr int TEAM = decltype(threads)::value;
        constexpr bool PACKED = decltype(packed)::value;
        return launch("reduce", stream, team<TEAM>::blocks(O), 0, sum_of_rows<X, TEAM, PACKED>, x, y, O, R);
    });
}

template <typename T> static ls_status launch_reduce(const ls_kernel_call *call, void *, void *stream) {
    return call->in[0].dtype == LS_F32 ? reduce<float>(call, stream) : reduce<T>(call, stream);
}

static size_t reduce_workspace(const ls_kernel_call *call) {
    const ls_view *x = &call->in[0];
    return x->size[2] == 1 ? 0 : column_workspace(x->size[1], x->size[0] * x->size[2]);
}

CUDA_ROWS(REDUCE, reduce, launch_reduce, reduce_workspace)
