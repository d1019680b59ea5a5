/*
 * Messages of the device cuda by way of libraries, NVSHMEM and NCCL, which others stand in for (cuda/routes): every
 * rank is a process with a GPU of the driver for tests. All forms of ranges arrive; what a library lacks, or silently
 * does not do, is refused by name before any program runs.
 */
#include "device/device.h"
#include "support/fake_cuda.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/step_digest.h"
#include "support/world.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { HEAP = 1 << 16, TARGETS = HEAP / 2, QUEUES = 2, ROUTES = 2 };
static const char *const routes[ROUTES] = {"nvshmem", "nccl"};
static const char *const variables[ROUTES] = {"FAKE_NVSHMEM", "FAKE_NCCL"};

/* What each rank does. */
typedef struct job {
    const char *device;
    bool threads;
    double patience;
    ls_status (*use)(ls_device *device, ls_comm *comm, const ls_device_arena *heap, const ls_device_remote *remotes);
} job;

static void *words_of(void *comm, int rank, size_t *bytes) { return ls_comm_words(comm, rank, bytes); }
static ls_status exchange(void *comm, const void *mine, size_t bytes, void *all) {
    return ls_comm_exchange(comm, mine, bytes, all);
}

static ls_status connect_and_use(ls_comm *comm, const job *j, ls_device *device) {
    ls_device_remote remotes[8];
    const ls_device_arena *heap;
    const ls_device_ranks ranks = {.rank = ls_comm_rank(comm),
                                   .ranks = ls_comm_size(comm),
                                   .patience = j->patience,
                                   .words = words_of,
                                   .exchange = exchange,
                                   .context = comm};
    LS_TRY(ls_device_connect(device, &ranks, HEAP, &heap, remotes));
    return j->use != NULL ? j->use(device, comm, heap, remotes) : ls_ok();
}

static ls_status rank_main(ls_comm *comm, void *context) {
    const job *j = context;
    ls_device *device;
    const ls_device_options options = {
        .rank = ls_comm_rank(comm), .queues = QUEUES, .machine_rank = ls_comm_rank(comm)};
    LS_TRY(ls_device_open(j->device, &options, &device));
    const ls_status status = connect_and_use(comm, j, device);
    if (status.code != LS_OK) return status; /* streams may wait for what never comes */
    ls_device_close(device);
    if (!j->threads) RANK_CHECK(fake_cuda_left() == 0); /* others may still be closing theirs */
    return ls_ok();
}

static ls_status run_ranks(int ranks, bool as_threads, const char *device, double patience, const job *j) {
    const ls_world_options options = small_world(ranks);
    job copied = j != NULL ? *j : (job){0};
    copied.device = device;
    copied.threads = as_threads;
    copied.patience = patience;
    use_fake_cuda("devices=3,seed=5");
    return run_world(&options, as_threads, rank_main, &copied);
}

static ls_status run(int ranks, const char *device, double patience, const job *j) {
    return run_ranks(ranks, false, device, patience, j);
}

/* The same with ranks that are threads, in a process of their own: streams of this one would not survive a fork. */
static ls_status run_threads(int ranks, const char *device, double patience, const job *j) {
    ls_status *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        *shared = run_ranks(ranks, true, device, patience, j);
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    const ls_status status = *shared;
    (void)munmap(shared, sizeof *shared);
    return status;
}

/* --- what arrives ------------------------------------------------------------------------------------------------- */

static const ls_range ranges[] = {{100, 240, {1, 1, 1}, {0, 0, 0}},    {8, 24, {10, 1, 1}, {40, 0, 0}},
                                  {0, 12, {5, 4, 1}, {16, 200, 0}},    {64, 12, {4, 5, 1}, {1000, 20, 0}},
                                  {16, 8, {2, 3, 5}, {512, 64, 4096}}, {16, 60, {4, 1, 1}, {60, 0, 0}}};

static void fill(char *bytes, int rank, uint64_t turn) {
    for (int i = 0; i < HEAP; i++) bytes[i] = (char)(i * 7 + rank * 31 + (int)turn);
}

