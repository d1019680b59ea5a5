/*
 * attention, forward: blocked, with a running softmax (Dao, Fu, Ermon, Rudra, Re: FlashAttention, 2022;
 * Milakov, Gimelshein: online normalizer calculation for softmax, 2018). Nothing of size queries x keys is
 * stored.
 *
 *   item: up to ITEM_TILES row tiles of one KV head            (a row tile: Q_TILE queries of one query head)
 *     for each tile of K_TILE keys that any of them sees:      pack K transposed and V, once for the item
 *       for each row tile:  S = Q K^T;  m, l, P = softmax so far;  O = decay O + P V
 *     o, lse from O, m, l, merged with what is there when asked
 *
 * Items are dealt to threads heaviest first; which thread takes which changes no bit. S is kept in units of
 * log2.
 */
#include <math.h>

#if LS_CPU_ELEMENT_BF16 && defined __AVX512BF16__
#define LS_ATTENTION_PAIRS 1
#endif
#include "kernel/cpu/attention_merge.h"
#include "kernel/cpu/attention_pack.h"
#include "kernel/cpu/attention_problem.h"
#include "kernel/kernel_impl.h"

#define Q_TILE 96
#define Q_BLOCKS (Q_TILE / MICRO_ROWS)
#define K_TILE (128 * UNIT_ELEMENTS)
#define TILE_GROUPS (K_TILE / KEY_GROUP)
#define ITEM_TILES 8
/* Rows that pass through scores, softmax and output together: with tiles, whose scores the first-level cache shall hold. */
#define STRIP (LS_ATTENTION_TILES ? MICRO_ROWS : Q_TILE)
/* Not a power of two with tiles: a store of 16 rows must not hit few cache sets. */
#define S_ROW (K_TILE + (LS_ATTENTION_TILES ? V_LANES : 0))
#define P_ROW (LS_ATTENTION_PAIRS ? K_TILE : S_ROW)

enum { OUT_O, OUT_LSE };

/*
 * Row tiles first..first+count-1 of a KV head: tile i is query tile i / heads of its i % heads-th query
 * head.
 */
typedef struct item {
    int32_t b, kv, first, count;
} item;

/* A row tile at work. */
typedef struct row_tile {
    int64_t query; /* first query, how many */
    int64_t queries;
    int64_t head;
    float *q;      /* [Q_TILE][q_units] */
    float *o;      /* [Q_TILE][width] */
    float *m, *l;  /* [Q_TILE] largest score so far and sum of 2^(score - m) */
    bounds *whole; /* [w] over all its queries */
    bounds *block; /* [Q_BLOCKS][w] */
} row_tile;

typedef struct scratch {
    row_tile tile[ITEM_TILES];
    float *k, *v;  /* K_TILE keys, packed */
    float *s;      /* [STRIP][S_ROW] */
    float *p;      /* the same in units; s itself when they are floats */
    int32_t *kpos; /* [K_TILE] */
    key_range range[Q_BLOCKS];
    float decay[Q_TILE];
} scratch;

typedef struct forward {
    problem problem;
    const ls_kernel_call *call;
    columns columns;
    int64_t q_units; /* of a packed row of Q */
    int64_t query_tiles, groups;
    int tiles_each; /* row tiles of an item, at most */
    int items;
    item *item;
    int64_t *weight;
    int32_t *order;
    key_group *group;
    bounds *bounds;   /* [w] for planning */
    scratch *scratch; /* one per thread */
} forward;

static void scratch_carve(scratch *s, const forward *f, carving *c) {
    const int64_t w = f->problem.spans_each;
    for (int i = 0; i < ITEM_TILES; i++) {
        row_tile tile = {
            .q = carve(c, Q_TILE * f->q_units, sizeof(float)),
            .o = carve(c, Q_TILE * f->columns.width, sizeof(float)),
            .m = carve(c, Q_TILE, sizeof(float)),
            .l = carve(c, Q_TILE, sizeof(float)),
            .whole = carve(c, w, sizeof(bounds)),
            .block = carve(c, Q_BLOCKS * w, sizeof(bounds)),
        };
        if (s) s->tile[i] = tile;
    }
    float *k = carve(c, K_TILE * row_units(f->problem.D), sizeof(float));
    float *v = carve(c, K_TILE / UNIT_ELEMENTS * f->columns.width, sizeof(float));
    float *scores = carve(c, STRIP * S_ROW, sizeof(float));
    float *p = LS_ATTENTION_PAIRS ? carve(c, STRIP * K_TILE / 2, sizeof(float)) : scores;
    int32_t *kpos = carve(c, K_TILE, sizeof(int32_t));
    if (s) s->k = k, s->v = v, s->s = scores, s->p = p, s->kpos = kpos;
}

