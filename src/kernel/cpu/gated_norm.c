/*
 * A norm of each row with a gate behind or in front of it (arXiv 2412.06464, 2405.21060): y = a*rstd*w*silu(gate) with
 * a = x, or y = a*rstd*w with a = x*silu(gate); rstd = 1/sqrt(mean(a^2) + epsilon). Gradient: with b, the gradient of
 * a*rstd*w, da = rstd*(w*b - a*rstd^2*mean(w*b*a)) and dweight = sum over rows of b*a*rstd. The gradients of x and the
 * gate follow from the product in which the gate is a factor. Both kernels read a row twice; the second time it is in
 * the cache.
 */
#include <math.h>

#include "kernel/cpu/gate.h"
#include "kernel/cpu/norm_grad.h"

/* A row of each operand, and room for a row in f32: the row that is normalised, or sigmoid(gate). */
typedef struct row {
    const element *x, *weight, *gate, *dy;
    element *y, *dgate; /* y: dx of the gradient */
    float *dweight, *room;
} row;

V_INLINE bool gate_first(const ls_kernel_call *call) {
    return ((const ls_gated_norm_params *)call->params)->gate_first;
}

/* The index of the first weight of row i's group. */
V_INLINE int64_t group_at(const ls_kernel_call *call, int64_t i) {
    return i % ls_max(1, row_count(&call->in[1])) * last_size(&call->in[0]);
}

V_INLINE row row_at(const ls_kernel_call *call, int64_t i, float *room) {
    const int64_t at = i * last_size(&call->in[0]);
    return (row){.x = (const element *)call->in[0].data + at,
                 .weight = (const element *)call->in[1].data + group_at(call, i),
                 .gate = (const element *)call->in[2].data + at,
                 .y = (element *)call->out[0].data + at,
                 .room = room};
}

V_INLINE float rstd_of(const ls_kernel_call *call, v_f32 squares) {
    const ls_gated_norm_params *params = call->params;
    return 1.0f / sqrtf(v_sum_lanes(squares) / (float)last_size(&call->in[0]) + (float)params->epsilon);
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

/* n elements from e on, at most one vector. Here and below, n is a constant in all calls but the last of a row. */
V_INLINE v_f32 square(const row *r, int64_t e, int64_t n, bool first) {
    v_f32 a = v_load(r->x + e, n);
    if (first) {
        const v_f32 g = v_load(r->gate + e, n);
        a *= g * gate_share(g);
        v_store_f32(r->room + e, a, n);
    }
    return a * a;
}

V_INLINE void normalise(const row *r, int64_t e, int64_t n, bool first, float rstd) {
    const v_f32 w = v_load(r->weight + e, n) * rstd;
    if (first) {
        v_store(r->y + e, v_load_f32(r->room + e, n) * w, n);
    } else {
        const v_f32 g = v_load(r->gate + e, n);
        v_store(r->y + e, v_load(r->x + e, n) * w * (g * gate_share(g)), n);
    }
}

V_INLINE void forward_rows(const ls_kernel_call *call, int part, int64_t start, int64_t end, bool first) {
    const int64_t E = last_size(&call->in[0]);
    for (int64_t i = start; i < end; i++) {
        const row r = row_at(call, i, (float *)call->workspace + (first ? part * E : 0));
        v_f32 squares = {0};
        int64_t e = 0;
        for (; e + V_LANES <= E; e += V_LANES) squares += square(&r, e, V_LANES, first);
        if (e < E) squares += square(&r, e, E - e, first);
        const float rstd = rstd_of(call, squares);
        for (e = 0; e + V_LANES <= E; e += V_LANES) normalise(&r, e, V_LANES, first, rstd);
        if (e < E) normalise(&r, e, E - e, first, rstd);
    }
}

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    if (gate_first(context))
        forward_rows(context, part, start, end, true);
    else
        forward_rows(context, part, start, end, false);
}

static int forward_parts(const ls_kernel_call *call) {
    enum { ELEMENTS_OF_A_PART = 16384 }; /* at least */
    const int64_t E = last_size(&call->in[0]);
    return ls_cpu_parts(row_count(&call->in[0]), ls_max(1, ELEMENTS_OF_A_PART / ls_max(1, E)), call->threads);
}

