/*
 * How options are resolved: spreads, candidates, their order and the reason; and a session from a spread to its
 * ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "report/report.h"
#include "session/session.h"
#include "support/emulated.h"
#include "support/meshes.h"
#include "support/scratch.h"

#include <math.h>

/* --- spreads ------------------------------------------------------------------------------------------------------ */

static void test_spread(void **state) {
    (void)state;
    ls_plan_request r;
    ls_machine machine;
    ls_machine_detect(&machine);
    assert_ok(ls_spread_resolve(&(ls_spread){.ranks = 0}, &r));
    assert_int_equal(r.ranks, 1);
    assert_int_equal(r.threads, machine.cores);
    assert_int_equal(r.isa, machine.isa);
    assert_ok(ls_spread_resolve(&(ls_spread){.mesh = "ring=3,ulysses=2"}, &r));
    assert_int_equal(r.ranks, 6);
    assert_ok(ls_spread_resolve(&(ls_spread){.ranks = 1000, .isa = "ref"}, &r));
    assert_int_equal(r.threads, 1);
    assert_int_equal(r.isa, LS_ISA_REF);
    assert_ok(ls_spread_resolve(&(ls_spread){.ranks = 100000}, &r));
    assert_int_equal(r.ranks, 100000);
    assert_error(ls_spread_resolve(&(ls_spread){.ranks = (int64_t)1 << 31}, &r), LS_USAGE, "2147483648", "1 to");
    assert_error(ls_spread_resolve(&(ls_spread){.ranks = 1, .threads = -1}, &r), LS_USAGE, "--threads -1", "1 to");
    assert_error(ls_spread_resolve(&(ls_spread){.ranks = 1, .isa = "sse"}, &r), LS_USAGE, "sse", "avx512");
    assert_error(ls_spread_resolve(&(ls_spread){.ranks = 1, .mesh = "ep=2"}, &r), LS_USAGE, "ep", "ulysses");
    if (!ls_isa_allows(machine.isa, LS_FEATURE_AMX_BF16))
        assert_error(ls_spread_resolve(&(ls_spread){.ranks = 1, .isa = "amx"}, &r), LS_USAGE, "amx",
                     ls_isa_name(machine.isa));
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

typedef struct problem {
    ls_graph *graph;
    ls_tensor output;
    ls_job job;
} problem;

static problem *make_grouped(int64_t S, int64_t Hq, int64_t Hkv, const ls_mask *mask) {
    problem *p = calloc(1, sizeof *p);
    p->graph = ls_graph_create(LS_F32);
    ls_shape shape = {4, {{2, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {Hq, LS_FACTOR_NONE}, {16, LS_FACTOR_NONE}}};
    ls_tensor in[3];
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++) {
        shape.dim[2].size = i == 0 ? Hq : Hkv;
        in[i] = ls_graph_leaf(p->graph, LS_ROLE_INPUT, names[i], LS_F32, &shape);
    }
    p->output = ls_named(p->graph, ls_attention(p->graph, in[0], in[1], in[2], mask, 0.25), "o");
    assert_ok(ls_graph_status(p->graph));
    p->job = (ls_job){.graph = p->graph,
                      .programs = ls_plain_programs(p->graph, p->graph->n_nodes),
                      .fetch = &p->output,
                      .n_fetch = 1};
    return p;
}

static problem *make_masked(int64_t S, int64_t Hq, const ls_mask *mask) { return make_grouped(S, Hq, Hq, mask); }

static problem *make_problem(int64_t S, int64_t Hq, const char *mask_text) {
    ls_mask mask = {.n = 0};
    assert_ok(ls_mask_add_term(&mask, mask_text));
    return make_masked(S, Hq, &mask);
}

static void free_problem(problem *p) {
    ls_graph_destroy(p->graph);
    free(p);
}

/* In place of the plan that *out was. */
static ls_status make(const problem *p, const ls_plan_request *request, ls_plan *out) {
    ls_plan_free(out);
    return ls_plan_make(&p->job, request, out);
}

static ls_status plan(const problem *p, const ls_spread *spread, ls_plan *out) {
    ls_plan_request request;
    LS_TRY(ls_spread_resolve(spread, &request));
    return make(p, &request, out);
}

static const ls_plan_candidate *find(const ls_plan *plan, const char *strategy, int ring, int ulysses,
                                     ls_layout_kind layout) {
    for (int i = 0; i < plan->n_candidates; i++) {
        const ls_plan_candidate *c = &plan->candidates[i];
        if (mesh_ring(&c->mesh) == ring && mesh_ulysses(&c->mesh) == ulysses && c->layout == layout &&
            strcmp(c->strategies.full, strategy) == 0)
            return c;
    }
    return NULL;
}

static void test_candidates(void **state) {
    (void)state;
    problem *p = make_problem(512, 4, "causal");
    ls_plan made = {.n_candidates = 0};
    assert_ok(plan(p, &(ls_spread){.ranks = 4}, &made));
    assert_true(made.n_candidates >= 6);
    for (int i = 1; i < made.n_candidates; i++) {
        assert_true(made.candidates[i - 1].seconds <= made.candidates[i].seconds * (1 + 1e-5));
        assert_true(made.candidates[i].refused[0] == 0);
    }
    const ls_plan_candidate *balanced = find(&made, "ring", 4, 1, LS_LAYOUT_ZIGZAG);
    const ls_plan_candidate *plain = find(&made, "ring", 4, 1, LS_LAYOUT_CONTIGUOUS);
    const ls_plan_candidate *heads = find(&made, "ulysses", 1, 4, LS_LAYOUT_CONTIGUOUS);
    const ls_plan_candidate *both = find(&made, "usp", 2, 2, LS_LAYOUT_ZIGZAG);
    assert_non_null(balanced);
    assert_non_null(plain);
    assert_non_null(heads);
    assert_non_null(both);
    assert_non_null(find(&made, "tokenring", 4, 1, LS_LAYOUT_ZIGZAG));
    assert_non_null(find(&made, "decode", 2, 2, LS_LAYOUT_ZIGZAG));
    assert_non_null(find(&made, "gather", 4, 1, LS_LAYOUT_ZIGZAG));
    assert_non_null(find(&made, "gather", 2, 2, LS_LAYOUT_CONTIGUOUS));
    assert_true(balanced->imbalance < 0.01 && heads->imbalance < 0.01);
    assert_true(plain->imbalance > 0.5); /* the last rank of four sees 7/16 of all pairs */
    assert_true(balanced->seconds < plain->seconds);
    /* three blocks of k and v of 2·128·4·16 f32 each */
    assert_true(balanced->bytes_read == 3.0 * 2 * 2 * 128 * 4 * 16 * 4 && balanced->bytes_sent == 0);
    assert_true(balanced->read_forward == balanced->bytes_read);
    assert_true(ls_mesh_equal(&made.target.mesh, &made.candidates[0].mesh));
    assert_non_null(strstr(made.reason, "predicted against"));
    assert_true((strstr(made.reason, ", nominal rates") != NULL) == !made.measured);
    /* the same when they are sent */
    assert_ok(plan(p, &(ls_spread){.ranks = 4, .transfers = "put"}, &made));
    balanced = find(&made, "ring", 4, 1, LS_LAYOUT_ZIGZAG);
    assert_true(balanced->bytes_sent == 3.0 * 2 * 2 * 128 * 4 * 16 * 4 && balanced->bytes_read == 0);
    assert_true(balanced->bytes_forward == balanced->bytes_sent);
    /* with gather the owner of the first and the last chunk sends only the first: no other rank sees the last */
    const ls_plan_candidate *gathered = find(&made, "gather", 4, 1, LS_LAYOUT_ZIGZAG);
    assert_true(gathered->bytes_sent == 3.0 * 2 * 2 * 128 * 4 * 16 * 4);
    ls_plan_free(&made);
    free_problem(p);
}

/* Where neither contiguous nor zigzag is balanced, layouts that follow the masks are tried, and one of them wins. */
/* 3 KV heads over 4 ranks: one of them has no head at all, and calls of attention with nothing in them. */
static void test_rank_without_heads(void **state) {
    (void)state;
    const ls_mask causal = ls_mask_causal();
    problem *p = make_grouped(64, 6, 3, &causal);
    ls_plan found = {.n_candidates = 0};
    assert_ok(plan(p, &(ls_spread){.mesh = "ring=2,ulysses=4"}, &found));
    for (int i = 0; i < found.n_candidates; i++) {
        const ls_plan_candidate *c = &found.candidates[i];
        assert_true(c->refused[0] != 0 || (c->seconds > 0 && c->seconds < 1));
    }
    assert_true(found.candidates[0].simulated);
    ls_plan_free(&found);
    free_problem(p);
}

/* As many ways to split the ranks as there are, and every one of them is kept. */
static void test_no_candidate_is_dropped(void **state) {
    (void)state;
    ls_mask mask = ls_mask_causal();
    assert_ok(ls_mask_add_term(&mask, "window:4"));
    problem *p = make_masked(1260, 1, &mask); /* more than one ulysses rank is refused */
    ls_plan made = {.n_candidates = 0};
    assert_ok(plan(p, &(ls_spread){.ranks = 1260}, &made));
    assert_in_range(made.n_candidates, 420, 600); /* 36 divisors of 1260, 6 strategies, 2 layouts */
    for (int i = 0; i < made.n_candidates; i++) {
        const ls_plan_candidate *c = &made.candidates[i];
        assert_int_equal(mesh_ring(&c->mesh) * mesh_ulysses(&c->mesh), 1260);
        for (int j = 0; j < i; j++) assert_true(made.candidates[j].listed != c->listed);
    }
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    ls_candidates_print(&made, out);
    fclose(out);
    int lines = 0;
    for (const char *c = text; *c != 0; c++) lines += *c == '\n';
    assert_true(lines < 70 && strstr(text, " more are refused") != NULL);
    free(text);
    const ls_plan copy = ls_plan_copy(&made);
    ls_plan_free(&made);
    assert_null(made.candidates);
    assert_int_equal(mesh_ring(&copy.candidates[0].mesh), 1260);
    ls_plan_free(&(ls_plan){.arena = copy.arena});
    free_problem(p);
}

/* Programs with too many instructions are not simulated, and the table says so. */
static void test_too_many_to_simulate(void **state) {
    skip_if_repeated();
    (void)state;
    problem *p = make_problem(512, 4, "causal");
    ls_plan made = {.n_candidates = 0};
    assert_ok(plan(p, &(ls_spread){.ranks = 4}, &made));
    assert_true(made.instrs > 0 && ls_plan_is_simulated(&made) && made.candidates[0].simulated);
    for (int many = 0; many < 2; many++) {
        made.instrs = LS_PLAN_SIMULATED_INSTRS + many;
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        ls_candidates_print(&made, out);
        fclose(out);
        assert_true((strstr(text, "times are lower bounds") != NULL) == (many > 0));
        free(text);
    }
    ls_plan_free(&made);
    free_problem(p);
}

static void test_packed_documents(void **state) {
    skip_if_repeated();
    (void)state;
    static const int32_t ends[] = {0, 2500, 2600, 2650, 3500, 4096};
    ls_mask mask = ls_mask_causal();
    mask.term[mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    problem *p = make_masked(4096, 4, &mask);
    ls_plan made = {.n_candidates = 0};
    assert_ok(plan(p, &(ls_spread){.mesh = "ring=4"}, &made));
    const ls_plan_candidate *zigzag = find(&made, "ring", 4, 1, LS_LAYOUT_ZIGZAG),
                            *documents = find(&made, "ring", 4, 1, LS_LAYOUT_DOCUMENTS),
                            *balanced = find(&made, "ring", 4, 1, LS_LAYOUT_BALANCED);
    assert_non_null(zigzag);
    assert_non_null(documents);
    assert_non_null(balanced);
    assert_true(zigzag->imbalance > 0.1 && documents->imbalance < 0.02 && balanced->imbalance < 0.05);
    assert_true(made.candidates[0].layout >= LS_LAYOUT_DOCUMENTS);
    assert_true(made.candidates[0].seconds < zigzag->seconds);
    assert_ok(plan(p, &(ls_spread){.mesh = "ring=4", .layout = "zigzag"}, &made));
    assert_null(find(&made, "ring", 4, 1, LS_LAYOUT_BALANCED));
    ls_plan_free(&made);
    free_problem(p);
}

static ls_mask_term documents_of(const int32_t *ends, int n) {
    return (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = n};
}

static double flops_alone(const ls_job *job, size_t bytes[LS_SPACES]) {
    const ls_target target = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .isa = LS_ISA_REF, .threads = 1};
    ls_image *image;
    assert_ok(ls_compile(job, &target, &image));
    const double flops = ls_program_measure(image, ls_program_find(image, LS_PROGRAM_MICRO)).flops;
    for (int s = 0; s < LS_SPACES; s++) bytes[s] = image->bytes[s];
    ls_image_destroy(image);
    return flops;
}

/* Where documents come with the data, attention costs the mean over typical ones, and no byte of memory changes. */
static void test_typical_documents_cost_their_mean(void **state) {
    skip_if_repeated();
    (void)state;
    static const int32_t one[] = {0, 1000, 1024, 4096}, other[] = {0, 7, 500, 900, 2048, 4000, 4096};
    const ls_mask_term terms[] = {documents_of(one, LS_COUNT(one)), documents_of(other, LS_COUNT(other))};
    size_t bytes[LS_SPACES], packed_bytes[LS_SPACES];
    problem *plain = make_problem(4096, 4, "window:600");
    double expected = 0;
    for (size_t i = 0; i < LS_COUNT(terms); i++) {
        ls_mask mask = {.n = 0};
        assert_ok(ls_mask_add_term(&mask, "window:600"));
        mask.term[mask.n++] = terms[i];
        problem *inside = make_masked(4096, 4, &mask);
        expected += flops_alone(&inside->job, bytes) / LS_COUNT(terms);
        free_problem(inside);
    }
    const double all = flops_alone(&plain->job, bytes);
    plain->job.documents = terms;
    plain->job.n_documents = LS_COUNT(terms);
    const double packed = flops_alone(&plain->job, packed_bytes);
    assert_true(fabs(packed - expected) <= 1e-12 * expected && packed < 0.9 * all);
    assert_memory_equal(bytes, packed_bytes, sizeof bytes);
    free_problem(plain);
}

/*
 * Batches that are uneven one way and the other are not even: contiguous parts would have half of the work of a causal
 * mask on one rank of two, by turns, and striped ones never. Where documents are alike and short, parts that need least
 * of each other win.
 */
static void test_typical_documents_choose(void **state) {
    skip_if_repeated();
    (void)state;
    enum { SHORT = 384, N = 4096 / SHORT + 2 };
    static const int32_t early[] = {0, 2048, 2560, 3072, 3584, 4096}, late[] = {0, 512, 1024, 1536, 2048, 4096};
    int32_t ends[N];
    for (int i = 0; i < N; i++) ends[i] = (int32_t)ls_min((int64_t)i * SHORT, 4096);
    const ls_mask_term uneven[] = {documents_of(early, 6), documents_of(early, 6), documents_of(late, 6),
                                   documents_of(late, 6)},
                       alike[] = {documents_of(ends, N)};
    problem *p = make_problem(4096, 4, "causal"); /* two sequences */
    ls_plan made = {.n_candidates = 0};
    ls_plan_request request, contiguous;
    assert_ok(ls_spread_resolve(&(ls_spread){.mesh = "ring=2", .strategy = "ring", .isa = "base"}, &request));
    request.host = ls_host_nominal(LS_DEVICE_CPU, request.isa); /* whatever the measured rates of this machine */
    contiguous = request;
    contiguous.layout = "contiguous";
    assert_ok(make(p, &request, &made));
    assert_null(find(&made, "ring", 2, 1, LS_LAYOUT_STRIPED));
    const double causal = made.candidates[0].seconds;
    p->job.documents = uneven;
    p->job.n_documents = LS_COUNT(uneven);
    assert_ok(make(p, &contiguous, &made));
    assert_true(made.candidates[0].imbalance > 0.5);
    const double by_turns = made.candidates[0].seconds;
    assert_ok(make(p, &request, &made));
    assert_int_equal(made.target.layout, LS_LAYOUT_STRIPED);
    assert_true(made.candidates[0].imbalance < 0.01 && made.candidates[0].seconds < 0.8 * by_turns);
    p->job.documents = alike;
    p->job.n_documents = LS_COUNT(alike);
    assert_ok(make(p, &request, &made));
    assert_int_equal(made.target.layout, LS_LAYOUT_CONTIGUOUS);
    assert_true(made.candidates[0].seconds < 0.3 * causal);
    ls_plan_free(&made);
    free_problem(p);
}

static void test_choice(void **state) {
    (void)state;
    ls_plan made = {.n_candidates = 0};
    problem *causal = make_problem(256, 2, "causal"), *full = make_problem(256, 2, "full");
    assert_ok(plan(causal, &(ls_spread){.ranks = 4, .strategy = "ring"}, &made));
    assert_int_equal(made.target.layout, LS_LAYOUT_ZIGZAG);
    assert_int_equal(made.n_candidates, 2);
    assert_ok(plan(full, &(ls_spread){.ranks = 4, .strategy = "ring"}, &made));
    assert_int_equal(made.target.layout, LS_LAYOUT_CONTIGUOUS);
    assert_ok(plan(causal, &(ls_spread){.ranks = 2, .strategy = "ring", .layout = "striped"}, &made));
    assert_int_equal(made.target.layout, LS_LAYOUT_STRIPED);
    assert_non_null(strstr(made.reason, "nothing else"));
    assert_ok(plan(causal, &(ls_spread){.ranks = 1}, &made));
    assert_string_equal(made.target.strategy, "local");
    assert_true(made.candidates[0].bytes_sent == 0 && made.candidates[0].bytes_read == 0);
    /* 2 heads: 4 on ulysses is refused, and stands last with its reason */
    assert_ok(plan(causal, &(ls_spread){.ranks = 4}, &made));
    const ls_plan_candidate *last = &made.candidates[made.n_candidates - 1];
    assert_int_equal(mesh_ulysses(&last->mesh), 4);
    assert_non_null(strstr(last->refused, "2 query heads"));
    /* the mesh decides the strategy, and dp uses its part of the ranks */
    assert_ok(plan(causal, &(ls_spread){.ranks = 4, .mesh = "dp=2,ulysses=2"}, &made));
    assert_string_equal(made.target.strategy, "ulysses");
    assert_int_equal(mesh_ring(&made.target.mesh), 1);
    ls_plan_free(&made);
    free_problem(causal);
    free_problem(full);
}

static void test_refusals(void **state) {
    (void)state;
    ls_plan made = {.n_candidates = 0};
    problem *p = make_problem(16, 2, "causal");
    assert_error(plan(p, &(ls_spread){.ranks = 4, .mesh = "ring=3"}, &made), LS_USAGE, "ring=3", "4 ranks");
    assert_error(plan(p, &(ls_spread){.ranks = 3, .mesh = "dp=2"}, &made), LS_USAGE, "dp=2", "3 ranks");
    assert_error(plan(p, &(ls_spread){.ranks = 17}, &made), LS_USAGE, "16 tokens", "17 ranks");
    assert_error(plan(p, &(ls_spread){.ranks = 4, .strategy = "ulysses"}, &made), LS_USAGE, "ulysses=4", "2 query");
    assert_error(plan(p, &(ls_spread){.ranks = 2, .strategy = "local"}, &made), LS_USAGE, "local", "2 ranks");
    assert_error(plan(p, &(ls_spread){.ranks = 2, .mesh = "ulysses=2", .strategy = "ring"}, &made), LS_USAGE, "ring",
                 "ulysses=2");
    assert_error(plan(p, &(ls_spread){.ranks = 2, .strategy = "rin"}, &made), LS_USAGE, "rin", "local, ring");
    assert_error(plan(p, &(ls_spread){.ranks = 2, .layout = "zag"}, &made), LS_USAGE, "zag", "zigzag");
    assert_error(plan(p, &(ls_spread){.ranks = 2, .transfers = "push"}, &made), LS_USAGE, "--transfers push",
                 "in-place");
    assert_error(plan(p, &(ls_spread){.ranks = 3, .mesh = "dp=3"}, &made), LS_USAGE, "2 sequences", "dp=3");
    ls_plan_free(&made);
    free_problem(p);
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

enum { RANKS = 3 };

typedef struct noting {
    int *seen; /* [RANKS] */
    int failing;
} noting;

static ls_status note_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const noting *n = input;
    const int mine = rank->rank + 10 * rank->ranks;
    LS_TRY(ls_comm_gather_home(rank->comm, &mine, sizeof mine, n->seen, sizeof mine));
    LS_TRY(ls_executor_run(rank->executor, rank->micro));
    return rank->rank == n->failing ? ls_error(LS_DIVERGED, "as told") : ls_ok();
}

static void run_session(const problem *p, bool as_threads, int failing, ls_code code) {
    ls_session *session;
    const ls_spread spread = {.ranks = RANKS, .strategy = "ring", .threads = 1, .as_threads = as_threads};
    assert_ok(ls_session_open(&p->job, &spread, &session));
    assert_int_equal(ls_session_ranks(session), RANKS);
    const ls_spread_result described = ls_session_describe(session);
    assert_string_equal(described.mesh, "dp=1,ring=3,ulysses=1,tp=1");
    assert_true(described.bytes_read_forward > 0 && described.bytes_read_backward == 0);
    assert_true(described.bytes_sent_forward == 0 && described.bytes_sent_backward == 0);
    assert_string_equal(described.transfers, "in-place");
    int seen[RANKS] = {0};
    const noting n = {seen, failing};
    assert_int_equal(ls_session_run(session, note_rank, &n, NULL, 0).code, code);
    for (int r = 0; r < RANKS; r++) assert_int_equal(seen[r], r + 10 * RANKS);
    ls_session_close(session);
}

static void test_session(void **state) {
    (void)state;
    problem *p = make_problem(31, 2, "causal");
    run_session(p, true, -1, LS_OK);
    run_session(p, true, 1, LS_DIVERGED);
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    if (sanitizer == NULL || strcmp(sanitizer, "thread") != 0) {
        run_session(p, false, -1, LS_OK);
        run_session(p, false, 2, LS_DIVERGED);
    }
    free_problem(p);
}

/* With `measure` the best few are run; they come first, in order of their measured times, and the first is chosen. */
static void test_measured(void **state) {
    (void)state;
    problem *p = make_problem(64, 4, "causal");
    const ls_spread spread = {.ranks = 4, .measure = true, .as_threads = true};
    ls_plan_request request;
    ls_plan made = {.n_candidates = 0};
    assert_ok(ls_session_request(&spread, &request));
    assert_ok(ls_plan_decide(&p->job, &request, &spread, &made));
    int n = 0;
    while (n < made.n_candidates && made.candidates[n].measured > 0) n++;
    print_message("%d of %d candidates measured: %s\n", n, made.n_candidates, made.reason);
    assert_true(n >= 2);
    for (int i = 1; i < n; i++) assert_true(made.candidates[i - 1].measured <= made.candidates[i].measured);
    for (int i = n; i < made.n_candidates; i++) assert_true(made.candidates[i].measured == 0);
    assert_memory_equal(&made.target.mesh, &made.candidates[0].mesh, sizeof made.target.mesh);
    assert_int_equal(made.target.layout, made.candidates[0].layout);
    assert_non_null(strstr(made.reason, "measured against"));
    ls_plan_free(&made);
    free_problem(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_no_candidate_is_dropped),
        cmocka_unit_test(test_too_many_to_simulate),
        cmocka_unit_test(test_rank_without_heads),
        cmocka_unit_test(test_packed_documents),
        cmocka_unit_test(test_typical_documents_cost_their_mean),
        cmocka_unit_test(test_typical_documents_choose),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
