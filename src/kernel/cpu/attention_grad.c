/*
 * attention_grad: blocked, with recomputed probabilities (Dao et al., FlashAttention and FlashAttention-2).
 *
 *   for each key block of a KV head:                pack K and V; dK = dV = 0
 *     for each of its query heads, each row block of CACHE_ROWS queries that sees some of them:
 *       S = Q K^T   dP = dO V^T   P = 2^(S - lse)   dS = P (dP - delta)
 *       dV += P^T dO   dK += dS^T Q   dQ += dS K             (scale is applied to dK and dQ when they are stored)
 *
 * A task is a pair (batch, KV head) if the number of pairs is a multiple of the threads. Otherwise the key blocks and
 * the row blocks of each pair are divided into as many parts as there are threads, and a task is a key part; in phase f
 * key part i works on query part (i + f) mod parts. No two tasks of a phase write the same dQ, dK or dV, and phases run
 * one after another. So sums have a fixed order, without locks, buffers of partial sums or repeated work. Blocks are
 * assigned to parts back and forth (0 1 1 0 0 1 ...), which balances a causal mask.
 */
#if LS_CPU_ELEMENT_BF16 && defined __AVX512BF16__
#define LS_ATTENTION_PAIRS 1
#endif
#include "kernel/cpu/attention_grad.h"
#if LS_ATTENTION_TILES
#include "kernel/cpu/attention_grad_tiles.h"
#else
#include "kernel/cpu/attention_grad_vectors.h"
#endif

/*
 * Sets f and places its arrays in the workspace at base. Returns the bytes of workspace; base NULL: only counts them.
 */
static size_t backward_carve(backward *f, const ls_kernel_call *call, void *base) {
    const problem p = problem_of(call);
    *f = (backward){.problem = p, .call = call, .qk = form_of(p.D), .v = form_of(p.E)};
    f->row_blocks = ls_ceil_div(p.n, CACHE_ROWS);
    f->keys_each = p.D + p.E <= 128 ? CACHE_KEYS_MOST : CACHE_KEYS;
    if (LS_ATTENTION_TILES)
        f->keys_each = ls_min(f->keys_each, (int64_t)ls_round_up((size_t)ls_max(p.t, 1), KEY_GROUP));
    f->key_blocks = ls_ceil_div(p.t, f->keys_each);
    f->groups = ls_ceil_div(p.t, KEY_GROUP);
    f->parts = p.B * p.Hkv % p.threads == 0 ? 1 : (int)ls_max(1, ls_min(p.threads, f->key_blocks));
    carving c = {base, 0};
    f->group = carve(&c, f->groups, sizeof *f->group);
    f->bounds = carve(&c, p.B * f->row_blocks * p.spans_each, sizeof *f->bounds);
    f->scratch = carve(&c, p.threads, sizeof *f->scratch);
    for (int i = 0; i < p.threads; i++) scratch_carve(base ? &f->scratch[i] : NULL, f, &c);
    return c.used;
}

static const bounds *rows_bounds(const backward *f, int64_t b, int64_t index) {
    return f->bounds + (b * f->row_blocks + index) * f->problem.spans_each;
}

/* The part to which a row block or a key block belongs. */
static int part_of(int64_t index, int parts) {
    const int at = (int)(index % (2 * parts));
    return at < parts ? at : 2 * parts - 1 - at;
}

/* One key block of a KV head and the row blocks of one part. */
static void work_key_block(const backward *f, scratch *s, int64_t b, int64_t kv, int64_t index, int query_part) {
    const problem *p = &f->problem;
    const head_range heads = heads_of(p, kv);
    const int64_t start = index * f->keys_each, keys = ls_min(f->keys_each, p->t - start);
    const int64_t groups_each = f->keys_each / KEY_GROUP, group = index * groups_each;
    bool packed = false;
    for (int64_t i = 0; i < f->row_blocks && heads.count > 0; i++) {
        if (part_of(i, f->parts) != query_part) continue;
        const key_range range =
            key_range_find(rows_bounds(f, b, i), p, f->group, group, ls_min(group + groups_each, f->groups));
        if (range.end == 0) continue;
        if (!packed) pack_keys(f, s, b, kv, start);
        packed = true;
        find_ranges(f, &s->pair, b, i * CACHE_ROWS, group, range.all && range.start == 0 && range.end == groups_each);
        int64_t after = i + 1;
        while (after < f->row_blocks && part_of(after, f->parts) != query_part) after++;
        for (int64_t h = 0; h < heads.count; h++) {
            const bool last = h + 1 == heads.count;
            s->pair.next_query = (last ? after : i) * CACHE_ROWS;
            s->pair.next_head = !last ? heads.first + h + 1 : after < f->row_blocks ? heads.first : -1;
            read_row_sums(f, &s->pair, heads.first + h);
            work_pair(f, s, heads.first + h);
        }
    }
    if (!packed) return;
    add_summed(&f->qk, &f->call->out[OUT_DK], b, kv, start, keys, s->dk, (float)p->params->scale);
    add_summed(&f->v, &f->call->out[OUT_DV], b, kv, start, keys, s->dv, 1);
}

