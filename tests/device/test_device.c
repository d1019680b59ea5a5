/* The contract of devices: memory by slices, queues in order, events between them, holds, and what races. */
#include "device/device.h"
#include "support/fake_cuda.h"
#include "support/world.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static const char *const devices[] = {"cpu", "delayed:1", "delayed:2:awaited", "cuda"};

static ls_device *open_device(const char *name, ls_pool **pool) {
    ls_device *device;
    assert_ok(ls_pool_create(2, false, pool));
    assert_ok(ls_device_open(name, &(ls_device_options){.queues = 3, .pool = *pool}, &device));
    return device;
}

static void close_device(ls_device *device, ls_pool *pool) {
    ls_device_close(device);
    ls_pool_destroy(pool);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void test_memory_is_read_and_written_by_slices(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(devices); i++) {
        ls_pool *pool;
        ls_device *device = open_device(devices[i], &pool);
        const ls_device_arena *arena, *none;
        unsigned char all[4096], few[6];
        const ls_range whole = ls_range_flat(0, sizeof all), part = ls_range_flat(100, 50);
        const ls_range strided = {10, 2, {3, 1, 1}, {1000, 0, 0}};
        assert_ok(ls_device_allocate(device, sizeof all, &arena));
        assert_ok(ls_device_allocate(device, 0, &none));
        assert_ok(ls_device_read(device, arena, &whole, all));
        for (size_t k = 0; k < sizeof all; k++) assert_int_equal(all[k], 0);
        for (size_t k = 0; k < sizeof all; k++) all[k] = (unsigned char)(k % 251);
        assert_ok(ls_device_write(device, arena, &whole, all));
        assert_ok(ls_device_read(device, arena, &strided, few));
        for (size_t k = 0; k < sizeof few; k++) assert_int_equal(few[k], all[10 + k / 2 * 1000 + k % 2]);
        assert_ok(ls_device_write(device, arena, &strided, "abcdef"));
        assert_ok(ls_device_clear(device, arena, &part));
        assert_ok(ls_device_read(device, arena, &whole, all));
        assert_int_equal(all[1010], 'c');
        assert_int_equal(all[99], 99);
        assert_int_equal(all[100], 0);
        assert_int_equal(all[150], 150);
        close_device(device, pool);
    }
}

static void test_wrong_names_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"gpu",
                                        "delayed",
                                        "delayed:",
                                        "delayed:x",
                                        "delayed:1:",
                                        "delayed:1:often",
                                        "delayed:1:launch",
                                        "delayed:1:launch=0",
                                        "delayed:1:awaited:jump=1",
                                        "cuda:x",
                                        "cuda:-1",
                                        "cuda:1x",
                                        "cuda:99999999999",
                                        "cuda:2"};
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        ls_device *device;
        assert_fails(ls_device_open(names[i], &(ls_device_options){.queues = 1}, &device), LS_INVALID, "device");
    }
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* Notes in which order its tasks are executed. */
typedef struct note_list {
    atomic_int n;
    int order[64];
} note_list;
typedef struct task {
    note_list *notes;
    int id;
    int *touched; /* by it; NULL: nothing */
} task;

static void execute(void *context, ls_pool *pool) {
    const task *t = context;
    if (pool != NULL) assert_int_equal(ls_pool_threads(pool), 2);
    t->notes->order[atomic_fetch_add(&t->notes->n, 1)] = t->id;
    if (t->touched != NULL) *t->touched += t->id;
}

/* A chain over two queues: every task comes after the one before it. */
static void test_queues_and_events_order(void **state) {
    (void)state;
    enum { TASKS = 40 };
    for (size_t i = 0; i < LS_COUNT(devices); i++) {
        ls_pool *pool;
        ls_device *device = open_device(devices[i], &pool);
        note_list notes = {.n = 0};
        task tasks[TASKS];
        ls_event last = {0, 0};
        bool happened;
        for (int t = 0; t < TASKS; t++) {
            const ls_event event = {t % 3 == 0, 5 * (uint64_t)t + 1};
            tasks[t] = (task){&notes, t, NULL};
            assert_ok(launch_anywhere(device, &(ls_device_work){.name = "note",
                                                                .event = event,
                                                                .after = &last,
                                                                .n_after = t > 0 && last.queue != event.queue,
                                                                .run = execute,
                                                                .context = &tasks[t]}));
            last = event;
        }
        assert_ok(ls_device_await(device, last));
        assert_ok(ls_device_happened(device, (ls_event){1 - last.queue, 1}, &happened));
        assert_true(happened);
        assert_ok(ls_device_join(device));
        for (int t = 0; t < TASKS; t++) assert_int_equal(notes.order[t], t);
        close_device(device, pool);
    }
}

