/* add, mul, scale, scale_by, combine: few operations for each element. */
#include "kernel/cuda/elementwise.h"

static int64_t results(const ls_kernel_call *call) { return ls_view_elements(&call->out[0]); }

struct sum_of {
    __device__ float operator()(float a, float b) const { return a + b; }
};
template <typename T> static ls_status launch_add(const ls_kernel_call *call, void *, void *stream) {
    return map("add", stream, sum_of{}, results(call), output<T>(call, 0), input<T>(call, 0), input<T>(call, 1));
}

struct product_of {
    __device__ float operator()(float a, float b) const { return a * b; }
};
template <typename T> static ls_status launch_mul(const ls_kernel_call *call, void *, void *stream) {
    return map("mul", stream, product_of{}, results(call), output<T>(call, 0), input<T>(call, 0), input<T>(call, 1));
}

struct scaled {
    float factor;
    __device__ float operator()(float x) const { return factor * x; }
};
template <typename T> static ls_status launch_scale(const ls_kernel_call *call, void *, void *stream) {
    const ls_scale_params *p = (const ls_scale_params *)call->params;
    return map("scale", stream, scaled{(float)p->factor}, results(call), output<T>(call, 0), input<T>(call, 0));
}

struct scaled_by {
    const float *factor;
    __device__ float operator()(float x) const { return *factor * x; }
};
template <typename T> static ls_status launch_scale_by(const ls_kernel_call *call, void *, void *stream) {
    return map("scale_by", stream, scaled_by{input<float>(call, 1)}, results(call), output<T>(call, 0),
               input<T>(call, 0));
}

struct combined {
    float a, b;
    __device__ float operator()(float x, float y) const { return a * x + b * y; }
};
template <typename T> static ls_status launch_combine(const ls_kernel_call *call, void *, void *stream) {
    const ls_combine_params *p = (const ls_combine_params *)call->params;
    const T *y = output<T>(call, 0);
    return map("combine", stream, combined{(float)p->a, (float)p->b}, results(call), output<T>(call, 0),
               input<T>(call, 0), y);
}

CUDA_ROWS(ADD, add, launch_add, nullptr)
CUDA_ROWS(MUL, mul, launch_mul, nullptr)
CUDA_ROWS(SCALE, scale, launch_scale, nullptr)
CUDA_ROWS(SCALE_BY, scale_by, launch_scale_by, nullptr)
CUDA_ROWS(COMBINE, combine, launch_combine, nullptr)
