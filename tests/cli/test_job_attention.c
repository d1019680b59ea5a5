/*
 * The attention command as a function, from files to files, against the formula written out below: every strategy,
 * layout and mask in f64 at 1e-12; f32 and bf16 within their precision; refusals.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "compile/compile.h"
#include "support/kernel_call.h"
#include "support/scratch.h"
#include "support/spread.h"
#include "tensor/tensor.h"

/* --- the formula -------------------------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t B, S, Hq, Hkv, D, E; /* D: of a head of queries and keys; E: of values */
} sizes;

enum { Q, K, V, GO, SINK, INPUTS };
enum { O, LSE, DQ, DK, DV, DSINK, OUTPUTS };
static const char *const in_file[INPUTS] = {"q.npy", "k.npy", "v.npy", "do.npy", "sink.npy"};
static const char *const out_file[OUTPUTS] = {"o.npy", "lse.npy", "dq.npy", "dk.npy", "dv.npy", "dsink.npy"};

typedef struct arrays {
    sizes n;
    double *in[INPUTS], *out[OUTPUTS];
    bool sunk;      /* with a sink */
    double softcap; /* 0: none */
} arrays;

static int64_t in_count(const sizes *n, int i) {
    if (i == SINK) return n->Hq;
    return n->B * n->S * (i == K || i == V ? n->Hkv : n->Hq) * (i == V || i == GO ? n->E : n->D);
}

static int64_t out_count(const sizes *n, int i) {
    if (i == LSE) return n->B * n->S * n->Hq;
    if (i == DSINK) return n->Hq;
    return n->B * n->S * (i == DK || i == DV ? n->Hkv : n->Hq) * (i == DV || i == O ? n->E : n->D);
}

/* The row of a head of a token. */
static int64_t at(const sizes *n, int64_t H, int64_t b, int64_t s, int64_t h) { return (b * n->S + s) * H + h; }

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

typedef bool (*sees_rule)(int64_t q, int64_t k);

static double capped(const arrays *a, double logit) {
    return a->softcap > 0 ? a->softcap * tanh(logit / a->softcap) : logit;
}

/*
 * One query's row: P = softmax(scale q·k), o = P v; dv += P do, dP = do·v, dS = P (dP - do·o), dq and dk from dS. A
 * sink is one more logit with v = 0, hence dP = 0.
 */
static void one_row(arrays *a, sees_rule sees, int64_t b, int64_t s, int64_t h) {
    const sizes *n = &a->n;
    const double scale = 1 / sqrt((double)n->D);
    const int64_t row = at(n, n->Hq, b, s, h), iq = row * n->D, io = row * n->E, hk = h / (n->Hq / n->Hkv);
    double p[64], slope[64], most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n->S; k++) {
        const bool seen = sees(s, k);
        const double x = scale * dot(a->in[Q] + iq, a->in[K] + at(n, n->Hkv, b, k, hk) * n->D, n->D);
        p[k] = seen ? capped(a, x) : -INFINITY;
        most = fmax(most, p[k]);
    }
    const double sink = a->sunk ? a->in[SINK][h] : -INFINITY;
    most = fmax(most, sink);
    for (int64_t k = 0; k < n->S; k++) {
        slope[k] = a->softcap > 0 ? scale * (1 - p[k] * p[k] / (a->softcap * a->softcap)) : scale;
        p[k] = isinf(p[k]) ? 0 : exp(p[k] - most);
        sum += p[k];
    }
    if (a->sunk) sum += exp(sink - most);
    a->out[LSE][(b * n->Hq + h) * n->S + s] = sum > 0 ? most + log(sum) : -INFINITY;
    if (sum == 0) return;
    for (int64_t k = 0; k < n->S; k++) {
        p[k] /= sum;
        const double *v = a->in[V] + at(n, n->Hkv, b, k, hk) * n->E;
        for (int64_t d = 0; d < n->E; d++) a->out[O][io + d] += p[k] * v[d];
    }
    const double delta = dot(a->in[GO] + io, a->out[O] + io, n->E);
    if (a->sunk) a->out[DSINK][h] -= exp(sink - most) / sum * delta;
    for (int64_t k = 0; k < n->S; k++) {
        const int64_t key = at(n, n->Hkv, b, k, hk), ik = key * n->D, iv = key * n->E;
        const double ds = p[k] == 0 ? 0 : slope[k] * p[k] * (dot(a->in[GO] + io, a->in[V] + iv, n->E) - delta);
        for (int64_t d = 0; d < n->E; d++) a->out[DV][iv + d] += p[k] * a->in[GO][io + d];
        for (int64_t d = 0; d < n->D; d++) {
            a->out[DQ][iq + d] += ds * a->in[K][ik + d];
            a->out[DK][ik + d] += ds * a->in[Q][iq + d];
        }
    }
}

