/*
 * States that serve several calls: an executor prepares a call of each form once, gives the others its state, and
 * releases it once. Results are those of states that are not shared. A kernel that refuses a form is asked once, and
 * the next kernel takes its calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "run/run.h"
#include "support/meshes.h"
#include "support/scratch.h"

enum { LONG = 6, SHORT = 4, HALVES = 2 };

/* Where the kernels of the test count; a state is the call that it was prepared for. */
static int prepared, released, asked, calls;

static ls_status prepare(const ls_kernel_call *call, void **state) {
    ls_kernel_call *own = malloc(sizeof *own);
    *own = *call;
    *state = own;
    prepared++;
    return ls_ok();
}

static void release(void *state) {
    released++;
    free(state);
}

/* Takes calls of SHORT elements only. */
static ls_status prepare_short(const ls_kernel_call *call, void **state) {
    if (ls_view_elements(&call->out[0]) == SHORT) return prepare(call, state);
    asked++;
    return ls_error(LS_UNSUPPORTED, "kernel add: not for %d elements", LONG);
}

/* y = a + b */
static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)pool;
    calls++;
    if (!ls_kernel_same_forms(state, call)) ls_panic(__FILE__, __LINE__, "the state of another form");
    for (int64_t i = 0; i < ls_view_elements(&call->out[0]); i++)
        ((double *)call->out[0].data)[i] = ((double *)call->in[0].data)[i] + ((double *)call->in[1].data)[i];
}

static const ls_kernel alone = {
    .id = LS_KERNEL_ADD, .dtype = LS_F64, .prepare = prepare, .release = release, .run = run};
static const ls_kernel shared = {.id = LS_KERNEL_ADD,
                                 .dtype = LS_F64,
                                 .prepare = prepare,
                                 .release = release,
                                 .shares = ls_kernel_same_forms,
                                 .run = run};

static const ls_kernel refusing = {.id = LS_KERNEL_ADD,
                                   .dtype = LS_F64,
                                   .prepare = prepare_short,
                                   .release = release,
                                   .refuses = true,
                                   .shares = ls_kernel_same_forms,
                                   .run = run};
static const ls_kernel strict = {.id = LS_KERNEL_ADD, .dtype = LS_F64, .prepare = prepare_short, .run = run};

/* Of two inputs of different lengths: 2 x, 4 x and 8 x. */
static ls_graph *build(ls_tensor sums[HALVES]) {
    ls_graph *g = ls_graph_create(LS_F64);
    for (int half = 0; half < HALVES; half++) {
        const ls_shape shape = {2, {{1, LS_FACTOR_BATCH}, {half == 0 ? LONG : SHORT, LS_FACTOR_NONE}}};
        ls_tensor x = ls_graph_leaf(g, LS_ROLE_INPUT, half == 0 ? "long" : "short", LS_F64, &shape);
        for (int i = 0; i < 3; i++) x = ls_add(g, x, x);
        sums[half] = ls_named(g, x, "%s sum", half == 0 ? "long" : "short");
    }
    return g;
}

/* All additions by the kernel. */
static void replace(const ls_image *image, const ls_kernel *kernel) {
    for (int p = 0; p < image->n_programs; p++)
        for (int i = 0; i < image->programs[p].n_instrs; i++)
            if (image->programs[p].instrs[i].kernel != NULL && image->programs[p].instrs[i].kernel->id == LS_KERNEL_ADD)
                image->programs[p].instrs[i].kernel = kernel;
}

static ls_status use(ls_executor *executor, const char *input, const char *output, double *data, int n) {
    const ls_image *image = ls_executor_image(executor);
    for (int i = 0; i < n; i++) data[i] = i + 1;
    LS_TRY(ls_executor_scatter(executor, ls_image_find(image, input), data));
    LS_TRY(ls_executor_run(executor, ls_program_find(image, LS_PROGRAM_EVALUATE)));
    LS_TRY(ls_executor_gather(executor, ls_image_find(image, output), data));
    for (int i = 0; i < n; i++)
        if (data[i] != 8.0 * (i + 1)) return ls_error(LS_FAULT, "%s: %g", output, data[i]);
    return ls_ok();
}

static ls_status on_rank(ls_comm *comm, void *context) {
    ls_tensor sums[HALVES];
    ls_graph *g = build(sums);
    const ls_job job = {.graph = g, .programs = ls_forward_programs(g), .fetch = sums, .n_fetch = HALVES};
    const ls_target target = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    ls_image *image;
    ls_executor *executor = NULL;
    double data[LONG];
    LS_TRY(ls_graph_status(g));
    LS_TRY(ls_compile(&job, &target, &image));
    replace(image, context);
    ls_status status = ls_executor_create(image, comm, &executor);
    if (status.code == LS_OK) status = use(executor, "long", "long sum", data, LONG);
    if (status.code == LS_OK) status = use(executor, "short", "short sum", data, SHORT);
    ls_executor_destroy(executor);
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return status;
}

static ls_status run_with(const ls_kernel *kernel) {
    ls_world *world;
    const ls_world_options options = {.ranks = 1, .heap_bytes = 4096, .words = 1, .wait_timeout = 5};
    prepared = released = asked = calls = 0;
    assert_ok(ls_world_create(NULL, &options, &world));
    const ls_status status = ls_launch(world, 1, true, on_rank, (void *)(uintptr_t)kernel);
    ls_world_destroy(world);
    assert_int_equal(released, prepared);
    return status;
}

static void test_states_are_shared(void **state) {
    (void)state;
    assert_ok(run_with(&alone));
    assert_int_equal(calls, 12); /* six additions, twice */
    assert_int_equal(prepared, 6);
    assert_ok(run_with(&shared));
    assert_int_equal(calls, 12);
    assert_int_equal(prepared, 2);
}

static void test_refusals(void **state) {
    (void)state;
    assert_ok(run_with(&refusing));
    assert_int_equal(asked, 1);
    assert_int_equal(prepared, 1);
    assert_int_equal(calls, 6);
    assert_string_equal(run_with(&strict).text, "kernel add: not for 6 elements");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_states_are_shared), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
