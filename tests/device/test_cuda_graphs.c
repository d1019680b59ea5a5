/*
 * Recordings of the device "cuda" on the driver for tests: what graphs execute and in which order, what is known while
 * they run, what calls kernels may make while they are captured, and each call of the driver that graphs need failing.
 */
#include "device/device.h"
#include "support/cuda_device.h"

#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Works of a recording live until the device is closed. */
typedef struct step {
    unsigned *at, by;
    fake_cuda_work work;
} step;

static void add(void *context, ls_pool *pool) {
    (void)pool;
    const step *s = context;
    *s->at = *s->at * 3 + s->by;
}

static ls_status launch_step(ls_device *device, step *s, ls_event event, const ls_event *after) {
    s->work.context = s;
    if (s->work.run == NULL) s->work.run = add;
    return ls_device_launch(device, &(ls_device_work){.name = "step",
                                                      .event = event,
                                                      .after = after,
                                                      .n_after = after != NULL,
                                                      .submit = submit_fake_work,
                                                      .context = &s->work});
}

/* --- what is executed --------------------------------------------------------------------------------------------- */

enum { TASKS = 300, RUNS = 5, PER_RUN = 1000 };

/* A chain over all queues, in random turns. */
static void record_chain(ls_device *device, step *steps, unsigned *at, ls_device_recording **out) {
    ls_event last = {0, 0};
    assert_ok(ls_device_record_begin(device));
    for (unsigned t = 0; t < TASKS; t++) {
        const ls_event event = {(int)ls_rng_below(1, 2, t, QUEUES), 3 * t + 1};
        steps[t] = (step){.at = at, .by = t};
        assert_ok(launch_step(device, &steps[t], event, last.queue != event.queue && t > 0 ? &last : NULL));
        last = event;
    }
    assert_ok(ls_device_record_end(device, out));
}

/* Several runs, and launches between them. */
static void test_a_chain_over_all_queues(void **state) {
    (void)state;
    static step steps[TASKS], single;
    ls_device *device = open_cuda("seed=5");
    const ls_device_arena *arena;
    ls_device_recording *recording;
    unsigned expected = 0, value;
    const ls_range four = ls_range_flat(0, sizeof value);
    assert_ok(ls_device_allocate(device, 4096, &arena));
    record_chain(device, steps, (unsigned *)(void *)arena->base, &recording);
    assert_in_range(ls_device_recording_bytes(recording), TASKS * 100, TASKS * 10000);
    single = (step){.at = (unsigned *)(void *)arena->base, .by = 7};
    for (unsigned run = 0; run < RUNS; run++) {
        assert_ok(ls_device_replay(device, recording, run * PER_RUN, run));
        assert_ok(ls_device_join(device));
        for (unsigned t = 0; t < TASKS; t++) expected = expected * 3 + t;
        assert_ok(launch_step(device, &single, (ls_event){(int)run % QUEUES, run * PER_RUN + 950}, NULL));
        assert_ok(ls_device_join(device));
        expected = expected * 3 + 7;
        assert_ok(ls_device_read(device, arena, &four, &value));
        assert_int_equal(value, expected);
    }
    close_cuda(device);
}

/* A hold, too, which each run has again. */
/* Runs of so many works that no stream takes their graphs at once, where two queues wait for each other throughout. */
static void test_more_than_a_stream_takes(void **state) {
    (void)state;
    enum { MANY = 3000, TURNS = 2 };
    static step steps[2][MANY];
    unsigned at[2] = {0}, expected = 0;
    ls_device *device = open_cuda("depth=2048");
    ls_device_recording *recording;
    assert_ok(ls_device_record_begin(device));
    for (unsigned t = 0; t < MANY; t++) {
        const ls_event first = {0, t + 1}, second = {1, t + 1}, before = {1, t};
        steps[0][t] = (step){.at = &at[0], .by = t};
        steps[1][t] = (step){.at = &at[1], .by = t};
        assert_ok(launch_step(device, &steps[0][t], first, t > 0 ? &before : NULL));
        assert_ok(launch_step(device, &steps[1][t], second, &first));
    }
    assert_ok(ls_device_record_end(device, &recording));
    for (unsigned r = 0; r < TURNS; r++) {
        assert_ok(ls_device_replay(device, recording, r * MANY, r));
        assert_ok(ls_device_join(device));
    }
    for (unsigned t = 0; t < TURNS * MANY; t++) expected = expected * 3 + t % MANY;
    assert_int_equal(at[0], expected);
    assert_int_equal(at[1], expected);
    /* What was begun is executed before the device closes. */
    assert_ok(ls_device_replay(device, recording, TURNS * MANY, TURNS));
    ls_device_close(device);
    for (unsigned t = 0; t < MANY; t++) expected = expected * 3 + t;
    assert_int_equal(at[1], expected);
    assert_int_equal(fake_cuda_left(), 0);
}

