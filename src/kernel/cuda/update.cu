/*
 * Steps of optimisers, with a thread for each pack of elements, which belong to one unit and so to one row of the
 * settings. Arithmetic is in f32; bf16 parameters are rounded masters. step_control computes, in f64, the numbers that
 * all elements of a step share.
 */
#include "kernel/cuda/pack.h"

#include <math.h>

/* Elements of a pack: 16 bytes of f32. */
static constexpr int UPDATED = 4;
static_assert(LS_FLAT_UNIT % UPDATED == 0, "a pack is of one unit");

static __global__ void __launch_bounds__(CUDA_THREADS)
    set_control(const double *totals, const double *hyper, double *control) {
    if (threadIdx.x != 0) return;
    const double norm = sqrt(totals[LS_TOTAL_SQUARES]), clip = hyper[LS_HYPER_CLIP], step = hyper[LS_HYPER_STEP];
    const bool is_finite = fabs(totals[LS_TOTAL_LOSS]) < INFINITY && norm < INFINITY; /* false for NaN */
    control[LS_CONTROL_APPLY] = is_finite ? 1 : 0;
    control[LS_CONTROL_SCALE] = clip > 0 && norm > clip ? clip / norm : 1;
    control[LS_CONTROL_LR] = hyper[LS_HYPER_LR];
    control[LS_CONTROL_CORRECTION1] = 1 - pow(hyper[LS_HYPER_BETA1], step);
    control[LS_CONTROL_CORRECTION2] = 1 - pow(hyper[LS_HYPER_BETA2], step);
    control[LS_CONTROL_NORM] = norm;
}

static ls_status launch_control(const ls_kernel_call *call, void *, void *stream) {
    return launch("step_control", stream, 1, 0, set_control, input<double>(call, 0), input<double>(call, 1),
                  output<double>(call, 0));
}

/* --- all elements of a call --------------------------------------------------------------------------------------- */

/* The numbers that apply to an element. */
struct rates {
    float scale;            /* of the gradient */
    float unbias1, unbias2; /* 1 / the corrections of control */
    float lr, decay;
};

/* Applies `step` to elements i .. i + N - 1. */
template <int N, typename Step>
static __device__ __forceinline__ void update_pack(const Step &step, rates r, double lr, const int32_t *group,
                                                   const ls_update_settings *settings, int64_t i) {
    const int32_t row = group[i / LS_FLAT_UNIT];
    if (row < 0) return;
    r.lr = (float)(lr * settings[row].rate);
    r.decay = (float)settings[row].weight_decay;
    step.template apply<N>(i, r);
}

/* Updates packs of N elements, then the remaining elements one by one. */
template <int N, typename Step>
static __global__ void __launch_bounds__(CUDA_THREADS)
    update(Step step, const double *control, const int32_t *group, const ls_update_settings *settings, int64_t n) {
    if (control[LS_CONTROL_APPLY] == 0) return;
    const double lr = control[LS_CONTROL_LR];
    const rates r = {(float)control[LS_CONTROL_SCALE], (float)(1 / control[LS_CONTROL_CORRECTION1]),
                     (float)(1 / control[LS_CONTROL_CORRECTION2]), 0, 0};
    const int64_t packs = n / N;
    for (EACH(i, packs)) update_pack<N>(step, r, lr, group, settings, i * N);
    for (EACH(i, n - packs * N)) update_pack<1>(step, r, lr, group, settings, packs * N + i);
}

template <typename Step>
static ls_status launch_update(const char *name, const ls_kernel_call *call, void *stream, Step step) {
    const int64_t n = ls_view_elements(&call->in[0]);
    bool aligned = is_aligned(call->in[0].data);
    for (int i = 0; i < call->n_out; i++) aligned = aligned && is_aligned(call->out[i].data);
    void (*const packs)(Step, const double *, const int32_t *, const ls_update_settings *, int64_t) =
        update<UPDATED, Step>;
    void (*const single)(Step, const double *, const int32_t *, const ls_update_settings *, int64_t) = update<1, Step>;
    return launch(name, stream, blocks_for(aligned ? ls_ceil_div(n, (int64_t)UPDATED) : n), 0, aligned ? packs : single,
                  step, input<double>(call, 1), input<int32_t>(call, 2), input<ls_update_settings>(call, 3), n);
}