static ls_status launch(ls_device *device, int queue, uint64_t number, const ls_device_message *message) {
    return ls_device_launch(device, &(ls_device_work){.name = "message", .event = {queue, number}, .message = message});
}

/*
 * Rank r puts into the heap of r + 1, when that one has granted it, and is put to by r - 1: as in programs signals
 * stand on queue 0, puts and waits on queue 1. private: the source is memory that the library does not know.
 */
typedef struct turn {
    const ls_range *from, *to;
    const ls_device_arena *source;
    uint64_t number;
} turn;

static ls_status take_turn(ls_device *device, int rank, int ranks, const ls_device_arena *heap,
                           const ls_device_remote *remotes, const turn *t) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    const ls_range whole = ls_range_flat(0, HEAP);
    ls_range to = *t->to;
    to.offset += TARGETS; /* what is put lies before */
    char *mine = malloc(HEAP), *theirs = malloc(HEAP), *got = malloc(HEAP);
    fill(mine, rank, t->number);
    fill(theirs, before, t->number);
    LS_TRY(ls_device_write(device, t->source, &whole, mine));
    if (t->source != heap) LS_TRY(ls_device_write(device, heap, &whole, mine));
    const ls_device_message
        grant = {.word = remotes[before].words + 3, .generation = t->number, .peer = before},
        acquire = {.word = remotes[next].own + 3, .generation = t->number, .peer = next, .awaits = true},
        put = {.source = t->source->source,
               .target = remotes[next].heap,
               .from = *t->from,
               .to = to,
               .word = remotes[next].words + 2,
               .generation = t->number,
               .peer = next,
               .carries = true},
        receive = {
            .word = remotes[before].own + 2, .generation = t->number, .peer = before, .awaits = true, .carries = true};
    LS_TRY(launch(device, 1, 3 * t->number, &acquire));
    LS_TRY(launch(device, 0, 3 * t->number, &grant));
    LS_TRY(launch(device, 1, 3 * t->number + 1, &put));
    LS_TRY(launch(device, 1, 3 * t->number + 2, &receive));
    LS_TRY(ls_device_join(device));
    LS_TRY(ls_device_read(device, heap, &whole, got));
    ls_range_copy(mine, &to, theirs, t->from);
    RANK_CHECK(memcmp(got, mine, HEAP) == 0);
    free(mine), free(theirs), free(got);
    return ls_ok();
}

/* The words on the host show what has been taken. */
static ls_status send_around(ls_device *device, ls_comm *comm, const ls_device_arena *heap,
                             const ls_device_remote *remotes) {
    const int rank = ls_comm_rank(comm), ranks = ls_comm_size(comm);
    const ls_range nothing = ls_range_flat(0, 0);
    const ls_device_arena *private;
    uint64_t number = 0;
    LS_TRY(ls_device_allocate(device, HEAP, &private));
    for (size_t f = 0; f < LS_COUNT(ranges); f++)
        for (size_t t = 0; t < LS_COUNT(ranges); t++, number++)
            LS_TRY(take_turn(device, rank, ranks, heap, remotes,
                             &(turn){&ranges[f], &ranges[t], number % 3 == 1 ? private : heap, number + 1}));
    LS_TRY(take_turn(device, rank, ranks, heap, remotes, &(turn){&nothing, &nothing, heap, ++number}));
    if (remotes[rank].words == NULL) return ls_ok();
    size_t bytes;
    const uint64_t *words = ls_comm_words(comm, rank, &bytes);
    RANK_CHECK(words[2] == number && words[3] == number);
    return ls_ok();
}

static void test_all_ranges_arrive(void **state) {
    (void)state;
    const job j = {.use = send_around};
    for (int r = 0; r < ROUTES; r++) {
        for (int seed = 1; seed <= 2; seed++) {
            char device[32], settings[32];
            snprintf(device, sizeof device, "cuda:%s", routes[r]);
            snprintf(settings, sizeof settings, "seed=%d", seed);
            use_fake_routes(settings, settings);
            assert_ok(run(1 + seed, device, 20, &j));
        }
    }
    assert_ok(run_threads(3, "cuda:nccl", 20, &j)); /* ranks may be threads, with a GPU each */
}

