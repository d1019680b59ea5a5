/* attention_delta: delta[b,h,i] = sum over D of o[b,i,h,:]*do[b,i,h,:]. */
#include "kernel/cpu/cpu_impl.h"

/* Queries start .. end-1 of the B*n queries. */
static void queries_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *o = &call->in[0], *d_o = &call->in[1], *delta = &call->out[0];
    const int64_t n = o->size[1], H = o->size[2], D = o->size[3];
    for (int64_t query = start; query < end; query++) {
        const int64_t b = query / n, i = query % n;
        for (int64_t h = 0; h < H; h++) {
            const element *x = (const element *)o->data + b * o->stride[0] + i * o->stride[1] + h * o->stride[2];
            const element *y =
                (const element *)d_o->data + b * d_o->stride[0] + i * d_o->stride[1] + h * d_o->stride[2];
            v_f32 sum = {0};
            for (int64_t d = 0; d < D; d += V_LANES) sum += v_load(x + d, D - d) * v_load(y + d, D - d);
            ((float *)delta->data)[b * delta->stride[0] + h * delta->stride[1] + i * delta->stride[2]] = v_sum(sum);
        }
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *o = &call->in[0];
    run_elements(call, pool, o->size[0] * o->size[1], o->size[2] * o->size[3], queries_part);
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ATTENTION_DELTA, call, state);
}

const ls_kernel LS_CPU_NAME(attention_delta) = {
    .id = LS_KERNEL_ATTENTION_DELTA, LS_CPU_VARIANT, .prepare = prepare, .run = run};