static size_t forward_workspace(const ls_kernel_call *call) {
    return gate_first(call) ? sizeof(float) * (size_t)(forward_parts(call) * last_size(&call->in[0])) : 0;
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ls_cpu_split(pool, row_count(&call->in[0]), forward_parts(call), forward_part, call);
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */

/* share: as exact as f32, the type of the weight's gradient. */
V_INLINE void add_terms(const row *r, int64_t e, int64_t n, bool first, v_f32 *squares, v_f32 *dots) {
    const v_f32 g = v_load(r->gate + e, n), share = v_sigmoid(g), x = v_load(r->x + e, n);
    const v_f32 gated = x * (g * share), a = first ? gated : x;
    v_store_f32(r->room + e, share, n);
    *squares += a * a;
    *dots += v_load(r->dy + e, n) * v_load(r->weight + e, n) * gated; /* the gate is a factor of either a or b */
}

/* mean: rstd^2*mean(w*b*a). */
V_INLINE void write_results(const row *r, int64_t e, int64_t n, bool first, float rstd, float mean) {
    const v_f32 g = v_load(r->gate + e, n), share = v_load_f32(r->room + e, n), silu = g * share;
    const v_f32 x = v_load(r->x + e, n), d = v_load(r->dy + e, n), w = v_load(r->weight + e, n);
    const v_f32 a = first ? x * silu : x, b = first ? d : d * silu;
    const v_f32 da = (w * b - a * mean) * rstd, slope = silu_slope(g, share);
    v_store_f32(r->dweight + e, v_load_f32(r->dweight + e, n) + b * a * rstd, n);
    v_store(r->y + e, first ? da * silu : da, n);
    v_store(r->dgate + e, (first ? da * x : d * x * rstd * w) * slope, n);
}

V_INLINE void gradient_row(const ls_kernel_call *call, int64_t i, float *sums, bool first) {
    const int64_t E = last_size(&call->in[0]);
    row r = row_at(call, i, sums + norm_sums(call));
    r.dy = (const element *)call->in[3].data + i * E;
    r.dgate = (element *)call->out[2].data + i * E;
    r.dweight = sums + group_at(call, i);
    v_f32 squares = {0}, dots = {0};
    int64_t e = 0;
    for (; e + V_LANES <= E; e += V_LANES) add_terms(&r, e, V_LANES, first, &squares, &dots);
    if (e < E) add_terms(&r, e, E - e, first, &squares, &dots);
    const float rstd = rstd_of(call, squares), mean = v_sum_lanes(dots) / (float)E * rstd * rstd;
    for (e = 0; e + V_LANES <= E; e += V_LANES) write_results(&r, e, V_LANES, first, rstd, mean);
    if (e < E) write_results(&r, e, E - e, first, rstd, mean);
}

static void row_with_gate_first(const ls_kernel_call *call, int64_t i, float *sums) {
    gradient_row(call, i, sums, true);
}

static void row_with_gate_behind(const ls_kernel_call *call, int64_t i, float *sums) {
    gradient_row(call, i, sums, false);
}

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    if (gate_first(context))
        norm_rows(context, part, start, end, row_with_gate_first);
    else
        norm_rows(context, part, start, end, row_with_gate_behind);
}

static size_t gradient_workspace(const ls_kernel_call *call) { return norm_workspace(call); }

static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    norm_gradient(call, pool, gradient_part);
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_GATED_NORM, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_GATED_NORM_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(gated_norm) = {.id = LS_KERNEL_GATED_NORM,
                                           LS_CPU_VARIANT,
                                           .workspace = forward_workspace,
                                           .prepare = prepare_forward,
                                           .run = forward_run};
const ls_kernel LS_CPU_NAME(gated_norm_grad) = {.id = LS_KERNEL_GATED_NORM_GRAD,
                                                LS_CPU_VARIANT,
                                                .workspace = gradient_workspace,
                                                .prepare = prepare_gradient,
                                                .run = gradient_run};