static void test_holds_are_recorded(void **state) {
    (void)state;
    static step steps[2];
    static unsigned values[2];
    ls_device *device = open_cuda("");
    ls_device_recording *recording;
    assert_ok(ls_device_record_begin(device));
    for (int i = 0; i < 2; i++) {
        const ls_event hold = {1, 10};
        steps[i] = (step){.at = &values[i], .by = 1};
        if (i == 1) assert_ok(ls_device_launch(device, &(ls_device_work){.name = "hold", .event = hold}));
        assert_ok(launch_step(device, &steps[i], (ls_event){2 * i, 20}, i == 1 ? &hold : NULL));
    }
    assert_ok(ls_device_record_end(device, &recording));
    for (uint64_t run = 0; run < 3; run++) {
        bool happened;
        const unsigned before = values[1];
        assert_ok(ls_device_replay(device, recording, 100 * run, run));
        assert_ok(ls_device_await(device, (ls_event){0, 100 * run + 20}));
        sleep_seconds(0.01);
        assert_ok(ls_device_happened(device, (ls_event){2, 100 * run + 20}, &happened));
        assert_false(happened);
        assert_int_equal(values[1], before);
        assert_ok(ls_device_release(device, (ls_event){1, 100 * run + 10}));
        assert_ok(ls_device_join(device));
        assert_int_equal(values[1], before * 3 + 1);
    }
    close_cuda(device);
}

/* --- what is known while it runs ---------------------------------------------------------------------------------- */

static bool happens_within(ls_device *device, ls_event event, double seconds) {
    bool happened = false;
    for (const double began = ls_seconds(); !happened && ls_seconds() - began < seconds; sleep_seconds(1e-3))
        assert_ok(ls_device_happened(device, event, &happened));
    return happened;
}

enum { HEAP = 4096, WORDS_BYTES = 4096 };

/* Of one rank alone. */
static void *words_alone(void *context, int rank, size_t *bytes) {
    (void)rank;
    *bytes = WORDS_BYTES;
    return context;
}
static ls_status exchange_alone(void *context, const void *mine, size_t bytes, void *all) {
    (void)context;
    memcpy(all, mine, bytes);
    return ls_ok();
}

/* A device that reaches itself, by words in memory that is shared. */
static ls_device *open_with_words(const char *settings, uint64_t **words, ls_device_remote *self) {
    ls_device *device = open_cuda(settings);
    const ls_device_arena *heap;
    *words = shared_memory(WORDS_BYTES);
    const ls_device_ranks ranks = {
        .ranks = 1, .patience = 1, .words = words_alone, .exchange = exchange_alone, .context = *words};
    assert_ok(ls_device_connect(device, &ranks, HEAP, &heap, self));
    return device;
}

/*
 * Queue 0: two works, a wait for a word, a work. Queue 1: two works, one after that. While the word is awaited, all
 * that comes before is known to be executed. The next run needs a higher word.
 */
