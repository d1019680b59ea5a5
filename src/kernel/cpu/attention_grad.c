/*
 * attention_grad: blocked backward with recomputed probabilities (Dao et al., FlashAttention and
 * FlashAttention-2).
 *
 *   for each tile of K_TILE keys of a KV head:               pack K and V; dK = dV = 0
 *     for each of its query heads, each tile of Q_TILE queries that sees some of them:
 *       S = Q K^T   dP = dO V^T   P = 2^(S - lse)   dS = P (dP - delta)
 *       dV += P^T dO   dK += dS^T Q   dQ += dS K             (dK and dQ times scale when they leave)
 *
 * Work for threads: (batch, KV head) pairs where these divide evenly; otherwise the key tiles and the query
 * tiles of each are dealt to as many parts as there are threads, and phase f lets key part i work on query
 * part (i + f) mod parts. No two tasks of a phase write the same dQ, dK or dV, the phases follow each other
 * in order, and so the sums have one order without locks, without buffers of partial sums and without
 * computing anything twice. Tiles are dealt back and forth (0 1 1 0 0 1 ...), which balances a causal mask.
 */
#include <math.h>

#if LS_CPU_ELEMENT_BF16 && defined __AVX512BF16__
#define LS_ATTENTION_PAIRS 1
#endif
#include "kernel/cpu/attention_pack.h"
#include "kernel/cpu/attention_problem.h"
#include "kernel/kernel_impl.h"

#define Q_TILE (LS_ATTENTION_TILES ? 64 : 48)
#define Q_BLOCKS (Q_TILE / MICRO_ROWS)
#define K_TILE 384
#define K_BLOCKS (K_TILE / MICRO_ROWS)
#define TILE_GROUPS (K_TILE / KEY_GROUP)
/* Not a power of two: columns of S are read too, and must not share their cache sets. */
#define S_ROW (K_TILE + 16)

enum { IN_DO = 5, IN_LSE, IN_DELTA };
enum { OUT_DQ, OUT_DK, OUT_DV };

typedef struct scratch {
    float *k_transposed, *v_transposed, *k_columns; /* a key tile, packed */
    float *q_rows, *do_rows, *q_summed, *do_summed; /* a query tile, packed; to be summed over queries */
    float *s, *dp;             /* [Q_TILE][S_ROW]; without pairs, P and dS take their places */
    float *p_by_q;             /* P in units along queries: [Q_TILE / UNIT_ELEMENTS][S_ROW] */
    float *ds_by_q;            /* dS likewise */
    float *ds_by_k;            /* dS in units along keys: [Q_TILE][S_ROW / UNIT_ELEMENTS] */
    float *dk, *dv;            /* [K_TILE][width]; with tiles [width][K_TILE] */
    float *dq;                 /* [Q_TILE][width] */
    float *lse;                /* [Q_TILE], times log2 e; +inf for a row that sees nothing or is not there */
    float *delta;              /* [Q_TILE] */
    int32_t *kpos;             /* [K_TILE] */
    bounds *block;             /* [w] */
    key_range range[Q_BLOCKS]; /* key groups that a block of queries sees */
    int first[TILE_GROUPS], end[TILE_GROUPS]; /* query blocks that see a key group */
} scratch;

typedef struct backward {
    problem problem;
    const ls_kernel_call *call;
    columns columns;
    int64_t q_units;
    int64_t query_tiles, key_tiles, groups;
    int parts, phase;
    key_group *group;
    bounds *bounds; /* [B][query_tiles][w] */
    scratch *scratch;
} backward;

/* Floats of a row of what is summed over queries: with tiles whole blocks of rows of its transpose. */
static int64_t summed_width(const backward *f) {
    return LS_ATTENTION_TILES ? (int64_t)ls_round_up((size_t)f->problem.D, MICRO_ROWS) : f->columns.width;
}

