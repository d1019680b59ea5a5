/*
 * The device "cuda" on the driver for tests: memory, queues far ahead, who is woken, and each call of the driver
 * failing. test_cuda_open.c has what is refused, test_device.c what holds for all devices.
 */
#include "device/cuda/driver.h"
#include "device/device.h"
#include "kernel/cuda/table.h"
#include "support/cuda_device.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

/* --- memory ------------------------------------------------------------------------------------------------------- */

enum { ARENA = 5 << 20 };

/* A range of the arena against the same one of a copy on the host: what is read, and the whole after it was written. */
static void check_slices(ls_device *device, const ls_device_arena *arena, char *copy, const ls_range *range) {
    const ls_range dense = ls_range_flat(0, ls_range_bytes(range)), whole = ls_range_flat(0, ARENA);
    char *got = malloc(ARENA), *expected = malloc(ARENA);
    ls_range_copy(expected, &dense, copy, range);
    assert_ok(ls_device_read(device, arena, range, got));
    assert_memory_equal(got, expected, dense.length);
    for (size_t i = 0; i < dense.length; i++) expected[i] = (char)(expected[i] * 5 + 3);
    ls_range_copy(copy, range, expected, &dense);
    assert_ok(ls_device_write(device, arena, range, expected));
    assert_ok(ls_device_read(device, arena, &whole, got));
    assert_memory_equal(got, copy, ARENA);
    free(got);
    free(expected);
}

/* Some by rows at once, some piece by piece, some larger than what goes by way of pinned memory at a time. */
static void test_slices_of_all_shapes(void **state) {
    (void)state;
    static const ls_range ranges[] = {
        {7, 1, {1, 1, 1}, {0, 0, 0}},
        {3, 4000001, {1, 1, 1}, {0, 0, 0}},
        {5, 7, {1000, 1, 1}, {13, 0, 0}},
        {5, 7, {30, 20, 10}, {7, 300, 9000}},
        {100, 3, {1, 50, 40}, {0, 3, 1000}},
        {0, 100, {40, 30, 20}, {100000, 100, 3000}}, /* the innermost dimension has the largest distance */
        {1, 1 << 19, {3, 2, 1}, {1 << 20, 1 << 19, 0}},
        {9, (1 << 20) + 5, {3, 1, 1}, {(1 << 20) + 77, 0, 0}},
        {4000, 1000, {4, 1, 1}, {-1000, 0, 0}}, /* backwards */
    };
    ls_device *device = open_cuda("");
    const ls_device_arena *arena;
    const ls_range whole = ls_range_flat(0, ARENA), part = ls_range_flat(77, 2000001);
    char *copy = malloc(ARENA);
    assert_ok(ls_device_allocate(device, ARENA, &arena));
    assert_ptr_equal(arena->source, arena->base); /* messages address it as launches do */
    for (size_t i = 0; i < ARENA; i++) copy[i] = (char)(i * 2654435761u >> 24);
    assert_ok(ls_device_write(device, arena, &whole, copy));
    for (size_t i = 0; i < LS_COUNT(ranges); i++) check_slices(device, arena, copy, &ranges[i]);
    memset(copy + part.offset, 0, part.length);
    assert_ok(ls_device_clear(device, arena, &part));
    check_slices(device, arena, copy, &ranges[0]);
    free(copy);
    close_cuda(device);
}

typedef struct increment {
    int *at;
    int by;
} increment;

static void add(void *context, ls_pool *pool) {
    (void)pool;
    const increment *i = context;
    *i->at = *i->at * 3 + i->by;
}

