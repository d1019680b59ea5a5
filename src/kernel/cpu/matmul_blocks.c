/*
 * matmul_blocks: a product with a matrix in blocks, some columns of C at a time: all threads decode the part of the
 * matrix that these columns need into the workspace, and matmul multiplies with it. So each block is decoded once, and
 * its numbers are still in the cache when they are multiplied. The bits are those of matmul with the decoded matrix, as
 * far as these do not depend on the number of columns.
 *
 * Workspace: the decoded part | that of matmul.
 */
#include <stdlib.h>

#include "kernel/cpu/blocks_decode.h"
#include "kernel/cpu/matmul_impl.h"

enum {
    PART_BYTES = 4 << 20, /* decoded, about */
    UNIT = 512,           /* columns: matmul is slower with fewer */
};

extern const ls_kernel LS_CPU_NAME(matmul);

/* --- the plan ----------------------------------------------------------------------------------------------------- */

typedef struct blocks_plan {
    int64_t columns, step; /* columns of C; columns of a part (the last part may have fewer) */
    int64_t depth;
    bool by_rows; /* a column of C is a row of the matrix; else one of its columns */
    size_t part_bytes, workspace;
} blocks_plan;

typedef struct blocks_state {
    blocks_plan plan;
    void *whole, *last; /* states of matmul for a part, and for the last one */
} blocks_state;

/* The call of matmul for columns first .. first + n - 1 of C. */
static ls_kernel_call part_of(const ls_kernel_call *call, const blocks_plan *p, int64_t first, int64_t n) {
    ls_kernel_call part = *call;
    const int64_t by_rows[] = {n, p->depth}, by_columns[] = {p->depth, n};
    part.in[1] = ls_view_dense(call->workspace, LS_CPU_DTYPE, 2, p->by_rows ? by_rows : by_columns);
    if (call->n_in > 2) part.in[2] = ls_view_slice(call->in[2], 0, first, n);
    part.out[0] = ls_view_slice(ls_view_rows(call->out[0]), 1, first, n);
    part.workspace = call->workspace != NULL ? (char *)call->workspace + p->part_bytes : NULL;
    return part;
}

static int64_t last_of(const blocks_plan *p) { return p->columns - (ls_ceil_div(p->columns, p->step) - 1) * p->step; }

static blocks_plan make_plan(const ls_kernel_call *call) {
    const ls_matmul_params *params = call->params;
    const ls_view B = ls_view_rows(call->in[1]);
    const int64_t across = B.size[1] * ls_dtype_values(B.dtype);
    blocks_plan p = {.by_rows = params->transpose_b};
    p.columns = p.by_rows ? B.size[0] : across;
    p.depth = p.by_rows ? across : B.size[0];
    const int64_t row = ls_max(1, p.depth) * (int64_t)sizeof(element);
    p.step = ls_max(UNIT, PART_BYTES / row / UNIT * UNIT);
    p.step = ls_max(1, ls_min(p.step, p.columns));
    p.part_bytes = ls_round_up((size_t)(p.step * row), 64);
    if (p.columns == 0) return p;
    const ls_kernel_call whole = part_of(call, &p, 0, p.step), last = part_of(call, &p, 0, last_of(&p));
    const size_t a = LS_CPU_NAME(matmul).workspace(&whole), b = LS_CPU_NAME(matmul).workspace(&last);
    p.workspace = p.part_bytes + (a > b ? a : b);
    return p;
}

static size_t workspace(const ls_kernel_call *call) { return make_plan(call).workspace; }

/* --- running ------------------------------------------------------------------------------------------------------ */

typedef struct decoding {
    const ls_kernel_call *call;
    const blocks_plan *plan;
    int64_t first, n; /* columns of C */
} decoding;

/* Rows start .. end - 1 of what is decoded. */
static void decode_rows(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const decoding *d = context;
    const ls_view B = ls_view_rows(d->call->in[1]);
    const int64_t values = ls_dtype_values(B.dtype), bytes = (int64_t)ls_dtype_bytes(B.dtype);
    const int64_t row = d->plan->by_rows ? d->first : 0, column = d->plan->by_rows ? 0 : d->first / values;
    const int64_t blocks = d->plan->by_rows ? B.size[1] : d->n / values;
    const block_decoder decode = block_decoders[B.dtype];
    element *to = (element *)d->call->workspace + start * blocks * values;
    for (int64_t i = start; i < end; i++) {
        const unsigned char *from = (const unsigned char *)B.data + ((row + i) * B.size[1] + column) * bytes;
        for (int64_t k = 0; k < blocks; k++, from += bytes, to += values) decode(from, to);
    }
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    const blocks_state *s = state;
    const blocks_plan *p = &s->plan;
    decoding d = {.call = call, .plan = p};
    for (; d.first < p->columns; d.first += p->step) {
        d.n = ls_min(p->step, p->columns - d.first);
        const int64_t rows = p->by_rows ? d.n : p->depth;
        ls_cpu_split(pool, rows, ls_cpu_parts(rows, 16, call->threads), decode_rows, &d);
        const ls_kernel_call part = part_of(call, p, d.first, d.n);
        LS_CPU_NAME(matmul).run(&part, d.n == p->step ? s->whole : s->last, pool);
    }
}

static void release(void *state) {
    blocks_state *s = state;
    if (s == NULL) return;
    if (s->whole != NULL) LS_CPU_NAME(matmul).release(s->whole);
    if (s->last != NULL) LS_CPU_NAME(matmul).release(s->last);
    free(s);
}

static ls_status prepare_parts(const ls_kernel_call *call, blocks_state *s) {
    const blocks_plan *p = &s->plan;
    if (p->columns == 0) return ls_ok();
    const ls_kernel_call whole = part_of(call, p, 0, p->step), last = part_of(call, p, 0, last_of(p));
    LS_TRY(LS_CPU_NAME(matmul).prepare(&whole, &s->whole));
    return last_of(p) < p->step ? LS_CPU_NAME(matmul).prepare(&last, &s->last) : ls_ok();
}

static ls_status prepare(const ls_kernel_call *call, void **state) {
    LS_TRY(ls_kernel_check(LS_KERNEL_MATMUL_BLOCKS, LS_CPU_DTYPE, call));
    blocks_state *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "matmul_blocks: no memory for the description of a product");
    s->plan = make_plan(call);
    const ls_status status = prepare_parts(call, s);
    if (status.code == LS_OK)
        *state = s;
    else
        release(s);
    return status;
}

const ls_kernel LS_CPU_NAME(matmul_blocks) = {.id = LS_KERNEL_MATMUL_BLOCKS,
                                              LS_CPU_VARIANT,
                                              .workspace = workspace,
                                              .prepare = prepare,
                                              .release = release,
                                              .run = run};
