/*
 * Steps of optimisers, a thread for an element: the 32 threads of a warp have one unit, so they read one row of the
 * settings. Arithmetic is in f32; parameters of bf16 are rounded masters. step_control computes, in f64, what all
 * elements of a step share.
 */
#include "kernel/cuda/cuda_impl.h"

#include <math.h>

static_assert(LS_FLAT_UNIT == 32, "a unit is a warp");

static __global__ void __launch_bounds__(CUDA_THREADS)
    set_control(const double *totals, const double *hyper, double *control) {
    if (threadIdx.x != 0) return;
    const double norm = sqrt(totals[LS_TOTAL_SQUARES]), clip = hyper[LS_HYPER_CLIP], step = hyper[LS_HYPER_STEP];
    const bool is_finite = fabs(totals[LS_TOTAL_LOSS]) < INFINITY && norm < INFINITY; /* NaN is not */
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

/* What holds for an element. */
struct rates {
    float scale;            /* of the gradient */
    float unbias1, unbias2; /* 1 / the corrections of control */
    float lr, decay;
};

template <typename Step>
static __global__ void __launch_bounds__(CUDA_THREADS)
    update(Step step, const double *control, const int32_t *group, const ls_update_settings *settings, int64_t n) {
    if (control[LS_CONTROL_APPLY] == 0) return;
    const double lr = control[LS_CONTROL_LR];
    rates r = {(float)control[LS_CONTROL_SCALE], (float)(1 / control[LS_CONTROL_CORRECTION1]),
               (float)(1 / control[LS_CONTROL_CORRECTION2]), 0, 0};
    for (EACH(i, n)) {
        const int32_t row = group[i / LS_FLAT_UNIT];
        if (row < 0) continue;
        r.lr = (float)(lr * settings[row].rate);
        r.decay = (float)settings[row].weight_decay;
        step(i, r);
    }
}

template <typename Step>
static ls_status launch_update(const char *name, const ls_kernel_call *call, void *stream, Step step) {
    const int64_t n = ls_view_elements(&call->in[0]);
    return launch(name, stream, blocks_for(n), 0, update<Step>, step, input<double>(call, 1), input<int32_t>(call, 2),
                  input<ls_update_settings>(call, 3), n);
}

/* The master of a parameter, and the parameter, which may be the same bytes. */
template <typename T> struct weights {
    float *master;
    T *param;
    __device__ __forceinline__ void set(int64_t i, float x) const {
        master[i] = x;
        param[i] = from_float<T>(x);
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
    __device__ void operator()(int64_t i, const rates &r) const {
        const float g = gradient[i] * r.scale, x = to.master[i];
        const float next_m = m[i] * beta1 + g * rest1, next_v = v[i] * beta2 + g * g * rest2;
        m[i] = next_m;
        v[i] = next_v;
        to.set(i, x - r.lr * (next_m * r.unbias1 / (sqrtf(next_v * r.unbias2) + epsilon) + r.decay * x));
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
    __device__ void operator()(int64_t i, const rates &r) const {
        const float x = to.master[i], g = gradient[i] * r.scale + r.decay * x, next = momentum * m[i] + g;
        m[i] = next;
        to.set(i, x - r.lr * (nesterov ? g + momentum * next : next));
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
    __device__ void operator()(int64_t i, const rates &r) const {
        const float g = gradient[i] * r.scale, x = to.master[i], old = m[i], c = beta1 * old + rest1 * g;
        m[i] = beta2 * old + rest2 * g;
        to.set(i, x - r.lr * ((float)((c > 0) - (c < 0)) + r.decay * x));
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
    __device__ void operator()(int64_t i, const rates &r) const {
        const float g = gradient[i] * r.scale, next = momentum * m[i] + g;
        m[i] = next;
        direction[i] = from_float<T>(g + momentum * next);
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
    __device__ void operator()(int64_t i, const rates &r) const {
        const float x = to.master[i];
        to.set(i, x - r.lr * (factor * to_float(direction[i]) + r.decay * x));
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
