/* Kernels in which an element of a result depends on the elements at its place alone. */
#include "kernel/cuda/cuda_impl.h"

/* y[i] = f(i) */
template <typename T, typename F> static __global__ void __launch_bounds__(CUDA_THREADS) fill_by(F f, T *y, int64_t n) {
    for (EACH(i, n)) y[i] = from_float<T>(f(i));
}

template <typename T, typename F>
static ls_status launch_by(const char *name, const ls_kernel_call *call, void *stream, F f) {
    const int64_t n = ls_view_elements(&call->out[0]);
    return launch(name, stream, blocks_for(n), 0, fill_by<T, F>, f, output<T>(call, 0), n);
}

template <typename T> struct sum_of {
    const T *a, *b;
    __device__ float operator()(int64_t i) const { return to_float(a[i]) + to_float(b[i]); }
};
template <typename T> static ls_status launch_add(const ls_kernel_call *call, void *, void *stream) {
    return launch_by<T>("add", call, stream, sum_of<T>{input<T>(call, 0), input<T>(call, 1)});
}

template <typename T> struct product_of {
    const T *a, *b;
    __device__ float operator()(int64_t i) const { return to_float(a[i]) * to_float(b[i]); }
};
template <typename T> static ls_status launch_mul(const ls_kernel_call *call, void *, void *stream) {
    return launch_by<T>("mul", call, stream, product_of<T>{input<T>(call, 0), input<T>(call, 1)});
}

template <typename T> struct scaled {
    const T *x;
    float factor;
    __device__ float operator()(int64_t i) const { return factor * to_float(x[i]); }
};
template <typename T> static ls_status launch_scale(const ls_kernel_call *call, void *, void *stream) {
    const ls_scale_params *p = (const ls_scale_params *)call->params;
    return launch_by<T>("scale", call, stream, scaled<T>{input<T>(call, 0), (float)p->factor});
}

template <typename T> struct scaled_by {
    const T *x;
    const float *factor;
    __device__ float operator()(int64_t i) const { return *factor * to_float(x[i]); }
};
template <typename T> static ls_status launch_scale_by(const ls_kernel_call *call, void *, void *stream) {
    return launch_by<T>("scale_by", call, stream, scaled_by<T>{input<T>(call, 0), input<float>(call, 1)});
}

template <typename T> struct combined {
    const T *x, *y;
    float a, b;
    __device__ float operator()(int64_t i) const { return a * to_float(x[i]) + b * to_float(y[i]); }
};
template <typename T> static ls_status launch_combine(const ls_kernel_call *call, void *, void *stream) {
    const ls_combine_params *p = (const ls_combine_params *)call->params;
    return launch_by<T>("combine", call, stream,
                        combined<T>{input<T>(call, 0), output<T>(call, 0), (float)p->a, (float)p->b});
}

/* --- gates (arXiv 2002.05202) ------------------------------------------------------------------------------------- */

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

template <typename T> struct gated {
    const T *gate, *up;
    __device__ float operator()(int64_t i) const {
        const float g = to_float(gate[i]);
        return g * sigmoid(g) * to_float(up[i]);
    }
};
template <typename T> static ls_status launch_swiglu(const ls_kernel_call *call, void *, void *stream) {
    return launch_by<T>("swiglu", call, stream, gated<T>{input<T>(call, 0), input<T>(call, 1)});
}

/* Reads all of an element before it writes it: results may lie where inputs lie. */
template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    gate_gradients(const T *gate, const T *up, const T *dy, T *dgate, T *dup, int64_t n) {
    for (EACH(i, n)) {
        const float g = to_float(gate[i]), u = to_float(up[i]), d = to_float(dy[i]), s = sigmoid(g);
        dgate[i] = from_float<T>(d * u * s * (1 + g * (1 - s)));
        dup[i] = from_float<T>(d * g * s);
    }
}
template <typename T> static ls_status launch_swiglu_grad(const ls_kernel_call *call, void *, void *stream) {
    const int64_t n = ls_view_elements(&call->out[0]);
    return launch("swiglu_grad", stream, blocks_for(n), 0, gate_gradients<T>, input<T>(call, 0), input<T>(call, 1),
                  input<T>(call, 2), output<T>(call, 0), output<T>(call, 1), n);
}

CUDA_ROWS(ADD, add, launch_add, nullptr)
CUDA_ROWS(MUL, mul, launch_mul, nullptr)
CUDA_ROWS(SCALE, scale, launch_scale, nullptr)
CUDA_ROWS(SCALE_BY, scale_by, launch_scale_by, nullptr)
CUDA_ROWS(COMBINE, combine, launch_combine, nullptr)
CUDA_ROWS(SWIGLU, swiglu, launch_swiglu, nullptr)
CUDA_ROWS(SWIGLU_GRAD, swiglu_grad, launch_swiglu_grad, nullptr)
