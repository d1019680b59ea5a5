/* column_sum: the gradient of a bias. Threads take columns, so the order of a column's sum never changes. */
#include "kernel/cpu/columns.h"

static void blocks_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t rows = row_count(&call->in[0]), N = last_size(&call->in[0]);
    for (int64_t block = start; block < end; block++) {
        const int64_t c = block * COLUMN_BLOCK;
        add_rows((float *)call->out[0].data + c, (const element *)call->in[0].data + c, N, NULL, rows,
                 ls_min(COLUMN_BLOCK, N - c));
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const int64_t blocks = ls_ceil_div(last_size(&call->in[0]), COLUMN_BLOCK);
    ls_cpu_split(pool, blocks, ls_cpu_parts(blocks, 1, call->threads), blocks_part, call);
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    return check_only("column_sum", call, state);
}

const ls_kernel LS_CPU_NAME(column_sum) = {
    .name = "column_sum", .dtype = LS_CPU_DTYPE, .isa = LS_CPU_LEVEL, .prepare = prepare, .run = run};