static void test_what_comes_before_a_wait_is_known(void **state) {
    (void)state;
    static step steps[5];
    static unsigned values[5];
    uint64_t *words;
    ls_device_remote self;
    ls_device_recording *recording;
    ls_device *device = open_with_words("seed=2", &words, &self);
    const ls_device_message wait = {.word = self.words + 2, .generation = 5, .rise = 2, .awaits = true};
    const ls_event awaited = {0, 4};
    for (int i = 0; i < 5; i++) steps[i] = (step){.at = &values[i], .by = 1};
    assert_ok(ls_device_record_begin(device));
    assert_ok(launch_step(device, &steps[0], (ls_event){0, 1}, NULL));
    assert_ok(launch_step(device, &steps[1], (ls_event){0, 2}, NULL));
    assert_ok(launch_step(device, &steps[2], (ls_event){1, 3}, NULL));
    assert_ok(ls_device_launch(device, &(ls_device_work){.name = "wait", .event = awaited, .message = &wait}));
    assert_ok(launch_step(device, &steps[3], (ls_event){0, 5}, NULL));
    assert_ok(launch_step(device, &steps[4], (ls_event){1, 6}, &awaited));
    assert_ok(ls_device_record_end(device, &recording));
    for (uint64_t run = 0; run < 3; run++) {
        bool happened;
        assert_ok(ls_device_replay(device, recording, 10 * run, run));
        assert_true(happens_within(device, (ls_event){0, 10 * run + 2}, 5));
        assert_true(happens_within(device, (ls_event){1, 10 * run + 3}, 5));
        __atomic_store_n(&words[2], 4 + 2 * run, __ATOMIC_RELEASE);
        sleep_seconds(0.01);
        assert_ok(ls_device_happened(device, (ls_event){0, 10 * run + 4}, &happened));
        assert_false(happened);
        __atomic_store_n(&words[2], 5 + 2 * run, __ATOMIC_RELEASE);
        assert_true(happens_within(device, (ls_event){0, 10 * run + 4}, 5));
        assert_ok(ls_device_join(device));
    }
    for (int i = 0; i < 5; i++) assert_int_equal(values[i], 13);
    close_cuda(device);
    (void)munmap(words, WORDS_BYTES);
}

static sem_t let_go;
static void wait_for_test(void *context, ls_pool *pool) {
    (void)context, (void)pool;
    (void)sem_wait(&let_go);
}

/* While one of 100 works that wait for nothing takes long, those before the last 32 of them are known to be executed.
 */
static void test_a_long_computation_is_seen_to_go_on(void **state) {
    (void)state;
    enum { LONG = 80, WORKS = 100 };
    static step steps[WORKS];
    static unsigned value;
    ls_device *device = open_cuda("");
    ls_device_recording *recording;
    bool happened;
    (void)sem_init(&let_go, 0, 0);
    assert_ok(ls_device_record_begin(device));
    for (unsigned i = 0; i < WORKS; i++) {
        steps[i] = (step){.at = &value, .by = i, .work.run = i == LONG ? wait_for_test : NULL};
        assert_ok(launch_step(device, &steps[i], (ls_event){0, i + 1}, NULL));
    }
    assert_ok(ls_device_record_end(device, &recording));
    assert_ok(ls_device_replay(device, recording, 0, 0));
    const bool seen = happens_within(device, (ls_event){0, LONG / 2}, 5);
    assert_ok(ls_device_happened(device, (ls_event){0, LONG + 1}, &happened));
    (void)sem_post(&let_go);
    assert_ok(ls_device_join(device));
    assert_true(seen);
    assert_false(happened);
    close_cuda(device);
    (void)sem_destroy(&let_go);
}

/*
 * A work of queue 1 comes after the first of queue 0, and is not held up by the second; a message of queue 2 is known
 * to be executed while what follows it takes long.
 */
