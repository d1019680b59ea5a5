/*
 * conv: y[i] = sum over t of weight[t]*x[i + W-1 - t], or of weight[t]*x[i + t] if params say ahead, for each channel.
 * conv_dw: dweight[t] += sum over batch and tokens of dy[i] times the same token of x. With a reach, t is at most the
 * reach of token i. A bias is the last row of the weight. conv_silu_grad: the gradient of silu(y); y is recomputed.
 */
#include "kernel/cuda/columns.h"
#include "kernel/cuda/tokens.h"

/* For each token, how many tokens its taps reach, behind it or ahead of it; `at` NULL: all taps have a token. */
template <typename T> struct reaches {
    const T *at;
    int64_t batch, token;
    __device__ bool has(int64_t b, int64_t i, int64_t t) const {
        return at == nullptr || (float)t <= to_float(at[b * batch + i * token]);
    }
};

template <typename T> static reaches<T> reaches_of(const ls_kernel_call *call, int operand) {
    const ls_view *reach = &call->in[operand];
    const int64_t column = ((const ls_conv_params *)call->params)->ahead ? reach->stride[2] : 0;
    if (reach->size[2] == 0) return {nullptr, 0, 0};
    return {(const T *)reach->data + column, reach->stride[0], reach->stride[1]};
}

/* The functions that make a result of the sum over taps; for a gradient also of dy. */
static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }
struct as_it_is {
    static constexpr bool reads_dy = false;
    static __device__ float value(float z, float) { return z; }
};
struct silu {
    static constexpr bool reads_dy = false;
    static __device__ float value(float z, float) { return z * sigmoid(z); }
};
struct silu_grad {
    static constexpr bool reads_dy = true;
    static __device__ float value(float z, float dy) {
        const float s = sigmoid(z);
        return dy * (s * (1 + z * (1 - s)));
    }
};

/*
 * A thread computes a pack of channels of a token. The x that neighbouring tokens read again is in a cache. If `finish`
 * does not read dy, it is y.
 */
template <typename T, int N, typename finish>
static __global__ void __launch_bounds__(CUDA_THREADS)
    convolve(tokens<const T> x, const T *weight, reaches<T> reach, tokens<const T> dy, tokens<T> y, int64_t sequences,
             int64_t length, int64_t E, int64_t W, ls_conv_params is) {
    const int64_t packs = E / N;
    for (EACH(k, sequences * length * packs)) {
        const int64_t row = k / packs, e = k % packs * N, b = row / length, i = row % length;
        pack<float, N> sum = {}, from = {};
        if (is.biased && !is.ahead) sum = load_floats<N>(weight + W * E + e);
        for (int64_t t = 0; t < W && reach.has(b, i, t); t++) {
            const pack<float, N> w = load_floats<N>(weight + (is.last_first ? W - 1 - t : t) * E + e);
            const pack<float, N> a = load_floats<N>(x.at(b, is.ahead ? i + t : i + W - 1 - t) + e);
#pragma unroll
            for (int j = 0; j < N; j++) sum.at[j] += w.at[j] * a.at[j];
        }
        if (finish::reads_dy) from = load_floats<N>(dy.at(b, i) + e);
#pragma unroll
        for (int j = 0; j < N; j++) sum.at[j] = finish::value(sum.at[j], from.at[j]);
        store_floats<N>(y.at(b, i) + e, sum);
    }
}

/* dy, reach: the indices of these inputs; dy 0: there is none. */
template <typename T, typename finish>
static ls_status launch_convolve(const char *name, const ls_kernel_call *call, int dy, int reach, void *stream) {
    constexpr int N = pack_size<T>();
    const ls_conv_params is = *(const ls_conv_params *)call->params;
    const ls_view *x = &call->in[0], *y = &call->out[0], *from = dy > 0 ? &call->in[dy] : y;
    const int64_t W = ls_conv_taps(&is, call->in[1].size[0]), E = y->size[2], n = ls_view_elements(y);
    const T *weight = input<T>(call, 1);
    if (in_packs<T>(x, N) && in_packs<T>(y, N) && in_packs<T>(from, N) && is_aligned(weight))
        return launch(name, stream, blocks_for(n / N), 0, convolve<T, N, finish>, tokens_of<const T>(x), weight,
                      reaches_of<T>(call, reach), tokens_of<const T>(from), tokens_of<T>(y), y->size[0], y->size[1], E,
                      W, is);
    return launch(name, stream, blocks_for(n), 0, convolve<T, 1, finish>, tokens_of<const T>(x), weight,
                  reaches_of<T>(call, reach), tokens_of<const T>(from), tokens_of<T>(y), y->size[0], y->size[1], E, W,
                  is);
}

template <typename T> static ls_status launch_conv(const ls_kernel_call *call, void *, void *stream) {
    if (((const ls_conv_params *)call->params)->silu) return launch_convolve<T, silu>("conv", call, 0, 2, stream);
    return launch_convolve<T, as_it_is>("conv", call, 0, 2, stream);
}

template <typename T> static ls_status launch_conv_silu_grad(const ls_kernel_call *call, void *, void *stream) {
    return launch_convolve<T, silu_grad>("conv_silu_grad", call, 2, 3, stream);
}

/* The term of a row, which is a token of one of the sequences, and of column k, a channel of a tap. */
template <typename T> struct tap_term {
    tokens<const T> x, dy;
    reaches<T> reach;
    int64_t length, E, W;
    ls_conv_params is;
    __device__ float operator()(int64_t row, int64_t k) const {
        const int64_t b = row / length, i = row % length, t = is.last_first ? W - 1 - k / E : k / E, e = k % E;
        if (k / E == W) return to_float(dy.at(b, i)[e]);
        if (!reach.has(b, i, t)) return 0;
        return to_float(dy.at(b, i)[e]) * to_float(x.at(b, is.ahead ? i + t : i + W - 1 - t)[e]);
    }
};

static int64_t rows_of_dw(const ls_kernel_call *call) { return call->in[1].size[0] * call->in[1].size[1]; }

template <typename T> static ls_status launch_conv_dw(const ls_kernel_call *call, void *, void *stream) {
    const ls_conv_params is = *(const ls_conv_params *)call->params;
    const ls_view *x = &call->in[0], *dy = &call->in[1], *dweight = &call->out[0];
    const int64_t rows = rows_of_dw(call), columns = ls_view_elements(dweight);
    const tap_term<T> term = {tokens_of<const T>(x),
                              tokens_of<const T>(dy),
                              reaches_of<T>(call, 2),
                              dy->size[1],
                              dy->size[2],
                              ls_conv_taps(&is, dweight->size[0]),
                              is};
    LS_TRY(sum_columns("conv_dw", stream, term, rows, columns, call->workspace));
    return add_columns("conv_dw", stream, count_parts(rows), columns, call->workspace, output<float>(call, 0));
}

static size_t dw_workspace(const ls_kernel_call *call) {
    return column_workspace(rows_of_dw(call), ls_view_elements(&call->out[0]));
}

CUDA_ROWS(CONV, conv, launch_conv, nullptr)
CUDA_ROWS(CONV_SILU_GRAD, conv_silu_grad, launch_conv_silu_grad, nullptr)
CUDA_ROWS(CONV_DW, conv_dw, launch_conv_dw, dw_workspace)
