/* attention_merge: a partial result (o, lse), of other keys, joined to the one that is there. */
#include "kernel/cpu/attention_merge.h"
#include "kernel/cpu/cpu_impl.h"

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

/* start, end: of the B*n queries. */
static void queries_part(const void *context, int part, int64_t start, int64_t end) {
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

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *o = &call->out[0];
    run_elements(call, pool, o->size[0] * o->size[1], o->size[2] * o->size[3], queries_part);
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    return check_only("attention_merge", call, state);
}

const ls_kernel LS_CPU_NAME(attention_merge) = {
    .name = "attention_merge", .dtype = LS_CPU_DTYPE, .isa = LS_CPU_LEVEL, .prepare = prepare, .run = run};
