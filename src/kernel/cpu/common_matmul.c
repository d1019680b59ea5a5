/*
 * matmul by oneDNN: C is cut into one part per thread, by rows, or by columns if there are few rows; oneDNN computes
 * each part on its thread. Where oneDNN does not support bf16 (below AVX-512), operands are first converted to f32 in
 * the workspace.
 *
 * Workspace: scratch memory of each part | f32 copies of A, B, bias and C if they are converted, each rounded up to 64
 * bytes.
 */
#include <stdlib.h>

#include "kernel/cpu/matmul_impl.h"
#include "kernel/cpu/split.h"
#include "kernel/kernel_impl.h"

enum { LINE = 64, ROW_UNIT = 32, COLUMN_UNIT = 64 };
enum { OPERAND_A, OPERAND_B, OPERAND_BIAS, OPERAND_C, OPERANDS };

typedef struct matmul_plan {
    ls_cpu_product whole;
    bool by_columns, widened;
    int parts;
    int64_t step;                   /* rows or columns of a part; the last has fewer */
    size_t scratch;                 /* bytes of each part */
    int64_t elements[OPERANDS];     /* of operands that are widened; 0 for the others */
    int64_t c_row;                  /* elements between rows of C, before it is widened */
    size_t at[OPERANDS], workspace; /* offsets of the f32 copies, and total size, in bytes */
} matmul_plan;

typedef struct matmul {
    matmul_plan plan;
    ls_onednn *parts[]; /* plan.parts */
} matmul;

ls_cpu_product ls_cpu_product_of(const ls_kernel_call *call) {
    const ls_matmul_params *params = call->params;
    const ls_view a = ls_view_rows(call->in[0]), b = ls_view_rows(call->in[1]);
    const bool ta = params->transpose_a, tb = params->transpose_b;
    ls_cpu_product p = {
        .M = a.size[ta],
        .K = a.size[!ta],
        .N = b.size[!tb],
        .a_row = ta ? 1 : a.size[1],
        .a_column = ta ? a.size[1] : 1,
        .b_row = tb ? 1 : b.size[1],
        .b_column = tb ? b.size[1] : 1,
        .in = a.dtype,
        .out = call->out[0].dtype,
        .bias = call->n_in > 2,
        .accumulate = params->accumulate,
    };
    p.c_row = ls_view_is_dense(&call->out[0]) ? p.N : call->out[0].stride[0];
    return p;
}

static ls_cpu_product part_product(const matmul_plan *plan, int part) {
    ls_cpu_product p = plan->whole;
    int64_t *const cut = plan->by_columns ? &p.N : &p.M;
    *cut = ls_min(plan->step, *cut - part * plan->step);
    return p;
}

static void cut(matmul_plan *plan, int threads) {
    const ls_cpu_product *p = &plan->whole;
    plan->by_columns = p->M < (int64_t)threads * ROW_UNIT && p->N > p->M;
    const int64_t size = plan->by_columns ? p->N : p->M;
    const size_t unit = plan->by_columns ? COLUMN_UNIT : ROW_UNIT;
    plan->step = (int64_t)ls_round_up((size_t)ls_ceil_div(size, threads), unit);
    plan->parts = plan->step > 0 ? (int)ls_ceil_div(size, plan->step) : 0;
    if (p->M == 0 || p->N == 0) plan->parts = 0;
}

static void widen(matmul_plan *plan) {
    ls_cpu_product *p = &plan->whole;
    plan->widened = true;
    plan->c_row = p->c_row;
    if (p->out == LS_BF16) p->c_row = p->N;
    plan->elements[OPERAND_A] = p->M * p->K;
    plan->elements[OPERAND_B] = p->K * p->N;
    plan->elements[OPERAND_BIAS] = p->bias ? p->N : 0;
    plan->elements[OPERAND_C] = p->out == LS_BF16 ? p->M * p->N : 0;
    p->in = p->out = LS_F32;
}

/* The larger one of the first and the last part's scratch: only the last part may have another size. */
static ls_status find_scratch(matmul_plan *plan) {
    size_t first = 0, last = 0;
    const ls_cpu_product a = part_product(plan, 0), b = part_product(plan, plan->parts - 1);
    LS_TRY(ls_onednn_scratch(&a, &first));
    LS_TRY(ls_onednn_scratch(&b, &last));
    plan->scratch = ls_round_up(first > last ? first : last, LINE);
    return ls_ok();
}

static ls_status make_plan(const ls_kernel_call *call, matmul_plan *plan) {
    *plan = (matmul_plan){.whole = ls_cpu_product_of(call)};
    cut(plan, (int)ls_max(1, call->threads));
    if (plan->parts > 0 && find_scratch(plan).code != LS_OK) {
        if (plan->whole.in == LS_BF16) widen(plan);
        LS_TRY(find_scratch(plan));
    }
    plan->workspace = plan->scratch * (size_t)plan->parts;
    for (int i = 0; i < OPERANDS; i++) {
        plan->at[i] = plan->workspace;
        plan->workspace += ls_round_up(sizeof(float) * (size_t)plan->elements[i], LINE);
    }
    return ls_ok();
}

size_t ls_cpu_matmul_workspace(const ls_kernel_call *call) {
    matmul_plan plan;
    return make_plan(call, &plan).code == LS_OK ? plan.workspace : 0; /* prepare returns the error */
}

void ls_cpu_matmul_release(void *state) {
    matmul *m = state;
    if (!m) return;
    for (int i = 0; i < m->plan.parts; i++) ls_onednn_destroy(m->parts[i]);
    free(m);
}

