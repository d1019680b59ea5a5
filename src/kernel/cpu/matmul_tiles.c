/*
 * matmul in bf16 on AMX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18). A part of
 * B that fills half of the second-level cache is kept while it is multiplied by panels of A (Goto, van de Geijn:
 * Anatomy of High-Performance Matrix Multiplication, 2008). Operands are first copied into tiles (matmul_pack.h),
 * except rows of A that can be read where they lie. Each sum runs along K in order; it starts from C, or C is added at
 * the end for bf16, a bias and ragged edges. So the threads change no bit.
 *
 * K is computed in passes. In each pass, free threads take parts of C, column by column, and each thread copies the
 * part of B that it needs into its own workspace. Between passes sums are kept in C itself, or in the workspace if C is
 * bf16, has a bias or ragged edges; in that case only some rows are computed at a time, so that the workspace stays
 * small. Products of few rows are left to oneDNN, because tiles would be mostly empty.
 *
 * Workspace: for each thread the kept part of B | panels of A | a block of sums; then the sums between passes.
 */
#include "kernel/cpu/matmul_impl.h"
#include "kernel/cpu/matmul_pack.h"
#include "kernel/cpu/tiles.h"

#include <stdlib.h>

enum {
    SIDE = PACK_LINES,
    GROUP = 2 * SIDE, /* rows of A that are copied together */
    FEWEST_ROWS = 32, /* with fewer rows oneDNN computes the product */
    LEAST_DEPTH = 512,
    MOST_DEPTH = 2048,
    KEPT_BYTES = 5 << 18,    /* of B, per thread */
    WAITING_BYTES = 2 << 20, /* of sums between passes */
    PARTS_PER_THREAD = 4,
    PASS_COST = 300, /* to load and store 1,024 sums once more, in the unit of pack_operand.cost */
};

typedef struct tiles_plan {
    ls_cpu_product of;
    pack_operand a, b;
    bool wide;   /* C is f32 */
    bool direct; /* sums of whole blocks are computed in C itself */
    int threads;
    int64_t depth;         /* of a pass; 0: oneDNN computes the product */
    int64_t rows, columns; /* of a part of C; the last ones may be smaller, as may the last chunk */
    int64_t chunk;         /* rows computed at a time, a multiple of `rows` */
    size_t b_bytes, a_bytes, thread_bytes, waiting_bytes;
} tiles_plan;

typedef struct tiles_state {
    tiles_plan plan;
    void *other;    /* state of common_matmul.c, if oneDNN computes the product */
    int64_t kept[]; /* by thread, as tiles_job.kept */
} tiles_state;

/* --- the plan ----------------------------------------------------------------------------------------------------- */

/*
 * The approximate cycles of a plan besides the products: A is copied again for each part of columns, B by each thread
 * that has a part of its columns, and sums are stored and loaded between passes.
 */
static double cost_of(const tiles_plan *p) {
    const int64_t columns = ls_ceil_div(p->of.N, p->columns), rows = ls_ceil_div(p->of.M, p->rows);
    const double M = (double)p->of.M, N = (double)p->of.N, K = (double)p->of.K;
    const double passes = (double)ls_ceil_div(p->of.K, p->depth);
    const double a = M * K * p->a.cost * (double)columns;
    const double b = N * K * p->b.cost * (double)ls_min(rows, p->threads);
    return a + b + M * N * (passes - 1) * PASS_COST;
}

/*
 * Replaces *p by the cheapest plan with this depth, if it costs less than *best. The kept part of B is at most
 * KEPT_BYTES.
 */
static void try_depth(tiles_plan *p, int64_t depth, double *best) {
    const int64_t parts = p->threads > 1 ? (int64_t)p->threads * PARTS_PER_THREAD : 1;
    const int64_t most = ls_max(SIDE, KEPT_BYTES / 2 / depth / SIDE * SIDE), fewest = ls_ceil_div(p->of.N, most);
    for (int64_t n = fewest; n <= ls_max(fewest, parts); n++) {
        tiles_plan q = *p;
        q.depth = depth;
        q.columns = ls_cpu_even_step(p->of.N, n, SIDE);
        q.rows = ls_cpu_even_step(p->of.M, ls_ceil_div(parts, ls_ceil_div(p->of.N, q.columns)), GROUP);
        const double cost = cost_of(&q);
        if (*best > 0 && cost >= *best) continue;
        *best = cost;
        *p = q;
    }
}

