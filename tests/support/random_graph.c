#include "support/random_graph.h"

#include <stdio.h>
#include <string.h>

enum { B = 2, MOST_TENSORS = 32, MOST_ELEMENTS = 72 /* of a token */, KINDS = 32 };

typedef struct maker {
    ls_graph *g;
    uint64_t state;
    ls_tensor tensor[MOST_TENSORS]; /* [B,S,..] */
    bool read[MOST_TENSORS];
    int n, parameters, S;
} maker;

static uint64_t chosen;
static int counts[KINDS];

void random_graph_choose(uint64_t seed) { chosen = seed; }

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t next(maker *m) {
    uint64_t x = m->state += 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}
static int pick(maker *m, int n) { return (int)(next(m) % (uint64_t)n); }

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static ls_shape shape_of(const maker *m, ls_tensor t) { return ls_graph_tensor(m->g, t)->shape; }
static int rank_of(const maker *m, ls_tensor t) { return shape_of(m, t).ndim; }
static int64_t size_at(const maker *m, ls_tensor t, int d) { return shape_of(m, t).dim[d].size; }

static int64_t elements_of(const maker *m, ls_tensor t) {
    const ls_shape s = shape_of(m, t);
    int64_t n = 1;
    for (int d = 2; d < s.ndim; d++) n *= s.dim[d].size;
    return n;
}

/* One of the tensors so far, with at least so many dimensions besides those of tokens; none: LS_NO_TENSOR. */
static ls_tensor any(maker *m, int features) {
    for (int tries = 0; tries < 8; tries++) {
        const int i = m->n - 1 - pick(m, m->n < 4 ? m->n : 4);
        if (rank_of(m, m->tensor[i]) - 2 < features) continue;
        m->read[i] = true;
        return m->tensor[i];
    }
    return LS_NO_TENSOR;
}

/* One of the same shape, or the tensor itself. */
static ls_tensor alike(maker *m, ls_tensor x) {
    for (int i = m->n - 1; i >= 0; i--) {
        const ls_shape a = shape_of(m, m->tensor[i]), b = shape_of(m, x);
        bool same = m->tensor[i].id != x.id && a.ndim == b.ndim;
        for (int d = 0; same && d < a.ndim; d++) same = a.dim[d].size == b.dim[d].size;
        if (same) m->read[i] = true;
        if (same) return m->tensor[i];
    }
    return x;
}

static int feature(maker *m, ls_tensor x) { return 2 + pick(m, rank_of(m, x) - 2); }

static ls_tensor parameter(maker *m, int ndim, const int64_t *size) {
    return ls_parameter_named(m->g, ndim, size, "p.%d", m->parameters++);
}

static ls_tensor one_step(maker *m, ls_map_code code, ls_tensor a, ls_tensor b) {
    const ls_tensor in[] = {a, b};
    const ls_map_step step = {code, 0, 1, 0, 0};
    return ls_map(m->g, in, b.id != 0 ? 2 : 1, &(ls_expression){.step = &step, .n_steps = 1});
}

/* So that values stay near 1, whatever was added up. */
static ls_tensor bounded(maker *m, ls_tensor x) { return one_step(m, LS_MAP_TANH, x, LS_NO_TENSOR); }

/* --- steps: the result, or LS_NO_TENSOR where one does not fit ---------------------------------------------------- */

/* sin(x y + w), of a weight that is repeated along some dimensions. */
static ls_tensor make_map(maker *m) {
    const ls_tensor x = any(m, 1);
    if (x.id == 0) return x;
    const ls_shape s = shape_of(m, x);
    const int ndim = 1 + pick(m, s.ndim - 2);
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < ndim; d++) size[d] = pick(m, 3) == 0 ? 1 : s.dim[s.ndim - ndim + d].size;
    const ls_tensor in[] = {x, alike(m, x), parameter(m, ndim, size)};
    const ls_map_step step[] = {{LS_MAP_MUL, 0, 1, 0, 0}, {LS_MAP_ADD, 3, 2, 0, 0}, {LS_MAP_SIN, 4, 0, 0, 0}};
    return ls_map(m->g, in, 3, &(ls_expression){.step = step, .n_steps = 3});
}

