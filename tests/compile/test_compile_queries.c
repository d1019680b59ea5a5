/*
 * Strategies that send queries (tokenring, decode, burst): the bytes that each rank sends equal the formulas, also
 * where a mask empties pairs of blocks; slots do not grow; programs over masks and layouts are proved and interpreted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "program/program.h"
#include "run/interpret.h"
#include "support/meshes.h"

static const char *const strategies[] = {"tokenring", "decode", "burst"};
enum { BURST = 2 }; /* sends queries in the backward pass alone, and from neighbour to neighbour */

typedef struct programs {
    ls_graph *graph;
    int ranks;
    ls_image *image[64];
} programs;

typedef struct problem {
    ls_dtype dtype;
    int64_t S, Hq, Hkv, D, E; /* elements of a head of keys, and of values */
    ls_mask mask;
    ls_mesh mesh;
    const char *strategy;
    ls_layout_kind layout;
    bool backward;
    ls_transfers transfers;
} problem;

static ls_status compile(const problem *p, programs *out) {
    ls_graph *g = out->graph = ls_graph_create(p->dtype);
    const ls_shape qs = {4, {{2, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hq, 0}, {p->D, 0}}};
    const ls_shape ks = {4, {{2, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hkv, 0}, {p->D, 0}}};
    const ls_shape vs = {4, {{2, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hkv, 0}, {p->E, 0}}};
    const ls_shape os = {4, {{2, LS_FACTOR_BATCH}, {p->S, LS_FACTOR_SEQUENCE}, {p->Hq, 0}, {p->E, 0}}};
    const ls_tensor q = ls_graph_leaf(g, LS_ROLE_INPUT, "q", p->dtype, &qs),
                    k = ls_graph_leaf(g, LS_ROLE_INPUT, "k", p->dtype, &ks),
                    v = ls_graph_leaf(g, LS_ROLE_INPUT, "v", p->dtype, &vs);
    const ls_tensor o = ls_attention(g, q, k, v, &p->mask, 0.3);
    ls_tensor fetch[4] = {o};
    if (p->backward) {
        const ls_tensor go = ls_graph_leaf(g, LS_ROLE_INPUT, "do", p->dtype, &os);
        ls_derivative d = {.n_roots = 1, .root = {o}, .seed = {go}, .n_wanted = 3, .wanted = {q, k, v}};
        LS_TRY(ls_differentiate(g, &d));
        for (int i = 0; i < 3; i++) fetch[1 + i] = d.gradient[i];
    }
    for (int i = 0; i < (p->backward ? 4 : 1); i++) (void)ls_named(g, fetch[i], "out.%d", i);
    const ls_job job = {
        .graph = g, .programs = ls_plain_programs(g, 0), .fetch = fetch, .n_fetch = p->backward ? 4 : 1};
    const int ranks = ls_mesh_ranks(&p->mesh);
    for (out->ranks = 0; out->ranks < ranks; out->ranks++) {
        const ls_target target = {.mesh = p->mesh,
                                  .rank = out->ranks,
                                  .strategy = p->strategy,
                                  .layout = p->layout,
                                  .isa = LS_ISA_BASE,
                                  .threads = 1,
                                  .transfers = p->transfers,
                                  .host_ranks = LS_ONE_HOST};
        LS_TRY(ls_compile(&job, &target, &out->image[out->ranks]));
    }
    return ls_ok();
}

static void free_programs(programs *p) {
    for (int r = 0; r < p->ranks; r++) ls_image_destroy(p->image[r]);
    ls_graph_destroy(p->graph);
}

static programs must_compile(const problem *p) {
    programs out = {0};
    const ls_status status = compile(p, &out);
    if (status.code != LS_OK) fail_msg("%s: %s", p->strategy, status.text);
    return out;
}