/* A parameter and its master, which may be the same bytes. */
template <typename T> struct weights {
    float *master;
    T *param;
    template <int N> __device__ __forceinline__ void set(int64_t i, const pack<float, N> &x) const {
        store_pack(master + i, x);
        store_floats(param + i, x);
    }
};
template <typename T> static weights<T> weights_of(const ls_kernel_call *call) {
    return {output<float>(call, 0), output<T>(call, call->n_out - 1)};
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

template <typename T> struct adamw_step {
    const float *gradient;
    float *m, *v;
    weights<T> to;
    float beta1, rest1, beta2, rest2, epsilon;
    template <int N> __device__ __forceinline__ void apply(int64_t i, const rates &r) const {
        const pack<float, N> given = load_pack<N>(gradient + i);
        pack<float, N> x = load_pack<N>(to.master + i), first = load_pack<N>(m + i), second = load_pack<N>(v + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float g = given.at[k] * r.scale;
            const float next_m = first.at[k] * beta1 + g * rest1, next_v = second.at[k] * beta2 + g * g * rest2;
            first.at[k] = next_m;
            second.at[k] = next_v;
            x.at[k] -= r.lr * (next_m * r.unbias1 / (sqrtf(next_v * r.unbias2) + epsilon) + r.decay * x.at[k]);
        }
        store_pack(m + i, first);
        store_pack(v + i, second);
        to.set(i, x);
    }
};
template <typename T> static ls_status launch_adamw(const ls_kernel_call *call, void *, void *stream) {
    const ls_adamw_params *p = (const ls_adamw_params *)call->params;
    return launch_update("adamw", call, stream,
                         adamw_step<T>{input<float>(call, 0), output<float>(call, 1), output<float>(call, 2),
                                       weights_of<T>(call), (float)p->beta1, (float)(1 - p->beta1), (float)p->beta2,
                                       (float)(1 - p->beta2), (float)p->epsilon});
}

template <typename T> struct sgd_step {
    const float *gradient;
    float *m;
    weights<T> to;
    float momentum;
    bool nesterov;
    template <int N> __device__ __forceinline__ void apply(int64_t i, const rates &r) const {
        const pack<float, N> given = load_pack<N>(gradient + i);
        pack<float, N> x = load_pack<N>(to.master + i), moment = load_pack<N>(m + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float g = given.at[k] * r.scale + r.decay * x.at[k], next = momentum * moment.at[k] + g;
            moment.at[k] = next;
            x.at[k] -= r.lr * (nesterov ? g + momentum * next : next);
        }
        store_pack(m + i, moment);
        to.set(i, x);
    }
};
template <typename T> static ls_status launch_sgd(const ls_kernel_call *call, void *, void *stream) {
    const ls_sgd_params *p = (const ls_sgd_params *)call->params;
    return launch_update("sgd", call, stream,
                         sgd_step<T>{input<float>(call, 0), output<float>(call, 1), weights_of<T>(call),
                                     (float)p->momentum, p->nesterov});
}

template <typename T> struct lion_step {
    const float *gradient;
    float *m;
    weights<T> to;
    float beta1, rest1, beta2, rest2;
    template <int N> __device__ __forceinline__ void apply(int64_t i, const rates &r) const {
        const pack<float, N> given = load_pack<N>(gradient + i);
        pack<float, N> x = load_pack<N>(to.master + i), moment = load_pack<N>(m + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float g = given.at[k] * r.scale, old = moment.at[k], c = beta1 * old + rest1 * g;
            moment.at[k] = beta2 * old + rest2 * g;
            x.at[k] -= r.lr * ((float)((c > 0) - (c < 0)) + r.decay * x.at[k]);
        }
        store_pack(m + i, moment);
        to.set(i, x);
    }
};
template <typename T> static ls_status launch_lion(const ls_kernel_call *call, void *, void *stream) {
    const ls_lion_params *p = (const ls_lion_params *)call->params;
    return launch_update("lion", call, stream,
                         lion_step<T>{input<float>(call, 0), output<float>(call, 1), weights_of<T>(call),
                                      (float)p->beta1, (float)(1 - p->beta1), (float)p->beta2, (float)(1 - p->beta2)});
}

template <typename T> struct momentum_step {
    const float *gradient;
    float *m;
    T *direction;
    float momentum;
    template <int N> __device__ __forceinline__ void apply(int64_t i, const rates &r) const {
        const pack<float, N> given = load_pack<N>(gradient + i);
        pack<float, N> moment = load_pack<N>(m + i), along;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float g = given.at[k] * r.scale;
            moment.at[k] = momentum * moment.at[k] + g;
            along.at[k] = g + momentum * moment.at[k];
        }
        store_pack(m + i, moment);
        store_floats(direction + i, along);
    }
};
template <typename T> static ls_status launch_momentum(const ls_kernel_call *call, void *, void *stream) {
    const ls_momentum_params *p = (const ls_momentum_params *)call->params;
    return launch_update(
        "momentum", call, stream,
        momentum_step<T>{input<float>(call, 0), output<float>(call, 0), output<T>(call, 1), (float)p->momentum});
}

template <typename T> struct descend_step {
    const T *direction;
    weights<T> to;
    float factor;
    template <int N> __device__ __forceinline__ void apply(int64_t i, const rates &r) const {
        const pack<float, N> along = load_floats<N>(direction + i);
        pack<float, N> x = load_pack<N>(to.master + i);
#pragma unroll
        for (int k = 0; k < N; k++) x.at[k] -= r.lr * (factor * along.at[k] + r.decay * x.at[k]);
        to.set(i, x);
    }
};
template <typename T> static ls_status launch_descend(const ls_kernel_call *call, void *, void *stream) {
    const ls_descend_params *p = (const ls_descend_params *)call->params;
    return launch_update("descend", call, stream,
                         descend_step<T>{input<T>(call, 0), weights_of<T>(call), (float)p->factor});
}

CUDA_ROW(ls_cuda_f32_step_control, STEP_CONTROL, LS_F32, launch_control, nullptr)
CUDA_ROW(ls_cuda_bf16_step_control, STEP_CONTROL, LS_BF16, launch_control, nullptr)
CUDA_ROWS(ADAMW, adamw, launch_adamw, nullptr)
CUDA_ROWS(SGD, sgd, launch_sgd, nullptr)
CUDA_ROWS(LION, lion, launch_lion, nullptr)
CUDA_ROWS(MOMENTUM, momentum, launch_momentum, nullptr)
CUDA_ROWS(DESCEND, descend, launch_descend, nullptr)
