/*
 * matmul in vectors of the isa's width: all products on aarch64, f32 on AVX-512, and f32 with few tokens on AVX2.
 * Everything else is computed by oneDNN (common_matmul.c).
 *
 * A panel of B, PANEL columns by CHUNK of K, stays in the first-level cache while it is multiplied by all rows of a
 * part of A, which stays in the second-level cache (Goto, van de Geijn: Anatomy of High-Performance Matrix
 * Multiplication, 2008). Both are first copied as f32 into the order in which they are read. Sums are added to C after
 * each CHUNK of K, counted from k = 0, so that neither the plan nor the threads change a bit. If C is bf16, it is
 * summed in f32 in the workspace and rounded once.
 *
 * K is computed in passes, so that the part of A that is kept has many rows. In each pass, free threads take parts of
 * C, row by row.
 *
 * Workspace: for each thread the kept part of A | a panel of B | sums of a ragged edge; then the f32 sums of a bf16 C.
 */
#include <stdlib.h>

#include "kernel/cpu/cpu_impl.h"
#include "kernel/cpu/matmul_impl.h"

#if defined __aarch64__ || (!LS_CPU_ELEMENT_BF16 && V_LANES >= 8)
#include "kernel/cpu/register_block.h"

enum {
    PANEL = VECTOR_COLUMNS * V_LANES,
    WIDE = V_LANES == 16,               /* AVX-512; else AVX2 or NEON */
    CHUNK = WIDE ? 96 : 256,            /* a panel of this depth fills half of the first-level cache */
    KEPT_FLOATS = (WIDE ? 3 : 1) << 17, /* of A, per thread */
    FETCHED_TO = WIDE ? 2 : 3,          /* prefetch locality: the second-level cache, or the first */
    FEWEST_ROWS = 128,                  /* oneDNN is faster with fewer rows, columns or depth */
    FEWEST_COLUMNS = 512,
    LEAST_DEPTH = 128,
    FEW_TOKENS = 512,  /* on AVX2 oneDNN is faster if both M and K are larger, */
    MOST_DEPTH = 8192, /* or if K is larger than this */
    PARTS_PER_THREAD = 4,
    LINE_ELEMENTS = 64 / sizeof(element), /* elements of a cache line */
    /*
     * Approximate costs in quarters of a cycle: to copy an element of A or of B, and to add a sum to an element of C
     * once more.
     */
    A_COST = 3,
    B_COST = 3,
    C_COST = 8,
};

typedef struct vectors_plan {
    ls_cpu_product of;
    int threads;
    int64_t depth;         /* of a pass; 0: oneDNN computes the product */
    int64_t rows, columns; /* of a part of C. The last pass and the last part may be smaller */
    size_t a_bytes, thread_bytes, sums_bytes;
} vectors_plan;

typedef struct vectors_state {
    vectors_plan plan;
    void *other;    /* state of common_matmul.c, if oneDNN computes the product */
    int64_t kept[]; /* by thread: first row of the part of A that it keeps, or -1 */
} vectors_state;

/* --- the plan ----------------------------------------------------------------------------------------------------- */

static double cost_of(const vectors_plan *p) {
    const double M = (double)p->of.M, N = (double)p->of.N, K = (double)p->of.K;
    const double passes = (double)ls_ceil_div(p->of.K, p->depth), rows = (double)ls_ceil_div(p->of.M, p->rows);
    return A_COST * M * K * p->threads + B_COST * N * K * rows + C_COST * M * N * (passes - 1);
}

static void choose_parts(vectors_plan *p) {
    const int64_t parts = p->threads > 1 ? (int64_t)p->threads * PARTS_PER_THREAD : 1;
    const int64_t panels = ls_ceil_div(p->of.N, PANEL);
    double best = 0;
    for (int64_t n = 1; n <= ls_ceil_div(p->of.K, CHUNK); n++) {
        vectors_plan q = *p;
        q.depth = ls_cpu_even_step(p->of.K, n, CHUNK);
        const int64_t most = ls_max(VECTOR_ROWS, KEPT_FLOATS / q.depth / VECTOR_ROWS * VECTOR_ROWS);
        const int64_t row_parts = ls_max(ls_ceil_div(p->of.M, most), ls_ceil_div(parts, panels));
        q.rows = ls_cpu_even_step(p->of.M, row_parts, VECTOR_ROWS);
        q.columns = ls_cpu_even_step(p->of.N, ls_ceil_div(parts, ls_ceil_div(p->of.M, q.rows)), PANEL);
        const double cost = cost_of(&q);
        if (best > 0 && cost >= best) continue;
        best = cost;
        *p = q;
    }
}