static void test_memory_of_the_host_is_adopted(void **state) {
    (void)state;
    const size_t bytes = 3 * 4096;
    char *heap = shared_memory(bytes);
    memset(heap, 1, bytes);
    ls_device *device = open_cuda("");
    const ls_device_arena *arena, *none;
    assert_ok(ls_device_adopt(device, heap, bytes, &arena));
    assert_ok(ls_device_adopt(device, heap, 0, &none));
    assert_ptr_equal(arena->source, heap);
    assert_ptr_not_equal(arena->base, heap);
    increment task = {(int *)(void *)(arena->base + 4096), 4};
    int value;
    const ls_range four = ls_range_flat(4096, sizeof value);
    assert_ok(launch_anywhere(device, &(ls_device_work){.name = "add", .event = {0, 1}, .run = add, .context = &task}));
    assert_ok(ls_device_join(device));
    memcpy(&value, heap + 4096, sizeof value);
    assert_int_equal(value, 0x01010101 * 3 + 4);
    value = 7;
    assert_ok(ls_device_write(device, arena, &four, &value));
    assert_int_equal(heap[4096], 7);
    close_cuda(device);
    assert_int_equal(heap[4096], 7);
    (void)munmap(heap, bytes);
}

static void test_memory_that_is_not_there_is_refused(void **state) {
    (void)state;
    ls_device *device = open_cuda("memory=1000000");
    const ls_device_arena *arena;
    assert_ok(ls_device_allocate(device, 400000, &arena));
    assert_fails(ls_device_allocate(device, 700000, &arena), LS_NO_MEMORY,
                 "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2, out of memory): 700000 bytes on cuda:0 (Fake 0), where "
                 "600000 of 1000000 are free");
    close_cuda(device);
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* A chain over all queues and memory of the device, longer than a stream has room for. */
static void test_launches_far_ahead(void **state) {
    (void)state;
    enum { TASKS = 1500 };
    static increment tasks[TASKS];
    ls_device *device = open_cuda("seed=5");
    const ls_device_arena *arena;
    assert_ok(ls_device_allocate(device, 4096, &arena));
    ls_event last = {0, 0};
    int expected = 0, value;
    for (int t = 0; t < TASKS; t++) {
        const ls_event event = {t % 7 % QUEUES, (uint64_t)t + 1};
        tasks[t] = (increment){(int *)(void *)arena->base, t};
        expected = (int)((unsigned)expected * 3u + (unsigned)t);
        assert_ok(launch_anywhere(device, &(ls_device_work){.name = "add",
                                                            .event = event,
                                                            .after = &last,
                                                            .n_after = last.queue != event.queue,
                                                            .run = add,
                                                            .context = &tasks[t]}));
        last = event;
    }
    const ls_range four = ls_range_flat(0, sizeof value);
    assert_ok(ls_device_join(device));
    assert_ok(ls_device_read(device, arena, &four, &value));
    assert_int_equal(value, expected);
    close_cuda(device);
}

/* Behind a hold there is room for so many launches that no call blocks. */
static void test_room_ends_behind_a_hold(void **state) {
    (void)state;
    ls_device *device = open_cuda("");
    uint64_t n = 0;
    while (ls_device_has_room(device, 1)) {
        assert_true(n < 1000);
        assert_ok(ls_device_launch(device, &(ls_device_work){.name = "hold", .event = {1, ++n}}));
    }
    assert_true(n > 50);
    assert_true(ls_device_has_room(device, 0));
    for (uint64_t i = 1; i <= n; i++) assert_ok(ls_device_release(device, (ls_event){1, i}));
    assert_ok(ls_device_await(device, (ls_event){1, n}));
    assert_true(ls_device_has_room(device, 1));
    close_cuda(device);
}

static void post(void *context) { (void)sem_post(context); }

static bool is_woken(sem_t *woken) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    return sem_clockwait(woken, CLOCK_REALTIME, &end) == 0;
}