/* --- far ahead ---------------------------------------------------------------------------------------------------- */

static ls_status launch_waiting(ls_device *device, uint64_t number, const ls_device_remote *at, int peer, uint64_t word,
                                bool carries) {
    return launch(device, 1, number,
                  &(ls_device_message){
                      .word = at->own + word, .generation = 1, .peer = peer, .awaits = true, .carries = carries});
}

/*
 * As many puts as there is room for are launched behind a wait for what the peer does when it has launched its own: no
 * call may wait for room in the library.
 */
static ls_status launch_far_ahead(ls_device *device, ls_comm *comm, const ls_device_arena *heap,
                                  const ls_device_remote *remotes) {
    enum { MOST = 40, FIRST_WORD = 8 };
    const int other = 1 - ls_comm_rank(comm);
    const ls_device_remote *at = &remotes[other];
    uint64_t puts = 0, all[2];
    ls_device_message put = {.source = heap->source,
                             .target = at->heap,
                             .from = ls_range_flat(0, 64),
                             .to = ls_range_flat(TARGETS, 64),
                             .generation = 1,
                             .peer = other,
                             .carries = true};
    LS_TRY(launch_waiting(device, 1, at, other, 3, false));
    while (puts < MOST && ls_device_has_room(device, 1)) {
        put.word = at->words + FIRST_WORD + puts++;
        LS_TRY(launch(device, 1, 1 + puts, &put));
    }
    LS_TRY(launch(device, 0, 1, &(ls_device_message){.word = at->words + 3, .generation = 1, .peer = other}));
    LS_TRY(ls_comm_exchange(comm, &puts, sizeof puts, all)); /* some may have been executed meanwhile */
    for (uint64_t k = 0; k < all[other]; k++)
        LS_TRY(launch_waiting(device, 2 + puts + k, at, other, FIRST_WORD + k, true));
    RANK_CHECK(puts > 8);
    const ls_range many = {0, 8, {7, 20, 1}, {16, 200, 0}}, few = {0, 8, {7, 1, 1}, {16, 0, 0}};
    RANK_CHECK(ls_device_is_large(device, &many) && !ls_device_is_large(device, &few));
    return ls_device_join(device);
}

