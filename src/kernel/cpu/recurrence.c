/*
 * recurrence, recurrence_map and recurrence_follow, in vectors over channels. A channel's states follow each other, so
 * threads split the channels; states are in f32.
 */
#include "kernel/cpu/cpu_impl.h"

V_INLINE bool is_backwards(const ls_kernel_call *call) {
    return ((const ls_recurrence_params *)call->params)->backwards;
}

/* Channel e of token i of batch b of a view [B,N,E]. */
V_INLINE element *at(const ls_view *v, int64_t b, int64_t i, int64_t e) {
    return (element *)v->data + b * v->stride[0] + i * v->stride[1] + e;
}

V_INLINE int64_t blocks_of(int64_t E) { return ls_ceil_div(E, V_LANES); }

/* Blocks of channels, numbered over the batch. */
static void recur_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *gate = &call->in[0], *x = &call->in[1], *h = &call->out[0];
    const int64_t N = h->size[1], E = h->size[2];
    for (int64_t block = start; block < end; block++) {
        const int64_t b = block / blocks_of(E), e = block % blocks_of(E) * V_LANES, count = E - e;
        v_f32 state = v_load_f32((const float *)call->in[2].data + b * E + e, count);
        for (int64_t n = 0; n < N; n++) {
            const int64_t i = is_backwards(call) ? N - 1 - n : n;
            state = v_load(at(gate, b, i, e), count) * state + v_load(at(x, b, i, e), count);
            v_store(at(h, b, i, e), state, count);
        }
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *h = &call->out[0];
    run_elements(call, pool, h->size[0] * blocks_of(h->size[2]), h->size[1] * V_LANES, recur_part);
}

static void map_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *gate = &call->in[0], *x = &call->in[1];
    const int64_t N = x->size[1], E = x->size[2];
    for (int64_t block = start; block < end; block++) {
        const int64_t b = block / blocks_of(E), e = block % blocks_of(E) * V_LANES, count = E - e;
        v_f32 factor = (v_f32){0} + 1, state = {0};
        for (int64_t n = 0; n < N; n++) {
            const int64_t i = is_backwards(call) ? N - 1 - n : n;
            const v_f32 a = v_load(at(gate, b, i, e), count);
            factor *= a;
            state = a * state + v_load(at(x, b, i, e), count);
        }
        float *out = (float *)call->out[0].data + b * E + e;
        v_store_f32(out, factor, count);
        v_store_f32(out + x->size[0] * E, state, count);
    }
}

static void map_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *x = &call->in[1];
    run_elements(call, pool, x->size[0] * blocks_of(x->size[2]), x->size[1] * V_LANES, map_part);
}

static void follow_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *maps = &call->in[0];
    const int64_t M = maps->size[0], E = maps->size[3];
    for (int64_t block = start; block < end; block++) {
        const int64_t b = block / blocks_of(E), e = block % blocks_of(E) * V_LANES, count = E - e;
        float *out = (float *)call->out[0].data + b * E + e;
        v_f32 state = v_load_f32(out, count);
        for (int64_t m = 0; m < M; m++) {
            const float *map = (const float *)maps->data + (is_backwards(call) ? M - 1 - m : m) * maps->stride[0] +
                               b * maps->stride[2] + e;
            state = v_load_f32(map, count) * state + v_load_f32(map + maps->stride[1], count);
        }
        v_store_f32(out, state, count);
    }
}

static void follow_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *maps = &call->in[0];
    run_elements(call, pool, maps->size[2] * blocks_of(maps->size[3]), maps->size[0] * V_LANES, follow_part);
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_RECURRENCE, call, state);
}

static ls_status prepare_map(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_RECURRENCE_MAP, call, state);
}

static ls_status prepare_follow(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_RECURRENCE_FOLLOW, call, state);
}

const ls_kernel LS_CPU_NAME(recurrence) = {.id = LS_KERNEL_RECURRENCE, LS_CPU_VARIANT, .prepare = prepare, .run = run};
const ls_kernel LS_CPU_NAME(recurrence_map) = {
    .id = LS_KERNEL_RECURRENCE_MAP, LS_CPU_VARIANT, .prepare = prepare_map, .run = map_run};
const ls_kernel LS_CPU_NAME(recurrence_follow) = {
    .id = LS_KERNEL_RECURRENCE_FOLLOW, LS_CPU_VARIANT, .prepare = prepare_follow, .run = follow_run};
