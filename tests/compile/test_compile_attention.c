/*
 * Attention over every mesh in f64 against one rank tests the logic of lowering, transfers and placement: every
 * strategy, layouts, masks, shared and uneven heads, lengths that do not divide, sinks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_call.h"
#include "support/meshes.h"
#include "support/spread.h"

/* Of a head of values; keys have other sizes. */
enum { E = 3 };

typedef struct problem {
    int64_t B, S, Hq, Hkv, D;
    ls_mask mask;
    bool sunk; /* with a sink */
} problem;

enum { O, LSE, DQ, DK, DV, DSINK, RESULTS };
static const char *const result_name[RESULTS] = {"o", "lse", "dq", "dk", "dv", "dsink"};

typedef struct results {
    double *data[RESULTS];
    int64_t n[RESULTS];
} results;

static results make_results(const problem *p) {
    results r = {.n = {p->B * p->S * p->Hq * E, p->B * p->S * p->Hq, p->B * p->S * p->Hq * p->D,
                       p->B * p->S * p->Hkv * p->D, p->B * p->S * p->Hkv * E, p->sunk ? p->Hq : 0}};
    for (int i = 0; i < RESULTS; i++) r.data[i] = calloc((size_t)r.n[i] + 1, sizeof(double));
    return r;
}

static void free_results(results *r) {
    for (int i = 0; i < RESULTS; i++) free(r->data[i]);
}

static void run(const problem *p, ls_mesh mesh, const char *strategy, ls_layout_kind layout, ls_transfers transfers,
                int host_ranks, results *out) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_shape qs = {4, {{p->B, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hq, 0}, {p->D, 0}}};
    const ls_shape ks = {4, {{p->B, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hkv, 0}, {p->D, 0}}};
    const ls_shape vs = {4, {{p->B, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hkv, 0}, {E, 0}}};
    const ls_shape os = {4, {{p->B, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hq, 0}, {E, 0}}};
    const ls_tensor q = ls_graph_leaf(g, LS_ROLE_INPUT, "q", LS_F64, &qs),
                    k = ls_graph_leaf(g, LS_ROLE_INPUT, "k", LS_F64, &ks),
                    v = ls_graph_leaf(g, LS_ROLE_INPUT, "v", LS_F64, &vs),
                    go = ls_graph_leaf(g, LS_ROLE_INPUT, "do", LS_F64, &os);
    const ls_shape hs = {1, {{p->Hq, 0}}};
    const ls_tensor sink = p->sunk ? ls_graph_leaf(g, LS_ROLE_INPUT, "sink", LS_F64, &hs) : LS_NO_TENSOR;
    const ls_tensor o = ls_attention_with_sink(g, q, k, v, sink, &p->mask, 0.3, 0);
    ls_derivative d = {.n_roots = 1, .root = {o}, .seed = {go}, .n_wanted = p->sunk ? 4 : 3, .wanted = {q, k, v, sink}};
    const ls_status differentiated = ls_differentiate(g, &d);
    if (differentiated.code != LS_OK) fail_msg("%s", differentiated.text);
    ls_tensor fetch[RESULTS] = {o, ls_attention_lse(g, o), d.gradient[0], d.gradient[1], d.gradient[2]};
    const int n_results = p->sunk ? RESULTS : DSINK;
    if (p->sunk) fetch[DSINK] = ls_cast(g, d.gradient[3], LS_F64); /* of the whole: the ranks' parts are added */
    for (int i = 0; i < n_results; i++) (void)ls_named(g, fetch[i], "%s", result_name[i]);

    double *in[5];
    const int64_t n[5] = {ls_shape_elements(&qs), ls_shape_elements(&ks), ls_shape_elements(&vs),
                          ls_shape_elements(&os), p->Hq};
    for (int i = 0; i < 5; i++) {
        in[i] = malloc((size_t)n[i] * sizeof(double));
        fill_normal(in[i], n[i], (uint64_t)i);
    }
    const spread_array inputs[] = {{"q", in[0]}, {"k", in[1]}, {"v", in[2]}, {"do", in[3]}, {"sink", in[4]}};
    spread_array outputs[RESULTS];
    for (int i = 0; i < RESULTS; i++) outputs[i] = (spread_array){result_name[i], out->data[i]};
    const spread_job job = {
        .job = {.graph = g, .programs = ls_plain_programs(g, 0), .fetch = fetch, .n_fetch = n_results},
        .target = {.mesh = mesh,
                   .strategy = strategy,
                   .layout = layout,
                   .threads = 1,
                   .transfers = transfers,
                   .host_ranks = host_ranks},
        .in = inputs,
        .n_in = p->sunk ? 5 : 4,
        .out = outputs,
        .n_out = n_results};
    const ls_status status = spread_run(&job);
    if (status.code != LS_OK) fail_msg("%s: %s", strategy, status.text);
    for (int i = 0; i < 5; i++) free(in[i]);
    ls_graph_destroy(g);
}