static void scratch_carve(scratch *s, const backward *f, carving *c) {
    const int64_t width = summed_width(f), units = row_units(f->problem.D);
    scratch made = {
        .k_transposed = carve(c, K_TILE * units, sizeof(float)),
        .v_transposed = carve(c, K_TILE * units, sizeof(float)),
        .k_columns = carve(c, K_TILE / UNIT_ELEMENTS * width, sizeof(float)),
        .q_rows = carve(c, Q_TILE * f->q_units, sizeof(float)),
        .do_rows = carve(c, Q_TILE * f->q_units, sizeof(float)),
        .q_summed = carve(c, Q_TILE / UNIT_ELEMENTS * width, sizeof(float)),
        .do_summed = carve(c, Q_TILE / UNIT_ELEMENTS * width, sizeof(float)),
        .s = carve(c, Q_TILE * S_ROW, sizeof(float)),
        .dp = carve(c, Q_TILE * S_ROW, sizeof(float)),
        .dk = carve(c, K_TILE * width, sizeof(float)),
        .dv = carve(c, K_TILE * width, sizeof(float)),
        .dq = carve(c, Q_TILE * width, sizeof(float)),
        .lse = carve(c, Q_TILE, sizeof(float)),
        .delta = carve(c, Q_TILE, sizeof(float)),
        .kpos = carve(c, K_TILE, sizeof(int32_t)),
        .block = carve(c, f->problem.spans_each, sizeof(bounds)),
    };
    made.p_by_q = made.s;
    made.ds_by_q = made.ds_by_k = made.dp;
#if LS_ATTENTION_PAIRS
    made.p_by_q = carve(c, Q_TILE / 2 * S_ROW, sizeof(float));
    made.ds_by_q = carve(c, Q_TILE / 2 * S_ROW, sizeof(float));
    made.ds_by_k = carve(c, Q_TILE * S_ROW / 2, sizeof(float));
#endif
    if (s) *s = made;
}

/* Sets all of f but what is computed from data. Returns the bytes of workspace; base NULL only counts. */
static size_t backward_carve(backward *f, const ls_kernel_call *call, void *base) {
    const problem p = problem_of(call);
    *f = (backward){.problem = p, .call = call, .columns = columns_of(p.D)};
    f->q_units = (int64_t)ls_round_up((size_t)row_units(p.D), V_LANES);
    f->query_tiles = ls_ceil_div(p.n, Q_TILE);
    f->key_tiles = ls_ceil_div(p.t, K_TILE);
    f->groups = ls_ceil_div(p.t, KEY_GROUP);
    f->parts = p.B * p.Hkv % p.threads == 0 ? 1 : (int)ls_max(1, ls_min(p.threads, f->key_tiles));
    carving c = {base, 0};
    f->group = carve(&c, f->groups, sizeof *f->group);
    f->bounds = carve(&c, p.B * f->query_tiles * p.spans_each, sizeof *f->bounds);
    f->scratch = carve(&c, p.threads, sizeof *f->scratch);
    for (int i = 0; i < p.threads; i++) scratch_carve(base ? &f->scratch[i] : NULL, f, &c);
    return c.used;
}

static const bounds *tile_bounds(const backward *f, int64_t b, int64_t tile) {
    return f->bounds + (b * f->query_tiles + tile) * f->problem.spans_each;
}

/* Which of `parts` a tile is dealt to. */
static int part_of(int64_t tile, int parts) {
    const int at = (int)(tile % (2 * parts));
    return at < parts ? at : 2 * parts - 1 - at;
}

/* Row 0 of an element view for a head, from position `start` on. */
static const element *rows_of(const ls_view *view, int64_t b, int64_t head, int64_t start) {
    return (const element *)view->data + head_offset(view, b, head) + start * view->stride[1];
}

/* to[i][d] += factor * from[i][d] */
static void add_rows(const ls_view *view, int64_t b, int64_t head, int64_t start, int64_t rows,
                     const float *from, int64_t width, float factor) {
    const int64_t D = view->size[3];
    for (int64_t i = 0; i < rows; i++) {
        float *to = (float *)view->data + head_offset(view, b, head) + (start + i) * view->stride[1];
        for (int64_t d = 0; d < D; d++) to[d] += factor * from[i * width + d];
    }
}