/* Sets all of f but what is computed from data. Returns the bytes of workspace; base NULL only counts. */
static size_t forward_carve(forward *f, const ls_kernel_call *call, void *base) {
    const problem p = problem_of(call);
    *f = (forward){.problem = p, .call = call, .columns = columns_of(p.D)};
    f->q_units = (int64_t)ls_round_up((size_t)row_units(p.D), V_LANES);
    f->query_tiles = ls_ceil_div(p.n, Q_TILE);
    f->groups = ls_ceil_div(p.t, KEY_GROUP);
    const int64_t tiles = p.B * p.Hq * f->query_tiles;
    f->tiles_each = p.threads == 1 ? ITEM_TILES : (int)ls_max(1, ls_min(ITEM_TILES, tiles / (6 * p.threads)));
    for (int64_t kv = 0; kv < p.Hkv; kv++) {
        f->items += (int)(p.B * ls_ceil_div(heads_of(&p, kv).count * f->query_tiles, f->tiles_each));
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

/* Puts the heaviest first, equal ones in their order (Shell's method on weight, index). */
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

/* Key groups that a query tile may see. */
static int64_t tile_weight(const forward *f, int64_t b, int64_t tile) {
    const problem *p = &f->problem;
    const int64_t query = tile * Q_TILE;
    bounds_find(f->bounds, p->spans_each, spans_of(p, b, query), ls_min(Q_TILE, p->n - query));
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
            const int64_t heads = heads_of(p, kv).count, tiles = heads * f->query_tiles;
            int64_t known = -1, weight = 0;
            for (int64_t i = 0; i < tiles; i += f->tiles_each) {
                const int64_t count = ls_min(f->tiles_each, tiles - i);
                f->item[at] = (item){(int32_t)b, (int32_t)kv, (int32_t)i, (int32_t)count};
                f->weight[at] = 0;
                for (int64_t j = i; j < i + count; j++) {
                    if (j / heads != known) weight = tile_weight(f, b, known = j / heads);
                    f->weight[at] += weight;
                }
                at++;
            }
        }
    }
    LS_ASSERT(at == f->items);
    order_by_weight(f->order, f->weight, f->items);
}

static void row_tile_begin(const forward *f, row_tile *tile, const item *it, int index) {
    const problem *p = &f->problem;
    const head_range heads = heads_of(p, it->kv);
    const ls_view *q = &f->call->in[IN_Q];
    LS_ASSERT(heads.count > 0); /* items are made of heads that read this one */
    tile->query = (it->first + index) / heads.count * Q_TILE;
    tile->queries = ls_min(Q_TILE, p->n - tile->query);
    tile->head = heads.first + (it->first + index) % heads.count;
    const element *rows =
        (const element *)q->data + head_offset(q, it->b, tile->head) + tile->query * q->stride[1];
    pack_rows(tile->q, rows, q->stride[1], tile->queries, Q_TILE, p->D, f->q_units, p->params->scale < 0);
    memset(tile->o, 0, sizeof(float) * (size_t)(Q_TILE * f->columns.width));
    for (int i = 0; i < Q_TILE; i++) tile->m[i] = -INFINITY, tile->l[i] = 0;
    const int32_t *spans = spans_of(p, it->b, tile->query);
    bounds_find(tile->whole, p->spans_each, spans, tile->queries);
    for (int64_t i = 0; i < tile->queries; i += MICRO_ROWS) {
        bounds_find(tile->block + i / MICRO_ROWS * p->spans_each, p->spans_each,
                    spans + i * 2 * p->spans_each, ls_min(MICRO_ROWS, tile->queries - i));
    }
}

/* Scores of a row that are not visible become -inf. */
static void mask_row(float *s, const int32_t *kpos, int64_t keys, const int32_t *spans, int spans_each) {
    for (int64_t j = 0; j < keys; j += V_LANES) {
        const v_i32 visible = keys_visible(kpos + j, spans, spans_each);
        unit_store(s + j, v_select(visible, unit_load(s + j), v_set(-INFINITY)));
    }
}

/* P = 2^(scale s - shift) of a row, as the products read it; returns its sum. */
V_INLINE float exponentials(const float *s, float *p, int64_t keys, float scale, float shift) {
    v_f32 sum = v_set(0.0f), sum2 = sum;
    for (int64_t j = 0; j < keys; j += 2 * V_LANES) {
        const v_f32 a = unit_exp2(unit_load(s + j) * scale - shift);
        const v_f32 b = unit_exp2(unit_load(s + j + V_LANES) * scale - shift);
        sum += a;
        sum2 += b;
#if LS_ATTENTION_PAIRS
        unit_store(p + j / 2, round_in_order(a, b));
#else
        unit_store(p + j, a);
        unit_store(p + j + V_LANES, b);
#endif
    }
    return v_sum_lanes(sum + sum2);
}