static void check_near(const results *one, const results *many, ls_mesh mesh, const char *strategy,
                       ls_layout_kind layout) {
    for (int i = 0; i < RESULTS; i++) {
        const size_t bytes = sizeof(double) * (size_t)one->n[i];
        double *const expected = memcpy(malloc(bytes + 1), one->data[i], bytes), *const found =
                                                                                     memcpy(malloc(bytes + 1),
                                                                                            many->data[i], bytes);
        for (int64_t j = 0; i == LSE && j < one->n[i]; j++) { /* -inf where nothing is seen, on both sides */
            if (expected[j] < -1e300 && found[j] < -1e300) expected[j] = found[j] = 0;
        }
        const double error = relative_error(found, expected, one->n[i], 1e-3);
        free(expected);
        free(found);
        if (!(error <= 1e-12))
            fail_msg("%s %d×%d %s: %s differs from one rank by %g", strategy, mesh_ulysses(&mesh), mesh_ring(&mesh),
                     ls_layout_name(layout), result_name[i], error);
    }
}

/* With blocks that arrive otherwise the bits are the same. */
static void check_same(const problem *p, ls_mesh mesh, const char *strategy, ls_layout_kind layout,
                       ls_transfers transfers, int host_ranks, const results *expected) {
    results again = make_results(p);
    run(p, mesh, strategy, layout, transfers, host_ranks, &again);
    for (int i = 0; i < RESULTS; i++) {
        if (memcmp(again.data[i], expected->data[i], (size_t)again.n[i] * sizeof(double)) != 0)
            fail_msg("%s %d×%d %s: %s with transfers %s on hosts of %d ranks has other bits", strategy,
                     mesh_ulysses(&mesh), mesh_ring(&mesh), ls_layout_name(layout), result_name[i],
                     ls_transfers_name(transfers), host_ranks);
    }
    free_results(&again);
}

static results run_alone(const problem *p) {
    results one = make_results(p);
    run(p, mesh_of(1, 1, 1), "local", LS_LAYOUT_CONTIGUOUS, LS_TRANSFERS_PUT, LS_ONE_HOST, &one);
    return one;
}

/* one: by run_alone(p). */
static void compare_with(const results *one, const problem *p, ls_mesh mesh, const char *strategy,
                         ls_layout_kind layout) {
    const int R = mesh_ring(&mesh), U = mesh_ulysses(&mesh);
    results many = make_results(p);
    run(p, mesh, strategy, layout, LS_TRANSFERS_PUT, LS_ONE_HOST, &many);
    bool reads;
    assert_int_equal(ls_strategy_reads_in_place(strategy, &reads).code, LS_OK);
    const ls_transfers other = reads || U > 1 ? LS_TRANSFERS_IN_PLACE : LS_TRANSFERS_PUT;
    check_same(p, mesh, strategy, layout, other, LS_ONE_HOST, &many);
    if (reads && U > 1 && R > 1) check_same(p, mesh, strategy, layout, other, U, &many);
    check_near(one, &many, mesh, strategy, layout);
    free_results(&many);
}

static void compare(const problem *p, ls_mesh mesh, const char *strategy, ls_layout_kind layout) {
    results one = run_alone(p);
    compare_with(&one, p, mesh, strategy, layout);
    free_results(&one);
}

static ls_mask mask_of(const char *a, const char *b) {
    ls_mask mask = {0};
    assert_int_equal(ls_mask_add_term(&mask, a).code, LS_OK);
    if (b != NULL) assert_int_equal(ls_mask_add_term(&mask, b).code, LS_OK);
    return mask;
}