static void formula(arrays *a, sees_rule sees) {
    for (int i = 0; i < OUTPUTS; i++)
        for (int64_t j = 0; j < out_count(&a->n, i); j++) a->out[i][j] = 0;
    for (int64_t b = 0; b < a->n.B; b++)
        for (int64_t h = 0; h < a->n.Hq; h++)
            for (int64_t s = 0; s < a->n.S; s++) one_row(a, sees, b, s, h);
}

static arrays make_arrays(sizes n) {
    arrays a = {.n = n};
    for (int i = 0; i < INPUTS; i++) {
        a.in[i] = malloc(sizeof(double) * (size_t)in_count(&n, i));
        fill_normal(a.in[i], in_count(&n, i), (uint64_t)i + 1);
    }
    for (int i = 0; i < OUTPUTS; i++) a.out[i] = calloc((size_t)out_count(&n, i), sizeof(double));
    return a;
}

static void free_arrays(arrays *a) {
    for (int i = 0; i < INPUTS; i++) free(a->in[i]);
    for (int i = 0; i < OUTPUTS; i++) free(a->out[i]);
}

/* --- masks, once as text and once as what they mean --------------------------------------------------------------- */

static const int32_t document_ends[] = {0, 1, 9, 9, 10, 30, 37};
static bool sees_all(int64_t q, int64_t k) { return q >= 0 && k >= 0; }
static bool sees_causal(int64_t q, int64_t k) { return k <= q; }
static bool sees_window(int64_t q, int64_t k) { return k <= q && k > q - 5; }
static bool sees_window_first(int64_t q, int64_t k) { return k <= q && (k > q - 7 || k < 3); }
static bool sees_prefix(int64_t q, int64_t k) { return k <= q || k < 11; }
static bool sees_document(int64_t q, int64_t k) {
    for (size_t i = 1; i < LS_COUNT(document_ends); i++) {
        const int64_t lo = document_ends[i - 1], hi = document_ends[i];
        if (q >= lo && q < hi) return k >= lo && k < hi;
    }
    return false;
}
static bool sees_both(int64_t q, int64_t k) { return sees_document(q, k) && sees_window(q, k); }
static bool sees_late(int64_t q, int64_t k) { return sees_document(q, k) && sees_prefix(q, k); }

static const struct {
    const char *text; /* %s: the file of document ends */
    sees_rule sees;
} masks[] = {
    {"full", sees_all},
    {"causal", sees_causal},
    {"window:5", sees_window},
    {"window:7:3", sees_window_first},
    {"prefix:11", sees_prefix},
    {"documents:%s", sees_document},
    {"window:5+documents:%s", sees_both},
    {"documents:%s+prefix:11", sees_late},
};

/* --- running ------------------------------------------------------------------------------------------------------ */

static void write_inputs(void **state, const arrays *a) {
    const sizes *n = &a->n;
    assert_ok(ls_npy_write(scratch_path(state, in_file[SINK]), LS_NPY_F8, 1, &n->Hq, a->in[SINK]));
    for (int i = 0; i < SINK; i++) {
        const int64_t shape[] = {n->B, n->S, i == K || i == V ? n->Hkv : n->Hq, i == V || i == GO ? n->E : n->D};
        assert_ok(ls_npy_write(scratch_path(state, in_file[i]), LS_NPY_F8, 4, shape, a->in[i]));
    }
    const int64_t ends = LS_COUNT(document_ends);
    assert_ok(ls_npy_write(scratch_path(state, "ends.npy"), LS_NPY_I4, 1, &ends, document_ends));
}

/* The thread sanitizer watches forked ranks one by one; as threads it sees them together. */
static bool as_threads(void) {
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    return sanitizer != NULL && strcmp(sanitizer, "thread") == 0;
}

