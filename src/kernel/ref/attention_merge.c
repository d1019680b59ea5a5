/*
 * attention_merge: merges the partial result (o, lse) of other keys into the result in the outputs. attention_sink:
 * merges a key with logit sink and value 0, which every query sees: a partial result with lse = sink and o = 0 (Xiao et
 * al., "Efficient streaming language models with attention sinks", arXiv 2309.17453). The gradient of the sink is the
 * sum of -P delta over the queries, with P = exp(sink - lse).
 */
#include "kernel/ref/attention_tile.h"

void REF(merge_row)(const double *new_o, double new_lse, int64_t D, real *o, real *lse) {
    if (new_lse == -INFINITY) return;
    const double old_lse = (double)*lse;
    if (old_lse == -INFINITY) {
        for (int64_t d = 0; d < D; d++) o[d] = (real)new_o[d];
        *lse = (real)new_lse;
        return;
    }
    const double share = 1.0 / (1.0 + exp(old_lse - new_lse)); /* weight of the new part */
    for (int64_t d = 0; d < D; d++) o[d] = (real)((double)o[d] + share * (new_o[d] - (double)o[d]));
    *lse = (real)(fmax(old_lse, new_lse) + log1p(exp(-fabs(old_lse - new_lse))));
}

static ls_status prepare_merge(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_MERGE, LS_REAL, call);
}

static size_t workspace(const ls_kernel_call *call) { return REF(thread_bytes)(call->threads, call->out[0].size[3]); }

/* A task is one head of one sequence. */
static void merge_head(void *context, int task, int thread) {
    const ls_kernel_call *call = context;
    const ls_view *o = &call->out[0];
    const int64_t N = o->size[1], H = o->size[2], D = o->size[3], b = task / H, h = task % H;
    double *row = (double *)call->workspace + thread * D;
    for (int64_t i = 0; i < N; i++) {
        const int64_t at = (b * H + h) * N + i;
        REF(pack_rows)(&call->in[0], b, h, i, 1, row);
        REF(merge_row)
        (row, (double)((const real *)call->in[1].data)[at], D,
         (real *)o->data + b * o->stride[0] + i * o->stride[1] + h * o->stride[2], (real *)call->out[1].data + at);
    }
}

static void run_merge(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ls_kernel_call own = *call;
    ls_pool_run(pool, (int)(call->out[0].size[0] * call->out[0].size[2]), merge_head, &own);
}

const ls_kernel REF(attention_merge) = {.id = LS_KERNEL_ATTENTION_MERGE,
                                        .dtype = LS_REAL,
                                        .workspace = workspace,
                                        .prepare = prepare_merge,
                                        .run = run_merge};

/* --- the sink ----------------------------------------------------------------------------------------------------- */

static ls_status prepare_sink(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_SINK, LS_REAL, call);
}

static void merge_sink(double sink, int64_t D, real *o, real *lse) {
    const double seen = (double)*lse;
    if (seen == -INFINITY && sink == -INFINITY) return;
    const double share = 1.0 / (1.0 + exp(sink - seen)); /* weight of the keys */
    for (int64_t d = 0; d < D; d++) o[d] = (real)(share * (double)o[d]);
    *lse = (real)(fmax(seen, sink) + log1p(exp(-fabs(seen - sink))));
}

/* Queries first..last-1 of all batches. */
static void merge_queries(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *o = &call->out[0];
    const real *sink = call->in[0].data;
    const int64_t N = o->size[1], H = o->size[2], D = o->size[3];
    for (int64_t row = first; row < last; row++) {
        const int64_t b = row / N, i = row % N;
        for (int64_t h = 0; h < H; h++)
            merge_sink((double)sink[h], D, (real *)o->data + b * o->stride[0] + i * o->stride[1] + h * o->stride[2],
                       (real *)call->out[1].data + (b * H + h) * N + i);
    }
}

static void run_sink(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0] * call->out[0].size[1], merge_queries, call);
}

static ls_status prepare_sink_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_SINK_GRAD, LS_REAL, call);
}

static void grad_of_heads(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *lse = &call->in[1];
    const real *sink = call->in[0].data, *delta = call->in[2].data;
    const int64_t B = lse->size[0], H = lse->size[1], N = lse->size[2];
    real *out = call->out[0].data;
    for (int64_t h = first; h < last; h++) {
        double sum = 0;
        for (int64_t row = 0; row < B * N; row++) {
            const int64_t at = (row / N * H + h) * N + row % N;
            const double whole = (double)((const real *)lse->data)[at];
            if (whole != -INFINITY) sum += exp((double)sink[h] - whole) * (double)delta[at];
        }
        out[h] = (real)((double)out[h] - sum);
    }
}

static void run_sink_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, call->out[0].size[0], grad_of_heads, call);
}

const ls_kernel REF(attention_sink) = {
    .id = LS_KERNEL_ATTENTION_SINK, .dtype = LS_REAL, .prepare = prepare_sink, .run = run_sink};
const ls_kernel REF(attention_sink_grad) = {
    .id = LS_KERNEL_ATTENTION_SINK_GRAD, .dtype = LS_REAL, .prepare = prepare_sink_grad, .run = run_sink_grad};