static void pack_keys(const backward *f, scratch *s, int64_t b, int64_t kv, int64_t start) {
    const problem *p = &f->problem;
    const ls_view *k = &f->call->in[IN_K], *v = &f->call->in[IN_V];
    const int64_t keys = ls_min(K_TILE, p->t - start);
    const element *k_rows = rows_of(k, b, kv, start), *v_rows = rows_of(v, b, kv, start);
    pack_transposed(s->k_transposed, k_rows, k->stride[1], keys, K_TILE, p->D);
    pack_transposed(s->v_transposed, v_rows, v->stride[1], keys, K_TILE, p->D);
    pack_columns(s->k_columns, k_rows, k->stride[1], keys, K_TILE, p->D, &f->columns);
    key_positions(s->kpos, p, start, K_TILE);
    memset(s->dk, 0, sizeof(float) * (size_t)(K_TILE * summed_width(f)));
    memset(s->dv, 0, sizeof(float) * (size_t)(K_TILE * summed_width(f)));
}

/* As rows, and to be summed over; rows and columns of one panel of whole floats are laid out alike, and packed once. */
static float *pack_both(const backward *f, const ls_view *view, int64_t b, int64_t head, int64_t start,
                        float *rows_out, float *summed_out) {
    const int64_t rows = ls_min(Q_TILE, f->problem.n - start), D = f->problem.D;
    const element *from = rows_of(view, b, head, start);
    pack_rows(rows_out, from, view->stride[1], rows, Q_TILE, D, f->q_units, false);
    if (UNIT_ELEMENTS == 1 && f->columns.panels == 1) return rows_out;
#if LS_ATTENTION_TILES
    pack_transposed_rows(summed_out, from, view->stride[1], rows, Q_TILE, D, summed_width(f));
#else
    pack_columns(summed_out, from, view->stride[1], rows, Q_TILE, D, &f->columns);
#endif
    return summed_out;
}

static void read_row_sums(const backward *f, scratch *s, int64_t b, int64_t head, int64_t start) {
    const ls_view *lse = &f->call->in[IN_LSE], *delta = &f->call->in[IN_DELTA];
    const float *from = (const float *)lse->data + b * lse->stride[0] + head * lse->stride[1];
    const float *delta_from = (const float *)delta->data + b * delta->stride[0] + head * delta->stride[1];
    for (int64_t i = 0; i < Q_TILE; i++) {
        const int64_t at = start + i;
        const float log_sum = at < f->problem.n ? from[at * lse->stride[2]] : -INFINITY;
        s->lse[i] = log_sum == -INFINITY ? INFINITY : (float)(log_sum * LOG2_E);
        s->delta[i] = log_sum == -INFINITY ? 0 : delta_from[at * delta->stride[2]];
    }
}

/* Which query blocks and key groups of a pair of tiles have work. */
static void find_ranges(const backward *f, scratch *s, int64_t b, int64_t query, int64_t first_group,
                        bool all) {
    const problem *p = &f->problem;
    const int64_t last_group = ls_min(first_group + TILE_GROUPS, f->groups);
    const int64_t queries = ls_min(Q_TILE, p->n - query);
    for (int g = 0; g < TILE_GROUPS; g++) s->first[g] = Q_BLOCKS, s->end[g] = 0;
    for (int i = 0; i < Q_BLOCKS; i++) {
        const int64_t row = i * MICRO_ROWS;
        key_range range = {0, (int)(last_group - first_group), all};
        if (row >= queries) {
            range = (key_range){0, 0, true};
        } else if (!all) {
            bounds_find(s->block, p->spans_each, spans_of(p, b, query + row),
                        ls_min(MICRO_ROWS, queries - row));
            range = key_range_find(s->block, p, f->group, first_group, last_group);
        }
        s->range[i] = range;
        for (int g = range.start; g < range.end; g++) {
            if (s->end[g] == 0) s->first[g] = i;
            s->end[g] = i + 1;
        }
    }
}

