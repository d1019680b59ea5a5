/*
 * Cross-entropy over the vocabulary, one row of logits per token: loss = lse - logit[label], and its gradient
 * (exp(logit - lse) - onehot(label))*dloss, or the variants that params describe. Tokens with the label -100 are
 * ignored: loss and gradient are 0. If the label is LS_ID_ELSEWHERE, its logit is in another part of the vocabulary.
 * Logits are `element` or f32.
 */
#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

#include <math.h>

/*
 * As v_load_either, but with -infinity in the missing lanes, which does not change the largest logit and whose exp is
 * 0.
 */
V_INLINE v_f32 load_logits(const void *row, bool wide, int64_t i, int64_t count) {
    v_f32 v = v_load_either(row, wide, i, count);
    for (int64_t l = count; l < V_LANES; l++) v[l] = -INFINITY;
    return v;
}

/* Four independent maxima, because a single one would be a chain of dependent instructions. */
V_INLINE float largest_logit(const void *row, bool wide, int64_t V) {
    enum { SIDE_BY_SIDE = 4 };
    v_f32 most[SIDE_BY_SIDE];
    for (int j = 0; j < SIDE_BY_SIDE; j++) most[j] = v_set(-INFINITY);
    int64_t i = 0;
    for (; i + SIDE_BY_SIDE * V_LANES <= V; i += SIDE_BY_SIDE * V_LANES) {
        for (int j = 0; j < SIDE_BY_SIDE; j++)
            most[j] = v_max(v_load_either(row, wide, i + j * V_LANES, V_LANES), most[j]);
    }
    for (; i < V; i += V_LANES) most[0] = v_max(load_logits(row, wide, i, V - i), most[0]);
    return v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
}

/* exp(logits - top), at least exp(-87), which is negligible beside the 1 of the largest logit. */
V_INLINE v_f32 exp_below(v_f32 logits, float top) { return v_exp_within(v_max(v_set(-87.0f), logits - top)); }

/* log(sum(exp(row))). Sums over 64 vectors are in f32; these are added in f64. */
V_INLINE float log_sum_exp(const void *row, bool wide, int64_t V) {
    const float top = largest_logit(row, wide, V);
    if (top == -INFINITY) return top;
    double total = 0;
    for (int64_t first = 0; first < V; first += 64 * V_LANES) {
        v_f32 sum[2] = {{0}, {0}};
        const int64_t last = ls_min(V, first + 64 * V_LANES);
        int64_t i = first;
        for (; i + 2 * V_LANES <= last; i += 2 * V_LANES) {
            sum[0] += exp_below(v_load_either(row, wide, i, V_LANES), top);
            sum[1] += exp_below(v_load_either(row, wide, i + V_LANES, V_LANES), top);
        }
        for (; i < last; i += V_LANES) sum[0] += exp_below(load_logits(row, wide, i, V - i), top);
        total += (double)v_sum(sum[0] + sum[1]);
    }
    return (float)((double)top + log(total));
}

/* The sum of a row. Sums over 64 vectors are in f32; these are added in f64. */
V_INLINE double sum_of(const void *row, bool wide, int64_t V) {
    double total = 0;
    for (int64_t first = 0; first < V; first += 64 * V_LANES) {
        v_f32 sum = {0};
        const int64_t last = ls_min(V, first + 64 * V_LANES);
        for (int64_t i = first; i < last; i += V_LANES) sum += v_load_either(row, wide, i, ls_min(V_LANES, V - i));
        total += (double)v_sum(sum);
    }
    return total;
}

V_INLINE const void *logits_row(const ls_kernel_call *call, bool wide, int64_t row) {
    const int64_t V = last_size(&call->in[0]);
    return (const char *)call->in[0].data + (size_t)(row * V) * (wide ? sizeof(float) : sizeof(element));
}

V_INLINE float logit_at(const void *row, bool wide, int64_t i) {
    return wide ? ((const float *)row)[i] : element_to_f32(((const element *)row)[i]);
}