static void test_nobody_waits_longer_than_they_must(void **state) {
    (void)state;
    static step steps[4];
    static unsigned values[4];
    const ls_event first = {0, 1}, told = {2, 4};
    uint64_t *words;
    ls_device_remote self;
    ls_device_recording *recording;
    ls_device *device = open_with_words("", &words, &self);
    const ls_device_message signal = {.word = self.words, .generation = 3};
    (void)sem_init(&let_go, 0, 0);
    for (int i = 0; i < 4; i++)
        steps[i] = (step){.at = &values[i], .by = 1, .work.run = i % 2 == 1 ? wait_for_test : NULL};
    assert_ok(ls_device_record_begin(device));
    assert_ok(launch_step(device, &steps[0], first, NULL));
    assert_ok(launch_step(device, &steps[1], (ls_event){0, 2}, NULL));
    assert_ok(launch_step(device, &steps[2], (ls_event){1, 3}, &first));
    assert_ok(ls_device_launch(device, &(ls_device_work){.name = "signal", .event = told, .message = &signal}));
    assert_ok(launch_step(device, &steps[3], (ls_event){2, 5}, NULL));
    assert_ok(ls_device_record_end(device, &recording));
    assert_ok(ls_device_replay(device, recording, 0, 0));
    const bool seen = happens_within(device, (ls_event){1, 3}, 5) && happens_within(device, told, 5);
    for (int i = 0; i < 2; i++) (void)sem_post(&let_go);
    assert_ok(ls_device_join(device));
    assert_true(seen);
    assert_int_equal(words[0], 3);
    close_cuda(device);
    (void)sem_destroy(&let_go);
    (void)munmap(words, WORDS_BYTES);
}

/* --- what is not captured ----------------------------------------------------------------------------------------- */

static ls_status record_one(ls_device *device, step *s) {
    ls_device_recording *recording;
    LS_TRY(ls_device_record_begin(device));
    LS_TRY(launch_step(device, s, (ls_event){0, 1}, NULL));
    LS_TRY(ls_device_record_end(device, &recording));
    LS_TRY(ls_device_replay(device, recording, 0, 0));
    return ls_device_join(device);
}

/* A library may allocate when it is called for the first time; one that waits for the stream spoils the graph. */
static void test_calls_beside_what_is_captured(void **state) {
    (void)state;
    static unsigned value;
    static step allocates = {.at = &value, .by = 5, .work.call_first = allocate_once};
    static step asks = {.at = &value, .by = 5, .work.call_first = ask_stream};
    ls_device *device = open_cuda("");
    assert_ok(record_one(device, &allocates));
    assert_int_equal(value, 5);
    close_cuda(device);
    device = open_cuda("");
    assert_fails(record_one(device, &asks), LS_FAULT,
                 "step (queue 0) on cuda:0 (Fake 0): captured words are 1 nodes, state 2; expected one node");
    close_cuda(device);
}

static void test_without_graphs(void **state) {
    (void)state;
    static const char *const names[] = {"cuda:launched", "cuda:1:launched"};
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        ls_device *device;
        assert_ok(open_on(names[i], "cuStreamBeginCapture_v2=1:719", &device));
        assert_false(ls_device_traits_of(device)->records);
        close_cuda(device);
    }
    ls_device *device = open_cuda("");
    assert_true(ls_device_traits_of(device)->records);
    close_cuda(device);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Records work on two queues that wait for each other, and runs it twice. */
static ls_status use_graphs(const char *settings) {
    static step steps[4];
    static unsigned values[4];
    ls_device *device;
    ls_device_recording *recording;
    const ls_event first = {0, 1}, second = {1, 2};
    LS_TRY(open_on("cuda:1", settings, &device));
    for (int i = 0; i < 4; i++) steps[i] = (step){.at = &values[i], .by = 1};
    ls_status status = ls_device_record_begin(device);
    if (status.code == LS_OK) status = launch_step(device, &steps[0], first, NULL);
    if (status.code == LS_OK) status = launch_step(device, &steps[1], second, &first);
    if (status.code == LS_OK) status = launch_step(device, &steps[2], (ls_event){0, 3}, &second);
    if (status.code == LS_OK) status = launch_step(device, &steps[3], (ls_event){0, 4}, NULL);
    if (status.code == LS_OK) status = ls_device_record_end(device, &recording);
    for (uint64_t run = 0; run < 2 && status.code == LS_OK; run++) {
        status = ls_device_replay(device, recording, 10 * run, run);
        if (status.code == LS_OK) status = ls_device_join(device);
    }
    ls_device_close(device);
    return status;
}

/* Whether it fails when the N-th call of the function does. Then the error names a work, too. */
static bool fails(const char *function, int n, bool lost) {
    const ls_status status = use_failing(use_graphs, function, n, lost);
    if (status.code == LS_OK) return false;
    if (lost) return true;
    assert_fails(status, LS_FAULT, "cuda:1 (Fake 1)");
    if (strcmp(function, "cuMemGetInfo_v2") != 0) assert_fails(status, LS_FAULT, "step (queue ");
    return true;
}