static ls_status run_job(void **state, const arrays *a, const char *mask, const char *dtype, const ls_spread *spread,
                         ls_spread_result *result) {
    static char path[INPUTS][512], out[512], text[1100], ends[512];
    for (int i = 0; i < INPUTS; i++) snprintf(path[i], sizeof path[i], "%s", scratch_path(state, in_file[i]));
    snprintf(out, sizeof out, "%s", scratch_path(state, "out"));
    snprintf(ends, sizeof ends, "%s", scratch_path(state, "ends.npy"));
    const char *hole = strstr(mask, "%s");
    if (hole == NULL)
        snprintf(text, sizeof text, "%s", mask);
    else
        snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - mask), mask, ends, hole + 2);
    const ls_attention_job job = {.q = path[Q],
                                  .k = path[K],
                                  .v = path[V],
                                  .grad_o = path[GO],
                                  .sink = a->sunk ? path[SINK] : NULL,
                                  .softcap = a->softcap,
                                  .mask = text,
                                  .dtype = dtype,
                                  .out = out,
                                  .spread = *spread};
    return ls_run_attention(&job, result);
}

/* ||a - b|| / ||b|| of an output file; -inf must stand in the same places. */
static double error_of(void **state, int i, const arrays *a, ls_npy_type type) {
    char name[64];
    snprintf(name, sizeof name, "out/%s", out_file[i]);
    ls_npy file;
    assert_ok(ls_npy_open(scratch_path(state, name), &file));
    assert_int_equal(file.type, type);
    const int64_t n = out_count(&a->n, i);
    assert_int_equal(file.count, n);
    if (i == LSE) {
        assert_int_equal(file.ndim, 3);
        assert_int_equal(file.shape[1], a->n.Hq);
    } else if (i == DSINK) {
        assert_int_equal(file.ndim, 1);
    } else {
        assert_int_equal(file.ndim, 4);
        assert_int_equal(file.shape[1], a->n.S);
    }
    double difference = 0, norm = 0;
    for (int64_t j = 0; j < n; j++) {
        const double x = type == LS_NPY_F8 ? ((const double *)file.data)[j] : (double)((const float *)file.data)[j];
        if (isinf(a->out[i][j])) {
            assert_true(x == a->out[i][j]);
            continue;
        }
        difference += (x - a->out[i][j]) * (x - a->out[i][j]);
        norm += a->out[i][j] * a->out[i][j];
    }
    ls_npy_close(&file);
    return sqrt(difference / norm);
}

static void check(void **state, const arrays *a, const char *mask, const char *dtype, const ls_spread *spread,
                  double tolerance) {
    ls_spread_result result;
    assert_ok(run_job(state, a, mask, dtype, spread, &result));
    assert_string_equal(result.strategy, spread->strategy);
    const bool alone = spread->ranks == 1;
    /* left to choice, a ring is read in place, where the strategy can */
    bool reads;
    assert_ok(ls_strategy_reads_in_place(spread->strategy, &reads));
    const bool put = spread->transfers != NULL ? strcmp(spread->transfers, "put") == 0
                                               : !reads || strstr(result.mesh, "ulysses=1") == NULL;
    assert_string_equal(result.transfers, put || alone ? "put" : "in-place");
    assert_int_equal(result.bytes_sent_forward > 0, !alone && put);
    assert_int_equal(result.bytes_sent_backward > 0, !alone && (put || a->sunk)); /* dsink is added up */
    assert_int_equal(result.bytes_read_forward > 0, !alone && !put);
    assert_int_equal(result.bytes_read_backward > 0, !alone && !put);
    for (int i = 0; i < (a->sunk ? OUTPUTS : DSINK); i++) {
        const double error = error_of(state, i, a, strcmp(dtype, "f64") == 0 ? LS_NPY_F8 : LS_NPY_F4);
        if (!(error <= tolerance))
            fail_msg("%s, %s, %s, %lld ranks, %s, %s: %s is off by %g", mask, dtype, spread->strategy,
                     (long long)spread->ranks, spread->mesh != NULL ? spread->mesh : "auto", spread->layout,
                     out_file[i], error);
    }
}

static const struct {
    int64_t ranks;
    const char *strategy, *mesh;
} meshes[] = {{1, "local", NULL},
              {2, "ring", NULL},
              {3, "ring", NULL},
              {4, "ring", NULL},
              {2, "ulysses", NULL},
              {3, "ulysses", NULL},
              {4, "ulysses", NULL},
              {4, "usp", "ring=2,ulysses=2"},
              {8, "usp", "ring=4,ulysses=2"},
              {3, "tokenring", "ring=3"},
              {5, "tokenring", "ring=5"},
              {4, "tokenring", "ring=2,ulysses=2"},
              {4, "decode", "ring=4"},
              {6, "decode", "ring=3,ulysses=2"},
              {4, "double-ring", "outer=2,ring=2"},
              {6, "double-ring", "outer=2,ring=3"},
              {8, "double-ring", "outer=4,ring=2"},
              {8, "double-ring", "outer=2,ring=2,ulysses=2"},
              {3, "burst", "ring=3"},
              {8, "burst", "ring=8"},
              {4, "burst", "ring=2,ulysses=2"},
              {3, "rsa", "ring=3"},
              {7, "rsa", "ring=7"},
              {4, "rsa", "ring=2,ulysses=2"}};