static void over_meshes(const problem *p) {
    static const struct {
        int outer, ring, ulysses;
        const char *strategy;
    } meshes[] = {
        {1, 1, 1, "ring"},        {1, 2, 1, "ring"},        {1, 3, 1, "ring"},        {1, 4, 1, "ring"},
        {1, 5, 1, "ring"},        {1, 8, 1, "ring"},        {1, 1, 2, "ulysses"},     {1, 1, 3, "ulysses"},
        {1, 1, 4, "ulysses"},     {1, 2, 2, "usp"},         {1, 4, 2, "usp"},         {1, 3, 2, "usp"},
        {1, 2, 4, "usp"},         {1, 2, 1, "gather"},      {1, 3, 1, "gather"},      {1, 4, 1, "gather"},
        {1, 5, 1, "gather"},      {1, 8, 1, "gather"},      {1, 3, 2, "gather"},      {1, 2, 4, "gather"},
        {1, 2, 1, "tokenring"},   {1, 3, 1, "tokenring"},   {1, 5, 1, "tokenring"},   {1, 8, 1, "tokenring"},
        {1, 2, 2, "tokenring"},   {1, 4, 2, "tokenring"},   {1, 1, 2, "tokenring"},   {1, 2, 1, "decode"},
        {1, 4, 1, "decode"},      {1, 5, 1, "decode"},      {1, 3, 2, "decode"},      {1, 2, 1, "burst"},
        {1, 3, 1, "burst"},       {1, 5, 1, "burst"},       {1, 8, 1, "burst"},       {1, 3, 2, "burst"},
        {1, 2, 1, "rsa"},         {1, 3, 1, "rsa"},         {1, 5, 1, "rsa"},         {1, 8, 1, "rsa"},
        {1, 2, 2, "rsa"},         {1, 1, 1, "rsa"},         {2, 2, 1, "double-ring"}, {3, 2, 1, "double-ring"},
        {2, 3, 1, "double-ring"}, {4, 2, 1, "double-ring"}, {2, 4, 1, "double-ring"}, {3, 3, 1, "double-ring"},
        {2, 2, 2, "double-ring"}};
    results one = run_alone(p);
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        if (meshes[m].ulysses > p->Hq) continue;
        for (int layout = 0; layout < LS_LAYOUTS; layout++)
            compare_with(&one, p, mesh_of_outer(1, meshes[m].outer, meshes[m].ring, meshes[m].ulysses),
                         meshes[m].strategy, (ls_layout_kind)layout);
    }
    free_results(&one);
}

static void test_causal(void **state) {
    (void)state;
    over_meshes(&(problem){1, 40, 8, 2, 4, ls_mask_causal(), false});
}

static void test_uneven(void **state) {
    (void)state;
    over_meshes(&(problem){2, 37, 6, 3, 5, ls_mask_causal(), false});
    over_meshes(&(problem){1, 23, 5, 1, 3, mask_of("full", NULL), false});
}