/* Each is called so often in use_graphs. */
static void test_each_call_fails(void **state) {
    (void)state;
    static const struct {
        const char *function;
        int calls;
    } rows[] = {{"cuStreamBeginCapture_v2", 2},
                {"cuStreamBatchMemOp_v2", 4},
                {"cuStreamGetCaptureInfo_v3", 4},
                {"cuStreamEndCapture", 2},
                {"cuGraphInstantiateWithFlags", 2},
                {"cuGraphUpload", 2},
                {"cuGraphExecBatchMemOpNodeSetParams", 8},
                {"cuMemGetInfo_v2", 2}};
    assert_ok(use_graphs(""));
    for (size_t i = 0; i < LS_COUNT(rows); i++)
        for (int lost = 0; lost < 2; lost++)
            for (int n = 1; n <= rows[i].calls + 1; n++)
                assert_true(fails(rows[i].function, n, lost) == (n <= rows[i].calls));
}

/*
 * The launch of a graph fails. Where another queue's graph had been launched, it may wait for ever, and stays with all
 * that it uses: in a process of its own.
 */
static void test_a_launch_fails(void **state) {
    (void)state;
    for (int n = 1; n <= 5; n++) {
        fflush(NULL);
        const double start = ls_seconds();
        const pid_t child = fork();
        if (child == 0) {
            char settings[64];
            signal(SIGABRT, SIG_DFL);
            snprintf(settings, sizeof settings, "cuGraphLaunch=%d:719", n);
            const ls_status s = use_graphs(settings);
            const bool named = strstr(s.text, "cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED (719, unspecified launch "
                                              "failure): a graph of ") != NULL;
            const bool outstanding =
                strstr(s.text, "first of what is not known to be executed: step (queue 0, number") != NULL;
            _exit(s.code == LS_OK ? 9 : named ? 2 * (fake_cuda_left() > 0) + outstanding : 8);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), n == 5 ? 9 : n % 2 == 0 ? 3 : 0);
        assert_true(ls_seconds() - start < 10);
    }
}

/* Whatever is executed when the device is lost: the error names a work that is outstanding, unless all was executed. */
static void test_the_device_is_lost(void **state) {
    (void)state;
    int failed = 0, named = 0;
    for (int n = 1; n <= 20; n++) {
        char settings[64];
        snprintf(settings, sizeof settings, "seed=%d,execute=%d:700", n, n);
        const ls_status status = use_graphs(settings);
        assert_int_equal(fake_cuda_left(), 0);
        if (status.code == LS_OK) continue;
        assert_fails(status, LS_FAULT, "CUDA_ERROR_ILLEGAL_ADDRESS");
        failed++;
        named += strstr(status.text, "first of what is not known to be executed: step (queue ") != NULL;
    }
    print_message("lost %d times, %d times with something outstanding\n", failed, named);
    assert_true(named > 10 && failed >= named && failed < 20);
}

static void test_memory_that_is_not_there(void **state) {
    (void)state;
    assert_fails(use_graphs("memory=1000"), LS_NO_MEMORY,
                 "cuGraphInstantiateWithFlags: CUDA_ERROR_OUT_OF_MEMORY (2, out of memory): a graph of 3 works, step "
                 "(queue 0, number 1) first, on cuda:1 (Fake 1)");
    assert_int_equal(fake_cuda_left(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_launch_fails), /* first: it forks, and no driver may be initialised before */
        cmocka_unit_test(test_a_chain_over_all_queues),
        cmocka_unit_test(test_more_than_a_stream_takes),
        cmocka_unit_test(test_holds_are_recorded),
        cmocka_unit_test(test_what_comes_before_a_wait_is_known),
        cmocka_unit_test(test_a_long_computation_is_seen_to_go_on),
        cmocka_unit_test(test_nobody_waits_longer_than_they_must),
        cmocka_unit_test(test_calls_beside_what_is_captured),
        cmocka_unit_test(test_without_graphs),
        cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_the_device_is_lost),
        cmocka_unit_test(test_memory_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
