/*
 * map: an expression of single elements (longspan/map.h), interpreted by each thread for the elements that are its own.
 * Values of steps lie in slots (kernel/expression.c), of which few are in use at once.
 */
#include "kernel/cuda/cuda_impl.h"

/* What a launch needs of its operands: inputs, then results. */
struct operands {
    const void *data[LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS];
    ls_dtype dtype[LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS];
};

static __device__ float load_number(const void *data, ls_dtype dtype, int64_t at) {
    if (dtype == LS_I32) return (float)((const int32_t *)data)[at];
    return dtype == LS_F32 ? ((const float *)data)[at] : to_float(((const bf16 *)data)[at]);
}

static __device__ float result_of(const ls_map_slot_step &s, float a, float b, float c) {
    switch (s.code) {
    case LS_MAP_NUMBER:
        return (float)s.number;
    case LS_MAP_NEG:
        return -a;
    case LS_MAP_ABS:
        return fabsf(a);
    case LS_MAP_SIGN:
        return a > 0 ? 1 : a < 0 ? -1 : a;
    case LS_MAP_FLOOR:
        return floorf(a);
    case LS_MAP_EXP:
        return expf(a);
    case LS_MAP_LOG:
        return logf(a);
    case LS_MAP_LOG1P:
        return log1pf(a);
    case LS_MAP_SQRT:
        return sqrtf(a);
    case LS_MAP_RSQRT:
        return 1 / sqrtf(a);
    case LS_MAP_SIN:
        return sinf(a);
    case LS_MAP_COS:
        return cosf(a);
    case LS_MAP_TANH:
        return tanhf(a);
    case LS_MAP_SIGMOID:
        return 1 / (1 + expf(-a));
    case LS_MAP_ERF:
        return erff(a);
    case LS_MAP_ADD:
        return a + b;
    case LS_MAP_SUB:
        return a - b;
    case LS_MAP_MUL:
        return a * b;
    case LS_MAP_DIV:
        return a / b;
    case LS_MAP_POW:
        return powf(a, b);
    case LS_MAP_MOD:
        return a - b * floorf(a / b);
    case LS_MAP_MIN:
        return a < b || a != a ? a : b;
    case LS_MAP_MAX:
        return a > b || a != a ? a : b;
    case LS_MAP_LT:
        return a < b;
    case LS_MAP_LE:
        return a <= b;
    case LS_MAP_EQ:
        return a == b;
    case LS_MAP_NE:
        return a != b;
    case LS_MAP_AND:
        return a != 0 && b != 0;
    case LS_MAP_OR:
        return a != 0 || b != 0;
    case LS_MAP_NOT:
        return a == 0;
    default: /* where */
        return a != 0 ? b : c;
    }
}

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS)
    map_elements(const ls_map_program p, const ls_map_shape shape, const operands x, int64_t n) {
    for (EACH(i, n)) {
        float slot[LS_MAP_TENSORS + LS_MAP_STEPS];
        for (int k = 0; k < p.n_in; k++) {
            int64_t at = 0, rest = i;
            for (int d = shape.ndim - 1; d >= 0; d--) {
                at += rest % shape.size[d] * shape.stride[k][d];
                rest /= shape.size[d];
            }
            slot[k] = load_number(x.data[k], x.dtype[k], at);
        }
        for (int k = 0; k < p.n_steps; k++) {
            const ls_map_slot_step &s = p.step[k];
            slot[s.to] = result_of(s, slot[s.a], slot[s.b], slot[s.c]);
        }
        for (int o = 0; o < p.n_results; o++) {
            void *y = (void *)x.data[p.n_in + o];
            if (x.dtype[p.n_in + o] == LS_F32)
                ((float *)y)[i] = slot[p.result[o]];
            else
                ((T *)y)[i] = from_float<T>(slot[p.result[o]]);
        }
    }
}

template <typename T> static ls_status launch_map(const ls_kernel_call *call, void *, void *stream) {
    ls_map_program program;
    ls_map_shape shape;
    operands x = {};
    ls_map_assign_slots((const ls_map_params *)call->params, &program);
    ls_map_shape_of(call, &shape);
    for (int i = 0; i < call->n_in + call->n_out; i++) {
        const ls_view *view = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
        x.data[i] = view->data;
        x.dtype[i] = view->dtype;
    }
    const int64_t n = ls_view_elements(&call->out[0]);
    return launch("map", stream, blocks_for(n), 0, map_elements<T>, program, shape, x, n);
}

CUDA_ROWS(MAP, map, launch_map, nullptr)