/*
 * Whether oneDNN is faster, as measured (docs/performance.md). For aarch64 without SVE, Debian's oneDNN has only plain
 * C.
 */
static bool left_to_onednn(const ls_cpu_product *of) {
#ifdef __aarch64__
    return of->M == 0 || of->N == 0 || of->K == 0;
#else
    if (of->M < FEWEST_ROWS || of->N < FEWEST_COLUMNS || of->K < LEAST_DEPTH) return true;
    return !WIDE && (ls_min(of->M, of->K) > FEW_TOKENS || of->K > MOST_DEPTH);
#endif
}

static vectors_plan make_plan(const ls_kernel_call *call) {
    vectors_plan p = {.of = ls_cpu_product_of(call), .threads = (int)ls_max(1, call->threads)};
    if (left_to_onednn(&p.of)) return p;
    choose_parts(&p);
    p.a_bytes = sizeof(float) * (size_t)(p.rows * p.depth);
    p.thread_bytes = p.a_bytes + sizeof(float) * PANEL * (CHUNK + VECTOR_ROWS);
    p.sums_bytes = p.of.out == LS_BF16 ? sizeof(float) * (size_t)(p.of.M * p.of.N) : 0;
    return p;
}

static bool planned(const vectors_plan *p) { return p->depth > 0; }

static size_t workspace(const ls_kernel_call *call) {
    const vectors_plan p = make_plan(call);
    return planned(&p) ? p.thread_bytes * (size_t)p.threads + p.sums_bytes : ls_cpu_matmul_workspace(call);
}

/* --- copies of operands in the order in which register blocks read them ------------------------------------------- */

V_INLINE void copy_as_f32(float *to, const element *from, int64_t n) {
    for (int64_t i = 0; i < n; i += V_LANES) v_store_f32(to + i, v_load(from + i, n - i), n - i);
}

/* Rows of A, contiguous along K, CHUNK of K at a time; missing rows of the last register block are 0. */
static void pack_a_rows(float *to, const element *from, int64_t stride, int64_t rows, int64_t depth) {
    const int64_t padded = (int64_t)ls_round_up((size_t)rows, VECTOR_ROWS);
    for (int64_t i = 0; i < padded; i++) {
        for (int64_t k = 0; k < depth; k += CHUNK) {
            float *row = to + k * padded + i * CHUNK;
            const int64_t n = ls_min(CHUNK, depth - k);
            if (i < rows)
                copy_as_f32(row, from + i * stride + k, n);
            else
                memset(row, 0, sizeof(float) * (size_t)n);
        }
    }
}

/* The same from an A that is contiguous along M: VECTOR_ROWS elements for each k, CHUNK of K at a time. */
static void pack_a_columns(float *to, const element *from, int64_t stride, int64_t rows, int64_t depth) {
    const int64_t padded = (int64_t)ls_round_up((size_t)rows, VECTOR_ROWS);
    for (int64_t k = 0; k < depth; k++, from += stride) {
        float *column = to + k / CHUNK * CHUNK * padded + k % CHUNK * VECTOR_ROWS;
        int64_t i = 0;
        for (; i + VECTOR_ROWS <= rows; i += VECTOR_ROWS) copy_as_f32(column + i * CHUNK, from + i, VECTOR_ROWS);
        if (i == rows) continue;
        memset(column + i * CHUNK, 0, sizeof(float) * VECTOR_ROWS);
        copy_as_f32(column + i * CHUNK, from + i, rows - i);
    }
}

/* A panel of B, contiguous along N: rows of `columns`, a multiple of V_LANES; those from column `there` on are 0. */
static void pack_b_rows(float *to, const element *from, int64_t stride, int64_t columns, int64_t there, int64_t depth) {
    for (int64_t k = 0; k < depth; k++, from += stride)
        for (int64_t j = 0; j < columns; j += V_LANES, to += V_LANES)
            v_store_f32(to, v_load(from + j, there - j), V_LANES);
}