V_INLINE void forward_rows(const ls_kernel_call *call, bool wide, int64_t start, int64_t end) {
    const int32_t *labels = call->in[1].data;
    const ls_cross_entropy_params *p = ls_cross_entropy_params_of(call->params);
    const float of_label = (float)p->label;
    float *loss = call->out[0].data, *lse = call->out[1].data;
    for (int64_t row = start; row < end; row++) {
        const void *logits = logits_row(call, wide, row);
        lse[row] = log_sum_exp(logits, wide, last_size(&call->in[0]));
        LS_ASSERT(labels[row] == LS_LABEL_IGNORED ||
                  (labels[row] >= LS_ID_ELSEWHERE && labels[row] < last_size(&call->in[0])));
        const float at_label = labels[row] >= 0 ? logit_at(logits, wide, labels[row]) : 0.0f;
        float own = lse[row] - of_label * at_label;
        if (p->each != 0) own -= (float)(p->each * sum_of(logits, wide, last_size(&call->in[0])));
        if (p->z != 0) own += (float)p->z * lse[row] * lse[row];
        loss[row] = labels[row] == LS_LABEL_IGNORED ? 0.0f : own;
    }
}

V_INLINE void gradient_rows(const ls_kernel_call *call, bool wide, int64_t start, int64_t end) {
    const int64_t V = last_size(&call->in[0]);
    const int32_t *labels = call->in[1].data;
    const float *lse = call->in[2].data, *dloss = call->in[3].data;
    const ls_cross_entropy_params *p = ls_cross_entropy_params_of(call->params);
    const float of_label = (float)p->label, each = (float)p->each, z = (float)p->z;
    for (int64_t row = start; row < end; row++) {
        element *out = (element *)call->out[0].data + row * V;
        LS_ASSERT(labels[row] == LS_LABEL_IGNORED || (labels[row] >= LS_ID_ELSEWHERE && labels[row] < V));
        if (labels[row] == LS_LABEL_IGNORED) {
            memset(out, 0, sizeof *out * (size_t)V);
            continue;
        }
        const void *logits = logits_row(call, wide, row);
        const bool here = labels[row] >= 0; /* the label is among these logits */
        const v_f32 label = v_set(here ? logit_at(logits, wide, labels[row])
                                       : 0); /* read before out is written: it may be the logits */
        const float by = (1 + 2 * z * lse[row]) * dloss[row], less = each * dloss[row];
        int64_t i = 0;
        for (; i + V_LANES <= V; i += V_LANES)
            v_store(out + i, v_exp(v_load_either(logits, wide, i, V_LANES) - lse[row]) * by - less, V_LANES);
        if (i < V) v_store(out + i, v_exp(v_load_either(logits, wide, i, V - i) - lse[row]) * by - less, V - i);
        const v_f32 at_label = (v_exp(label - lse[row]) * (1 + 2 * z * lse[row]) - (of_label + each)) * dloss[row];
        if (here) v_store(out + labels[row], at_label, 1);
    }
}

static void forward_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    if (call->in[0].dtype == LS_F32)
        forward_rows(call, true, start, end);
    else
        forward_rows(call, false, start, end);
}

/* Rows of the call from `first` on. */
typedef struct rows {
    const ls_kernel_call *call;
    int64_t first;
} rows;

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const rows *r = context;
    if (r->call->in[0].dtype == LS_F32)
        gradient_rows(r->call, true, r->first + start, r->first + end);
    else
        gradient_rows(r->call, false, r->first + start, r->first + end);
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, row_count(&call->in[0]), last_size(&call->in[0]), forward_part);
}

/*
 * All rows at once, unless the output has smaller elements and overwrites the logits. Then in rounds of row 0, row 1,
 * rows 2 and 3, rows 4 to 7, and so on: the results of rows a to 2a-1 overwrite the logits of rows below a, which are
 * no longer needed.
 */
static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const int64_t n = row_count(&call->in[0]);
    const bool narrows = call->out[0].data == call->in[0].data && call->out[0].dtype != call->in[0].dtype;
    for (int64_t first = 0, end; first < n; first = end) {
        end = narrows ? ls_min(n, ls_max(1, 2 * first)) : n;
        const rows r = {call, first};
        ls_cpu_split(pool, end - first, ls_cpu_parts(end - first, 1, call->threads), gradient_part, &r);
    }
}

static ls_status prepare_forward(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CROSS_ENTROPY, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CROSS_ENTROPY_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(cross_entropy) = {
    .id = LS_KERNEL_CROSS_ENTROPY, LS_CPU_VARIANT, .prepare = prepare_forward, .run = forward_run};
const ls_kernel LS_CPU_NAME(cross_entropy_grad) = {
    .id = LS_KERNEL_CROSS_ENTROPY_GRAD, LS_CPU_VARIANT, .prepare = prepare_gradient, .run = gradient_run};