static const char *const layouts[] = {"contiguous", "zigzag", "striped", "documents", "balanced"};

/* Some meshes have every mask in every layout; the others take turns. */
static void test_every_mask(void **state) {
    arrays a = make_arrays((sizes){2, 37, 6, 3, 5, 7});
    write_inputs(state, &a);
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        formula(&a, masks[m].sees);
        for (size_t i = 0; i < LS_COUNT(meshes); i++) {
            for (size_t l = 0; l < LS_COUNT(layouts); l++) {
                if (i != 2 && i != 7 && i != 10 && (m + i + l) % 3 != 0) continue;
                const ls_spread spread = {.ranks = meshes[i].ranks,
                                          .strategy = meshes[i].strategy,
                                          .mesh = meshes[i].mesh,
                                          .layout = layouts[l],
                                          .threads = 1,
                                          .as_threads = as_threads() || m % 2 == 0};
                check(state, &a, masks[m].text, "f64", &spread, 1e-12);
            }
        }
    }
    free_arrays(&a);
}

static void test_precision(void **state) {
    arrays a = make_arrays((sizes){1, 61, 8, 2, 16, 16});
    write_inputs(state, &a);
    formula(&a, sees_causal);
    const ls_spread spread = {
        .ranks = 3, .strategy = "ring", .layout = "zigzag", .threads = 1, .as_threads = as_threads()};
    check(state, &a, "causal", "f32", &spread, 2e-6);
    check(state, &a, "causal", "bf16", &spread, 2e-2);
    ls_spread other = spread;
    other.transfers = "put";
    check(state, &a, "causal", "f32", &other, 2e-6);
    check(state, &a, "causal", "bf16", &other, 2e-2);
    other.transfers = "in-place";
    check(state, &a, "causal", "f32", &other, 2e-6);
    check(state, &a, "causal", "bf16", &other, 2e-2);
    free_arrays(&a);
}

/* Strategies that merge otherwise than the ring: the error is at most that of one rank times the number of merges. */
static void test_travelling_precision(void **state) {
    static const struct {
        const char *strategy, *mesh;
        int64_t ranks;
    } places[] = {{"tokenring", "ring=2", 2},
                  {"tokenring", "ring=8", 8},
                  {"tokenring", "ring=4,ulysses=2", 8},
                  {"decode", "ring=5", 5},
                  {"burst", "ring=8", 8},
                  {"rsa", "ring=4", 4},
                  {"double-ring", "outer=2,ring=4", 8}};
    arrays a = make_arrays((sizes){1, 61, 8, 2, 16, 24});
    write_inputs(state, &a);
    formula(&a, sees_causal);
    const ls_spread one = {.ranks = 1, .strategy = "local", .threads = 1};
    ls_spread_result result;
    double alone[DSINK];
    assert_ok(run_job(state, &a, "causal", "bf16", &one, &result));
    for (int i = 0; i < DSINK; i++) alone[i] = error_of(state, i, &a, LS_NPY_F4);
    for (size_t p = 0; p < LS_COUNT(places); p++) {
        const ls_spread spread = {.ranks = places[p].ranks,
                                  .strategy = places[p].strategy,
                                  .mesh = places[p].mesh,
                                  .layout = "zigzag",
                                  .threads = 1,
                                  .as_threads = as_threads()};
        check(state, &a, "causal", "f32", &spread, 2e-6);
        assert_ok(run_job(state, &a, "causal", "bf16", &spread, &result));
        for (int i = 0; i < DSINK; i++) {
            const double error = error_of(state, i, &a, LS_NPY_F4);
            if (!(error <= 2 * alone[i] + 0x1p-9))
                fail_msg("%s, %s, bf16: %s is off by %g, one rank by %g", places[p].strategy, places[p].mesh,
                         out_file[i], error, alone[i]);
        }
    }
    free_arrays(&a);
}