/* By what has been executed, once it has been and not before; and by the loss of the device. */
static void test_who_sleeps_is_woken(void **state) {
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        sem_t woken;
        ls_device *device;
        bool happened = false;
        increment task = {(int[]){1}, 1};
        sem_init(&woken, 0, 0);
        use_fake_cuda(lost ? "execute=1:700" : "");
        have_kernels_loaded();
        const ls_device_options options = {.queues = QUEUES, .wake = post, .context = &woken};
        assert_ok(ls_device_open("cuda", &options, &device));
        assert_ok(ls_device_launch(device, &(ls_device_work){.name = "hold", .event = {2, 1}}));
        assert_ok(
            launch_anywhere(device, &(ls_device_work){.name = "add", .event = {2, 2}, .run = add, .context = &task}));
        sleep_seconds(0.05);
        assert_int_equal(sem_trywait(&woken), -1);
        assert_ok(ls_device_release(device, (ls_event){2, 1}));
        while (!happened) {
            assert_true(is_woken(&woken));
            const ls_status status = ls_device_happened(device, (ls_event){2, 2}, &happened);
            if (status.code == LS_OK) continue;
            assert_fails(status, LS_FAULT, lost ? "add (queue 2, number 2)" : "no failure");
            break;
        }
        close_cuda(device);
        sem_destroy(&woken);
    }
}

/* A kernel of src/kernel/cuda, in the order of its queue. */
static ls_status submit_kernel(void *context, void *stream) {
    const ls_kernel_call *call = context;
    for (const ls_kernel *const *row = ls_cuda_kernels; *row != NULL; row++)
        if ((*row)->id == LS_KERNEL_ADD && (*row)->dtype == LS_F32) return (*row)->launch(call, NULL, stream);
    return ls_error(LS_INVALID, "there is no such kernel");
}