static unsigned some_dims(maker *m, ls_tensor x) {
    unsigned over = 0;
    for (int d = 2; d < rank_of(m, x); d++) over |= (unsigned)pick(m, 2) << d;
    return over != 0 ? over : 1U << feature(m, x);
}

static ls_tensor make_sum(maker *m) {
    const ls_tensor x = any(m, 1);
    return x.id == 0 ? x : bounded(m, ls_reduce_sum(m->g, x, some_dims(m, x), pick(m, 2)));
}
static ls_tensor make_mean(maker *m) {
    const ls_tensor x = any(m, 1);
    return x.id == 0 ? x : ls_reduce_mean(m->g, x, some_dims(m, x), pick(m, 2));
}
static ls_tensor make_max(maker *m) {
    const ls_tensor x = any(m, 1);
    return x.id == 0 ? x : ls_reduce_max(m->g, x, some_dims(m, x), pick(m, 2), pick(m, 2));
}
static ls_tensor make_broadcast(maker *m) {
    const ls_tensor x = any(m, 1);
    if (x.id == 0) return x;
    const unsigned over = some_dims(m, x);
    return ls_mul(m->g, ls_broadcast(m->g, ls_reduce_mean(m->g, x, over, pick(m, 2)), over, x), x);
}
static ls_tensor make_softmax(maker *m) {
    const ls_tensor x = any(m, 1);
    return x.id == 0 ? x : ls_softmax(m->g, x);
}