/* The same from a B that is contiguous along K, by transposing squares. */
static void pack_b_columns(float *to, const element *from, int64_t stride, int64_t columns, int64_t there,
                           int64_t depth) {
    for (int64_t j = 0; j < columns; j += V_LANES) {
        for (int64_t k = 0; k < depth; k += V_LANES) {
            const bool whole = there - j >= V_LANES && depth - k >= V_LANES;
            v_f32 m[V_LANES];
#pragma GCC unroll 16
            for (int i = 0; i < V_LANES; i++) {
                const element *at = from + (j + i) * stride + k;
                if (whole)
                    m[i] = v_load(at, V_LANES);
                else
                    m[i] = j + i < there ? v_load(at, depth - k) : v_set(0.0f);
            }
            transpose_square(m);
            const int64_t lines = ls_min(V_LANES, depth - k);
            for (int i = 0; i < lines; i++) v_store_f32(to + (k + i) * columns + j, m[i], V_LANES);
        }
    }
}

/* --- a panel of C ------------------------------------------------------------------------------------------------- */

/* Memory that is needed soon and is prefetched: `rows` rows of `elements` elements, row_step apart. */
typedef struct ahead {
    const element *at;
    int64_t row_step, rows, elements;
} ahead;

/* The product of a part of A, CHUNK of K deep, and a panel of B. */
typedef struct panel {
    const float *a, *b;
    int64_t a_row, a_step;
    int64_t rows, depth;
    float *c;
    int64_t c_row;
    bool add;            /* C += the product, otherwise C = the product */
    const element *bias; /* for each column, or NULL */
    ahead next;          /* the next panel of B */
} panel;

/* Prefetches part i of n. The processor's prefetcher does not predict rows that are so far apart. */
V_INLINE void fetch(const ahead *next, int64_t i, int64_t n) {
    for (int64_t r = next->rows * i / n; r < next->rows * (i + 1) / n; r++)
        for (int64_t j = 0; j < next->elements; j += LINE_ELEMENTS)
            __builtin_prefetch(next->at + r * next->row_step + j, 0, FETCHED_TO);
}

/* The register block from row i on; `vectors` must be a constant where this is inlined. */
V_INLINE void block_of_panel(int vectors, const panel *p, int64_t i) {
    const int64_t rows = ls_min(VECTOR_ROWS, p->rows - i);
    const float *a = p->a + i * CHUNK;
    float *c = p->c + i * p->c_row;
    v_f32 sum[VECTOR_ROWS][VECTOR_COLUMNS];
    for (int64_t r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++) __builtin_prefetch(c + r * p->c_row + j * V_LANES, 1);
    vector_sums(sum, vectors, p->depth, a, p->a_row, p->a_step, p->b, vectors * V_LANES, a + VECTOR_ROWS * CHUNK);
#pragma GCC unroll 8
    for (int r = 0; r < VECTOR_ROWS; r++) {
        if (r == rows) break;
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            float *at = c + r * p->c_row + j * V_LANES;
            if (p->bias) sum[r][j] += v_load(p->bias + j * V_LANES, V_LANES);
            if (p->add) sum[r][j] += v_load_f32(at, V_LANES);
            v_store_f32(at, sum[r][j], V_LANES);
        }
    }
}

V_INLINE void blocks_of_panel(int vectors, const panel *p) {
    const int64_t blocks = ls_ceil_div(p->rows, VECTOR_ROWS);
    for (int64_t i = 0; i < blocks; i++) {
        fetch(&p->next, i, blocks);
        block_of_panel(vectors, p, i * VECTOR_ROWS);
    }
}

/* Each width has its own loop. */
static void panel_product(int vectors, const panel *p) {
    switch (vectors) {
    case 1:
        blocks_of_panel(1, p);
        break;
    case 2:
        blocks_of_panel(2, p);
        break;
#if VECTOR_COLUMNS > 2
    case 3:
        blocks_of_panel(3, p);
        break;
    case 4:
        blocks_of_panel(4, p);
        break;
#endif
    default:
        LS_ASSERT(vectors <= VECTOR_COLUMNS);
    }
}

/*
 * The same if the columns end within a vector: each row of register blocks is computed in block[VECTOR_ROWS][PANEL] and
 * then added to C.
 */
static void ragged_product(const panel *whole, int64_t columns, float *block) {
    panel p = *whole;
    p.c = block, p.c_row = PANEL, p.add = false, p.bias = NULL;
    for (int64_t i = 0; i < whole->rows; i += VECTOR_ROWS, p.a += VECTOR_ROWS * CHUNK) {
        p.rows = ls_min(VECTOR_ROWS, whole->rows - i);
        panel_product((int)ls_ceil_div(columns, V_LANES), &p);
        p.next.rows = 0;
        for (int64_t r = 0; r < p.rows; r++) {
            float *c = whole->c + (i + r) * whole->c_row;
            for (int64_t j = 0; j < columns; j++) {
                float v = block[r * PANEL + j];
                if (whole->bias) v += element_to_f32(whole->bias[j]);
                c[j] = whole->add ? v + c[j] : v;
            }
        }
    }
}