/* A sink and a soft cap, on 1 to 6 ranks, every mask on each strategy, put and in place. */
static void test_sink(void **state) {
    static const struct {
        int64_t ranks;
        const char *strategy, *mesh;
    } places[] = {{1, "local", NULL},
                  {2, "ring", NULL},
                  {3, "ring", NULL},
                  {4, "ring", NULL},
                  {5, "ring", NULL},
                  {2, "ulysses", NULL},
                  {3, "ulysses", NULL},
                  {4, "ulysses", NULL},
                  {5, "ulysses", NULL},
                  {4, "usp", "ring=2,ulysses=2"},
                  {6, "usp", "ring=3,ulysses=2"},
                  {4, "ring", "dp=2"},
                  {4, "tokenring", "ring=4"},
                  {6, "decode", "ring=3,ulysses=2"},
                  {4, "double-ring", "outer=2,ring=2"},
                  {3, "burst", "ring=3"},
                  {3, "rsa", "ring=3"}};
    arrays a = make_arrays((sizes){2, 37, 6, 3, 5, 2});
    a.sunk = true;
    write_inputs(state, &a);
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        a.softcap = m % 2 == 0 ? 0 : 1.25;
        formula(&a, masks[m].sees);
        for (size_t i = m % 2; i < LS_COUNT(places); i += 1 + (m < 6)) {
            bool reads;
            assert_ok(ls_strategy_reads_in_place(places[i].strategy, &reads));
            const bool alone = places[i].ranks == 1;
            const ls_spread spread = {.ranks = places[i].ranks,
                                      .strategy = places[i].strategy,
                                      .mesh = places[i].mesh,
                                      .layout = layouts[(m + i) % 3],
                                      .transfers = alone || !reads        ? NULL
                                                   : (m + i / 2) % 2 == 0 ? "put"
                                                                          : "in-place",
                                      .threads = 1,
                                      .as_threads = true};
            check(state, &a, masks[m].text, "f64", &spread, 1e-12);
        }
    }
    const ls_spread one = {.ranks = 1, .strategy = "local", .layout = "contiguous", .threads = 2};
    const ls_spread four = {.ranks = 4,
                            .strategy = "usp",
                            .mesh = "ring=2,ulysses=2",
                            .layout = "zigzag",
                            .threads = 1,
                            .as_threads = true};
    a.softcap = 1.25;
    formula(&a, sees_causal);
    check(state, &a, "causal", "f32", &one, 2e-6);
    check(state, &a, "causal", "f32", &four, 2e-6);
    check(state, &a, "causal", "bf16", &one, 2e-2);
    check(state, &a, "causal", "bf16", &four, 2e-2);
    free_arrays(&a);
}

/* Any size of heads, and another one of those of values, in every type; ranks in turn. */
static void test_head_sizes(void **state) {
    static const int64_t sizes_of_heads[] = {1, 3, 8, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256, 300};
    static const char *const strategies[] = {"local", "ring", "ulysses"};
    for (size_t i = 0; i < LS_COUNT(sizes_of_heads); i++) {
        const size_t other = (5 * i + 3) % LS_COUNT(sizes_of_heads);
        arrays a = make_arrays((sizes){1, 23, 4, 2, sizes_of_heads[i], sizes_of_heads[other]});
        a.softcap = i % 2 == 0 ? 0 : 4;
        write_inputs(state, &a);
        formula(&a, sees_causal);
        const ls_spread spread = {.ranks = 1 + (int64_t)i % 3,
                                  .strategy = i % 3 == 0 ? "local" : strategies[1 + i / 3 % 2],
                                  .layout = "contiguous",
                                  .threads = 1,
                                  .as_threads = true};
        check(state, &a, "causal", "f64", &spread, 1e-12);
        check(state, &a, "causal", "f32", &spread, 2e-6);
        check(state, &a, "causal", "bf16", &spread, 2e-2);
        free_arrays(&a);
    }
}

static void test_batch_over_dp(void **state) {
    arrays a = make_arrays((sizes){4, 20, 4, 2, 4, 6});
    write_inputs(state, &a);
    formula(&a, sees_causal);
    const ls_spread spread = {
        .ranks = 4, .strategy = "ring", .mesh = "dp=2", .layout = "zigzag", .threads = 1, .as_threads = as_threads()};
    check(state, &a, "causal", "f64", &spread, 1e-12);
    free_arrays(&a);
}