static ls_tensor make_permute(maker *m) {
    const ls_tensor x = any(m, 2);
    int order[LS_MAX_DIMS] = {0, 1, 2, 3, 4, 5};
    if (x.id == 0) return x;
    for (int d = rank_of(m, x) - 1; d > 2; d--) {
        const int other = 2 + pick(m, d - 1), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    return ls_permute_dims(m->g, x, order);
}

static ls_tensor make_slice(maker *m) {
    const ls_tensor x = any(m, 1);
    if (x.id == 0) return x;
    const int dim = feature(m, x);
    const int64_t size = size_at(m, x, dim), start = pick(m, (int)size),
                  step = rank_of(m, x) < LS_MAX_DIMS ? 1 + pick(m, 3) : 1;
    return ls_slice(m->g, x, dim, start, 1 + pick(m, (int)((size - 1 - start) / step + 1)), step);
}

/* Two of three parts, or more, in another order. */
static ls_tensor make_split(maker *m) {
    const ls_tensor x = any(m, 1);
    if (x.id == 0) return x;
    const int dim = feature(m, x), n = (int)ls_min(size_at(m, x, dim), 2 + pick(m, 5));
    int64_t sizes[LS_NODE_OUTPUTS];
    ls_tensor part[LS_NODE_OUTPUTS];
    if (n < 2) return LS_NO_TENSOR;
    for (int i = 0; i < n; i++) sizes[i] = size_at(m, x, dim) / n + (i < size_at(m, x, dim) % n);
    ls_split_along(m->g, x, dim, n, sizes, part);
    return ls_concat(m->g, dim, 2, (ls_tensor[]){part[n - 1], part[pick(m, n - 1)]});
}

static ls_tensor make_concat(maker *m) {
    const ls_tensor x = any(m, 1);
    ls_tensor part[10];
    if (x.id == 0) return x;
    const int n = 2 + pick(m, 9);
    if (elements_of(m, x) * n > MOST_ELEMENTS) return LS_NO_TENSOR;
    const ls_tensor other = alike(m, x);
    for (int i = 0; i < n; i++) part[i] = pick(m, 2) ? x : other;
    part[0] = x;
    part[1] = other;
    return ls_concat(m->g, feature(m, x), n, part);
}

/* Divides a dimension, or makes two neighbours one. */
static ls_tensor make_reshape(maker *m) {
    const ls_tensor x = any(m, 1);
    if (x.id == 0) return x;
    const ls_shape s = shape_of(m, x);
    const int at = feature(m, x);
    int64_t size[LS_MAX_DIMS + 1];
    int n = 0;
    const int64_t by = s.dim[at].size % 3 == 0 ? 3 : 2;
    const bool divides = s.ndim < LS_MAX_DIMS && s.dim[at].size % by == 0 && s.dim[at].size > by;
    if (!divides && at + 1 == s.ndim) return LS_NO_TENSOR;
    for (int d = 0; d < s.ndim; d++) {
        if (d == at && divides) {
            size[n++] = s.dim[d].size / by;
            size[n++] = by;
        } else if (d == at) {
            size[n++] = s.dim[d].size * s.dim[d + 1].size;
            d++;
        } else {
            size[n++] = s.dim[d].size;
        }
    }
    return ls_reshape(m->g, x, n, size);
}

/* Puts the letters in another order, but for the first `fixed`. */
static void shuffle(maker *m, char *letters, int fixed) {
    for (int i = (int)strlen(letters) - 1; i > fixed; i--) {
        const int other = fixed + pick(m, i - fixed + 1);
        const char kept = letters[i];
        letters[i] = letters[other];
        letters[other] = kept;
    }
}

static void add_letter(char *letters, char letter) {
    const size_t n = strlen(letters);
    letters[n] = letter;
    letters[n + 1] = 0;
}

static ls_tensor einsum(maker *m, const char *a, const char *b, const char *result, ls_tensor x, ls_tensor y) {
    char equation[32];
    const bool swaps = pick(m, 2);
    snprintf(equation, sizeof equation, "%s,%s->%s", swaps ? b : a, swaps ? a : b, result);
    return bounded(m, ls_einsum(m->g, equation, swaps ? y : x, swaps ? x : y));
}

/* By a parameter: each letter of x is summed over, in all three, or in x alone; and one or two are the parameter's. */
static ls_tensor make_product(maker *m) {
    const ls_tensor x = any(m, 1);
    char a[12] = "xy", b[12] = "", result[12] = "xy";
    int64_t size[128], sizes[LS_MAX_DIMS], elements = 1;
    if (x.id == 0) return x;
    for (int d = 2; d < rank_of(m, x); d++) {
        const char letter = (char)('a' + d);
        const int group = d == 2 ? 0 : pick(m, 3); /* summed over, in all three, in x */
        add_letter(a, letter);
        size[(int)letter] = size_at(m, x, d);
        if (group != 2) add_letter(b, letter);
        if (group != 0) add_letter(result, letter);
        if (group != 0) elements *= size[(int)letter];
    }
    for (int i = 0; i < 1 + pick(m, 2) && strlen(b) < LS_MAX_DIMS && strlen(result) < LS_MAX_DIMS; i++) {
        size['p' + i] = 2 + pick(m, 3);
        if (elements * size['p' + i] > MOST_ELEMENTS) break;
        elements *= size['p' + i];
        add_letter(b, (char)('p' + i));
        add_letter(result, (char)('p' + i));
    }
    shuffle(m, b, 0);
    shuffle(m, result, 2);
    for (int d = 0; b[d] != 0; d++) sizes[d] = size[(int)b[d]];
    return einsum(m, a, b, result, x, parameter(m, (int)strlen(b), sizes));
}

/* Of two tensors of the same tokens: dimensions of one size may be one letter. */
static ls_tensor make_contract(maker *m) {
    const ls_tensor x = any(m, 1), y = any(m, 1);
    char a[12] = "xy", b[12] = "xy", result[12] = "xy";
    bool taken[LS_MAX_DIMS] = {false};
    int64_t elements = 1;
    if (x.id == 0 || y.id == 0) return LS_NO_TENSOR;
    for (int d = 2; d < rank_of(m, y); d++) add_letter(b, (char)('p' + d));
    for (int d = 2; d < rank_of(m, x); d++) {
        char letter = (char)('a' + d);
        bool sums = false;
        for (int e = 2; e < rank_of(m, y) && letter == 'a' + d; e++) {
            if (taken[e] || size_at(m, y, e) != size_at(m, x, d) || pick(m, 4) == 0) continue;
            taken[e] = true;
            letter = (char)('p' + e);
            sums = pick(m, 2);
        }
        add_letter(a, letter);
        if (sums) continue;
        add_letter(result, letter);
        elements *= size_at(m, x, d);
    }
    for (int e = 2; e < rank_of(m, y); e++) {
        if (taken[e]) continue;
        add_letter(result, (char)('p' + e));
        elements *= size_at(m, y, e);
    }
    if (elements > MOST_ELEMENTS || strlen(result) > LS_MAX_DIMS) return LS_NO_TENSOR;
    shuffle(m, result, 2);
    return einsum(m, a, b, result, x, y);
}

/* Both factors depend on the ids. */
static ls_tensor make_topk(maker *m) {
    const ls_tensor x = any(m, 1);
    ls_tensor ids;
    if (x.id == 0) return x;
    const ls_tensor values = ls_topk(m->g, x, 1 + pick(m, (int)size_at(m, x, rank_of(m, x) - 1)), &ids);
    return ls_mul(m->g, values, ls_take_along(m->g, alike(m, x), ids));
}

static ls_tensor make_linear(maker *m) {
    const ls_tensor x = any(m, 1);
    if (x.id == 0) return x;
    const int64_t K = size_at(m, x, rank_of(m, x) - 1), size[] = {2 + pick(m, 5), K};
    if (elements_of(m, x) / K * size[0] > MOST_ELEMENTS) return LS_NO_TENSOR;
    return bounded(m, ls_linear(m->g, x, parameter(m, 2, size), parameter(m, 1, size)));
}
static ls_tensor make_norm(maker *m) {
    const ls_tensor x = any(m, 1);
    if (x.id == 0) return x;
    const int64_t K = size_at(m, x, rank_of(m, x) - 1);
    return ls_rmsnorm(m->g, x, parameter(m, 1, &K), 0.1);
}
static ls_tensor make_shift(maker *m) {
    const ls_tensor x = any(m, 1);
    return x.id == 0 ? x : ls_shift(m->g, x, 1 + pick(m, 2));
}

/* Of six heads, which every mesh can share. */
static ls_tensor make_attention(maker *m) {
    const ls_tensor x = any(m, 1);
    const ls_mask mask = ls_mask_causal();
    ls_tensor in[3];
    if (x.id == 0) return x;
    const int64_t flat[] = {B, m->S, elements_of(m, x)}, size[] = {12, elements_of(m, x)};
    const ls_tensor row = ls_reshape(m->g, x, 3, flat);
    for (int i = 0; i < 3; i++)
        in[i] = ls_split_last(m->g, ls_linear(m->g, row, parameter(m, 2, size), LS_NO_TENSOR), 6, 2);
    return ls_attention(m->g, in[0], in[1], in[2], &mask, 0.7);
}

static const struct {
    const char *name;
    ls_tensor (*make)(maker *m);
} kinds[] = {{"map", make_map},
             {"sum", make_sum},
             {"mean", make_mean},
             {"max", make_max},
             {"broadcast", make_broadcast},
             {"softmax", make_softmax},
             {"permute", make_permute},
             {"slice", make_slice},
             {"split", make_split},
             {"concat", make_concat},
             {"reshape", make_reshape},
             {"product", make_product},
             {"contract", make_contract},
             {"topk", make_topk},
             {"linear", make_linear},
             {"norm", make_norm},
             {"shift", make_shift},
             {"attention", make_attention}};
_Static_assert(LS_COUNT(kinds) <= KINDS, "each has a count");

const char *random_graph_step(int kind) { return kind < (int)LS_COUNT(kinds) ? kinds[kind].name : NULL; }
int random_graph_count(int kind) { return counts[kind]; }

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static void add_step(maker *m) {
    const int kind = pick(m, (int)LS_COUNT(kinds));
    const ls_tensor y = kinds[kind].make(m);
    if (y.id == 0) return;
    m->tensor[m->n++] = y;
    counts[kind]++;
}

ls_tensor random_graph_loss(ls_graph *g) {
    maker m = {.g = g, .state = chosen * 0x2545f4914f6cdd1dULL + 1};
    memset(counts, 0, sizeof counts);
    m.S = 12 + pick(&m, 8);
    const int64_t table[] = {RANDOM_GRAPH_IDS, 6 * (1 + pick(&m, 4))};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, m.S);
    m.tensor[m.n++] = ls_embedding(g, tokens, parameter(&m, 2, table));
    const int steps = 4 + pick(&m, 9);
    for (int i = 0; i < steps && ls_graph_status(g).code == LS_OK; i++) add_step(&m);
    ls_tensor loss = LS_NO_TENSOR;
    for (int i = 0; i < m.n; i++) {
        if (m.read[i]) continue;
        const ls_tensor squares = ls_sum(g, ls_mul(g, m.tensor[i], m.tensor[i]));
        loss = loss.id == 0 ? squares : ls_add(g, loss, squares);
    }
    return loss;
}
