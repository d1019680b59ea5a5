/* rotate: rotates the halves a, b of each head: (a, b) -> (a*cos - b*sin, b*cos + a*sin); the inverse has -sin. */
#include "kernel/cpu/cpu_impl.h"

static void rows_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_rotate_params *params = call->params;
    const ls_view *x = &call->in[0];
    const int64_t D = x->size[x->ndim - 1], H = x->size[x->ndim - 2], half = D / 2;
    const float sign = params->inverse ? -1.0f : 1.0f;
    for (int64_t row = start; row < end; row++) {
        const float *cosine = (const float *)call->in[1].data + row * D, *sine = cosine + half;
        for (int64_t h = 0; h < H; h++) {
            const element *from = (const element *)x->data + (row * H + h) * D;
            element *to = (element *)call->out[0].data + (row * H + h) * D;
            for (int64_t d = 0; d < half; d += V_LANES) {
                const int64_t n = half - d;
                const v_f32 a = v_load(from + d, n), b = v_load(from + half + d, n);
                const v_f32 c = v_load_f32(cosine + d, n), s = v_load_f32(sine + d, n) * sign;
                v_store(to + d, a * c - b * s, n);
                v_store(to + half + d, b * c + a * s, n);
            }
        }
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *x = &call->in[0];
    const int64_t row = x->size[x->ndim - 1] * x->size[x->ndim - 2];
    run_elements(call, pool, ls_view_elements(x) / row, row, rows_part);
}

static ls_status prepare(const ls_kernel_call *call, void **state) { return check_only(LS_KERNEL_ROTATE, call, state); }

const ls_kernel LS_CPU_NAME(rotate) = {.id = LS_KERNEL_ROTATE, LS_CPU_VARIANT, .prepare = prepare, .run = run};