static void test_kernels_are_submitted(void **state) {
    (void)state;
    enum { N = 1000, RUNS = 5 };
    ls_device *device = open_cuda("");
    const ls_device_arena *arena;
    float ones[N], sums[N];
    for (int i = 0; i < N; i++) ones[i] = (float)i;
    const ls_range first = ls_range_flat(0, sizeof ones), second = ls_range_flat(sizeof ones, sizeof ones);
    const int64_t n = N;
    assert_ok(ls_device_allocate(device, 2 * sizeof ones, &arena));
    assert_ok(ls_device_write(device, arena, &first, ones));
    ls_kernel_call call = {.n_in = 2, .n_out = 1, .threads = 1};
    call.in[0] = ls_view_dense(arena->base, LS_F32, 1, &n);
    call.in[1] = call.out[0] = ls_view_dense(arena->base + sizeof ones, LS_F32, 1, &n);
    for (uint64_t i = 1; i <= RUNS; i++)
        assert_ok(ls_device_launch(
            device, &(ls_device_work){.name = "add", .event = {0, i}, .submit = submit_kernel, .context = &call}));
    assert_ok(ls_device_join(device));
    assert_ok(ls_device_read(device, arena, &second, sums));
    for (int i = 0; i < N; i++) assert_true(sums[i] == RUNS * ones[i]);
    close_cuda(device);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

enum { HEAP = 1 << 16, WORDS_BYTES = 4096, SIDES = 2 };

/* Two ranks, each with a device and a heap of its own. */
typedef struct side {
    ls_device *device;
    const ls_device_arena *heap;
    uint64_t *words;
    ls_device_remote other, self;
} side;

/* What both sides of an exchange have. */
typedef struct meeting {
    pthread_barrier_t barrier;
    side *sides;
    char told[SIDES][4096];
} meeting;

typedef struct member {
    meeting *meeting;
    int rank;
    ls_status status;
} member;

static void *words_of(void *context, int rank, size_t *bytes) {
    *bytes = 64;
    return ((member *)context)->meeting->sides[rank].words + 3;
}

static ls_status exchange(void *context, const void *mine, size_t bytes, void *all) {
    const member *m = context;
    LS_ASSERT(bytes <= sizeof m->meeting->told[0]);
    memcpy(m->meeting->told[m->rank], mine, bytes);
    (void)pthread_barrier_wait(&m->meeting->barrier);
    for (int r = 0; r < SIDES; r++) memcpy((char *)all + (size_t)r * bytes, m->meeting->told[r], bytes);
    (void)pthread_barrier_wait(&m->meeting->barrier);
    return ls_ok();
}

static void *meet(void *context) {
    member *m = context;
    side *s = &m->meeting->sides[m->rank];
    ls_device_remote remotes[SIDES];
    const ls_device_ranks ranks = {
        .rank = m->rank, .ranks = SIDES, .words = words_of, .exchange = exchange, .context = m};
    m->status = ls_device_connect(s->device, &ranks, HEAP, &s->heap, remotes);
    s->other = remotes[1 - m->rank];
    s->self = remotes[m->rank];
    return NULL;
}

/* Each rank in a thread of its own: they wait for each other. */
static ls_status meet_all(side *s) {
    meeting m = {.sides = s};
    member members[SIDES] = {{&m, 0, {0}}, {&m, 1, {0}}};
    pthread_t thread[SIDES];
    (void)pthread_barrier_init(&m.barrier, NULL, SIDES);
    for (int i = 0; i < SIDES; i++) assert_int_equal(pthread_create(&thread[i], NULL, meet, &members[i]), 0);
    for (int i = 0; i < SIDES; i++) pthread_join(thread[i], NULL);
    (void)pthread_barrier_destroy(&m.barrier);
    return members[0].status.code != LS_OK ? members[0].status : members[1].status;
}

static ls_status open_sides(side *s, const char *first, const char *second, const char *settings) {
    const char *const names[SIDES] = {first, second};
    for (int i = 0; i < SIDES; i++) {
        s[i].words = shared_memory(WORDS_BYTES);
        LS_TRY(open_on(names[i], settings, &s[i].device));
    }
    return meet_all(s);
}

static void close_sides(side *s) {
    for (int i = 0; i < SIDES; i++) {
        ls_device_close(s[i].device);
        (void)munmap(s[i].words, WORDS_BYTES);
    }
    assert_int_equal(fake_cuda_left(), 0);
}

/* Side 0 puts a range of its heap into one of side 1's, which waits for the word: the same bytes as a copy on the host.
 */
static void check_message(side *s, uint64_t turn, const ls_range *from, const ls_range *to) {
    const ls_range whole = ls_range_flat(0, HEAP);
    char *source = malloc(HEAP), *target = malloc(HEAP), *got = malloc(HEAP);
    for (int i = 0; i < HEAP; i++) source[i] = (char)(i * 7 + (int)turn), target[i] = (char)(i * 3);
    assert_ok(ls_device_write(s[0].device, s[0].heap, &whole, source));
    assert_ok(ls_device_write(s[1].device, s[1].heap, &whole, target));
    const ls_device_message put = {.source = s[0].heap->source,
                                   .target = s[0].other.heap,
                                   .from = *from,
                                   .to = *to,
                                   .word = s[0].other.words + 2,
                                   .generation = turn},
                            wait = {.word = s[1].self.own + 2, .generation = turn, .awaits = true};
    assert_ok(
        ls_device_launch(s[1].device, &(ls_device_work){.name = "receive", .event = {1, turn}, .message = &wait}));
    bool happened;
    assert_ok(ls_device_happened(s[1].device, (ls_event){1, turn}, &happened));
    assert_false(happened);
    assert_ok(ls_device_launch(s[0].device, &(ls_device_work){.name = "put", .event = {1, turn}, .message = &put}));
    for (int i = 0; i < SIDES; i++) assert_ok(ls_device_await(s[i].device, (ls_event){1, turn}));
    assert_int_equal(s[1].words[3 + 2], turn);
    assert_ok(ls_device_read(s[1].device, s[1].heap, &whole, got));
    ls_range_copy(target, to, source, from);
    assert_memory_equal(got, target, HEAP);
    free(source), free(target), free(got);
}

/* On one device and between two; ranges of one form, of several, and one piece in the form of others. */
static void test_messages(void **state) {
    (void)state;
    static const ls_range ranges[] = {{100, 240, {1, 1, 1}, {0, 0, 0}},    {8, 24, {10, 1, 1}, {40, 0, 0}},
                                      {0, 12, {5, 4, 1}, {16, 200, 0}},    {64, 12, {4, 5, 1}, {1000, 20, 0}},
                                      {16, 8, {2, 3, 5}, {512, 64, 4096}}, {16, 60, {4, 1, 1}, {60, 0, 0}},
                                      {4000, 6, {40, 1, 1}, {-100, 0, 0}}};
    static const char *const second[] = {"cuda:1", "cuda:0"};
    for (size_t d = 0; d < LS_COUNT(second); d++) {
        side s[SIDES];
        uint64_t turn = 0;
        assert_ok(open_sides(s, "cuda:0", second[d], "seed=3"));
        for (size_t f = 0; f < LS_COUNT(ranges); f++)
            for (size_t t = 0; t < LS_COUNT(ranges); t++) check_message(s, ++turn, &ranges[f], &ranges[t]);
        const ls_range nothing = ls_range_flat(0, 0);
        check_message(s, ++turn, &nothing, &nothing);
        close_sides(s);
    }
}

static void test_devices_that_do_not_reach_each_other(void **state) {
    (void)state;
    side s[SIDES];
    /* Ranks of one process need no handles of the driver, which some containers do not have. */
    assert_ok(open_sides(s, "cuda:0", "cuda:1", "cuIpcGetMemHandle=1:801"));
    close_sides(s);
    assert_fails(open_sides(s, "cuda:0", "cuda:1", "peers=0"), LS_UNSUPPORTED,
                 "cuda:0 (Fake 0) cannot access the memory of cuda:1");
    close_sides(s);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static ls_status use_memory(ls_device *device, const ls_device_arena **arena, void *heap) {
    char bytes[60];
    const ls_device_arena *adopted;
    const ls_range strided = {0, 10, {6, 1, 1}, {100, 0, 0}}, flat = ls_range_flat(50, sizeof bytes);
    LS_TRY(ls_device_allocate(device, 10000, arena));
    LS_TRY(ls_device_adopt(device, heap, 4096, &adopted));
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_device_write(device, *arena, &flat, memset(bytes, 0, sizeof bytes)));
        LS_TRY(ls_device_read(device, *arena, &flat, bytes));
        LS_TRY(ls_device_write(device, *arena, &strided, bytes));
        LS_TRY(ls_device_read(device, *arena, &strided, bytes));
        LS_TRY(ls_device_clear(device, *arena, &flat));
    }
    return ls_ok();
}