static void set_sizes(tiles_plan *p) {
    const bool waits = p->depth < p->of.K && !(p->direct && p->of.M % SIDE == 0 && p->of.N % SIDE == 0);
    const int64_t sums_row = 4 * (int64_t)ls_round_up((size_t)p->of.N, SIDE); /* bytes */
    p->chunk = (int64_t)ls_round_up((size_t)p->of.M, (size_t)p->rows);
    if (waits) p->chunk = ls_min(p->chunk, ls_max(1, WAITING_BYTES / sums_row / p->rows) * p->rows);
    p->b_bytes = sizeof(ls_bf16) * (size_t)(p->columns * p->depth);
    p->a_bytes = sizeof(ls_bf16) * (size_t)(GROUP * p->depth);
    p->thread_bytes = p->b_bytes + p->a_bytes + sizeof(float) * SIDE * SIDE;
    p->waiting_bytes = waits ? (size_t)(p->chunk * sums_row) : 0;
}

static tiles_plan make_plan(const ls_kernel_call *call) {
    const ls_cpu_product of = ls_cpu_product_of(call);
    tiles_plan p = {
        .of = of,
        .a = pack_operand_a(of.a_row, of.a_column),
        .b = pack_operand_b(of.b_row, of.b_column),
        .wide = of.out == LS_F32,
        .threads = (int)ls_max(1, call->threads),
    };
    if (p.of.M < FEWEST_ROWS || p.of.N == 0 || p.of.K == 0) return p;
    p.direct = p.wide && !p.of.bias;
    double best = 0;
    for (int64_t n = ls_ceil_div(p.of.K, MOST_DEPTH); n <= ls_ceil_div(p.of.K, LEAST_DEPTH); n++)
        try_depth(&p, ls_cpu_even_step(p.of.K, n, PACK_DEPTH), &best);
    LS_ASSERT(p.rows > 0);
    set_sizes(&p);
    return p;
}

static bool planned(const tiles_plan *p) { return p->depth > 0; }

static size_t workspace(const ls_kernel_call *call) {
    const tiles_plan p = make_plan(call);
    return planned(&p) ? p.thread_bytes * (size_t)p.threads + p.waiting_bytes : ls_cpu_matmul_workspace(call);
}

/* --- one block of C ----------------------------------------------------------------------------------------------- */

/* A panel of A: copied into tiles, or 32 rows in place. */
typedef struct panel_a {
    const ls_bf16 *at;
    int64_t row, step; /* distance of rows, and of pairs of tiles, in elements */
} panel_a;

/*
 * c[32,32] (+)= panel of A · panel of B, both of `blocks` blocks; c_row in elements. B is loaded from the second-level
 * cache past the first, which is left to the panel of A. The intrinsics need tile numbers as literals. Not inlined, so
 * that the loop gets the registers.
 */
static __attribute__((noinline)) void block_product(const panel_a *panel, const ls_bf16 *b, int64_t blocks, float *c,
                                                    int64_t c_row, bool add) {
    const int64_t a_bytes = panel->row * 2, a_step = panel->step, c_bytes = c_row * 4;
    const ls_bf16 *a = panel->at, *a_lower = a + 16 * panel->row;
    float *const lower = c + 16 * c_row;
    __asm__ volatile("" ::: "memory"); /* the compiler does not know that the intrinsics read memory */
    if (add) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + 16, c_bytes);
        _tile_loadd(2, lower, c_bytes);
        _tile_loadd(3, lower + 16, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < blocks; k++, a += a_step, a_lower += a_step, b += PACK_BLOCK) {
        _tile_loadd(4, a, a_bytes);
        tiles_apart();
        _tile_stream_loadd(6, b, 64);
        tiles_apart();
        _tile_stream_loadd(7, b + PACK_TILE, 64);
        tiles_apart();
        _tile_dpbf16ps(0, 4, 6);
        tiles_apart();
        _tile_loadd(5, a_lower, a_bytes);
        tiles_apart();
        _tile_dpbf16ps(1, 4, 7);
        tiles_apart();
        _tile_dpbf16ps(2, 5, 6);
        tiles_apart();
        _tile_dpbf16ps(3, 5, 7);
        tiles_apart();
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 16, c_bytes);
    _tile_stored(2, lower, c_bytes);
    _tile_stored(3, lower + 16, c_bytes);
}