/* --- a part of C -------------------------------------------------------------------------------------------------- */

typedef struct vectors_job {
    const ls_kernel_call *call;
    const vectors_plan *plan;
    float *c; /* the call's C, or its f32 sums in the workspace */
    int64_t c_row;
    int64_t k, depth; /* first k and depth of the pass */
    int64_t *kept;
} vectors_job;

typedef struct part {
    int64_t row, rows, column, columns;
    float *a, *b, *block;
} part;

static void pack_rows_of_a(const vectors_job *job, const part *t) {
    const vectors_plan *p = job->plan;
    const element *a = (const element *)job->call->in[0].data + t->row * p->of.a_row + job->k * p->of.a_column;
    if (p->of.a_column == 1)
        pack_a_rows(t->a, a, p->of.a_row, t->rows, job->depth);
    else
        pack_a_columns(t->a, a, p->of.a_column, t->rows, job->depth);
}

static const element *b_at(const vectors_job *job, int64_t column, int64_t k) {
    const vectors_plan *p = job->plan;
    return (const element *)job->call->in[1].data + column * p->of.b_column + (job->k + k) * p->of.b_row;
}

/*
 * The part of B that is packed after the CHUNK from k on: the next CHUNK of this panel, or the first of the next panel.
 */
static ahead next_of_b(const vectors_job *job, int64_t column, int64_t k) {
    const vectors_plan *p = job->plan;
    k += CHUNK;
    if (k >= job->depth) k = 0, column += PANEL;
    if (column >= p->of.N) return (ahead){.rows = 0};
    const int64_t columns = ls_min(PANEL, p->of.N - column), depth = ls_min(CHUNK, job->depth - k);
    const element *at = b_at(job, column, k);
    return p->of.b_column == 1 ? (ahead){at, p->of.b_row, depth, columns} : (ahead){at, p->of.b_column, columns, depth};
}

/* The product for up to PANEL columns of the part, from its column j on. */
static void panel_of_part(const vectors_job *job, const part *t, int64_t j) {
    const vectors_plan *p = job->plan;
    const int64_t column = t->column + j, columns = ls_min(PANEL, t->columns - j);
    const int64_t padded = (int64_t)ls_round_up((size_t)t->rows, VECTOR_ROWS);
    const int64_t wide = (int64_t)ls_round_up((size_t)columns, V_LANES);
    const bool by_rows = p->of.a_column == 1;
    for (int64_t k = 0; k < job->depth; k += CHUNK) {
        const bool first = job->k + k == 0;
        const panel one = {
            .a = t->a + k * padded,
            .b = t->b,
            .a_row = by_rows ? CHUNK : 1,
            .a_step = by_rows ? 1 : VECTOR_ROWS,
            .rows = t->rows,
            .depth = ls_min(CHUNK, job->depth - k),
            .c = job->c + t->row * job->c_row + column,
            .c_row = job->c_row,
            .add = p->of.accumulate || !first,
            .bias = first && p->of.bias ? (const element *)job->call->in[2].data + column : NULL,
            .next = next_of_b(job, column, k),
        };
        if (p->of.b_column == 1)
            pack_b_rows(t->b, b_at(job, column, k), p->of.b_row, wide, columns, one.depth);
        else
            pack_b_columns(t->b, b_at(job, column, k), p->of.b_column, wide, columns, one.depth);
        if (wide == columns)
            panel_product((int)(wide / V_LANES), &one);
        else
            ragged_product(&one, columns, t->block);
    }
}

static void run_part(void *context, int i, int thread) {
    const vectors_job *job = context;
    const vectors_plan *p = job->plan;
    const int64_t across = ls_ceil_div(p->of.N, p->columns);
    char *mine = (char *)job->call->workspace + p->thread_bytes * (size_t)thread;
    part t = {.row = i / across * p->rows, .column = i % across * p->columns, .a = (void *)mine};
    t.b = (void *)(mine + p->a_bytes);
    t.block = t.b + PANEL * CHUNK;
    t.rows = ls_min(p->rows, p->of.M - t.row);
    t.columns = ls_min(p->columns, p->of.N - t.column);
    if (job->kept[thread] != t.row) pack_rows_of_a(job, &t);
    job->kept[thread] = t.row;
    for (int64_t j = 0; j < t.columns; j += PANEL) panel_of_part(job, &t, j);
}