/* P of one vector of keys; spans NULL: all are seen. */
V_INLINE v_f32 probability(const float *scores, v_f32 scale, v_f32 lse, const int32_t *kpos,
                           const int32_t *spans, int spans_each) {
    const v_f32 p = unit_exp2(unit_load(scores) * scale - lse);
    return spans ? v_select(keys_visible(kpos, spans, spans_each), p, v_set(0.0f)) : p;
}

/* P and dS of UNIT_ELEMENTS rows from row i on, for keys from..to-1; spans as above, of each row. */
V_INLINE void differentiate_rows(scratch *s, int64_t i, int64_t from, int64_t to, v_f32 scale,
                                 const int32_t *const *spans, int spans_each) {
    const v_f32 lse = v_set(s->lse[i]), delta = v_set(s->delta[i]);
    float *scores = s->s + i * S_ROW, *dp = s->dp + i * S_ROW;
    for (int64_t j = from; j < to; j += V_LANES * UNIT_ELEMENTS) {
#if LS_ATTENTION_PAIRS
        v_f32 p[2][2], ds[2][2];
        for (int r = 0; r < 2; r++) {
            for (int h = 0; h < 2; h++) {
                const int64_t at = j + h * V_LANES;
                p[r][h] = probability(scores + r * S_ROW + at, scale, r ? v_set(s->lse[i + 1]) : lse,
                                      s->kpos + at, spans[r], spans_each);
                ds[r][h] = p[r][h] * (unit_load(dp + r * S_ROW + at) - (r ? v_set(s->delta[i + 1]) : delta));
            }
            unit_store(s->ds_by_k + ((i + r) * S_ROW + j) / 2, round_in_order(ds[r][0], ds[r][1]));
        }
        for (int h = 0; h < 2; h++) {
            unit_store(s->p_by_q + i / 2 * S_ROW + j + h * V_LANES, round_to_pairs(p[0][h], p[1][h]));
            unit_store(s->ds_by_q + i / 2 * S_ROW + j + h * V_LANES, round_to_pairs(ds[0][h], ds[1][h]));
        }
#else
        const v_f32 p = probability(scores + j, scale, lse, s->kpos + j, spans[0], spans_each);
        const v_f32 ds = p * (unit_load(dp + j) - delta);
        unit_store(scores + j, p);
        unit_store(dp + j, ds);
#endif
    }
}

/* A soft cap c: S becomes what scale turns into c·tanh(scale·S/c), and dP - delta is multiplied by the slope. */
static void cap_scores(const backward *f, scratch *s) {
    const ls_attention_params *params = f->problem.params;
    const float in = (float)(params->scale / params->softcap), out = (float)(params->softcap / params->scale);
    for (int64_t i = 0; i < Q_TILE; i++) {
        const key_range range = s->range[i / MICRO_ROWS];
        float *scores = s->s + i * S_ROW, *dp = s->dp + i * S_ROW;
        for (int64_t j = range.start * KEY_GROUP; j < range.end * KEY_GROUP; j += V_LANES) {
            const v_f32 t = v_tanh(unit_load(scores + j) * in), delta = v_set(s->delta[i]);
            unit_store(scores + j, t * out);
            unit_store(dp + j, delta + (unit_load(dp + j) - delta) * (1.0f - t * t));
        }
    }
}