/* The place of a block's sums: C[rows,columns] from (row, column) on. */
typedef struct place {
    int64_t row, column, rows, columns;
} place;

static void finish_row(const ls_kernel_call *call, const tiles_plan *p, const float *sums, int64_t at, int64_t column,
                       int64_t columns) {
    for (int64_t i = 0; i < columns; i += V_LANES) {
        const int64_t n = columns - i;
        v_f32 v = v_load_f32(sums + i, V_LANES);
        if (p->of.bias) v += v_load_bf16((const ls_bf16 *)call->in[2].data + column + i, n);
        if (p->wide) {
            float *c = (float *)call->out[0].data + at + i;
            v_store_f32(c, p->of.accumulate ? v + v_load_f32(c, n) : v, n);
        } else {
            ls_bf16 *c = (ls_bf16 *)call->out[0].data + at + i;
            v_store_bf16(c, p->of.accumulate ? v + v_load_bf16(c, n) : v, n);
        }
    }
}

static void finish_block(const ls_kernel_call *call, const tiles_plan *p, const float *sums, const place *to) {
    const bool plain = !p->wide && !p->of.bias && !p->of.accumulate && to->columns == SIDE;
    for (int64_t r = 0; r < to->rows; r++, sums += SIDE) {
        const int64_t at = (to->row + r) * p->of.c_row + to->column;
        if (plain) {
            const __m512bh v = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(sums + 16), _mm512_loadu_ps(sums));
            memcpy((ls_bf16 *)call->out[0].data + at, &v, sizeof v);
        } else {
            finish_row(call, p, sums, at, to->column, to->columns);
        }
    }
}

/* --- a part of C -------------------------------------------------------------------------------------------------- */

/* One pass over rows first .. first+n-1 of C. */
typedef struct tiles_job {
    const ls_kernel_call *call;
    const tiles_plan *plan;
    int64_t k, depth; /* first k and depth of the pass */
    int64_t first, n; /* rows */
    int64_t *kept;    /* by thread: first column of the part of B that it keeps, or -1 */
} tiles_job;

/* A part of C, and the workspace of the thread that computes it. */
typedef struct part {
    int64_t row, rows, column, columns;
    ls_bf16 *b, *a;
    float *block, *waiting;
} part;

static void row_of_blocks(const tiles_job *job, const part *t, int64_t i, const panel_a *a) {
    const tiles_plan *p = job->plan;
    const int64_t padded = (int64_t)ls_round_up((size_t)job->depth, PACK_DEPTH), blocks = padded / PACK_DEPTH;
    const int64_t across = (int64_t)ls_round_up((size_t)p->of.N, SIDE);
    const bool first = job->k == 0, last = job->k + job->depth == p->of.K;
    for (int64_t j = 0; j < t->columns; j += SIDE) {
        const place to = {t->row + i, t->column + j, ls_min(SIDE, t->rows - i), ls_min(SIDE, t->columns - j)};
        const ls_bf16 *b = t->b + j * padded;
        if (p->direct && to.rows == SIDE && to.columns == SIDE) {
            float *c = (float *)job->call->out[0].data + to.row * p->of.c_row + to.column;
            block_product(a, b, blocks, c, p->of.c_row, p->of.accumulate || !first);
            continue;
        }
        float *sums = first && last ? t->block : t->waiting + (to.row - job->first) * across + to.column * SIDE;
        block_product(a, b, blocks, sums, SIDE, !first);
        if (last) finish_block(job->call, p, sums, &to);
    }
}