/* Rows start .. end - 1. */
static void widen_part(const void *context, int i, int64_t start, int64_t end) {
    (void)i;
    const vectors_job *job = context;
    const ls_cpu_product *of = &job->plan->of;
    for (int64_t row = start; row < end; row++) {
        float *to = job->c + row * of->N;
        const element *from = (const element *)job->call->out[0].data + row * of->c_row;
        for (int64_t j = 0; j < of->N; j += V_LANES) v_store_f32(to + j, v_load(from + j, of->N - j), of->N - j);
    }
}

static void round_part(const void *context, int i, int64_t start, int64_t end) {
    (void)i;
    const vectors_job *job = context;
    const ls_cpu_product *of = &job->plan->of;
    for (int64_t row = start; row < end; row++) {
        element *to = (element *)job->call->out[0].data + row * of->c_row;
        const float *from = job->c + row * of->N;
        for (int64_t j = 0; j < of->N; j += V_LANES) v_store(to + j, v_load_f32(from + j, of->N - j), of->N - j);
    }
}

/* Converts between a bf16 C and its f32 sums: before the product, and after it. */
static void convert_c(const vectors_job *job, ls_pool *pool, ls_cpu_body body) {
    const ls_cpu_product *of = &job->plan->of;
    ls_cpu_split(pool, of->M, ls_cpu_parts(of->M, ls_max(1, 16384 / of->N), job->plan->threads), body, job);
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    vectors_state *s = state;
    const vectors_plan *p = &s->plan;
    if (!planned(p)) {
        ls_cpu_matmul_run(call, s->other, pool);
        return;
    }
    vectors_job job = {.call = call, .plan = p, .kept = s->kept, .c = call->out[0].data, .c_row = p->of.c_row};
    const bool apart = p->sums_bytes > 0;
    if (apart) job.c = (void *)((char *)call->workspace + p->thread_bytes * (size_t)p->threads), job.c_row = p->of.N;
    if (apart && p->of.accumulate) convert_c(&job, pool, widen_part);
    for (job.k = 0; job.k < p->of.K; job.k += p->depth) {
        job.depth = ls_min(p->depth, p->of.K - job.k);
        for (int i = 0; i < p->threads; i++) job.kept[i] = -1;
        const int64_t parts = ls_ceil_div(p->of.M, p->rows) * ls_ceil_div(p->of.N, p->columns);
        ls_pool_run(pool, (int)parts, run_part, &job);
    }
    if (apart) convert_c(&job, pool, round_part);
}

/* --- prepare and release ------------------------------------------------------------------------------------------ */

static ls_status prepare(const ls_kernel_call *call, void **state) {
    LS_TRY(ls_kernel_check(LS_KERNEL_MATMUL, LS_CPU_DTYPE, call));
    const vectors_plan plan = make_plan(call);
    vectors_state *s = calloc(1, sizeof *s + sizeof *s->kept * (size_t)plan.threads);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "matmul: no memory for the description of a product");
    s->plan = plan;
    const ls_status status = planned(&s->plan) ? ls_ok() : ls_cpu_matmul_prepare(LS_CPU_DTYPE, call, &s->other);
    if (status.code == LS_OK)
        *state = s;
    else
        free(s);
    return status;
}

static void release(void *state) {
    vectors_state *s = state;
    if (s == NULL) return;
    ls_cpu_matmul_release(s->other);
    free(s);
}

const ls_kernel LS_CPU_NAME(matmul) = {
    .id = LS_KERNEL_MATMUL, LS_CPU_VARIANT, .workspace = workspace, .prepare = prepare, .release = release, .run = run};
#else
static ls_status prepare(const ls_kernel_call *call, void **state) {
    return ls_cpu_matmul_prepare(LS_CPU_DTYPE, call, state);
}

const ls_kernel LS_CPU_NAME(matmul) = {.id = LS_KERNEL_MATMUL,
                                       LS_CPU_VARIANT,
                                       .workspace = ls_cpu_matmul_workspace,
                                       .prepare = prepare,
                                       .release = ls_cpu_matmul_release,
                                       .run = ls_cpu_matmul_run};
#endif