/* P and dS of the pair of tiles from S and dP; zero where nothing was computed but the products read. */
static void differentiate(const backward *f, scratch *s, int64_t b, int64_t query) {
    const problem *p = &f->problem;
    const v_f32 scale = v_set((float)(p->params->scale * LOG2_E));
    const int32_t *const nothing[2] = {NULL, NULL};
    for (int64_t i = 0; i < Q_TILE; i += UNIT_ELEMENTS) {
        const key_range range = s->range[i / MICRO_ROWS];
        const int64_t from = range.start * KEY_GROUP, to = range.end * KEY_GROUP;
        const int64_t row = i / UNIT_ELEMENTS * S_ROW;
        memset(s->p_by_q + row, 0, sizeof(float) * (size_t)from);
        memset(s->ds_by_q + row, 0, sizeof(float) * (size_t)from);
        memset(s->p_by_q + row + to, 0, sizeof(float) * (size_t)(K_TILE - to));
        memset(s->ds_by_q + row + to, 0, sizeof(float) * (size_t)(K_TILE - to));
        if (range.all) {
            differentiate_rows(s, i, from, to, scale, nothing, 0);
        } else {
            /* Rows past the end borrow the last row's spans; their lse makes them 0. */
            const int32_t *const spans[2] = {spans_of(p, b, ls_min(query + i, p->n - 1)),
                                             spans_of(p, b, ls_min(query + i + 1, p->n - 1))};
            differentiate_rows(s, i, from, to, scale, spans, p->spans_each);
        }
    }
}

/* S = Q K^T or dP = dO V^T where there is work. */
static void product_by_keys(const backward *f, const scratch *s, const float *rows, const float *transposed,
                            float *out) {
    const int64_t units = row_units(f->problem.D);
    for (int panel = 0; panel < K_TILE / PANEL; panel++) {
        const int group = panel * PANEL / KEY_GROUP;
        for (int i = s->first[group]; i < s->end[group]; i++) {
            micro_product(MICRO_VECTORS, units, rows + i * MICRO_ROWS * f->q_units, f->q_units, 1,
                          transposed + panel * PANEL * units, out + i * MICRO_ROWS * S_ROW + panel * PANEL,
                          S_ROW, NULL);
        }
    }
}

/* dV += P^T dO or dK += dS^T Q: the products summed over the queries. */
#if LS_ATTENTION_TILES
/* Of their transposes, so that units along the queries are side by side in both operands: dV^T += dO^T P. */
static void product_by_queries(const backward *f, const scratch *s, const float *by_q,
                               const float *transposed, float *out) {
    const int64_t units = Q_TILE / UNIT_ELEMENTS;
    for (int panel = 0; panel < K_TILE / PANEL; panel++) {
        const int64_t key = (int64_t)panel * PANEL, g = key / KEY_GROUP;
        const int64_t start = s->first[g] * MICRO_ROWS / UNIT_ELEMENTS;
        const int64_t depth = s->end[g] * MICRO_ROWS / UNIT_ELEMENTS - start;
        for (int64_t d = 0; depth > 0 && d < summed_width(f); d += MICRO_ROWS) {
            product_of(MICRO_VECTORS, depth, transposed + d * units + start, units,
                       by_q + start * S_ROW + key, S_ROW, out + d * K_TILE + key, K_TILE, true);
        }
    }
}

/* to[i][d] += factor * from[d][i] */
static void add_summed(const backward *f, const ls_view *view, int64_t b, int64_t head, int64_t start,
                       int64_t rows, const float *from, float factor) {
    const int64_t D = f->problem.D;
    for (int64_t i = 0; i < rows; i += V_LANES) {
        float *to = (float *)view->data + head_offset(view, b, head) + (start + i) * view->stride[1];
        for (int64_t d = 0; d < D; d += V_LANES) {
            v_f32 m[V_LANES];
            for (int j = 0; j < V_LANES; j++) m[j] = unit_load(from + (d + j) * K_TILE + i);
            transpose_square(m);
            for (int64_t j = 0; j < ls_min(V_LANES, rows - i); j++) {
                float *at = to + j * view->stride[1] + d;
                v_store_f32(at, v_load_f32(at, D - d) + factor * m[j], D - d);
            }
        }
    }
}
#else
static const float ones[MICRO_ROWS] = {1, 1, 1, 1, 1, 1};

