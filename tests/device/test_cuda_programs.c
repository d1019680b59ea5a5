/*
 * Programs of several ranks on the device cuda, by the driver for tests: the same bits as on cpu, for all strategies;
 * and what fails on one rank, or is lost, ends the run of all with an error that names it.
 */
#include "run/run.h"
#include "support/fake_cuda.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/step_digest.h"
#include "support/world.h"
#include "support/worlds.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_the_same_bits(void **state) {
    (void)state;
    cuda_changes_nothing(1, 3);
}

/* Runs the first program as soon as the executor is there. */
static ls_status run_at_once(ls_comm *comm, void *context) {
    const image_set *set = context;
    ls_executor *ex;
    ls_arena *arena = ls_arena_create();
    int *walk;
    (void)ls_phase_walk(set->image[0], arena, &walk);
    ls_status status = ls_executor_create(set->image[ls_comm_rank(comm)], comm, &ex);
    if (status.code == LS_OK) {
        status = ls_executor_run(ex, walk[0]);
        ls_executor_destroy(ex);
    }
    ls_arena_destroy(arena);
    return status;
}

/* Three ranks on one device, which making a graph waits for. */
static void test_nobody_runs_before_all_have_recorded(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 3, 1), "ring", LS_LAYOUT_STRIPED, 26, 1);
    put_kernels_on_streams(&set);
    setenv("LONGSPAN_DEVICE", "cuda:0", 1);
    for (int seed = 1; seed <= 5; seed++) {
        char settings[32];
        ls_world *world;
        snprintf(settings, sizeof settings, "seed=%d", seed);
        use_fake_cuda(settings);
        assert_ok(world_of_images(set.image, set.ranks, NULL, 30, &world));
        assert_ok(ls_launch(world, set.ranks, true, run_at_once, &set));
        ls_world_destroy(world);
    }
    unsetenv("LONGSPAN_DEVICE");
    assert_int_equal(fake_cuda_left(), 0);
    free_images(&set);
}

/* 0: the run ended well; 1: with the driver's error; 2: otherwise. */
static int run_with(const image_set *set, const char *settings) {
    uint64_t digest;
    use_fake_cuda(settings);
    const ls_status status = step_digest(set, NULL, &digest);
    const bool named = status.code == LS_FAULT && strstr(status.text, "CUDA_ERROR_LAUNCH_FAILED") != NULL;
    if (status.code != LS_OK && !named) fprintf(stderr, "%s: %s\n", settings, status.text);
    return status.code == LS_OK ? 0 : named ? 1 : 2;
}

/*
 * Whether a run with these settings fails. Then soon, and by the driver's error. In a process of its own: after a
 * failure streams that wait for other ranks stay until its end.
 */
static bool fails(const image_set *set, const char *settings) {
    const double start = ls_seconds();
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        _exit(run_with(set, settings));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) fail_msg("%s: status %x", settings, (unsigned)status);
    assert_true(ls_seconds() - start < 20);
    return WEXITSTATUS(status) == 1;
}

static void test_failures_end_the_run(void **state) {
    (void)state;
    static const char *const calls[] = {"cuMemHostRegister_v2",
                                        "cuMemcpyDtoDAsync_v2",
                                        "cuMemcpyDtoHAsync_v2",
                                        "cuStreamSynchronize",
                                        "cuStreamBatchMemOp_v2",
                                        "cuStreamQuery",
                                        "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphExecBatchMemOpNodeSetParams",
                                        "cuGraphLaunch",
                                        "execute"};
    image_set set = images_of_step(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 1);
    put_kernels_on_streams(&set);
    setenv("LONGSPAN_DEVICE", "cuda", 1);
    assert_false(fails(&set, ""));
    for (size_t i = 0; i < LS_COUNT(calls); i++) {
        int failed = 0;
        for (int lost = 0; lost < 2; lost++) {
            for (int n = 2; n < 400; n *= 7) {
                char settings[100];
                setenv("LONGSPAN_DEVICE", n == 14 ? "cuda:launched" : "cuda", 1);
                snprintf(settings, sizeof settings, "seed=%d,%s=%d:719%s", n, calls[i], n, lost ? ":lost" : "");
                failed += fails(&set, settings);
            }
        }
        print_message("%s: %d of 6 failed\n", calls[i], failed);
        assert_true(failed > 0);
    }
    unsetenv("LONGSPAN_DEVICE");
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_end_the_run), /* first: it forks, and no driver may be initialised before */
        cmocka_unit_test(test_the_same_bits), cmocka_unit_test(test_nobody_runs_before_all_have_recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