static void run_task(void *context, int index, int thread) {
    const backward *f = context;
    const int key_part = index % f->parts;
    const int64_t pair = index / f->parts;
    products_begin();
    for (int64_t k = 0; k < f->key_blocks; k++) {
        if (part_of(k, f->parts) != key_part) continue;
        work_key_block(f, &f->scratch[thread], pair / f->problem.Hkv, pair % f->problem.Hkv, k,
                       (key_part + f->phase) % f->parts);
    }
    products_end();
}

/* Clears one of `parts` parts of the positions of an output. */
static void clear_rows(const ls_view *view, int64_t part, int64_t parts) {
    const int64_t rows = view->size[0] * view->size[1];
    for (int64_t i = ls_part_start(rows, parts, part); i < ls_part_start(rows, parts, part + 1); i++) {
        for (int64_t h = 0; h < view->size[2]; h++) {
            float *to =
                (float *)view->data + head_offset(view, i / view->size[1], h) + i % view->size[1] * view->stride[1];
            memset(to, 0, sizeof(float) * (size_t)view->size[3]);
        }
    }
}

/* Clears the outputs that the call does not accumulate into, and finds the bounds of the row blocks. */
static void begin_task(void *context, int index, int thread) {
    const backward *f = context;
    const problem *p = &f->problem;
    (void)thread;
    if (!p->params->accumulate_dq) clear_rows(&f->call->out[OUT_DQ], index, p->threads);
    if (!p->params->accumulate_dkv) {
        clear_rows(&f->call->out[OUT_DK], index, p->threads);
        clear_rows(&f->call->out[OUT_DV], index, p->threads);
    }
    for (int64_t i = index; i < p->B * f->row_blocks; i += p->threads) {
        const int64_t b = i / f->row_blocks, query = i % f->row_blocks * CACHE_ROWS;
        bounds_find(f->bounds + i * p->spans_each, p->spans_each, spans_of(p, b, query),
                    ls_min(CACHE_ROWS, p->n - query));
    }
}

static size_t backward_workspace(const ls_kernel_call *call) {
    backward f;
    return backward_carve(&f, call, NULL);
}

static ls_status backward_prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION_GRAD, LS_CPU_DTYPE, call);
}

static void backward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    backward f;
    backward_carve(&f, call, call->workspace);
    key_groups_find(f.group, f.problem.kpos, f.problem.t);
    ls_pool_run(pool, f.problem.threads, begin_task, &f);
    for (f.phase = 0; f.phase < f.parts; f.phase++) {
        ls_pool_run(pool, (int)(f.problem.B * f.problem.Hkv) * f.parts, run_task, &f);
    }
}

extern const ls_kernel LS_CPU_NAME(attention_grad);
#if LS_ATTENTION_PAIRS && !LS_ATTENTION_TILES
extern const ls_kernel ls_cpu_avx512_bf16_attention_grad, LS_CPU_NAME(attention_grad_pairs);

static size_t choice_workspace(const ls_kernel_call *call) {
    return pairs_are_fast() ? backward_workspace(call) : ls_cpu_avx512_bf16_attention_grad.workspace(call);
}

static void choice_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (pairs_are_fast() ? backward_run : ls_cpu_avx512_bf16_attention_grad.run)(call, state, pool);
}

const ls_kernel LS_CPU_NAME(attention_grad) = {
    .id = LS_KERNEL_ATTENTION_GRAD,
    LS_CPU_VARIANT,
    .workspace = choice_workspace,
    .prepare = backward_prepare,
    .run = choice_run,
};

/* The variant with pairs on any processor, for tests and benchmarks. */
const ls_kernel LS_CPU_NAME(attention_grad_pairs) = {
#else
const ls_kernel LS_CPU_NAME(attention_grad) = {
#endif
    .id = LS_KERNEL_ATTENTION_GRAD,
    LS_CPU_VARIANT,
    .workspace = backward_workspace,
    .prepare = backward_prepare,
    .run = backward_run,
};
