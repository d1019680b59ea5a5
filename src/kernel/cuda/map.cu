/*
 * map: an expression of single elements (longspan/map.h). Each thread interprets the expression for a group of
 * neighbouring elements, so that the cost of decoding a step is paid once for the group. Values of steps are in slots
 * (kernel/expression.c) in shared memory; a value that only the next step reads stays in registers.
 */
#include "kernel/cuda/pack.h"

enum {
    GROUP = 4,      /* elements of a thread */
    FEW_SLOTS = 24, /* up to here threads have groups, with two blocks on a multiprocessor */
    PREVIOUS = -1,  /* in place of a slot: the result of the previous step */
    OPERANDS = LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS
};

/* How a thread reads the elements of its group. */
typedef enum reading { ONE_BY_ONE, AT_ONCE, ALL_THE_SAME } reading;

/* A launch's operands: inputs, then results. */
struct operands {
    const void *data[OPERANDS];
    ls_dtype dtype[OPERANDS];
    reading read[LS_KERNEL_INPUTS];
};

struct step {
    ls_map_code code;
    float number;
    int16_t a, b, c, to; /* slots; to is PREVIOUS if only the next step reads the result */
};
struct program {
    int n_in, n_steps, n_results;
    int16_t result[LS_MAP_RESULTS];
    step steps[LS_MAP_STEPS];
};

/* The slots of a thread. */
template <int N> struct slots {
    pack<float, N> *first;
    __device__ __forceinline__ pack<float, N> &operator[](int slot) const { return first[slot * CUDA_THREADS]; }
};

template <int N, typename X>
static __device__ __forceinline__ pack<float, N> load_numbers(const X *x, reading read, int64_t stride) {
    pack<float, N> values;
    if (read == AT_ONCE) {
        const pack<X, N> from = load_pack<N>(x);
#pragma unroll
        for (int k = 0; k < N; k++) values.at[k] = to_float(from.at[k]);
        return values;
    }
#pragma unroll
    for (int k = 0; k < N; k++) values.at[k] = read == ALL_THE_SAME && k > 0 ? values.at[0] : to_float(x[k * stride]);
    return values;
}

/* The result of a step; previous: that of the step before. */
template <int N>
static __device__ __forceinline__ pack<float, N> result_of(const step &s, const slots<N> &slot,
                                                           const pack<float, N> &previous) {
    typedef pack<float, N> values;
    const auto operand = [&](int from) -> values { return from == PREVIOUS ? previous : slot[from]; };
    const auto one = [&](auto f) {
        const values a = operand(s.a);
        values y;
#pragma unroll
        for (int k = 0; k < N; k++) y.at[k] = f(a.at[k]);
        return y;
    };
    const auto two = [&](auto f) {
        const values a = operand(s.a), b = operand(s.b);
        values y;
#pragma unroll
        for (int k = 0; k < N; k++) y.at[k] = f(a.at[k], b.at[k]);
        return y;
    };
    switch (s.code) {
    case LS_MAP_NUMBER: {
        values y;
#pragma unroll
        for (int k = 0; k < N; k++) y.at[k] = s.number;
        return y;
    }
    case LS_MAP_NEG:
        return one([](float a) -> float { return -a; });
    case LS_MAP_ABS:
        return one([](float a) -> float { return fabsf(a); });
    case LS_MAP_SIGN:
        return one([](float a) -> float { return a > 0 ? 1 : a < 0 ? -1 : a; });
    case LS_MAP_FLOOR:
        return one([](float a) -> float { return floorf(a); });
    case LS_MAP_EXP:
        return one([](float a) -> float { return expf(a); });
    case LS_MAP_LOG:
        return one([](float a) -> float { return logf(a); });
    case LS_MAP_LOG1P:
        return one([](float a) -> float { return log1pf(a); });
    case LS_MAP_SQRT:
        return one([](float a) -> float { return sqrtf(a); });
    case LS_MAP_RSQRT:
        return one([](float a) -> float { return 1 / sqrtf(a); });
    case LS_MAP_SIN:
        return one([](float a) -> float { return sinf(a); });
    case LS_MAP_COS:
        return one([](float a) -> float { return cosf(a); });
    case LS_MAP_TANH:
        return one([](float a) -> float { return tanhf(a); });
    case LS_MAP_SIGMOID:
        return one([](float a) -> float { return 1 / (1 + expf(-a)); });
    case LS_MAP_ERF:
        return one([](float a) -> float { return erff(a); });
    case LS_MAP_ADD:
        return two([](float a, float b) -> float { return a + b; });
    case LS_MAP_SUB:
        return two([](float a, float b) -> float { return a - b; });
    case LS_MAP_MUL:
        return two([](float a, float b) -> float { return a * b; });
    case LS_MAP_DIV:
        return two([](float a, float b) -> float { return a / b; });
    case LS_MAP_POW:
        return two([](float a, float b) -> float { return powf(a, b); });
    case LS_MAP_MOD:
        return two([](float a, float b) -> float { return a - b * floorf(a / b); });
    case LS_MAP_MIN:
        return two([](float a, float b) -> float { return a < b || a != a ? a : b; });
    case LS_MAP_MAX:
        return two([](float a, float b) -> float { return a > b || a != a ? a : b; });
    case LS_MAP_LT:
        return two([](float a, float b) -> float { return a < b; });
    case LS_MAP_LE:
        return two([](float a, float b) -> float { return a <= b; });
    case LS_MAP_EQ:
        return two([](float a, float b) -> float { return a == b; });
    case LS_MAP_NE:
        return two([](float a, float b) -> float { return a != b; });
    case LS_MAP_AND:
        return two([](float a, float b) -> float { return a != 0 && b != 0; });
    case LS_MAP_OR:
        return two([](float a, float b) -> float { return a != 0 || b != 0; });
    case LS_MAP_NOT:
        return one([](float a) -> float { return a == 0; });
    default: { /* where */
        const values c = operand(s.a), a = operand(s.b), b = operand(s.c);
        values y;
#pragma unroll
        for (int k = 0; k < N; k++) y.at[k] = c.at[k] != 0 ? a.at[k] : b.at[k];
        return y;
    }
    }
}