/* Copies to memory of a caller's, and back: a row alone, and several. */
static ls_status use_callers(ls_device *device, const ls_device_arena *arena) {
    const ls_device_arena *theirs;
    LS_TRY(ls_device_allocate(device, 4096, &theirs));
    for (size_t rows = 1; rows < 4; rows += 2) {
        ls_device_rows copy = {100, 70, theirs->base + 8, 64, 40, rows, false};
        LS_TRY(ls_device_knows(device, copy.theirs));
        LS_TRY(ls_device_copy(device, arena, &copy));
        copy.in = true;
        LS_TRY(ls_device_copy(device, arena, &copy));
        LS_TRY(ls_device_finish(device));
    }
    return ls_ok();
}

/* Two queues, each with work after a hold, which is over after a while; then some more. */
static ls_status use_queues(ls_device *device, const ls_device_arena *arena, increment tasks[6]) {
    const ls_event hold = {0, 1}, behind = {0, 2}, beside = {1, 1};
    bool happened;
    for (int i = 0; i < 6; i++) tasks[i] = (increment){(int *)(void *)(arena->base + 400 * i), i};
    LS_TRY(ls_device_launch(device, &(ls_device_work){.name = "hold", .event = hold}));
    LS_TRY(
        launch_anywhere(device, &(ls_device_work){.name = "first", .event = behind, .run = add, .context = &tasks[0]}));
    LS_TRY(launch_anywhere(
        device,
        &(ls_device_work){
            .name = "second", .event = beside, .after = &hold, .n_after = 1, .run = add, .context = &tasks[1]}));
    sleep_seconds(0.02);
    LS_TRY(ls_device_happened(device, behind, &happened));
    LS_TRY(ls_device_release(device, hold));
    LS_TRY(ls_device_await(device, beside));
    for (int i = 2; i < 6; i++)
        LS_TRY(launch_anywhere(
            device,
            &(ls_device_work){.name = "more", .event = {i % 2, (uint64_t)i + 1}, .run = add, .context = &tasks[i]}));
    return ls_device_join(device);
}