ls_status ls_cpu_matmul_prepare(ls_dtype dtype, const ls_kernel_call *call, void **state) {
    matmul_plan plan;
    LS_TRY(ls_kernel_check(LS_KERNEL_MATMUL, dtype, call));
    LS_TRY(make_plan(call, &plan));
    matmul *m = calloc(1, sizeof *m + sizeof *m->parts * (size_t)plan.parts);
    if (!m) return ls_error(LS_NO_MEMORY, "matmul: no memory for %d parts", plan.parts);
    m->plan = plan;
    for (int i = 0; i < plan.parts; i++) {
        const ls_cpu_product product = part_product(&plan, i);
        const ls_status status = ls_onednn_create(&product, &m->parts[i]);
        if (status.code != LS_OK) {
            ls_cpu_matmul_release(m);
            return status;
        }
    }
    *state = m;
    return ls_ok();
}

/* One run, on the call's arrays or their f32 copies. */
typedef struct matmul_job {
    const matmul *matmul;
    char *workspace;
    const void *original[OPERANDS]; /* the call's arrays */
    ls_onednn_data data;
} matmul_job;

static void run_part(void *context, int i, int thread) {
    (void)thread;
    const matmul_job *job = context;
    const matmul_plan *plan = &job->matmul->plan;
    const ls_cpu_product *p = &plan->whole;
    const int64_t row = plan->by_columns ? 0 : i * plan->step, column = plan->by_columns ? i * plan->step : 0;
    const int64_t in = (int64_t)ls_dtype_bytes(p->in), out = (int64_t)ls_dtype_bytes(p->out);
    ls_onednn_data data = job->data;
    data.a = (const char *)data.a + row * p->a_row * in;
    data.b = (const char *)data.b + column * p->b_column * in;
    data.bias = p->bias ? (const char *)data.bias + column * in : NULL;
    data.c = (char *)data.c + (row * p->c_row + column) * out;
    data.scratch = job->workspace + plan->scratch * (size_t)i;
    ls_onednn_run(job->matmul->parts[i], &data);
}

static float *widened(const matmul_job *job, int operand) {
    return (float *)(void *)(job->workspace + job->matmul->plan.at[operand]);
}

typedef struct one_operand {
    const matmul_job *job;
    int operand;
} one_operand;

static void widen_operand_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const one_operand *o = context;
    const ls_bf16 *from = o->job->original[o->operand];
    float *to = widened(o->job, o->operand);
    for (int64_t i = start; i < end; i++) to[i] = ls_bf16_to_f32(from[i]);
}

/* Rows start .. end - 1 of C. */
static void widen_c_rows(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const matmul_job *job = context;
    const matmul_plan *plan = &job->matmul->plan;
    const ls_bf16 *from = (const ls_bf16 *)job->original[OPERAND_C] + start * plan->c_row;
    float *to = widened(job, OPERAND_C) + start * plan->whole.N;
    for (int64_t row = start; row < end; row++, from += plan->c_row, to += plan->whole.N)
        for (int64_t i = 0; i < plan->whole.N; i++) to[i] = ls_bf16_to_f32(from[i]);
}

static void narrow_c_rows(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const matmul_job *job = context;
    const matmul_plan *plan = &job->matmul->plan;
    ls_bf16 *to = (ls_bf16 *)(uintptr_t)job->original[OPERAND_C] + start * plan->c_row;
    const float *from = widened(job, OPERAND_C) + start * plan->whole.N;
    for (int64_t row = start; row < end; row++, to += plan->c_row, from += plan->whole.N)
        for (int64_t i = 0; i < plan->whole.N; i++) to[i] = ls_bf16_from_f32(from[i]);
}

/* Between a bf16 C and its f32 copy. */
static void convert_c(const matmul_job *job, ls_pool *pool, int threads, ls_cpu_body rows) {
    const ls_cpu_product *p = &job->matmul->plan.whole;
    if (job->matmul->plan.elements[OPERAND_C] == 0) return;
    ls_cpu_split(pool, p->M, ls_cpu_parts(p->M, ls_max(1, 16384 / p->N), threads), rows, job);
}

static void widen_operands(matmul_job *job, ls_pool *pool, int threads) {
    const matmul_plan *plan = &job->matmul->plan;
    for (int i = 0; i < OPERANDS; i++) {
        if (plan->elements[i] == 0 || i == OPERAND_C) continue;
        const one_operand o = {job, i};
        ls_cpu_split(pool, plan->elements[i], ls_cpu_parts(plan->elements[i], 16384, threads), widen_operand_part, &o);
    }
    if (plan->whole.accumulate) convert_c(job, pool, threads, widen_c_rows);
    job->data.a = widened(job, OPERAND_A);
    job->data.b = widened(job, OPERAND_B);
    job->data.bias = widened(job, OPERAND_BIAS);
    if (plan->elements[OPERAND_C] > 0) job->data.c = widened(job, OPERAND_C);
}

void ls_cpu_matmul_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    const matmul *m = state;
    const void *bias = call->n_in > 2 ? call->in[2].data : NULL;
    matmul_job job = {.matmul = m,
                      .workspace = call->workspace,
                      .original = {call->in[0].data, call->in[1].data, bias, call->out[0].data},
                      .data = {call->in[0].data, call->in[1].data, bias, call->out[0].data, NULL}};
    if (m->plan.widened) widen_operands(&job, pool, call->threads);
    ls_pool_run(pool, m->plan.parts, run_part, &job);
    convert_c(&job, pool, call->threads, narrow_c_rows);
}
