/* scale_rows: each row times the row of a table that its id names; 0 if the id is LS_ID_ELSEWHERE. */
#include "kernel/cpu/cpu_impl.h"

static void scale_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t E = last_size(&call->out[0]);
    const int32_t *ids = call->in[0].data;
    for (int64_t i = start; i < end; i++) {
        const element *x = (const element *)call->in[1].data + i * E;
        element *y = (element *)call->out[0].data + i * E;
        LS_ASSERT(ids[i] >= LS_ID_ELSEWHERE && ids[i] < call->in[2].size[0]);
        if (ids[i] < 0) {
            memset(y, 0, sizeof(element) * (size_t)E);
            continue;
        }
        const element *by = (const element *)call->in[2].data + ids[i] * E;
        for (int64_t e = 0; e < E; e += V_LANES) v_store(y + e, v_load(x + e, E - e) * v_load(by + e, E - e), E - e);
    }
}

static void scale_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->in[0]), last_size(&call->out[0]), scale_part);
}

static ls_status prepare_scale(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_SCALE_ROWS, call, state);
}

const ls_kernel LS_CPU_NAME(scale_rows) = {
    .id = LS_KERNEL_SCALE_ROWS, LS_CPU_VARIANT, .prepare = prepare_scale, .run = scale_run};