/* All that a device does. */
static ls_status use_all(const char *settings) {
    ls_device *device;
    const ls_device_arena *arena;
    static increment tasks[6]; /* they may be executed after a failure, until the device is closed */
    void *heap = shared_memory(4096);
    ls_status status = open_on("cuda:1", settings, &device);
    if (status.code == LS_OK) {
        ls_device_facts facts;
        status = ls_device_describe("cuda:1", &facts);
        if (status.code == LS_OK) status = use_memory(device, &arena, heap);
        if (status.code == LS_OK) status = use_callers(device, arena);
        if (status.code == LS_OK) status = use_queues(device, arena, tasks);
        ls_device_close(device);
    }
    (void)munmap(heap, 4096);
    assert_int_equal(fake_cuda_left(), 0);
    return status;
}

typedef struct function_row {
    const char *name;
} function_row;
#define ROW(function, arguments) {#function},
static const function_row functions[] = {LS_CUDA_FUNCTIONS(ROW)};

/*
 * Functions that free cannot fail for the caller; three more are not called, or for errors alone; some serve messages,
 * and some recordings (test_cuda_graphs.c).
 */
static bool may_fail(const char *function) {
    static const char *const others[] = {"Free",         "Destroy",        "Unregister",       "Release",
                                         "GetErrorName", "GetErrorString", "cuMemGetInfo_v2",  "cuDriverGetVersion",
                                         "cuIpc",        "CanAccessPeer",  "EnablePeerAccess", "Capture",
                                         "cuGraph",      "GetUuid"};
    for (size_t i = 0; i < LS_COUNT(others); i++)
        if (strstr(function, others[i]) != NULL) return false;
    return true;
}

static void test_each_call_fails(void **state) {
    (void)state;
    assert_ok(use_all(""));
    for (size_t i = 0; i < LS_COUNT(functions); i++) {
        int failed = 0;
        for (int lost = 0; lost < 2; lost++)
            for (int n = 1; n <= 13; n = 2 * n + 1)
                failed += use_failing(use_all, functions[i].name, n, lost).code != LS_OK;
        print_message("%s: %d of 6 failed\n", functions[i].name, failed);
        assert_true(may_fail(functions[i].name) ? failed > 0 : failed == 0);
    }
}

/* Whatever a stream executes when the device is lost: whoever waits gets an error, which names the work if it was one.
 */
static void test_the_device_is_lost(void **state) {
    (void)state;
    int failed = 0, named = 0;
    for (int n = 1; n <= 40; n++) {
        char settings[64];
        snprintf(settings, sizeof settings, "seed=%d,execute=%d:700", n, n);
        const double start = ls_seconds();
        const ls_status status = use_all(settings);
        assert_true(ls_seconds() - start < 10);
        if (status.code == LS_OK) continue;
        assert_fails(status, LS_FAULT, "CUDA_ERROR_ILLEGAL_ADDRESS");
        failed++;
        named += strstr(status.text, "first of what is not known to be executed: ") != NULL;
    }
    print_message("lost %d times, %d times while something was launched\n", failed, named);
    assert_true(named > 5 && failed > named && failed < 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_of_all_shapes),
        cmocka_unit_test(test_memory_of_the_host_is_adopted),
        cmocka_unit_test(test_memory_that_is_not_there_is_refused),
        cmocka_unit_test(test_launches_far_ahead),
        cmocka_unit_test(test_room_ends_behind_a_hold),
        cmocka_unit_test(test_who_sleeps_is_woken),
        cmocka_unit_test(test_kernels_are_submitted),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_devices_that_do_not_reach_each_other),
        cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_the_device_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
