/*
 * map: an expression of single elements (longspan/map.h). Results are computed in strips that fit in the first-level
 * cache: each step is one loop over a strip, whose values lie in slots that are reused (kernel/expression.c). Memory is
 * read and written once.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

enum { STRIP = 256, SLOTS = LS_MAP_TENSORS + LS_MAP_STEPS, OPERANDS = LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS };

typedef struct map_state {
    ls_map_program program;
    ls_map_shape shape;
} map_state;

/* --- steps: y = f(a, b, c) of a strip. A step with fewer operands is given others, which it does not use ---------- */

typedef void (*step_body)(float *y, const float *a, const float *b, const float *c, float number);

#define STEP(id, result)                                                                                            \
    static void step_##id(float *to, const float *from_a, const float *from_b, const float *from_c, float number) { \
        for (int i = 0; i < STRIP; i += V_LANES) {                                                                  \
            const v_f32 a = v_load_f32(from_a + i, V_LANES), b = v_load_f32(from_b + i, V_LANES),                   \
                        c = v_load_f32(from_c + i, V_LANES);                                                        \
            (void)a, (void)b, (void)c, (void)number;                                                                \
            v_store_f32(to + i, result, V_LANES);                                                                   \
        }                                                                                                           \
    }
/* For functions that exist only for single numbers, not for vectors. */
#define STEP_OF_NUMBERS(id, result)                                                                                 \
    static void step_##id(float *to, const float *from_a, const float *from_b, const float *from_c, float number) { \
        (void)from_c, (void)number;                                                                                 \
        for (int i = 0; i < STRIP; i++) {                                                                           \
            const float a = from_a[i], b = from_b[i];                                                               \
            (void)b;                                                                                                \
            to[i] = result;                                                                                         \
        }                                                                                                           \
    }
#define TRUTH(condition) v_select((v_i32)(condition), v_set(1.0f), v_set(0.0f))

STEP(NUMBER, v_set(number))
STEP(NEG, -a)
STEP(ABS, (v_f32)((v_i32)a & 0x7fffffff))
STEP(SIGN, v_select(a > 0.0f, v_set(1.0f), v_select(a < 0.0f, v_set(-1.0f), a)))
STEP_OF_NUMBERS(FLOOR, floorf(a))
STEP(EXP, v_exp(a))
STEP_OF_NUMBERS(LOG, logf(a))
STEP_OF_NUMBERS(LOG1P, log1pf(a))
STEP(SQRT, v_sqrt(a))
STEP(RSQRT, 1.0f / v_sqrt(a))
STEP_OF_NUMBERS(SIN, sinf(a))
STEP_OF_NUMBERS(COS, cosf(a))
STEP(TANH, v_tanh(a))
STEP(SIGMOID, v_sigmoid(a))
STEP(ERF, v_erf(a))
STEP(ADD, a + b)
STEP(SUB, a - b)
STEP(MUL, a *b)
STEP(DIV, a / b)
STEP_OF_NUMBERS(POW, powf(a, b))
STEP_OF_NUMBERS(MOD, a - b * floorf(a / b))
STEP(MIN, v_select((v_i32)(a < b) | (v_i32)(a != a), a, b))
STEP(MAX, v_select((v_i32)(a > b) | (v_i32)(a != a), a, b))
STEP(LT, TRUTH(a < b))
STEP(LE, TRUTH(a <= b))
STEP(EQ, TRUTH(a == b))
STEP(NE, TRUTH(a != b))
STEP(AND, TRUTH((v_i32)(a != 0.0f) & (v_i32)(b != 0.0f)))
STEP(OR, TRUTH((v_i32)(a != 0.0f) | (v_i32)(b != 0.0f)))
STEP(NOT, TRUTH(a == 0.0f))
STEP(WHERE, v_select((v_i32)(a != 0.0f), b, c))

#define ROW(id, name, operands) [LS_MAP_##id] = step_##id,
static const step_body steps[LS_MAP_KINDS] = {LS_MAP_CODES(ROW)};

/* --- elements of operands ----------------------------------------------------------------------------------------- */

V_INLINE float number_at(const ls_view *x, int64_t i) {
    if (x->dtype == LS_I32) return (float)((const int32_t *)x->data)[i];
    return x->dtype == LS_F32 ? ((const float *)x->data)[i] : element_to_f32(((const element *)x->data)[i]);
}

