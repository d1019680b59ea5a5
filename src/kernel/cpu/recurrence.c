/*
 * recurrence, recurrence_map and recurrence_follow, in vectors over elements. The states of an element depend on each
 * other, so threads divide the elements; states are in f32.
 */
#include "kernel/cpu/cpu_impl.h"

V_INLINE bool is_backwards(const ls_kernel_call *call) {
    return ((const ls_recurrence_params *)call->params)->backwards;
}

/* A vector of elements of a call: their numbers of token n, where n counts in the order of the steps. */
typedef struct walk {
    const ls_view *gate, *x;
    int64_t b, e, count;
    int row, column; /* dimensions of the gate; backwards its matrices are transposed */
    bool backwards;
} walk;

V_INLINE int64_t blocks_of(int64_t E) { return ls_ceil_div(E, V_LANES); }

V_INLINE walk walk_of(const ls_kernel_call *call, int64_t block) {
    const int64_t E = call->in[1].size[3], e = block % blocks_of(E) * V_LANES;
    const bool back = is_backwards(call);
    return (walk){&call->in[0], &call->in[1], block / blocks_of(E), e, E - e, back ? 3 : 2, back ? 2 : 3, back};
}

V_INLINE element *token_at(const walk *w, const ls_view *v, int64_t n) {
    return (element *)v->data + w->b * v->stride[0] + (w->backwards ? v->size[1] - 1 - n : n) * v->stride[1] + w->e;
}

/* state = gate state + x, or without x. K and with_x must be constants where this is inlined. */
V_INLINE void step(const walk *w, int64_t n, int K, bool with_x, v_f32 *state) {
    const element *gate = token_at(w, w->gate, n), *x = token_at(w, w->x, n);
    const int64_t row = w->gate->stride[w->row], column = w->gate->stride[w->column];
    v_f32 next[LS_RECURRENCE_STATES];
    for (int r = 0; r < K; r++) {
        next[r] = with_x ? v_load(x + r * w->x->stride[2], w->count) : (v_f32){0};
        for (int c = 0; c < K; c++) next[r] += v_load(gate + r * row + c * column, w->count) * state[c];
    }
    for (int r = 0; r < K; r++) state[r] = next[r];
}

V_INLINE void recur(const ls_kernel_call *call, int64_t block, int K) {
    const walk w = walk_of(call, block);
    const ls_view *h = &call->out[0];
    const int64_t E = h->size[3];
    const float *start = (const float *)call->in[2].data + w.b * K * E + w.e;
    v_f32 state[LS_RECURRENCE_STATES];
    for (int s = 0; s < K; s++) state[s] = v_load_f32(start + s * E, w.count);
    for (int64_t n = 0; n < h->size[1]; n++) {
        step(&w, n, K, true, state);
        for (int s = 0; s < K; s++) v_store(token_at(&w, h, n) + s * h->stride[2], state[s], w.count);
    }
}

V_INLINE void make_map(const ls_kernel_call *call, int64_t block, int K) {
    const walk w = walk_of(call, block);
    const int64_t B = w.x->size[0], E = w.x->size[3];
    v_f32 term[LS_RECURRENCE_STATES + 1][LS_RECURRENCE_STATES] = {0};
    for (int k = 0; k < K; k++) term[k][k] = v_set(1);
    for (int64_t n = 0; n < w.x->size[1]; n++) {
        for (int k = 0; k < K; k++) step(&w, n, K, false, term[k]);
        step(&w, n, K, true, term[K]);
    }
    for (int k = 0; k <= K; k++)
        for (int s = 0; s < K; s++)
            v_store_f32((float *)call->out[0].data + ((k * B + w.b) * K + s) * E + w.e, term[k][s], w.count);
}

V_INLINE void follow(const ls_kernel_call *call, int64_t block, int K) {
    const ls_view *maps = &call->in[0];
    const int64_t M = maps->size[0], E = maps->size[4], b = block / blocks_of(E), e = block % blocks_of(E) * V_LANES,
                  count = E - e;
    float *out = (float *)call->out[0].data + b * K * E + e;
    v_f32 now[LS_RECURRENCE_STATES], next[LS_RECURRENCE_STATES];
    for (int s = 0; s < K; s++) now[s] = v_load_f32(out + s * E, count);
    for (int64_t m = 0; m < M; m++) {
        const float *map = (const float *)maps->data + (is_backwards(call) ? M - 1 - m : m) * maps->stride[0] +
                           b * maps->stride[2] + e;
        for (int s = 0; s < K; s++) {
            next[s] = v_load_f32(map + K * maps->stride[1] + s * maps->stride[3], count);
            for (int k = 0; k < K; k++)
                next[s] += v_load_f32(map + k * maps->stride[1] + s * maps->stride[3], count) * now[k];
        }
        for (int s = 0; s < K; s++) now[s] = next[s];
    }
    for (int s = 0; s < K; s++) v_store_f32(out + s * E, now[s], count);
}

/* Defines a function over some of the blocks of elements, with a body for each size K of states. */
#define PART(name, body, sizes, dim)                                              \
    static void name(const void *context, int part, int64_t start, int64_t end) { \
        (void)part;                                                               \
        const ls_kernel_call *call = context;                                     \
        const int64_t K = (sizes)->size[dim];                                     \
        for (int64_t block = start; block < end; block++) {                       \
            if (K == 1) body(call, block, 1);                                     \
            if (K == 2) body(call, block, 2);                                     \
            if (K == 3) body(call, block, 3);                                     \
            if (K == 4) body(call, block, 4);                                     \
        }                                                                         \
    }
PART(recur_part, recur, &call->out[0], 2)
PART(map_part, make_map, &call->in[1], 2)
PART(follow_part, follow, &call->out[0], 1)

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *h = &call->out[0];
    run_elements(call, pool, h->size[0] * blocks_of(h->size[3]), h->size[1] * h->size[2] * V_LANES, recur_part);
}

static void map_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *x = &call->in[1];
    run_elements(call, pool, x->size[0] * blocks_of(x->size[3]), x->size[1] * x->size[2] * V_LANES, map_part);
}

static void follow_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *maps = &call->in[0];
    run_elements(call, pool, maps->size[2] * blocks_of(maps->size[4]), maps->size[0] * maps->size[3] * V_LANES,
                 follow_part);
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