static void rows_of_part(const tiles_job *job, const part *t) {
    const tiles_plan *p = job->plan;
    const int64_t padded = (int64_t)ls_round_up((size_t)job->depth, PACK_DEPTH);
    const ls_bf16 *a = (const ls_bf16 *)job->call->in[0].data + t->row * p->a.line_step + job->k * p->a.depth_step;
    for (int64_t i = 0; i < t->rows; i += GROUP) {
        const int64_t rows = ls_min(GROUP, t->rows - i);
        const bool in_place = p->a.by_lines && rows % SIDE == 0 && padded == job->depth;
        if (!in_place) pack_panels(t->a, a + i * p->a.line_step, &p->a, rows, job->depth);
        for (int64_t g = 0; g < rows; g += SIDE) {
            const panel_a panel = in_place ? (panel_a){a + (i + g) * p->a.line_step, p->a.line_step, PACK_DEPTH}
                                           : (panel_a){t->a + g * padded, PACK_DEPTH, PACK_BLOCK};
            row_of_blocks(job, t, i + g, &panel);
        }
    }
}

static void run_part(void *context, int i, int thread) {
    const tiles_job *job = context;
    const tiles_plan *p = job->plan;
    const int64_t parts = ls_ceil_div(job->n, p->rows);
    char *mine = (char *)job->call->workspace + p->thread_bytes * (size_t)thread;
    part t = {.row = job->first + i % parts * p->rows,
              .column = i / parts * p->columns,
              .b = (void *)mine,
              .a = (void *)(mine + p->b_bytes),
              .block = (void *)(mine + p->b_bytes + p->a_bytes),
              .waiting = (void *)((char *)job->call->workspace + p->thread_bytes * (size_t)p->threads)};
    t.rows = ls_min(p->rows, job->first + job->n - t.row);
    t.columns = ls_min(p->columns, p->of.N - t.column);
    if (job->kept[thread] != t.column) {
        const ls_bf16 *b = job->call->in[1].data;
        b += t.column * p->b.line_step + job->k * p->b.depth_step;
        pack_panels(t.b, b, &p->b, t.columns, job->depth);
        job->kept[thread] = t.column;
    }
    tiles_begin();
    rows_of_part(job, &t);
    tiles_end();
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    tiles_state *s = state;
    const tiles_plan *p = &s->plan;
    if (!planned(p)) {
        ls_cpu_matmul_run(call, s->other, pool);
        return;
    }
    tiles_job job = {.call = call, .plan = p, .kept = s->kept};
    for (job.first = 0; job.first < p->of.M; job.first += p->chunk) {
        job.n = ls_min(p->chunk, p->of.M - job.first);
        for (job.k = 0; job.k < p->of.K; job.k += p->depth) {
            job.depth = ls_min(p->depth, p->of.K - job.k);
            for (int i = 0; i < p->threads; i++) job.kept[i] = -1;
            const int64_t parts = ls_ceil_div(job.n, p->rows) * ls_ceil_div(p->of.N, p->columns);
            ls_pool_run(pool, (int)parts, run_part, &job);
        }
    }
}

/* --- prepare and release ------------------------------------------------------------------------------------------ */

static ls_status prepare(const ls_kernel_call *call, void **state) {
    LS_TRY(ls_kernel_check(LS_KERNEL_MATMUL, LS_BF16, call));
    const tiles_plan plan = make_plan(call);
    tiles_state *s = calloc(1, sizeof *s + sizeof *s->kept * (size_t)plan.threads);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "matmul: no memory for the description of a product");
    s->plan = plan;
    const ls_status status = planned(&s->plan) ? ls_ok() : ls_cpu_matmul_prepare(LS_BF16, call, &s->other);
    if (status.code == LS_OK)
        *state = s;
    else
        free(s);
    return status;
}

static void release(void *state) {
    tiles_state *s = state;
    if (s == NULL) return;
    ls_cpu_matmul_release(s->other);
    free(s);
}

const ls_kernel LS_CPU_NAME(matmul) = {
    .id = LS_KERNEL_MATMUL, LS_CPU_VARIANT, .workspace = workspace, .prepare = prepare, .release = release, .run = run};