static void product_by_queries(const backward *f, const scratch *s, const float *by_q,
                               const float *column_operand, float *out) {
    const int64_t width = f->columns.width;
    for (int panel = 0; panel < f->columns.panels; panel++) {
        const int vectors = columns_in(&f->columns, panel);
        const int64_t column = (int64_t)panel * f->columns.each * V_LANES;
        const float *operand = column_operand + column * (Q_TILE / UNIT_ELEMENTS);
        for (int i = 0; i < K_BLOCKS; i++) {
            const int64_t key = i * MICRO_ROWS;
            const int64_t g = key / KEY_GROUP, h = (key + MICRO_ROWS - 1) / KEY_GROUP;
            const int64_t start = ls_min(s->first[g], s->first[h]) * MICRO_ROWS / UNIT_ELEMENTS;
            const int64_t depth = ls_max(s->end[g], s->end[h]) * MICRO_ROWS / UNIT_ELEMENTS - start;
            if (depth <= 0) continue;
            micro_product(vectors, depth, by_q + start * S_ROW + key, 1, S_ROW,
                          operand + start * vectors * V_LANES, out + key * width + column, width, ones);
        }
    }
}

static void add_summed(const backward *f, const ls_view *view, int64_t b, int64_t head, int64_t start,
                       int64_t rows, const float *from, float factor) {
    add_rows(view, b, head, start, rows, from, f->columns.width, factor);
}
#endif

/* dQ of the query tile = dS K */
static void product_for_queries(const backward *f, scratch *s, int64_t queries) {
    const int64_t row = S_ROW / UNIT_ELEMENTS, width = f->columns.width;
    for (int panel = 0; panel < f->columns.panels; panel++) {
        const int vectors = columns_in(&f->columns, panel);
        const int64_t column = (int64_t)panel * f->columns.each * V_LANES;
        const float *operand = s->k_columns + column * (K_TILE / UNIT_ELEMENTS);
        for (int i = 0; i * MICRO_ROWS < queries; i++) {
            const int64_t start = s->range[i].start * KEY_GROUP / UNIT_ELEMENTS;
            const int64_t depth = s->range[i].end * KEY_GROUP / UNIT_ELEMENTS - start;
            micro_product(vectors, depth, s->ds_by_k + i * MICRO_ROWS * row + start, row, 1,
                          operand + start * vectors * V_LANES, s->dq + i * MICRO_ROWS * width + column, width,
                          NULL);
        }
    }
}

/* One query tile of one head against the packed key tile. */
static void work_pair(const backward *f, scratch *s, int64_t b, int64_t head, int64_t query) {
    const ls_view *q = &f->call->in[IN_Q], *dout = &f->call->in[IN_DO];
    const float *q_summed = pack_both(f, q, b, head, query, s->q_rows, s->q_summed);
    const float *do_summed = pack_both(f, dout, b, head, query, s->do_rows, s->do_summed);
    read_row_sums(f, s, b, head, query);
    product_by_keys(f, s, s->q_rows, s->k_transposed, s->s);
    product_by_keys(f, s, s->do_rows, s->v_transposed, s->dp);
    if (f->problem.params->softcap > 0) cap_scores(f, s);
    differentiate(f, s, b, query);
    product_by_queries(f, s, s->p_by_q, do_summed, s->dv);
    product_by_queries(f, s, s->ds_by_q, q_summed, s->dk);
    const int64_t queries = ls_min(Q_TILE, f->problem.n - query);
    product_for_queries(f, s, queries);
    add_rows(&f->call->out[OUT_DQ], b, head, query, queries, s->dq, f->columns.width,
             (float)f->problem.params->scale);
}