static void test_masks(void **state) {
    (void)state;
    static const int32_t ends[] = {0, 1, 9, 10, 30, 33};
    problem p = {1, 33, 4, 2, 4, mask_of("window:7:3", "prefix:20"), false};
    over_meshes(&p);
    p.mask = mask_of("causal", NULL);
    p.mask.term[p.mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    over_meshes(&p);
    p.mask = mask_of("window:4", NULL); /* most blocks see nothing of most others */
    over_meshes(&p);
    p.mask = mask_of("window:3:2", NULL);
    over_meshes(&p);
}

/*
 * Documents of one token and of two, in turn: what a rank sees of another is every other token, more ranges than are
 * told apart.
 */
static void test_many_ranges(void **state) {
    (void)state;
    enum { S = 240 };
    int32_t ends[S];
    int n = 0;
    for (int32_t at = 0; at <= S; at += n % 3 == 0 ? 2 : 1) ends[n++] = at;
    problem p = {2, S, 2, 1, 4, mask_of("causal", NULL), false};
    p.mask.term[p.mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = n};
    assert_int_equal(ends[n - 1], S);
    compare(&p, mesh_of(1, 2, 1), "ring", LS_LAYOUT_STRIPED);
    compare(&p, mesh_of(1, 3, 1), "ring", LS_LAYOUT_STRIPED);
    compare(&p, mesh_of(1, 2, 2), "usp", LS_LAYOUT_STRIPED);
    compare(&p, mesh_of(1, 3, 1), "gather", LS_LAYOUT_STRIPED);
    compare(&p, mesh_of_outer(1, 2, 2, 1), "double-ring", LS_LAYOUT_STRIPED);
    compare(&p, mesh_of(1, 3, 1), "burst", LS_LAYOUT_STRIPED);
    compare(&p, mesh_of(1, 3, 1), "rsa", LS_LAYOUT_STRIPED);
}

/*
 * Every strategy that there is, on 1 to 6 ranks; and queries that see nothing but the sink, which is all of their lse.
 */
static void test_sink(void **state) {
    (void)state;
    static const int meshes[][3] = {{1, 1, 1}, {2, 1, 1}, {3, 1, 1}, {4, 1, 1}, {5, 1, 1}, {1, 2, 1},
                                    {1, 3, 1}, {1, 4, 1}, {2, 2, 1}, {3, 2, 1}, {2, 1, 2}, {3, 1, 2}};
    static const int32_t ends[] = {0, 1, 9, 10, 30, 33};
    problem p = {2, 33, 4, 2, 4, mask_of("causal", NULL), true};
    p.mask.term[0] = (ls_mask_term){.kind = LS_MASK_WINDOW, .first = 10}; /* the first 10, and nobody else */
    p.mask.term[p.mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    const problem causal = {1, 29, 6, 2, 5, ls_mask_causal(), true};
    for (int s = 0; ls_strategy_name(s) != NULL; s++) {
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            const ls_mesh mesh = mesh_of_outer(1, meshes[m][2], meshes[m][0], meshes[m][1]);
            const ls_attention_problem at = {
                .B = p.B, .S = p.S, .Hq = p.Hq, .Hkv = p.Hkv, .D = p.D, .E = E, .mesh = mesh};
            if (ls_strategy_applicable(ls_strategy_name(s), &at).code != LS_OK) continue;
            compare(&p, mesh, ls_strategy_name(s), (ls_layout_kind)(m % LS_LAYOUTS));
            compare(&causal, mesh, ls_strategy_name(s), (ls_layout_kind)((m + 1) % LS_LAYOUTS));
        }
    }
    compare(&p, mesh_of(2, 2, 2), "usp", LS_LAYOUT_ZIGZAG);
    results one = run_alone(&p);
    double sink[4];
    fill_normal(sink, p.Hq, 4); /* as run() does */
    for (int64_t i = 0; i < p.B * p.Hq * p.S; i++) {
        if (i % p.S < 10) continue; /* the others lie in documents that begin behind the first 10 */
        assert_true(one.data[LSE][i] == sink[i / p.S % p.Hq]);
        for (int64_t d = 0; d < E; d++)
            assert_true(one.data[O][(i / (p.Hq * p.S) * p.S + i % p.S) * p.Hq * E + d] == 0);
    }
    free_results(&one);
}

/* Long enough that pieces are dealt: many runs for each rank, whose lengths do not divide. */
static void test_layouts_of_many_runs(void **state) {
    (void)state;
    static const int32_t ends[] = {0, 1, 2, 90, 91, 211, 230, 299, 300, 301, 333};
    problem p = {1, 333, 4, 2, 4, mask_of("causal", NULL), false};
    p.mask.term[p.mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    for (int kind = LS_LAYOUT_DOCUMENTS; kind <= LS_LAYOUT_BALANCED; kind++) {
        compare(&p, mesh_of(1, 4, 1), "ring", (ls_layout_kind)kind);
        compare(&p, mesh_of(1, 1, 3), "ulysses", (ls_layout_kind)kind);
        compare(&p, mesh_of(1, 3, 2), "usp", (ls_layout_kind)kind);
        compare(&p, mesh_of_outer(1, 2, 3, 1), "double-ring", (ls_layout_kind)kind);
        compare(&p, mesh_of(1, 4, 1), "burst", (ls_layout_kind)kind);
        compare(&p, mesh_of(1, 4, 1), "rsa", (ls_layout_kind)kind);
    }
    p.mask = mask_of("window:40:3", NULL);
    compare(&p, mesh_of(1, 5, 1), "ring", LS_LAYOUT_BALANCED);
}

/* The blocks of two axes are one ring, whose bits do not depend on how it is divided into axes. */
static void test_two_rings(void **state) {
    (void)state;
    static const struct {
        const char *strategy;
        int dp, far, near, ulysses;
    } cases[] = {{"ring", 1, 2, 2, 1},   {"ring", 2, 2, 3, 1},      {"usp", 1, 2, 2, 2},   {"usp", 1, 3, 1, 2},
                 {"gather", 1, 2, 2, 1}, {"tokenring", 1, 2, 2, 1}, {"decode", 1, 2, 2, 2}};
    const problem p = {2, 37, 4, 2, 4, ls_mask_causal(), false};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const int far = cases[i].far, near = cases[i].near;
        const ls_mesh two = mesh_of_two_rings(cases[i].dp, far, near, cases[i].ulysses),
                      one = mesh_of(cases[i].dp, far * near, cases[i].ulysses);
        compare(&p, two, cases[i].strategy, LS_LAYOUT_ZIGZAG);
        results expected = make_results(&p);
        run(&p, one, cases[i].strategy, LS_LAYOUT_ZIGZAG, LS_TRANSFERS_PUT, LS_ONE_HOST, &expected);
        check_same(&p, two, cases[i].strategy, LS_LAYOUT_ZIGZAG, LS_TRANSFERS_PUT, LS_ONE_HOST, &expected);
        free_results(&expected);
    }
}

/* Attention uses axes that exchange heads only inside of those that do not. */
static void test_wrong_order(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_shape shape = {4, {{1, LS_FACTOR_BATCH}, {16, LS_FACTOR_SEQUENCE}, {2, 0}, {4, 0}}};
    const ls_tensor q = ls_graph_leaf(g, LS_ROLE_INPUT, "q", LS_F64, &shape);
    const ls_mask mask = ls_mask_causal();
    (void)ls_attention(g, q, q, q, &mask, 1);
    const ls_mesh usual = mesh_of(1, 2, 2);
    const ls_target target = {
        .mesh = {.n = 2, .along = {usual.along[2], usual.along[1]}}, .strategy = "usp", .threads = 1};
    const ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0)};
    ls_image *image;
    const ls_status status = ls_compile(&job, &target, &image);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "mesh axis ulysses exchanges heads, and ring inside of it does not"));
    ls_graph_destroy(g);
}

