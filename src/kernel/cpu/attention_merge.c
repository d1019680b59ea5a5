/*
 * attention_merge: merges the partial result (o, lse) of other keys into the result in the outputs. attention_sink:
 * merges the partial result (0, sink) of a key that every query sees and whose value is 0. attention_sink_grad: dsink
 * -= sum over the queries of exp(sink - lse)*delta, in f64; each head is summed by one thread.
 */
#include <math.h>

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/vmath.h"

static void merge_row(const float *part, float part_lse, int64_t D, float *o, float *lse) {
    if (part_lse == -INFINITY) return;
    if (*lse == -INFINITY) {
        for (int64_t d = 0; d < D; d += V_LANES) v_store_f32(o + d, v_load_f32(part + d, D - d), D - d);
        *lse = part_lse;
        return;
    }
    const v_f32 share = v_set(merge_lse(lse, part_lse));
    for (int64_t d = 0; d < D; d += V_LANES) {
        const v_f32 old = v_load_f32(o + d, D - d);
        v_store_f32(o + d, old + share * (v_load_f32(part + d, D - d) - old), D - d);
    }
}

static const float *row_of(const ls_view *view, int64_t b, int64_t i, int64_t h) {
    return (const float *)view->data + b * view->stride[0] + i * view->stride[1] + h * view->stride[2];
}

/* Queries start .. end-1 of the B*n queries. */
static void merge_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *o = &call->out[0];
    const float *part_lse = call->in[1].data;
    const int64_t n = o->size[1], H = o->size[2], D = o->size[3];
    for (int64_t query = start; query < end; query++) {
        const int64_t b = query / n, i = query % n;
        for (int64_t h = 0; h < H; h++) {
            const int64_t row = (b * H + h) * n + i;
            merge_row(row_of(&call->in[0], b, i, h), part_lse[row], D, (float *)row_of(o, b, i, h),
                      (float *)call->out[1].data + row);
        }
    }
}

static void run_merge(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *o = &call->out[0];
    run_elements(call, pool, o->size[0] * o->size[1], o->size[2] * o->size[3], merge_part);
}

static ls_status prepare_merge(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ATTENTION_MERGE, call, state);
}

const ls_kernel LS_CPU_NAME(attention_merge) = {
    .id = LS_KERNEL_ATTENTION_MERGE, LS_CPU_VARIANT, .prepare = prepare_merge, .run = run_merge};

/* --- the sink ----------------------------------------------------------------------------------------------------- */

/* Queries start .. end-1 of the B*n queries. */
static void sink_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *o = &call->out[0], *lse = &call->out[1];
    const element *sinks = call->in[0].data;
    const int64_t n = o->size[1], H = o->size[2], D = o->size[3];
    for (int64_t query = start; query < end; query++) {
        const int64_t b = query / n, i = query % n;
        for (int64_t h = 0; h < H; h++) {
            float *row = (float *)o->data + b * o->stride[0] + i * o->stride[1] + h * o->stride[2];
            float *log_sum = (float *)lse->data + (b * H + h) * n + i;
            const double seen = *log_sum, sink = element_to_f32(sinks[h]);
            if (seen == -INFINITY && sink == -INFINITY) continue;
            const float share = (float)(1 / (1 + exp(sink - seen))); /* weight of the keys */
            for (int64_t d = 0; d < D; d += V_LANES) v_store_f32(row + d, v_load_f32(row + d, D - d) * share, D - d);
            *log_sum = (float)(fmax(seen, sink) + log1p(exp(-fabs(seen - sink))));
        }
    }
}

static void run_sink(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *o = &call->out[0];
    run_elements(call, pool, o->size[0] * o->size[1], o->size[2] * o->size[3], sink_part);
}

static void heads_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *lse = &call->in[1];
    const element *sinks = call->in[0].data;
    const int64_t B = lse->size[0], H = lse->size[1], n = lse->size[2];
    float *out = call->out[0].data;
    for (int64_t h = start; h < end; h++) {
        const double sink = element_to_f32(sinks[h]);
        double sum = 0;
        for (int64_t b = 0; b < B; b++) {
            const float *whole = (const float *)lse->data + (b * H + h) * n;
            const float *delta = (const float *)call->in[2].data + (b * H + h) * n;
            for (int64_t i = 0; i < n; i++)
                if (whole[i] != -INFINITY) sum += exp(sink - (double)whole[i]) * (double)delta[i];
        }
        out[h] = (float)((double)out[h] - sum);
    }
}

static void run_sink_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *lse = &call->in[1];
    run_elements(call, pool, lse->size[1], lse->size[0] * lse->size[2], heads_part);
}

static ls_status prepare_sink(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ATTENTION_SINK, call, state);
}

static ls_status prepare_sink_grad(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ATTENTION_SINK_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(attention_sink) = {
    .id = LS_KERNEL_ATTENTION_SINK, LS_CPU_VARIANT, .prepare = prepare_sink, .run = run_sink};
const ls_kernel LS_CPU_NAME(attention_sink_grad) = {
    .id = LS_KERNEL_ATTENTION_SINK_GRAD, LS_CPU_VARIANT, .prepare = prepare_sink_grad, .run = run_sink_grad};
