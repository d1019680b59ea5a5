/*
 * attention, forward: blocked, with a running softmax (Dao, Fu, Ermon, Rudra, Re: FlashAttention, 2022; Milakov,
 * Gimelshein: online normalizer calculation for softmax, 2018). Nothing of size queries x keys is stored.
 *
 *   item: up to ITEM_BLOCKS row blocks of one KV head    (a row block: CACHE_ROWS queries of one query head)
 *     for each key block that any of them sees:          (CACHE_KEYS keys) pack K transposed and V, once for the item
 *       for each row block:  S = Q K^T;  m, l, P = softmax so far;  O = decay O + P V
 *     o, lse from O, m, l; merged into the outputs if params say so
 *
 * Row blocks and key blocks are cache blocks: what is packed for them stays in a cache while it is used. They are
 * computed in register blocks, whose sums stay in registers (attention_gemm.h). Threads take the heaviest items first;
 * which thread takes which item changes no bit. S is in units of log2: P = 2^(S - m). Calls with only a few queries are
 * computed by attention_few.h.
 */
#if LS_CPU_ELEMENT_BF16 && defined __AVX512BF16__
#define LS_ATTENTION_PAIRS 1
#endif
#include "kernel/cpu/attention_few.h"
#include "kernel/cpu/attention_forward.h"
#if LS_ATTENTION_TILES
#include "kernel/cpu/attention_strips.h"
#else
#include "kernel/cpu/attention_rows.h"
#endif

static void scratch_carve(scratch *s, const forward *f, carving *c) {
    const int64_t w = f->problem.spans_each;
    for (int i = 0; i < ITEM_BLOCKS; i++) {
        row_block rows = {
            .q = carve(c, CACHE_ROWS * f->q_units, sizeof(float)),
            .o = carve(c, CACHE_ROWS * f->columns.width, sizeof(float)),
            .m = carve(c, CACHE_ROWS, sizeof(float)),
            .l = carve(c, CACHE_ROWS * V_LANES, sizeof(float)),
            .whole = carve(c, w, sizeof(bounds)),
            .block = carve(c, Q_BLOCKS * w, sizeof(bounds)),
        };
        if (s) s->rows[i] = rows;
    }
    float *k = carve(c, CACHE_KEYS * row_units(f->problem.D), sizeof(float));
    float *v = carve(c, CACHE_KEYS / UNIT_ELEMENTS * f->columns.width, sizeof(float));
    float *scores = carve(c, LS_ATTENTION_TILES ? 2 * PANEL * PANEL : CACHE_ROWS * S_ROW, sizeof(float));
    float *p = LS_ATTENTION_PAIRS
                   ? carve(c, (LS_ATTENTION_TILES ? MICRO_ROWS : CACHE_ROWS) * CACHE_KEYS / 2, sizeof(float))
                   : scores;
    float *sum = carve(c, LS_ATTENTION_TILES ? PANEL * V_LANES : 0, sizeof(float));
    int32_t *kpos = carve(c, CACHE_KEYS, sizeof(int32_t));
    if (s) s->k = k, s->v = v, s->s = scores, s->p = p, s->sum = sum, s->kpos = kpos;
}

/*
 * Sets f and places its arrays in the workspace at base. Returns the bytes of workspace; base NULL: only counts them.
 */
static size_t forward_carve(forward *f, const ls_kernel_call *call, void *base) {
    const problem p = problem_of(call);
    *f = (forward){.problem = p,
                   .call = call,
                   .columns = columns_of(LS_ATTENTION_TILES ? (int64_t)ls_round_up((size_t)p.E, PANEL) : p.E)};
    f->q_units = (int64_t)ls_round_up((size_t)row_units(p.D), V_LANES);
    f->row_blocks = ls_ceil_div(p.n, CACHE_ROWS);
    f->groups = ls_ceil_div(p.t, KEY_GROUP);
    const int64_t blocks = p.B * p.Hq * f->row_blocks;
    f->blocks_each = p.threads == 1 ? ITEM_BLOCKS : (int)ls_max(1, ls_min(ITEM_BLOCKS, blocks / (6 * p.threads)));
    for (int64_t kv = 0; kv < p.Hkv; kv++) {
        f->items += (int)(p.B * ls_ceil_div(heads_of(&p, kv).count * f->row_blocks, f->blocks_each));
    }
    carving c = {base, 0};
    f->item = carve(&c, f->items, sizeof *f->item);
    f->weight = carve(&c, f->items, sizeof *f->weight);
    f->order = carve(&c, f->items, sizeof *f->order);
    f->group = carve(&c, f->groups, sizeof *f->group);
    f->bounds = carve(&c, p.spans_each, sizeof *f->bounds);
    f->scratch = carve(&c, p.threads, sizeof *f->scratch);
    for (int i = 0; i < p.threads; i++) scratch_carve(base ? &f->scratch[i] : NULL, f, &c);
    return c.used;
}