static void test_launches_go_as_far_ahead_as_a_library_takes(void **state) {
    (void)state;
    const job j = {.use = launch_far_ahead};
    use_fake_routes("", "");
    for (int r = 0; r < ROUTES; r++) {
        char device[32];
        snprintf(device, sizeof device, "cuda:%s", routes[r]);
        assert_ok(run(2, device, 20, &j));
    }
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void refused(int route, const char *settings, ls_code code, const char *part) {
    char device[32];
    snprintf(device, sizeof device, "cuda:%s", routes[route]);
    use_fake_routes("", "");
    setenv(variables[route], settings, 1);
    const ls_status status = run(2, device, 0.3, NULL);
    assert_fails(status, code, part);
    assert_null(strchr(status.text, '\n'));
}

static void test_refusals(void **state) {
    (void)state;
    refused(0, "version=20901", LS_UNSUPPORTED, "NVSHMEM 2.9.1 is there; expected 3");
    refused(1, "version=22907", LS_UNSUPPORTED, "NCCL 2.29.7 is there; expected 2.31.2 or later");
    refused(1, "windows=0", LS_UNSUPPORTED, "NCCL 2.32.3: ncclCommWindowRegister made no window of ");
    for (int r = 0; r < ROUTES; r++) {
        refused(r, "puts=0", LS_UNSUPPORTED, "the signal came before the bytes: byte 0 of 256 is 0; expected");
        refused(r, "signals=0", LS_UNSUPPORTED, "the bytes came and the signal did not within 0.3 s");
        refused(r, "puts=0,signals=0", LS_UNSUPPORTED, "neither the bytes nor the signal came within 0.3 s");
        refused(r, "early=1", LS_UNSUPPORTED, "the signal came before the bytes");
    }
    setenv("LONGSPAN_NCCL", "/nowhere/libnccl.so", 1);
    assert_fails(run(2, "cuda:nccl", 1, NULL), LS_UNSUPPORTED, "it cannot be loaded: /nowhere/libnccl.so");
    setenv("LONGSPAN_NCCL", LS_TEST_FAKES "libcudnn.so.9", 1);
    assert_fails(run(2, "cuda:nccl", 1, NULL), LS_UNSUPPORTED, "libcudnn.so.9 has no ncclGetVersion");
    use_fake_routes("", "");
    assert_fails(run_threads(2, "cuda:nvshmem", 1, NULL), LS_UNSUPPORTED,
                 "ranks 0 and 1 are threads of one process; expected a process for each rank");
    for (int r = 0; r < ROUTES; r++) {
        char device[32];
        snprintf(device, sizeof device, "cuda:0:%s", routes[r]);
        assert_fails(run(2, device, 1, NULL), LS_UNSUPPORTED, "ranks 0 and 1 use one GPU");
    }
}

static void test_each_call_fails(void **state) {
    (void)state;
    static const char *const calls[ROUTES][7] = {
        {"nvshmemx_get_uniqueid", "nvshmemx_set_attr_uniqueid_args", "nvshmemx_hostlib_init_attr", "nvshmem_malloc"},
        {"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclMemAlloc", "ncclCommWindowRegister", "ncclPutSignal",
         "ncclWaitSignal", "ncclCommGetAsyncError"}};
    for (int r = 0; r < ROUTES; r++) {
        for (int i = 0; i < 7 && calls[r][i] != NULL; i++) {
            char settings[64];
            snprintf(settings, sizeof settings, "%s=1", calls[r][i]);
            refused(r, settings, strcmp(calls[r][i], "nvshmem_malloc") == 0 ? LS_NO_MEMORY : LS_FAULT, calls[r][i]);
        }
    }
    refused(0, "nvshmemx_putmem_signal_on_stream=1", LS_UNSUPPORTED, "neither the bytes nor the signal came");
    refused(0, "nvshmemx_putmem_on_stream=2", LS_UNSUPPORTED, "the signal came before the bytes: byte 160 of 256 is 0");
    refused(0, "nvshmemx_signal_op_on_stream=1", LS_UNSUPPORTED, "the bytes came and the signal did not");
    refused(0, "nvshmemx_signal_op_on_stream=2", LS_UNSUPPORTED, "the first signal alone from rank");
}

/* A put of generation 7 on queue 1, then another one. */
static ls_status put_twice(ls_device *device, ls_comm *comm, const ls_device_arena *heap,
                           const ls_device_remote *remotes, int queue, uint64_t generation) {
    const int other = 1 - ls_comm_rank(comm);
    ls_device_message put = {.source = heap->source,
                             .target = remotes[other].heap,
                             .from = ls_range_flat(0, 64),
                             .to = ls_range_flat(TARGETS, 64),
                             .word = remotes[other].words + 5,
                             .generation = 7,
                             .peer = other,
                             .carries = true};
    LS_TRY(launch(device, 1, 1, &put));
    put.generation = generation;
    return launch(device, queue, 2, &put);
}
static ls_status leave_out_a_generation(ls_device *device, ls_comm *comm, const ls_device_arena *heap,
                                        const ls_device_remote *remotes) {
    return put_twice(device, comm, heap, remotes, 1, 9);
}
static ls_status use_two_queues(ls_device *device, ls_comm *comm, const ls_device_arena *heap,
                                const ls_device_remote *remotes) {
    return put_twice(device, comm, heap, remotes, 0, 8);
}

/* What it would count wrongly, or execute late, though no call of it fails. */
static void test_what_nccl_cannot_do_is_refused(void **state) {
    (void)state;
    const job gap = {.use = leave_out_a_generation}, queues = {.use = use_two_queues};
    use_fake_routes("", "");
    assert_fails(run(2, "cuda:nccl", 20, &gap), LS_UNSUPPORTED,
                 "NCCL 2.32.3: message: generation 9 after 7 of word 5; expected the next one, since NCCL counts");
    assert_fails(run(2, "cuda:nccl", 20, &queues), LS_UNSUPPORTED,
                 "NCCL 2.32.3: message stands on queue 0, earlier messages of its kind on queue 1; expected one queue");
}

/* --- which route -------------------------------------------------------------------------------------------------- */

/* The same as on one host, where nobody asks for a route: then ranks of other hosts are reached by a library. */
static void test_the_route_is_found(void **state) {
    (void)state;
    const job j = {.use = send_around};
    setenv(LS_HOSTS_VARIABLE, "2", 1);
    use_fake_routes("", "");
    assert_ok(run(2, "cuda", 20, &j));
    setenv("LONGSPAN_NVSHMEM", "/nowhere", 1);
    assert_ok(run(2, "cuda", 20, &j));
    unsetenv(LS_HOSTS_VARIABLE);
}

static ls_status expect_unreached(ls_device *device, ls_comm *comm, const ls_device_arena *heap,
                                  const ls_device_remote *remotes) {
    (void)device, (void)heap;
    const ls_device_remote *other = &remotes[1 - ls_comm_rank(comm)];
    RANK_CHECK(other->words == NULL && remotes[ls_comm_rank(comm)].words != NULL);
    RANK_CHECK(strstr(other->why, "they share no memory; nvshmem: it cannot be loaded: /nowhere") != NULL);
    RANK_CHECK(strstr(other->why, "; nccl: NCCL 2.28.3 is there; expected 2.31.2 or later") != NULL);
    return ls_ok();
}

static void test_no_route_is_found(void **state) {
    (void)state;
    const job j = {.use = expect_unreached};
    setenv(LS_HOSTS_VARIABLE, "2", 1);
    use_fake_routes("", "version=22803");
    setenv("LONGSPAN_NVSHMEM", "/nowhere", 1);
    assert_ok(run(2, "cuda", 1, &j));
    unsetenv(LS_HOSTS_VARIABLE);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static void test_the_same_bits(void **state) {
    (void)state;
    routes_change_nothing("cuda:nvshmem", 1);
    routes_change_nothing("cuda:nccl", 2);
}

/* Whether a training step fails; then soon, with the text. */
static bool fails(const image_set *set, int route, const char *settings, const char *part) {
    char device[32];
    uint64_t digest;
    const double start = ls_seconds();
    snprintf(device, sizeof device, "cuda:%s", routes[route]);
    setenv("LONGSPAN_DEVICE", device, 1);
    use_fake_cuda("devices=3,seed=5");
    use_fake_routes("", "");
    setenv(variables[route], settings, 1);
    const ls_status status = step_digest_of_processes(set, &digest);
    unsetenv("LONGSPAN_DEVICE");
    assert_true(ls_seconds() - start < 20);
    if (status.code != LS_OK && strstr(status.text, part) == NULL) fail_msg("%s: %s", settings, status.text);
    return status.code != LS_OK;
}

/* In the middle of a run: calls that fail, what the library only says when it is asked, and ranks that are lost. */
static void test_failures_end_the_run(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 1);
    put_kernels_on_streams(&set);
    assert_false(fails(&set, 1, "ncclPutSignal=10000", ""));
    assert_true(
        fails(&set, 1, "ncclPutSignal=20", "ncclPutSignal: unhandled system error (2), \"it was told to fail\": "));
    assert_true(fails(&set, 1, "ncclWaitSignal=9", "ncclWaitSignal: unhandled system error"));
    assert_true(fails(&set, 1, "ncclCommGetAsyncError=30", "ncclCommGetAsyncError: unhandled system error"));
    assert_true(fails(&set, 1, "ncclPutSignal=21:dies", "was killed by signal 9"));
    assert_true(fails(&set, 0, "nvshmemx_putmem_signal_on_stream=9:dies", "was killed by signal 9"));
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_ranges_arrive),
                                       cmocka_unit_test(test_launches_go_as_far_ahead_as_a_library_takes),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_each_call_fails),
                                       cmocka_unit_test(test_what_nccl_cannot_do_is_refused),
                                       cmocka_unit_test(test_the_route_is_found),
                                       cmocka_unit_test(test_no_route_is_found),
                                       cmocka_unit_test(test_the_same_bits),
                                       cmocka_unit_test(test_failures_end_the_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
