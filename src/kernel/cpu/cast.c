/* cast: from `element` to f32, f64 or bf16. */
#include "kernel/cpu/cpu_impl.h"

static void to_f32(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *x = call->in[0].data;
    float *out = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) v_store_f32(out + i, v_load(x + i, end - i), end - i);
}

static void to_bf16(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *x = call->in[0].data;
    ls_bf16 *out = call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) v_store_bf16(out + i, v_load(x + i, end - i), end - i);
}

static void to_f64(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const element *x = call->in[0].data;
    double *out = call->out[0].data;
    for (int64_t i = start; i < end; i++) out[i] = (double)element_to_f32(x[i]);
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_cpu_body to[LS_DTYPES] = {[LS_F32] = to_f32, [LS_F64] = to_f64, [LS_BF16] = to_bf16};
    run_elements(call, pool, ls_view_elements(&call->in[0]), 1, to[call->out[0].dtype]);
}

static ls_status prepare(const ls_kernel_call *call, void **state) { return check_only("cast", call, state); }

const ls_kernel LS_CPU_NAME(cast) = {
    .name = "cast", .dtype = LS_CPU_DTYPE, .isa = LS_CPU_LEVEL, .prepare = prepare, .run = run};