/*
 * One row: takes its raw scores s[keys] into m and l, leaves P in p, and what O must be multiplied by in
 * decay. Scores somewhat above m do no harm, for f32 and bf16 reach to 2^127: where p is not s, a row goes by the m
 * that it has, and m is found anew only when that sum is too large (or no number).
 */
V_INLINE void softmax_row(const float *s, float *p, int64_t keys, float scale, float *m, float *l,
                          float *decay) {
    const float before = *m, too_large = 0x1p40f;
    if (LS_ATTENTION_PAIRS && before > -INFINITY) {
        const float sum = exponentials(s, p, keys, scale, before);
        if (sum < too_large) {
            *l += sum;
            *decay = 1;
            return;
        }
    }
    v_f32 most = unit_load(s), most2 = most;
    for (int64_t j = 0; j < keys; j += 2 * V_LANES) {
        most = fast_max(most, unit_load(s + j));
        most2 = fast_max(most2, unit_load(s + j + V_LANES));
    }
    const float here = v_largest_lane(fast_max(most, most2)) * scale;
    const float now = here < before ? before : here, shift = now == -INFINITY ? 0.0f : now;
    const float sum = exponentials(s, p, keys, scale, shift);
    /* Mostly nothing larger comes: no decay. */
    *decay = before == now ? 1 : v_exp2(v_set(before - shift))[0];
    *l = *l * *decay + sum;
    *m = now;
}

/* A soft cap c: raw scores become what scale turns into c·tanh(scale·score/c). */
static void cap_row(float *s, int64_t keys, const ls_attention_params *params) {
    const float scale = (float)fabs(params->scale), cap = (float)params->softcap;
    for (int64_t j = 0; j < keys; j += V_LANES)
        unit_store(s + j, v_tanh(unit_load(s + j) * (scale / cap)) * (cap / scale));
}

/* Of the strip whose first row is `first`. */
static void softmax_strip(const forward *f, scratch *s, row_tile *tile, int64_t b, int64_t first) {
    const problem *p = &f->problem;
    const float scale = (float)(fabs(p->params->scale) * LOG2_E);
    for (int64_t i = 0; i < ls_min(STRIP, tile->queries - first); i++) {
        const key_range range = s->range[(first + i) / MICRO_ROWS];
        const int64_t start = range.start * KEY_GROUP, keys = (range.end - range.start) * KEY_GROUP;
        float *scores = s->s + i * S_ROW + start;
        if (keys == 0) continue;
        if (p->params->softcap > 0) cap_row(scores, keys, p->params);
        if (!range.all) {
            mask_row(scores, s->kpos + start, keys, spans_of(p, b, tile->query + first + i), p->spans_each);
        }
        softmax_row(scores, s->p + (i * P_ROW + start) / UNIT_ELEMENTS, keys, scale, &tile->m[first + i],
                    &tile->l[first + i], &s->decay[first + i]);
    }
}

static void strip_scores(const forward *f, scratch *s, const row_tile *tile, int first, int end) {
    const int64_t units = row_units(f->problem.D);
    for (int panel = 0; panel < K_TILE / PANEL; panel++) {
        for (int i = first; i < end; i++) {
            const int group = panel * PANEL / KEY_GROUP;
            if (group < s->range[i].start || group >= s->range[i].end) continue;
            micro_product(MICRO_VECTORS, units, tile->q + i * MICRO_ROWS * f->q_units, f->q_units, 1,
                          s->k + panel * PANEL * units,
                          s->s + (i - first) * MICRO_ROWS * S_ROW + panel * PANEL, S_ROW, NULL);
        }
    }
}

static void strip_output(const forward *f, scratch *s, const row_tile *tile, int first, int end) {
    const int64_t row = P_ROW / UNIT_ELEMENTS, group = KEY_GROUP / UNIT_ELEMENTS;
    for (int panel = 0; panel < f->columns.panels; panel++) {
        const int vectors = columns_in(&f->columns, panel);
        const int64_t column = (int64_t)panel * f->columns.each * V_LANES;
        for (int i = first; i < end; i++) {
            const int64_t start = s->range[i].start * group, depth = s->range[i].end * group - start;
            if (depth == 0) continue;
            micro_product(vectors, depth, s->p + (i - first) * MICRO_ROWS * row + start, row, 1,
                          s->v + column * (K_TILE / UNIT_ELEMENTS) + start * vectors * V_LANES,
                          tile->o + i * MICRO_ROWS * f->columns.width + column, f->columns.width,
                          s->decay + i * MICRO_ROWS);
        }
    }
}