/* Sorts by falling weight, then by index (Shell sort). */
static void order_by_weight(int32_t *order, const int64_t *weight, int count) {
    for (int i = 0; i < count; i++) order[i] = i;
    int gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3) {
        for (int i = gap; i < count; i++) {
            const int32_t moved = order[i];
            int at = i;
            for (; at >= gap; at -= gap) {
                const int32_t other = order[at - gap];
                if (weight[other] > weight[moved] || (weight[other] == weight[moved] && other < moved)) break;
                order[at] = other;
            }
            order[at] = moved;
        }
    }
}

/* Number of key groups that a row block may see. */
static int64_t rows_weight(const forward *f, int64_t b, int64_t index) {
    const problem *p = &f->problem;
    const int64_t query = index * CACHE_ROWS;
    bounds_find(f->bounds, p->spans_each, spans_of(p, b, query), ls_min(CACHE_ROWS, p->n - query));
    int64_t weight = 0;
    for (int64_t g = 0; g < f->groups; g++) {
        weight += bounds_see(f->bounds, p->spans_each, f->group[g].first, f->group[g].last) != SEES_NONE;
    }
    return weight;
}

static void plan_items(forward *f) {
    const problem *p = &f->problem;
    key_groups_find(f->group, p->kpos, p->t);
    int at = 0;
    for (int64_t b = 0; b < p->B; b++) {
        for (int64_t kv = 0; kv < p->Hkv; kv++) {
            const int64_t heads = heads_of(p, kv).count, blocks = heads * f->row_blocks;
            int64_t known = -1, weight = 0;
            for (int64_t i = 0; i < blocks; i += f->blocks_each) {
                const int64_t count = ls_min(f->blocks_each, blocks - i);
                f->item[at] = (item){(int32_t)b, (int32_t)kv, (int32_t)i, (int32_t)count};
                f->weight[at] = 0;
                for (int64_t j = i; j < i + count; j++) {
                    if (j / heads != known) weight = rows_weight(f, b, known = j / heads);
                    f->weight[at] += weight;
                }
                at++;
            }
        }
    }
    LS_ASSERT(at == f->items);
    order_by_weight(f->order, f->weight, f->items);
}

static void row_block_begin(const forward *f, row_block *rows, const item *it, int index) {
    const problem *p = &f->problem;
    const head_range heads = heads_of(p, it->kv);
    const ls_view *q = &f->call->in[IN_Q];
    LS_ASSERT(heads.count > 0); /* plan_items makes no items for a KV head that no query head reads */
    rows->query = (it->first + index) / heads.count * CACHE_ROWS;
    rows->queries = ls_min(CACHE_ROWS, p->n - rows->query);
    rows->head = heads.first + (it->first + index) % heads.count;
    const element *from = rows_of(q, it->b, rows->head, rows->query);
    pack_rows(rows->q, from, q->stride[1], rows->queries, CACHE_ROWS, p->D, f->q_units, packed_factor(p->params));
    memset(rows->o, 0, sizeof(float) * (size_t)(CACHE_ROWS * f->columns.width));
    memset(rows->l, 0, sizeof(float) * CACHE_ROWS * V_LANES);
    for (int i = 0; i < CACHE_ROWS; i++) rows->m[i] = -INFINITY;
    const int32_t *spans = spans_of(p, it->b, rows->query);
    bounds_find(rows->whole, p->spans_each, spans, rows->queries);
    for (int64_t i = 0; i < rows->queries; i += MICRO_ROWS) {
        bounds_find(rows->block + i / MICRO_ROWS * p->spans_each, p->spans_each, spans + i * 2 * p->spans_each,
                    ls_min(MICRO_ROWS, rows->queries - i));
    }
}

static void row_block_end(const forward *f, const row_block *rows, int64_t b) {
    for (int64_t i = 0; i < rows->queries; i++) {
        const float *sum = rows->l + i * V_LANES;
        row_end(f->call, b, rows->head, rows->query + i, rows->o + i * f->columns.width, rows->m[i],
                v_sum_lanes(unit_load(sum)));
    }
}

/* Packs K and V of the groups `seen` of the key block that begins at first_group. */
static void pack_keys(const forward *f, scratch *s, const item *it, int64_t first_group, const key_range *seen) {
    const problem *p = &f->problem;
    const ls_view *k = &f->call->in[IN_K], *v = &f->call->in[IN_V];
    const int64_t key = first_group * KEY_GROUP, keys = ls_min(CACHE_KEYS, p->t - key);
    const int64_t from = seen->start * KEY_GROUP, to = seen->end * KEY_GROUP;
    const element *k_rows = rows_of(k, it->b, it->kv, key), *v_rows = rows_of(v, it->b, it->kv, key);
    pack_transposed(s->k + from * row_units(p->D), k_rows + from * k->stride[1], k->stride[1], keys - from, to - from,
                    p->D);
    pack_columns(s->v, v_rows, v->stride[1], keys, CACHE_KEYS, from, to, p->E, &f->columns);
    key_positions(s->kpos, p, key, CACHE_KEYS);
}