/* One key tile of a KV head against the query tiles of one part. */
static void work_key_tile(const backward *f, scratch *s, int64_t b, int64_t kv, int64_t tile,
                          int query_part) {
    const problem *p = &f->problem;
    const head_range heads = heads_of(p, kv);
    const int64_t start = tile * K_TILE, keys = ls_min(K_TILE, p->t - start), group = tile * TILE_GROUPS;
    bool packed = false;
    for (int64_t i = 0; i < f->query_tiles && heads.count > 0; i++) {
        if (part_of(i, f->parts) != query_part) continue;
        const key_range range =
            key_range_find(tile_bounds(f, b, i), p, f->group, group, ls_min(group + TILE_GROUPS, f->groups));
        if (range.end == 0) continue;
        if (!packed) pack_keys(f, s, b, kv, start);
        packed = true;
        find_ranges(f, s, b, i * Q_TILE, group, range.all && range.start == 0 && range.end == TILE_GROUPS);
        for (int64_t h = 0; h < heads.count; h++) work_pair(f, s, b, heads.first + h, i * Q_TILE);
    }
    if (!packed) return;
    add_summed(f, &f->call->out[OUT_DK], b, kv, start, keys, s->dk, (float)p->params->scale);
    add_summed(f, &f->call->out[OUT_DV], b, kv, start, keys, s->dv, 1);
}

static void run_task(void *context, int index, int thread) {
    const backward *f = context;
    const int key_part = index % f->parts;
    const int64_t pair = index / f->parts;
    products_begin();
    for (int64_t tile = 0; tile < f->key_tiles; tile++) {
        if (part_of(tile, f->parts) != key_part) continue;
        work_key_tile(f, &f->scratch[thread], pair / f->problem.Hkv, pair % f->problem.Hkv, tile,
                      (key_part + f->phase) % f->parts);
    }
    products_end();
}

/* Zeros of one thread's share of the positions of an output. */
static void clear_rows(const ls_view *view, int64_t part, int64_t parts) {
    const int64_t rows = view->size[0] * view->size[1];
    for (int64_t i = ls_part_start(rows, parts, part); i < ls_part_start(rows, parts, part + 1); i++) {
        for (int64_t h = 0; h < view->size[2]; h++) {
            float *to = (float *)view->data + head_offset(view, i / view->size[1], h) +
                        i % view->size[1] * view->stride[1];
            memset(to, 0, sizeof(float) * (size_t)view->size[3]);
        }
    }
}

/* Clears what is not accumulated into, and finds the bounds of the query tiles. */
static void begin_task(void *context, int index, int thread) {
    const backward *f = context;
    const problem *p = &f->problem;
    (void)thread;
    if (!p->params->accumulate_dq) clear_rows(&f->call->out[OUT_DQ], index, p->threads);
    if (!p->params->accumulate_dkv) {
        clear_rows(&f->call->out[OUT_DK], index, p->threads);
        clear_rows(&f->call->out[OUT_DV], index, p->threads);
    }
    for (int64_t i = index; i < p->B * f->query_tiles; i += p->threads) {
        const int64_t b = i / f->query_tiles, query = i % f->query_tiles * Q_TILE;
        bounds_find(f->bounds + i * p->spans_each, p->spans_each, spans_of(p, b, query),
                    ls_min(Q_TILE, p->n - query));
    }
}

static size_t backward_workspace(const ls_kernel_call *call) {
    backward f;
    return backward_carve(&f, call, NULL);
}

static ls_status backward_prepare(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check("attention_grad", LS_CPU_DTYPE, call);
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
    .name = "attention_grad",
    .dtype = LS_CPU_DTYPE,
    .isa = LS_CPU_LEVEL,
    .workspace = choice_workspace,
    .prepare = backward_prepare,
    .run = choice_run,
};

/* Pairs whatever the processor: for tests and benchmarks. */
const ls_kernel LS_CPU_NAME(attention_grad_pairs) = {
#else
const ls_kernel LS_CPU_NAME(attention_grad) = {
#endif
    .name = "attention_grad",
    .dtype = LS_CPU_DTYPE,
    .isa = LS_CPU_LEVEL,
    .workspace = backward_workspace,
    .prepare = backward_prepare,
    .run = backward_run,
};