/* A row tile against the packed tile of keys that starts with the given group. */
static void attend(const forward *f, scratch *s, row_tile *tile, int64_t b, int64_t first_group) {
    const problem *p = &f->problem;
    const int64_t last_group = ls_min(first_group + TILE_GROUPS, f->groups);
    const int blocks = (int)ls_ceil_div(tile->queries, MICRO_ROWS);
    for (int i = 0; i < blocks; i++) {
        s->range[i] = key_range_find(tile->block + i * p->spans_each, p, f->group, first_group, last_group);
    }
    for (int64_t i = tile->queries; i < Q_TILE; i++) s->decay[i] = 0;
    for (int i = 0; i < blocks; i += STRIP / MICRO_ROWS) {
        const int end = (int)ls_min(i + STRIP / MICRO_ROWS, blocks);
        strip_scores(f, s, tile, i, end);
        softmax_strip(f, s, tile, b, i * MICRO_ROWS);
        strip_output(f, s, tile, i, end);
    }
}

/* o and lse of a row tile; merged: out += (new - out) * share of the new keys in the sum of both. */
static void row_tile_end(const forward *f, const row_tile *tile, int64_t b) {
    const problem *p = &f->problem;
    const ls_view *o = &f->call->out[OUT_O], *lse_view = &f->call->out[OUT_LSE];
    float *lse = (float *)lse_view->data + b * lse_view->stride[0] + tile->head * lse_view->stride[1];
    for (int64_t i = 0; i < tile->queries; i++) {
        float *to = (float *)o->data + head_offset(o, b, tile->head) + (tile->query + i) * o->stride[1];
        const float *from = tile->o + i * f->columns.width;
        float *log_sum = lse + (tile->query + i) * lse_view->stride[2];
        const float norm = tile->l[i] == 0 ? 0 : 1 / tile->l[i];
        const float here = tile->l[i] == 0 ? -INFINITY : (float)(tile->m[i] * LN_2 + log((double)tile->l[i]));
        if (!p->params->merge || *log_sum == -INFINITY) {
            for (int64_t d = 0; d < p->D; d++) to[d] = from[d] * norm;
            *log_sum = here;
        } else if (here != -INFINITY) {
            const float share = merge_lse(log_sum, here);
            for (int64_t d = 0; d < p->D; d++) to[d] += share * (from[d] * norm - to[d]);
        }
    }
}

static void run_item(void *context, int index, int thread) {
    const forward *f = context;
    const problem *p = &f->problem;
    const item *it = &f->item[f->order[index]];
    scratch *s = &f->scratch[thread];
    if (p->params->merge && f->weight[f->order[index]] == 0)
        return; /* it sees nothing: what is there stays */
    products_begin();
    for (int i = 0; i < it->count; i++) row_tile_begin(f, &s->tile[i], it, i);
    const ls_view *k = &f->call->in[IN_K], *v = &f->call->in[IN_V];
    const element *k_rows = (const element *)k->data + head_offset(k, it->b, it->kv);
    const element *v_rows = (const element *)v->data + head_offset(v, it->b, it->kv);
    for (int64_t g = 0; g < f->groups; g += TILE_GROUPS) {
        const int64_t key = g * KEY_GROUP, keys = ls_min(K_TILE, p->t - key);
        bool packed = false;
        for (int i = 0; i < it->count; i++) {
            const key_range range =
                key_range_find(s->tile[i].whole, p, f->group, g, ls_min(g + TILE_GROUPS, f->groups));
            if (range.end == 0) continue;
            if (!packed) {
                pack_transposed(s->k, k_rows + key * k->stride[1], k->stride[1], keys, K_TILE, p->D);
                pack_columns(s->v, v_rows + key * v->stride[1], v->stride[1], keys, K_TILE, p->D,
                             &f->columns);
                key_positions(s->kpos, p, key, K_TILE);
                packed = true;
            }
            attend(f, s, &s->tile[i], it->b, g);
        }
    }
    products_end();
    for (int i = 0; i < it->count; i++) row_tile_end(f, &s->tile[i], it->b);
}

static size_t forward_workspace(const ls_kernel_call *call) {
    forward f;
    return forward_carve(&f, call, NULL);
}

static ls_status forward_prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check("attention", LS_CPU_DTYPE, call);
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    forward f;
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
    .name = "attention",
    .dtype = LS_CPU_DTYPE,
    .isa = LS_CPU_LEVEL,
    .workspace = choice_workspace,
    .prepare = forward_prepare,
    .run = choice_run,
};

/* Pairs whatever the processor: for tests and benchmarks. */
const ls_kernel LS_CPU_NAME(attention_pairs) = {
#else
const ls_kernel LS_CPU_NAME(attention) = {
#endif
    .name = "attention",
    .dtype = LS_CPU_DTYPE,
    .isa = LS_CPU_LEVEL,
    .workspace = forward_workspace,
    .prepare = forward_prepare,
    .run = forward_run,
};