static double bytes_sent(const programs *p, int rank) {
    return ls_program_measure(p->image[rank], ls_program_find(p->image[rank], LS_PROGRAM_MICRO)).bytes_sent;
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* Whether the queries of block a see keys of block b. */
typedef bool (*meets)(int a, int b);
static bool always(int a, int b) { return a >= 0 && b >= 0; }
static bool not_later(int a, int b) { return b <= a; }
static bool neighbours(int a, int b) { return b == a || b == a - 1; }

/* What rank r sends, per sequence: its queries to whom they meet, and what it finds for those that meet its keys. */
static double expected(const problem *p, int r, meets sees, double wide_out, double out, double home) {
    const int R = mesh_ring(&p->mesh);
    const double T = (double)ls_dtype_bytes(p->dtype), G = (double)ls_dtype_bytes(ls_dtype_accumulator(p->dtype));
    double bytes = 0;
    for (int other = 0; other < R; other++) {
        const ls_layout layout = {.kind = p->layout, .S = p->S, .P = R}; /* counts are the same in all */
        if (other == r) continue;
        if (sees(r, other)) bytes += (double)ls_layout_count(&layout, r) * (out * T + wide_out * G);
        if (sees(other, r)) bytes += (double)ls_layout_count(&layout, other) * home * G;
    }
    return bytes;
}

static void check_bytes(problem p, meets sees) {
    const double d = (double)(p.Hq * p.D), e = (double)(p.Hq * p.E), H = (double)p.Hq;
    p.backward = false;
    programs forward = must_compile(&p);
    p.backward = true;
    programs both = must_compile(&p);
    for (int r = 0; r < forward.ranks; r++) {
        const double sent = bytes_sent(&forward, r), back = bytes_sent(&both, r) - sent;
        const double wanted = 2 * expected(&p, r, sees, 0, d, e + H);
        const double wanted_back = 2 * expected(&p, r, sees, 2 * H, d + e, d);
        if (sent != wanted || back != wanted_back)
            fail_msg("%s, rank %d of %d: sends %g and %g bytes, expected %g and %g", p.strategy, r, forward.ranks, sent,
                     back, wanted, wanted_back);
    }
    free_programs(&forward);
    free_programs(&both);
}

static ls_mask mask_of(const char *a, const char *b) {
    ls_mask mask = {0};
    assert_int_equal(ls_mask_add_term(&mask, a).code, LS_OK);
    if (b != NULL) assert_int_equal(ls_mask_add_term(&mask, b).code, LS_OK);
    return mask;
}

static void test_bytes(void **state) {
    (void)state;
    static const int rings[] = {2, 3, 5, 8};
    for (size_t s = 0; s < BURST; s++) {
        for (size_t i = 0; i < LS_COUNT(rings); i++) {
            problem p = {.dtype = i % 2 == 0 ? LS_F32 : LS_BF16,
                         .S = 43,
                         .Hq = 6,
                         .Hkv = 2,
                         .D = 4,
                         .E = 7,
                         .mask = mask_of("full", NULL),
                         .mesh = mesh_of(1, rings[i], 1),
                         .strategy = strategies[s],
                         .layout = LS_LAYOUT_ZIGZAG};
            check_bytes(p, always);
            p.layout = LS_LAYOUT_CONTIGUOUS;
            p.mask = mask_of("causal", NULL);
            check_bytes(p, not_later);
            p.mask = mask_of("window:5", "prefix:40");
            check_bytes(p, neighbours);
        }
    }
}

/*
 * Burst, backward: what rank r sends. Queries of a block go over the hops to the last of those that they meet; their
 * sum from the first rank that they meet on, and home from the last.
 */
static double expected_of_burst(const problem *p, int r, meets sees) {
    const int R = mesh_ring(&p->mesh);
    const double T = (double)ls_dtype_bytes(p->dtype), G = (double)ls_dtype_bytes(ls_dtype_accumulator(p->dtype));
    const double d = (double)(p->Hq * p->D), e = (double)(p->Hq * p->E), H = (double)p->Hq;
    double bytes = 0;
    for (int hop = 0; hop < R; hop++) {
        const int block = (r + hop) % R; /* whose queries are here */
        const ls_layout layout = {.kind = p->layout, .S = p->S, .P = R};
        int first = 0, last = 0;
        for (int h = 1; h < R; h++) {
            if (!sees(block, (block - h + R) % R)) continue;
            first = first == 0 ? h : first;
            last = h;
        }
        const double n = (double)ls_layout_count(&layout, block);
        if (hop < last) bytes += n * ((d + e) * T + 2 * H * G);
        if (hop > 0 && first <= hop && hop <= last) bytes += n * d * G;
    }
    return bytes;
}

static void test_bytes_of_burst(void **state) {
    (void)state;
    static const struct {
        const char *mask;
        meets sees;
    } masks[] = {{"full", always}, {"causal", not_later}, {"window:5", neighbours}};
    for (int R = 2; R <= 8; R++) {
        for (size_t m = 0; m < LS_COUNT(masks); m++) {
            problem p = {.dtype = R % 2 == 0 ? LS_F32 : LS_BF16,
                         .S = 43,
                         .Hq = 6,
                         .Hkv = 2,
                         .D = 4,
                         .E = 7,
                         .mask = mask_of(masks[m].mask, NULL),
                         .mesh = mesh_of(1, R, 1),
                         .strategy = strategies[BURST],
                         .layout = LS_LAYOUT_CONTIGUOUS,
                         .transfers = LS_TRANSFERS_PUT};
            programs forward = must_compile(&p);
            p.strategy = "ring";
            programs ring = must_compile(&p);
            p.strategy = strategies[BURST];
            p.backward = true;
            programs both = must_compile(&p);
            for (int r = 0; r < R; r++) {
                const double sent = bytes_sent(&forward, r), back = bytes_sent(&both, r) - sent;
                const double wanted = 2 * expected_of_burst(&p, r, masks[m].sees);
                if (sent != bytes_sent(&ring, r) || back != wanted)
                    fail_msg("burst, %s, rank %d of %d: sends %g and %g bytes, expected %g and %g", masks[m].mask, r, R,
                             sent, back, bytes_sent(&ring, r), wanted);
            }
            free_programs(&forward);
            free_programs(&ring);
            free_programs(&both);
        }
    }
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static int slots_of(const ls_image *image) {
    int n = 0;
    for (int i = 0; i < image->n_buffers; i++) n += image->buffers[i].kind == LS_BUFFER_SLOT;
    return n;
}

static void test_slots(void **state) {
    (void)state;
    static const int rings[] = {3, 4, 8, 16};
    for (size_t i = 0; i < LS_COUNT(rings); i++) {
        const int R = rings[i];
        for (int s = 0; s < (int)LS_COUNT(strategies); s++) {
            const problem p = {.dtype = LS_F32,
                               .S = 8 * R,
                               .Hq = 4,
                               .Hkv = 2,
                               .D = 4,
                               .E = 7,
                               .mask = ls_mask_causal(),
                               .mesh = mesh_of(1, R, 1),
                               .strategy = strategies[s],
                               .backward = true};
            programs made = must_compile(&p);
            /*
             * q, (o, lse); q, do, lse, delta, dq. Of burst k, v; q, do, lse, delta, the sum, which goes one hop less,
             * and where it comes home.
             */
            const int tensors = 1 + 2 + 4 + 1, of_burst = 2 * (2 + 4) + (R == 3 ? 1 : 2) + 1;
            const int slots = s == BURST ? of_burst : tensors * (s == 0 ? 2 : R - 1);
            for (int r = 0; r < R; r++) assert_int_equal(slots_of(made.image[r]), slots);
            free_programs(&made);
        }
    }
}

/* --- proof -------------------------------------------------------------------------------------------------------- */

static void prove(const problem *p) {
    programs made = must_compile(p);
    const ls_image *const *images = (const ls_image *const *)made.image;
    ls_status status = ls_verify(images, made.ranks);
    if (status.code == LS_OK) status = ls_verify_local(images, made.ranks);
    char mask[64];
    ls_mask_print(&p->mask, mask, sizeof mask);
    if (status.code != LS_OK)
        fail_msg("%s %s on %d, %s: %s", p->strategy, mask, made.ranks, ls_layout_name(p->layout), status.text);
    ls_interpreter *first = ls_interpreter_create(images, made.ranks);
    ls_interpreter *others = ls_interpreter_create(images, made.ranks);
    const ls_interpreter_result reference = ls_interpreter_run(first, 0);
    assert_false(reference.hung || reference.poison || reference.outside);
    for (uint64_t seed = 1; seed < 5; seed++) {
        const ls_interpreter_result other = ls_interpreter_run(others, seed);
        if (!ls_interpreter_same(&reference, &other))
            fail_msg("%s %s on %d, seed %d: hung %d, poison %d", p->strategy, mask, made.ranks, (int)seed, other.hung,
                     other.poison);
    }
    ls_interpreter_destroy(first);
    ls_interpreter_destroy(others);
    free_programs(&made);
}

static void test_programs(void **state) {
    (void)state;
    static const int meshes[][2] = {{2, 1}, {3, 1}, {5, 1}, {8, 1}, {2, 2}, {3, 2}};
    static const int32_t ends[] = {0, 1, 9, 10, 30, 37};
    ls_mask masks[] = {mask_of("full", NULL), mask_of("causal", NULL), mask_of("window:4", NULL),
                       mask_of("window:7:3", "prefix:20"), mask_of("causal", NULL)};
    ls_mask *documents = &masks[LS_COUNT(masks) - 1];
    documents->term[documents->n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        for (size_t i = 0; i < LS_COUNT(meshes); i++) {
            const problem p = {.dtype = LS_F32,
                               .S = 37,
                               .Hq = 4,
                               .Hkv = 2,
                               .D = 4,
                               .E = 7,
                               .mask = masks[m],
                               .mesh = mesh_of(1, meshes[i][0], meshes[i][1]),
                               .strategy = strategies[(m + i) % LS_COUNT(strategies)],
                               .layout = (ls_layout_kind)((m + i / 2) % LS_LAYOUTS),
                               .backward = true};
            prove(&p);
        }
    }
}

/* In place there is no such lowering: asked for it is refused, left open it is not taken. */
static void test_transfers(void **state) {
    (void)state;
    problem p = {.dtype = LS_F32,
                 .S = 8,
                 .Hq = 2,
                 .Hkv = 2,
                 .D = 4,
                 .E = 7,
                 .mask = ls_mask_causal(),
                 .mesh = mesh_of(1, 2, 1),
                 .strategy = "tokenring",
                 .transfers = LS_TRANSFERS_IN_PLACE};
    programs out = {0};
    const ls_status status = compile(&p, &out);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "strategy tokenring has no such lowering"));
    free_programs(&out);
    p.transfers = LS_TRANSFERS_AUTO;
    programs made = must_compile(&p);
    assert_string_equal(ls_transfers_of(made.image[0]), "put");
    free_programs(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),    cmocka_unit_test(test_bytes_of_burst), cmocka_unit_test(test_slots),
        cmocka_unit_test(test_programs), cmocka_unit_test(test_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
