/* attention_merge: a partial result (o, lse), of other keys, joined to the one that is there. */
#include "kernel/ref/attention_tile.h"

void REF(merge_row)(const double *new_o, double new_lse, int64_t D, real *o, real *lse) {
    if (new_lse == -INFINITY) return;
    const double old_lse = (double)*lse;
    if (old_lse == -INFINITY) {
        for (int64_t d = 0; d < D; d++) o[d] = (real)new_o[d];
        *lse = (real)new_lse;
        return;
    }
    const double share = 1.0 / (1.0 + exp(old_lse - new_lse)); /* of the new block */
    for (int64_t d = 0; d < D; d++) o[d] = (real)((double)o[d] + share * (new_o[d] - (double)o[d]));
    *lse = (real)(fmax(old_lse, new_lse) + log1p(exp(-fabs(old_lse - new_lse))));
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check("attention_merge", LS_REAL, call);
}

static size_t workspace(const ls_kernel_call *call) {
    return REF(thread_bytes)(call->threads, call->out[0].size[3]);
}

/* Task: one head of one batch. */
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
         (real *)o->data + b * o->stride[0] + i * o->stride[1] + h * o->stride[2],
         (real *)call->out[1].data + at);
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ls_kernel_call own = *call;
    ls_pool_run(pool, (int)(call->out[0].size[0] * call->out[0].size[2]), merge_head, &own);
}

const ls_kernel REF(attention_merge) = {
    .name = "attention_merge", .dtype = LS_REAL, .workspace = workspace, .prepare = prepare, .run = run};
