/*
 * A run that looks for results that are not finite: the lse of a query that sees nothing is -inf and no finding;
 * anything else is, by the kernel's contract and whichever op called it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "run/run.h"
#include "support/meshes.h"
#include "support/scratch.h"

#include <math.h>

enum { S = 6, H = 2, D = 4, N = S * H * D };

typedef struct finding {
    double q; /* the first element of the queries */
    ls_result_place bad;
    bool by_attention, in_o;
} finding;

/* Only the first token is seen, and only within its document: the second document's queries see nothing. */
static ls_graph *build(void) {
    static const int32_t ends[] = {0, 2, S};
    const ls_mask mask = {
        2, {{.kind = LS_MASK_WINDOW, .window = 0, .first = 1}, {.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = 3}}};
    const ls_shape shape = {4,
                            {{1, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {H, LS_FACTOR_NONE}, {D, LS_FACTOR_NONE}}};
    ls_graph *g = ls_graph_create(LS_F64);
    ls_tensor in[3];
    for (int i = 0; i < 3; i++)
        in[i] = ls_graph_leaf(g, LS_ROLE_INPUT, (const char *[]){"q", "k", "v"}[i], LS_F64, &shape);
    (void)ls_named(g, ls_attention(g, in[0], in[1], in[2], &mask, 0.5), "o");
    assert_ok(ls_graph_status(g));
    return g;
}

static ls_status run(ls_comm *comm, void *context) {
    finding *f = context;
    ls_graph *g = build();
    const ls_job job = {.graph = g, .programs = ls_forward_programs(g)};
    const ls_target target = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    ls_image *image;
    ls_executor *executor;
    LS_TRY(ls_compile(&job, &target, &image));
    LS_TRY(ls_executor_create(image, comm, &executor));
    double data[N];
    for (int i = 0; i < N; i++) data[i] = 0.25 * (i % 7);
    for (int i = 0; i < 3; i++) {
        data[0] = i == 0 ? f->q : 0;
        LS_TRY(ls_executor_scatter(executor, ls_image_find(image, (const char *[]){"q", "k", "v"}[i]), data));
    }
    const int program = ls_program_find(image, LS_PROGRAM_EVALUATE);
    LS_TRY(ls_executor_run_checked(executor, program, &f->bad));
    if (f->bad.instr >= 0) {
        const ls_instr *instr = &image->programs[program].instrs[f->bad.instr];
        f->by_attention = instr->kind == LS_INSTR_KERNEL && strcmp(instr->op, "attention") == 0;
        f->in_o = strcmp(image->buffers[instr->out[f->bad.output].buffer].name, "o") == 0;
    }
    ls_executor_destroy(executor);
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return ls_ok();
}

static finding find(double q) {
    finding f = {.q = q};
    ls_world *world;
    const ls_world_options options = {.ranks = 1, .heap_bytes = 4096, .words = 1, .wait_timeout = 5};
    assert_ok(ls_world_create(NULL, &options, &world));
    assert_ok(ls_launch(world, 1, true, run, &f));
    ls_world_destroy(world);
    return f;
}

static void test_nothing_seen_is_no_finding(void **state) {
    (void)state;
    assert_int_equal(find(0.5).bad.instr, -1);
}

static void test_what_is_not_finite_is_found(void **state) {
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < LS_COUNT(bad); i++) {
        const finding f = find(bad[i]);
        assert_true(f.bad.instr >= 0);
        assert_true(f.by_attention);
        assert_true(f.in_o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_seen_is_no_finding),
        cmocka_unit_test(test_what_is_not_finite_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