/* `count` elements from number `at` on, `stride` apart. */
static void load_run(const ls_view *x, int64_t at, int64_t stride, int64_t count, float *to) {
    const bool wide = x->dtype == LS_F32;
    if (stride == 0) {
        const float value = number_at(x, at);
        for (int64_t i = 0; i < count; i++) to[i] = value;
    } else if (stride == 1 && wide) {
        memcpy(to, (const float *)x->data + at, (size_t)count * sizeof(float));
    } else if (stride == 1 && x->dtype == LS_CPU_DTYPE) {
        for (int64_t i = 0; i < count; i += V_LANES)
            v_store_f32(to + i, v_load((const element *)x->data + at + i, count - i), count - i);
    } else {
        for (int64_t i = 0; i < count; i++) to[i] = number_at(x, at + i * stride);
    }
}

/* Elements start .. start+count-1 of the results, of input k. */
static void load_strip(const ls_kernel_call *call, const ls_map_shape *shape, int k, int64_t start, int64_t count,
                       float *to) {
    const int last = shape->ndim - 1;
    const int64_t *stride = shape->stride[k];
    for (int64_t done = 0; done < count;) {
        const int64_t within = (start + done) % shape->size[last];
        int64_t rest = (start + done) / shape->size[last], at = within * stride[last];
        for (int d = last - 1; d >= 0; d--) {
            at += rest % shape->size[d] * stride[d];
            rest /= shape->size[d];
        }
        const int64_t run = ls_min(count - done, shape->size[last] - within);
        load_run(&call->in[k], at, stride[last], run, to + done);
        done += run;
    }
}

static void store_strip(const ls_view *y, int64_t start, int64_t count, const float *from) {
    for (int64_t i = 0; i < count; i += V_LANES) {
        const v_f32 v = v_load_f32(from + i, count - i);
        if (y->dtype == LS_F32)
            v_store_f32((float *)y->data + start + i, v, count - i);
        else
            v_store((element *)y->data + start + i, v, count - i);
    }
}

typedef struct map_run {
    const ls_kernel_call *call;
    const map_state *state;
} map_run;

/* Strips first .. last-1 of the results. */
static void map_strips(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const map_run *run = context;
    const ls_kernel_call *call = run->call;
    const ls_map_program *p = &run->state->program;
    const int64_t n = ls_view_elements(&call->out[0]);
    _Alignas(64) float room[SLOTS][STRIP];
    const float *slot[SLOTS];
    /* Inputs that a step can read where they lie: no result is stored there before the last one has been read. */
    bool direct[LS_MAP_TENSORS];
    for (int k = 0; k < p->n_slots; k++) slot[k] = room[k];
    for (int k = 0; k < call->n_in; k++) {
        const ls_map_shape *shape = &run->state->shape;
        direct[k] = call->n_out == 1 && call->in[k].dtype == LS_F32 && shape->ndim == 1 && shape->stride[k][0] == 1;
        if (!direct[k]) memset(room[k], 0, sizeof room[k]); /* a step always computes a whole strip */
    }
    for (int64_t s = first; s < last; s++) {
        const int64_t start = s * STRIP, count = ls_min(STRIP, n - start);
        for (int k = 0; k < call->n_in; k++) {
            if (direct[k] && count == STRIP) {
                slot[k] = (const float *)call->in[k].data + start;
                continue;
            }
            if (direct[k]) memset(room[k], 0, sizeof room[k]);
            load_strip(call, &run->state->shape, k, start, count, room[k]);
            slot[k] = room[k];
        }
        for (int i = 0; i < p->n_steps; i++) {
            const ls_map_slot_step *step = &p->step[i];
            steps[step->code](room[step->to], slot[step->a], slot[step->b], slot[step->c], (float)step->number);
        }
        for (int o = 0; o < call->n_out; o++) store_strip(&call->out[o], start, count, slot[p->result[o]]);
    }
}

static ls_status map_prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    LS_TRY(ls_kernel_check(LS_KERNEL_MAP, LS_CPU_DTYPE, call));
    map_state *s = malloc(sizeof *s);
    if (s == NULL) return ls_error(LS_FAULT, "kernel map: no memory for its state of %zu bytes", sizeof *s);
    ls_map_assign_slots(call->params, &s->program);
    ls_map_shape_of(call, &s->shape);
    *state = s;
    return ls_ok();
}

static void map_run_strips(const ls_kernel_call *call, void *state, ls_pool *pool) {
    enum { LEAST = 16384 / STRIP }; /* strips of a part */
    const map_run run = {call, state};
    const int64_t strips = ls_ceil_div(ls_view_elements(&call->out[0]), STRIP);
    if (strips > 0) ls_cpu_split(pool, strips, ls_cpu_parts(strips, LEAST, call->threads), map_strips, &run);
}

const ls_kernel LS_CPU_NAME(map) = {
    .id = LS_KERNEL_MAP, LS_CPU_VARIANT, .prepare = map_prepare, .release = free, .run = map_run_strips};