static void test_batch_over_dp(void **state) {
    (void)state;
    const problem p = {4, 20, 4, 2, 4, ls_mask_causal(), false};
    compare(&p, mesh_of(2, 2, 1), "ring", LS_LAYOUT_ZIGZAG);
    compare(&p, mesh_of(2, 1, 2), "ulysses", LS_LAYOUT_ZIGZAG);
    compare(&p, mesh_of(2, 2, 1), "tokenring", LS_LAYOUT_ZIGZAG);
    compare(&p, mesh_of(2, 2, 2), "decode", LS_LAYOUT_CONTIGUOUS);
    compare(&p, mesh_of_outer(2, 2, 2, 1), "double-ring", LS_LAYOUT_ZIGZAG);
    compare(&p, mesh_of(2, 2, 1), "burst", LS_LAYOUT_ZIGZAG);
    compare(&p, mesh_of(2, 2, 1), "rsa", LS_LAYOUT_ZIGZAG);
    compare(&p, mesh_of(4, 1, 1), "local", LS_LAYOUT_ZIGZAG);
    compare(&p, mesh_of(2, 2, 2), "usp", LS_LAYOUT_STRIPED);
}

static void test_refusals(void **state) {
    (void)state;
    const problem p = {1, 16, 4, 2, 4, ls_mask_causal(), false};
    const ls_attention_problem too_many = {.Hq = p.Hq, .mesh = mesh_of(1, 1, 5)};
    const ls_status heads = ls_strategy_applicable("ulysses", &too_many);
    assert_int_equal(heads.code, LS_USAGE);
    assert_non_null(strstr(heads.text, "4 query heads"));
    const ls_status unknown = ls_strategy_applicable("rings", &too_many);
    assert_int_equal(unknown.code, LS_USAGE);
    assert_non_null(
        strstr(unknown.text, "local, ring, ulysses, usp, gather, tokenring, decode, double-ring, burst, rsa"));
    const ls_attention_problem one_ring = {.Hq = p.Hq, .mesh = mesh_of(1, 4, 1)};
    const ls_status rings = ls_strategy_applicable("double-ring", &one_ring);
    assert_int_equal(rings.code, LS_USAGE);
    assert_non_null(strstr(rings.text, "strategy double-ring: the mesh has one ring, of 4 blocks"));
    const ls_status token_heads = ls_strategy_applicable("tokenring", &too_many);
    assert_int_equal(token_heads.code, LS_USAGE);
    assert_non_null(strstr(token_heads.text, "strategy tokenring: ulysses=5 ranks but only 4 query heads"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causal),    cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_masks),     cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_sink),      cmocka_unit_test(test_batch_over_dp),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_layouts_of_many_runs),
        cmocka_unit_test(test_two_rings), cmocka_unit_test(test_wrong_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