static void check_hold(const char *name) {
    ls_pool *pool;
    ls_device *device = open_device(name, &pool);
    const bool executes_at_close = ls_device_traits_of(device)->submits;
    note_list notes = {.n = 0};
    task one = {&notes, 7, NULL};
    bool happened;
    const ls_event hold = {0, 1}, done = {0, 2}, other = {1, 1};
    assert_true(ls_device_traits_of(device)->holds);
    assert_ok(ls_device_launch(device, &(ls_device_work){.name = "hold", .event = hold}));
    assert_ok(
        launch_anywhere(device, &(ls_device_work){.name = "note", .event = done, .run = execute, .context = &one}));
    assert_ok(launch_anywhere(
        device, &(ls_device_work){
                    .name = "note", .event = other, .after = &hold, .n_after = 1, .run = execute, .context = &one}));
    sleep_seconds(0.02);
    assert_ok(ls_device_happened(device, done, &happened));
    assert_false(happened);
    assert_int_equal(atomic_load(&notes.n), 0);
    assert_ok(ls_device_release(device, hold));
    assert_ok(ls_device_join(device));
    assert_int_equal(atomic_load(&notes.n), 2);
    /* What waits behind a hold when the device is closed is not executed, or is before that ends. */
    assert_ok(ls_device_launch(device, &(ls_device_work){.name = "hold", .event = {0, 3}}));
    assert_ok(
        launch_anywhere(device, &(ls_device_work){.name = "note", .event = {0, 4}, .run = execute, .context = &one}));
    close_device(device, pool);
    assert_int_equal(atomic_load(&notes.n), executes_at_close ? 3 : 2);
}

static void test_a_hold_waits_for_the_host(void **state) {
    (void)state;
    check_hold("delayed:3");
    check_hold("cuda");
}

/* Ends the process: exit code 1 where something else fails, 2 where the host could access the arena. */
_Noreturn static void touch_and_look(const char *name) {
    ls_pool *pool;
    ls_device *device;
    const ls_device_arena *arena;
    note_list notes = {.n = 0};
    int value = 0;
    const ls_range four = ls_range_flat(0, sizeof value);
    signal(SIGSEGV, SIG_DFL); /* sanitizers have another */
    bool good = ls_pool_create(2, false, &pool).code == LS_OK;
    good = good && ls_device_open(name, &(ls_device_options){.queues = 1, .pool = pool}, &device).code == LS_OK;
    good = good && ls_device_allocate(device, 4096, &arena).code == LS_OK;
    if (!good) _exit(1);
    task one = {&notes, 3, (int *)(void *)arena->base};
    const ls_device_work work = {.name = "touch", .event = {0, 1}, .run = execute, .context = &one};
    good = launch_anywhere(device, &work).code == LS_OK && ls_device_join(device).code == LS_OK;
    good = good && ls_device_read(device, arena, &four, &value).code == LS_OK && value == 3;
    if (!good) _exit(1);
    _exit(*(volatile int *)(void *)arena->base == 3 ? 2 : 1);
}

static void check_closed(const char *name) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) touch_and_look(name);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* A launch may access its arena; nobody else may. */
static void test_memory_is_closed(void **state) {
    (void)state;
    check_closed("delayed:1");
    check_closed("cuda");
}

/* --- what races --------------------------------------------------------------------------------------------------- */

static ls_status launch_access(ls_device *device, ls_event event, const ls_event *after,
                               const ls_device_access *access) {
    return ls_device_launch(device, &(ls_device_work){.name = access->writes ? "writer" : "reader",
                                                      .event = event,
                                                      .after = after,
                                                      .n_after = after != NULL,
                                                      .accesses = access,
                                                      .n_accesses = 1});
}

/* Of holds, which are never over before the host says so. */
static void test_what_is_not_ordered_races(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        ls_pool *pool;
        ls_device *device = open_device("delayed:5", &pool);
        const ls_device_arena *arena;
        assert_ok(ls_device_allocate(device, 4096, &arena));
        const ls_device_access writes = {arena, 0, ls_range_flat(0, 100), true},
                               reads = {arena, 0, ls_range_flat(99, 10), false};
        const ls_device_access beside = {arena, 0, ls_range_flat(100, 10), true};
        const ls_event first = {0, 1}, second = {1, 1}, third = {2, 1};
        assert_ok(launch_access(device, first, NULL, &writes));
        int value;
        const ls_range four = ls_range_flat(96, 4), far = ls_range_flat(100, 4);
        switch (i) {
        case 0: /* nothing orders them */
            assert_fails(
                launch_access(device, second, NULL, &reads), LS_INVALID,
                "touched too early: reader (queue 1, number 1) reads bytes 99 to 109, of which writer (queue 0");
            break;
        case 1: /* an event does, also by way of a third queue */
            assert_ok(launch_access(device, second, &first, &reads));
            assert_ok(launch_access(device, third, &second, &writes));
            break;
        case 2: /* other bytes */
            assert_ok(launch_access(device, second, NULL, &beside));
            assert_fails(ls_device_read(device, arena, &four, &value), LS_INVALID, "the host");
            break;
        case 3: /* the host has seen it executed, or not */
            assert_ok(ls_device_release(device, first));
            assert_ok(ls_device_await(device, first));
            assert_ok(launch_access(device, second, NULL, &reads));
            break;
        case 4: /* reading is no race */
            assert_ok(ls_device_release(device, first));
            assert_ok(ls_device_join(device));
            assert_ok(launch_access(device, second, NULL, &reads));
            assert_ok(launch_access(device, third, NULL, &reads));
            assert_ok(ls_device_read(device, arena, &far, &value));
            assert_fails(ls_device_write(device, arena, &far, &value), LS_INVALID, "the host");
            break;
        }
        close_device(device, pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_closed), /* first: it forks, and no driver may be initialised before */
        cmocka_unit_test(test_memory_is_read_and_written_by_slices),
        cmocka_unit_test(test_wrong_names_are_refused),
        cmocka_unit_test(test_queues_and_events_order),
        cmocka_unit_test(test_a_hold_waits_for_the_host),
        cmocka_unit_test(test_what_is_not_ordered_races),
    };
    use_fake_cuda("");
    have_kernels_loaded();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
