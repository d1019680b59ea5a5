/*
 * attention_sink and attention_sink_grad: a logit per head that every query sees, of a key whose value is 0 (Xiao et al.,
 * "Efficient streaming language models with attention sinks", arXiv 2309.17453). It is a partial result with lse = sink and o = 0,
 * merged with the one that stands in o and lse. Its gradient: -P delta summed over the queries, P = exp(sink - lse).
 */
#include "kernel/ref/ref_impl.h"

static ls_status prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check("attention_sink", LS_REAL, call);
}

static void merge_row(double sink, int64_t D, real *o, real *lse) {
    const double seen = (double)*lse;
    if (seen == -INFINITY && sink == -INFINITY) return;
    const double share = 1.0 / (1.0 + exp(sink - seen)); /* of what the query sees */
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
            merge_row((double)sink[h], D,
                      (real *)o->data + b * o->stride[0] + i * o->stride[1] + h * o->stride[2],
                      (real *)call->out[1].data + (b * H + h) * N + i);
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    REF(split)(pool, call->out[0].size[0] * call->out[0].size[1], merge_queries, call);
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check("attention_sink_grad", LS_REAL, call);
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

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    REF(split)(pool, call->out[0].size[0], grad_of_heads, call);
}

const ls_kernel REF(attention_sink) = {
    .name = "attention_sink", .dtype = LS_REAL, .prepare = prepare, .run = run};
const ls_kernel REF(attention_sink_grad) = {
    .name = "attention_sink_grad", .dtype = LS_REAL, .prepare = prepare_grad, .run = run_grad};