/* A key block and the part of it that an item sees. */
typedef struct key_block {
    int64_t group;          /* first group of keys */
    bool seen[ITEM_BLOCKS]; /* by row block: it sees some of these keys */
    key_range any;          /* groups that any of the row blocks sees */
} key_block;

/* The first key block from a group on that an item sees; if there is none, its group is beyond the last. */
static key_block next_key_block(const forward *f, const scratch *s, const item *it, int64_t group) {
    key_block keys = {.group = group};
    for (; keys.group < f->groups; keys.group += CACHE_GROUPS) {
        const int64_t end = ls_min(keys.group + CACHE_GROUPS, f->groups);
        keys.any = (key_range){CACHE_GROUPS, 0, false};
        for (int i = 0; i < it->count; i++) {
            const key_range range = key_range_find(s->rows[i].whole, &f->problem, f->group, keys.group, end);
            keys.seen[i] = range.end != 0;
            if (range.end == 0) continue;
            keys.any.start = range.start < keys.any.start ? range.start : keys.any.start;
            keys.any.end = range.end > keys.any.end ? range.end : keys.any.end;
        }
        if (keys.any.end != 0) break;
    }
    return keys;
}

/* Sets the rows of K and V of the next key block that are prefetched during the work on this one. */
static void rows_ahead(const forward *f, scratch *s, const item *it, const key_block *next) {
    s->next_k.rows = s->next_v.rows = 0;
    if (next->group >= f->groups) return;
    const int64_t start = (next->group + next->any.start) * KEY_GROUP;
    const int64_t end = ls_min(f->problem.t, (next->group + next->any.end) * KEY_GROUP);
    s->next_k = ahead_of(&f->call->in[IN_K], it->b, it->kv, start, end - start);
    s->next_v = ahead_of(&f->call->in[IN_V], it->b, it->kv, start, end - start);
}

static void run_item(void *context, int index, int thread) {
    const forward *f = context;
    const problem *p = &f->problem;
    const item *it = &f->item[f->order[index]];
    scratch *s = &f->scratch[thread];
    if (p->params->merge && f->weight[f->order[index]] == 0) return; /* the item sees no key, so the outputs stay */
    products_begin();
    for (int i = 0; i < it->count; i++) row_block_begin(f, &s->rows[i], it, i);
    key_block now = next_key_block(f, s, it, 0);
    while (now.group < f->groups) {
        const key_block next = next_key_block(f, s, it, now.group + CACHE_GROUPS);
        pack_keys(f, s, it, now.group, &now.any);
        rows_ahead(f, s, it, &next);
        for (int i = 0; i < it->count; i++)
            if (now.seen[i]) attend(f, s, &s->rows[i], it->b, now.group);
        now = next;
    }
    products_end();
    for (int i = 0; i < it->count; i++) row_block_end(f, &s->rows[i], it->b);
}

static size_t forward_workspace(const ls_kernel_call *call) {
    forward f;
    if (is_few(call)) return few_workspace(call);
    return forward_carve(&f, call, NULL);
}

static ls_status forward_prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ATTENTION, LS_CPU_DTYPE, call);
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    forward f;
    if (is_few(call)) {
        few_run(call, pool);
        return;
    }
    forward_carve(&f, call, call->workspace);
    plan_items(&f);
    ls_pool_run(pool, f.items, run_item, &f);
}

extern const ls_kernel LS_CPU_NAME(attention);
#if LS_ATTENTION_PAIRS && !LS_ATTENTION_TILES
extern const ls_kernel ls_cpu_avx512_bf16_attention, LS_CPU_NAME(attention_pairs);

static size_t choice_workspace(const ls_kernel_call *call) {
    return pairs_are_fast() ? forward_workspace(call) : ls_cpu_avx512_bf16_attention.workspace(call);
}

static void choice_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (pairs_are_fast() ? forward_run : ls_cpu_avx512_bf16_attention.run)(call, state, pool);
}

const ls_kernel LS_CPU_NAME(attention) = {
    .id = LS_KERNEL_ATTENTION,
    LS_CPU_VARIANT,
    .workspace = choice_workspace,
    .prepare = forward_prepare,
    .run = choice_run,
};

/* The variant with pairs on any processor, for tests and benchmarks. */
const ls_kernel LS_CPU_NAME(attention_pairs) = {
#else
const ls_kernel LS_CPU_NAME(attention) = {
#endif
    .id = LS_KERNEL_ATTENTION,
    LS_CPU_VARIANT,
    .workspace = forward_workspace,
    .prepare = forward_prepare,
    .run = forward_run,
};