/*
 * Where group i of N elements begins in each input. Divides in 32 bits if the sizes fit, which takes a tenth of the
 * time.
 */
template <int N>
static __device__ __forceinline__ void places_of(const ls_map_shape &shape, int n_in, int64_t i, int64_t groups,
                                                 int64_t *at) {
    const bool narrow = groups <= UINT32_MAX / N;
    int64_t rest = i;
#pragma unroll
    for (int k = 0; k < LS_KERNEL_INPUTS; k++) at[k] = 0;
    for (int d = shape.ndim - 1; d >= 0; d--) {
        const bool last = d == shape.ndim - 1;
        const int64_t size = last ? shape.size[d] / N : shape.size[d];
        const int64_t above = narrow ? (int64_t)((uint32_t)rest / (uint32_t)size) : rest / size;
        const int64_t place = (rest - above * size) * (last ? N : 1);
#pragma unroll
        for (int k = 0; k < LS_KERNEL_INPUTS; k++)
            if (k < n_in) at[k] += place * shape.stride[k][d];
        rest = above;
    }
}

template <typename T, int N>
static __global__ void __launch_bounds__(CUDA_THREADS)
    map_groups(const program p, const ls_map_shape shape, const operands x, int64_t groups) {
    LS_DYNAMIC_SHARED(memory);
    const slots<N> slot = {(pack<float, N> *)memory + threadIdx.x};
    for (EACH(i, groups)) {
        int64_t at[LS_KERNEL_INPUTS];
        places_of<N>(shape, p.n_in, i, groups, at);
#pragma unroll
        for (int k = 0; k < LS_KERNEL_INPUTS; k++) {
            if (k >= p.n_in) continue;
            const int64_t stride = shape.stride[k][shape.ndim - 1];
            if (x.dtype[k] == LS_I32)
                slot[k] = load_numbers<N>((const int32_t *)x.data[k] + at[k], x.read[k], stride);
            else if (x.dtype[k] == LS_F32)
                slot[k] = load_numbers<N>((const float *)x.data[k] + at[k], x.read[k], stride);
            else
                slot[k] = load_numbers<N>((const T *)x.data[k] + at[k], x.read[k], stride);
        }
        pack<float, N> result = {};
        for (int k = 0; k < p.n_steps; k++) {
            const step &s = p.steps[k];
            result = result_of<N>(s, slot, result);
            if (s.to != PREVIOUS) slot[s.to] = result;
        }
        for (int o = 0; o < p.n_results; o++) {
            void *y = (void *)x.data[p.n_in + o];
            if (x.dtype[p.n_in + o] == LS_F32)
                store_floats<N>((float *)y + i * N, slot[p.result[o]]);
            else
                store_floats<N>((T *)y + i * N, slot[p.result[o]]);
        }
    }
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

/* Values that only the next step reads have no slot. Returns the number of slots. */
static int program_of(const ls_map_params *params, program *out) {
    ls_map_program slotted;
    bool kept[LS_MAP_TENSORS + LS_MAP_STEPS] = {}; /* by operand */
    ls_map_assign_slots(params, &slotted);
    *out = {};
    out->n_in = params->n_in;
    out->n_steps = params->n_steps;
    out->n_results = params->n_results;
    for (int k = 0; k < params->n_steps; k++) {
        const ls_map_step *from = &params->step[k];
        const ls_map_slot_step *to = &slotted.step[k];
        const int by[] = {from->a, from->b, from->c}, slot[] = {to->a, to->b, to->c}, before = params->n_in + k - 1;
        int16_t *const in[] = {&out->steps[k].a, &out->steps[k].b, &out->steps[k].c};
        out->steps[k].code = from->code;
        out->steps[k].number = (float)from->number;
        out->steps[k].to = to->to;
        for (int o = 0; o < ls_map_operands(from->code); o++) {
            const bool previous = k > 0 && by[o] == before;
            *in[o] = previous ? (int16_t)PREVIOUS : (int16_t)slot[o];
            kept[by[o]] = kept[by[o]] || !previous;
        }
    }
    for (int o = 0; o < params->n_results; o++) {
        kept[params->result[o]] = true;
        out->result[o] = slotted.result[o];
    }
    for (int k = 0; k < params->n_steps; k++)
        if (!kept[params->n_in + k]) out->steps[k].to = PREVIOUS;
    return slotted.n_slots;
}

static size_t bytes_of(ls_dtype dtype) { return dtype == LS_BF16 ? sizeof(bf16) : sizeof(float); }

/* How groups of an input are read: AT_ONCE if every group begins at a multiple of its size in bytes. */
static reading reading_of(const ls_map_shape *shape, int input, const ls_view *view) {
    const int64_t *stride = shape->stride[input];
    bool aligned = (uintptr_t)view->data % (GROUP * bytes_of(view->dtype)) == 0;
    if (stride[shape->ndim - 1] == 0) return ALL_THE_SAME;
    for (int d = 0; d + 1 < shape->ndim; d++) aligned = aligned && stride[d] % GROUP == 0;
    return aligned && stride[shape->ndim - 1] == 1 ? AT_ONCE : ONE_BY_ONE;
}

template <typename T, int N>
static ls_status launch_groups(void *stream, const program &p, const ls_map_shape &shape, const operands &x, int slots,
                               int64_t n) {
    const size_t shared = sizeof(pack<float, N>) * CUDA_THREADS * (size_t)slots;
    LS_TRY((allow_shared("map", map_groups<T, N>)));
    return launch("map", stream, blocks_for(n / N), shared, map_groups<T, N>, p, shape, x, n / N);
}

template <typename T> static ls_status launch_map(const ls_kernel_call *call, void *, void *stream) {
    program p;
    ls_map_shape shape;
    operands x = {};
    const int slots = program_of((const ls_map_params *)call->params, &p);
    ls_map_shape_of(call, &shape);
    bool grouped = slots <= FEW_SLOTS && shape.size[shape.ndim - 1] % GROUP == 0;
    for (int i = 0; i < call->n_in + call->n_out; i++) {
        const ls_view *view = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
        x.data[i] = view->data;
        x.dtype[i] = view->dtype;
        if (i < call->n_in)
            x.read[i] = reading_of(&shape, i, view);
        else
            grouped = grouped && (uintptr_t)view->data % (GROUP * bytes_of(view->dtype)) == 0;
    }
    const int64_t n = ls_view_elements(&call->out[0]);
    if (grouped) return launch_groups<T, GROUP>(stream, p, shape, x, slots, n);
    for (int i = 0; i < call->n_in; i++) x.read[i] = ONE_BY_ONE;
    return launch_groups<T, 1>(stream, p, shape, x, slots, n);
}

CUDA_ROWS(MAP, map, launch_map, nullptr)
