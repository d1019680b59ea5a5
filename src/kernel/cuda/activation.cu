/* Functions of one element: activation, and the gate of swiglu (arXiv 2002.05202), with their gradients. */
#include "kernel/cuda/elementwise.h"

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* --- the functions ------------------------------------------------------------------------------------------------ */

/* Each has its value and its slope at x; only softcap uses `cap`. */

/* x Phi(x), where Phi is the distribution function of the standard normal (arXiv 1606.08415) */
struct gelu {
    static __device__ float phi(float x) { return 0.5f * erfcf(x * -0.70710678118654752f); }
    static __device__ float value(float x, float) { return x * phi(x); }
    static __device__ float slope(float x, float) {
        return phi(x) + x * 0.39894228040143268f * expf(x * x * -0.5f); /* 1/sqrt(2 pi) */
    }
};

/* The approximation with tanh: x (1 + tanh(u))/2 = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
struct gelu_tanh {
    static constexpr float twice_root = 1.5957691216057308f, cube = 0.044715f; /* 2 sqrt(2/pi) */
    static __device__ float share(float x) { return sigmoid(twice_root * x * (1 + cube * x * x)); }
    static __device__ float value(float x, float) { return x * share(x); }
    static __device__ float slope(float x, float) {
        const float s = share(x);
        return s + x * s * (1 - s) * twice_root * (1 + 3 * cube * x * x);
    }
};

struct relu {
    static __device__ float value(float x, float) { return x <= 0 ? 0 : x; } /* NaN stays */
    static __device__ float slope(float x, float) { return x > 0 ? 1 : 0; }
};

struct silu {
    static __device__ float value(float x, float) { return x * sigmoid(x); }
    static __device__ float slope(float x, float) {
        const float s = sigmoid(x);
        return s * (1 + x * (1 - s));
    }
};

struct softcap {
    static __device__ float value(float x, float cap) { return cap * tanhf(x / cap); }
    static __device__ float slope(float x, float cap) {
        const float t = tanhf(x / cap);
        return 1 - t * t;
    }
};

/* --- activation and activation_grad ------------------------------------------------------------------------------- */

template <typename A> struct value_of {
    float cap;
    __device__ float operator()(float x) const { return A::value(x, cap); }
};
template <typename A> struct slope_of {
    float cap;
    __device__ float operator()(float dy, float x) const { return dy * A::slope(x, cap); }
};

template <typename T, typename A> static ls_status launch_value(const ls_kernel_call *call, float cap, void *stream) {
    return map("activation", stream, value_of<A>{cap}, ls_view_elements(&call->out[0]), output<T>(call, 0),
               input<T>(call, 0));
}

/* x is of type T or f32. */
template <typename T, typename A> static ls_status launch_slope(const ls_kernel_call *call, float cap, void *stream) {
    const slope_of<A> f = {cap};
    const int64_t n = ls_view_elements(&call->out[0]);
    const T *dy = input<T>(call, 0);
    if (call->in[1].dtype == LS_F32)
        return map("activation_grad", stream, f, n, output<T>(call, 0), dy, input<float>(call, 1));
    return map("activation_grad", stream, f, n, output<T>(call, 0), dy, input<T>(call, 1));
}

typedef ls_status (*launch_function)(const ls_kernel_call *call, float cap, void *stream);

/* One row for each kind of activation, in the order of ls_activation_kind. */
template <typename T> struct functions { launch_function value, slope; };
template <typename T, typename A> static constexpr functions<T> functions_of() {
    return {launch_value<T, A>, launch_slope<T, A>};
}
template <typename T>
static constexpr functions<T> kinds[] = {functions_of<T, gelu>(), functions_of<T, gelu_tanh>(), functions_of<T, relu>(),
                                         functions_of<T, silu>(), functions_of<T, softcap>()};
static_assert(LS_ACTIVATION_GELU == 0 && LS_ACTIVATION_GELU_TANH == 1 && LS_ACTIVATION_RELU == 2 &&
                  LS_ACTIVATION_SILU == 3 && LS_ACTIVATION_SOFTCAP == 4 && LS_ACTIVATIONS == 5,
              "the order of kinds");

template <typename T> static ls_status launch_activation(const ls_kernel_call *call, void *, void *stream) {
    const ls_activation_params *p = (const ls_activation_params *)call->params;
    return kinds<T>[p->kind].value(call, (float)p->cap, stream);
}

template <typename T> static ls_status launch_activation_grad(const ls_kernel_call *call, void *, void *stream) {
    const ls_activation_params *p = (const ls_activation_params *)call->params;
    return kinds<T>[p->kind].slope(call, (float)p->cap, stream);
}

/* --- swiglu and swiglu_grad --------------------------------------------------------------------------------------- */

struct gated {
    __device__ float operator()(float gate, float up) const { return gate * sigmoid(gate) * up; }
};
template <typename T> static ls_status launch_swiglu(const ls_kernel_call *call, void *, void *stream) {
    return map("swiglu", stream, gated{}, ls_view_elements(&call->out[0]), output<T>(call, 0), input<T>(call, 0),
               input<T>(call, 1));
}

/* A thread reads all of a pack before it writes the pack, because results may overwrite inputs. */
template <typename T, int N>
static __global__ void __launch_bounds__(CUDA_THREADS)
    gate_gradients(const T *gate, const T *up, const T *dy, T *dgate, T *dup, int64_t packs) {
    for (EACH(i, packs)) {
        const pack<float, N> g = load_floats<N>(gate + i * N), u = load_floats<N>(up + i * N);
        const pack<float, N> d = load_floats<N>(dy + i * N);
        pack<float, N> of_gate, of_up;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float s = sigmoid(g.at[k]);
            of_gate.at[k] = d.at[k] * u.at[k] * s * (1 + g.at[k] * (1 - s));
            of_up.at[k] = d.at[k] * g.at[k] * s;
        }
        store_floats<N>(dgate + i * N, of_gate);
        store_floats<N>(dup + i * N, of_up);
    }
}
template <typename T> static ls_status launch_swiglu_grad(const ls_kernel_call *call, void *, void *stream) {
    constexpr int N = pack_size<T>();
    const int64_t n = ls_view_elements(&call->out[0]);
    const T *gate = input<T>(call, 0), *up = input<T>(call, 1), *dy = input<T>(call, 2);
    T *dgate = output<T>(call, 0), *dup = output<T>(call, 1);
    if (n % N == 0 && is_aligned(gate) && is_aligned(up) && is_aligned(dy) && is_aligned(dgate) && is_aligned(dup))
        return launch("swiglu_grad", stream, blocks_for(n / N), 0, gate_gradients<T, N>, gate, up, dy, dgate, dup,
                      n / N);
    return launch("swiglu_grad", stream, blocks_for(n), 0, gate_gradients<T, 1>, gate, up, dy, dgate, dup, n);
}

CUDA_ROWS(ACTIVATION, activation, launch_activation, nullptr)
CUDA_ROWS(ACTIVATION_GRAD, activation_grad, launch_activation_grad, nullptr)
CUDA_ROWS(SWIGLU, swiglu, launch_swiglu, nullptr)
CUDA_ROWS(SWIGLU_GRAD, swiglu_grad, launch_swiglu_grad, nullptr)