/* Without options Longspan chooses, and the result is right. */
static void test_auto(void **state) {
    arrays a = make_arrays((sizes){1, 32, 4, 2, 4, 4});
    write_inputs(state, &a);
    formula(&a, sees_causal);
    const ls_spread spread = {.ranks = 4, .threads = 1, .as_threads = as_threads()};
    ls_spread_result result;
    assert_ok(run_job(state, &a, "causal", NULL, &spread, &result));
    for (int i = 0; i < DSINK; i++) assert_true(error_of(state, i, &a, LS_NPY_F8) <= 1e-12);
    assert_true(result.strategy[0] != 0 && result.mesh[0] != 0 && result.layout[0] != 0);
    assert_true(result.seconds > 0 && result.predicted_bytes > 0);
    free_arrays(&a);
}

static void refused(void **state, const char *mask, const char *dtype, const ls_spread *spread, ls_code code,
                    const char *word, const char *other) {
    ls_spread_result result;
    const arrays plain = {.sunk = false};
    assert_error(run_job(state, &plain, mask, dtype, spread, &result), code, word, other);
}

static void test_refusals(void **state) {
    arrays a = make_arrays((sizes){1, 37, 6, 3, 5, 5});
    write_inputs(state, &a);
    const ls_spread one = {.ranks = 1, .threads = 1}, many = {.ranks = 100000},
                    heads = {.ranks = 7, .strategy = "ulysses"};
    const ls_spread tokens = {.ranks = 38}, odd = {.ranks = 4, .mesh = "ring=3"},
                    local = {.ranks = 2, .strategy = "local"};
    const ls_spread name = {.ranks = 2, .strategy = "rings"}, negative = {.ranks = -1};
    refused(state, "window:0", "f64", &one, LS_USAGE, "window:0", "W at least 1");
    refused(state, "causal+", "f64", &one, LS_USAGE, "mask term ''", "expected");
    refused(state, "documents:/nowhere.npy", "f64", &one, LS_IO, "/nowhere.npy", "");
    refused(state, "causal", "f16", &one, LS_USAGE, "f16", "bf16");
    refused(state, "causal", "f64", &many, LS_USAGE, "37 tokens", "100000 ranks");
    refused(state, "causal", "f64", &negative, LS_USAGE, "-1 ranks", "expected 1 to");
    refused(state, "causal", "f64", &tokens, LS_USAGE, "37 tokens", "38 ranks");
    refused(state, "causal", "f64", &odd, LS_USAGE, "ring=3", "4 ranks");
    refused(state, "causal", "f64", &local, LS_USAGE, "local", "2 ranks");
    refused(state, "causal", "f64", &heads, LS_USAGE, "ulysses=7", "6 query heads");
    refused(state, "causal", "f64", &name, LS_USAGE, "rings", "local, ring, ulysses, usp, gather, tokenring, decode");
    const int64_t bad[] = {1, 37, 4, 5}, short_k[] = {1, 36, 3, 5}, other_do[] = {1, 37, 6, 4};
    assert_ok(ls_npy_write(scratch_path(state, "k.npy"), LS_NPY_F8, 4, bad, a.in[Q]));
    assert_ok(ls_npy_write(scratch_path(state, "v.npy"), LS_NPY_F8, 4, bad, a.in[Q]));
    refused(state, "causal", "f64", &one, LS_INVALID, "6 heads", "4");
    assert_ok(ls_npy_write(scratch_path(state, "k.npy"), LS_NPY_F8, 4, short_k, a.in[Q]));
    refused(state, "causal", "f64", &one, LS_INVALID, "k.npy: shape is [1,36,3,5]", "[1,37,3,5]");
    write_inputs(state, &a);
    assert_ok(ls_npy_write(scratch_path(state, "do.npy"), LS_NPY_F8, 4, other_do, a.in[GO]));
    refused(state, "causal", "f64", &one, LS_INVALID, "do.npy: shape is [1,37,6,4]", "[1,37,6,5]");
    write_inputs(state, &a);
    assert_ok(ls_npy_write(scratch_path(state, "sink.npy"), LS_NPY_F8, 1, &bad[3], a.in[SINK]));
    a.sunk = true;
    ls_spread_result result;
    assert_error(run_job(state, &a, "causal", "f64", &one, &result), LS_INVALID, "sink.npy: shape is [5]", "[6]");
    assert_ok(ls_npy_write(scratch_path(state, "q.npy"), LS_NPY_F8, 3, bad, a.in[Q]));
    refused(state, "causal", "f64", &one, LS_INVALID, "q.npy", "[B,S,H,D]");
    free_arrays(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mask),    cmocka_unit_test(test_precision),
        cmocka_unit_test(test_batch_over_dp), cmocka_unit_test(test_auto),
        cmocka_unit_test(test_sink),          cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_travelling_precision),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
