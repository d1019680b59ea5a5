/* decode; matmul_blocks: decodes some rows or columns of the matrix at a time, and multiplies them by matmul. */
#include "kernel/blocks.h"
#include "kernel/ref/ref_impl.h"

enum { PART = 64 }; /* columns of C; a multiple of the numbers of a block */

typedef struct sizes {
    int64_t columns, depth; /* columns of C; terms of a sum */
    bool by_rows;           /* a column of C is a row of the matrix */
} sizes;

static sizes sizes_of(const ls_kernel_call *call) {
    const ls_matmul_params *params = call->params;
    const ls_view B = ls_view_rows(call->in[1]);
    const int64_t across = B.size[1] * ls_dtype_values(B.dtype);
    return params->transpose_b ? (sizes){B.size[0], across, true} : (sizes){across, B.size[0], false};
}

static size_t workspace(const ls_kernel_call *call) { return sizeof(real) * (size_t)(PART * sizes_of(call).depth); }

static ls_status prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_MATMUL_BLOCKS, LS_REAL, call);
}

static void decode_row(const ls_view *B, int64_t row, int64_t first, int64_t n, real *to) {
    const int64_t values = ls_dtype_values(B->dtype);
    const char *from = (const char *)B->data + (row * B->size[1] + first / values) * (int64_t)ls_dtype_bytes(B->dtype);
    float numbers[LS_BLOCK_MOST_VALUES];
    for (int64_t at = 0; at < n; at += values, from += ls_dtype_bytes(B->dtype)) {
        ls_blocks_decode(B->dtype, from, 1, numbers);
        for (int64_t i = 0; i < values; i++) to[at + i] = (real)numbers[i];
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const sizes s = sizes_of(call);
    const ls_view B = ls_view_rows(call->in[1]);
    real *decoded = call->workspace;
    for (int64_t first = 0, n; first < s.columns; first += n) {
        n = ls_min(PART, s.columns - first);
        for (int64_t i = 0; i < (s.by_rows ? n : s.depth); i++) {
            if (s.by_rows)
                decode_row(&B, first + i, 0, s.depth, decoded + i * s.depth);
            else
                decode_row(&B, i, first, n, decoded + i * n);
        }
        ls_kernel_call part = *call;
        part.in[1] = ls_view_dense(decoded, LS_REAL, 2, s.by_rows ? (int64_t[]){n, s.depth} : (int64_t[]){s.depth, n});
        if (call->n_in > 2) part.in[2] = ls_view_slice(call->in[2], 0, first, n);
        part.out[0] = ls_view_slice(ls_view_rows(call->out[0]), 1, first, n);
        REF(matmul).run(&part, NULL, pool);
    }
}

const ls_kernel REF(matmul_blocks) = {
    .id = LS_KERNEL_MATMUL_BLOCKS, .dtype = LS_REAL, .workspace = workspace, .prepare = prepare, .run = run};

static ls_status prepare_decode(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_DECODE, LS_REAL, call);
}

static void run_decode(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const ls_view blocks =
        ls_view_dense(call->in[0].data, call->in[0].dtype, 2, (int64_t[]){1, ls_view_elements(&call->in[0])});
    decode_row(&blocks, 0, 0, ls_view_elements(&call->out[0]), call->out[0].data);
}

const ls_kernel REF(decode) = {.id = LS_KERNEL_DECODE, .dtype = LS_REAL, .prepare = prepare_decode, .run = run_decode};
