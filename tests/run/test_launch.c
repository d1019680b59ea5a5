/*
 * The launcher: jobs whose ranks fail, die, hang or are interrupted end soon, and the message names the right rank.
 */
#include "support/world.h"

#include "format/format.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- ranks that die or fail ---- */

/* Rank 2 kills itself while all others wait for it without end. */
static ls_status die_while_others_wait(ls_comm *comm, void *context) {
    (void)context;
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) == 2) {
        sleep_seconds(0.1);
        kill(getpid(), SIGKILL);
    }
    return ls_comm_wait(comm, 0, 1, 2, "what never comes");
}

static void test_killed_rank(void **state) {
    (void)state;
    ls_world_options options = small_world(4);
    options.wait_timeout = 0.0;
    const double before = ls_seconds();
    assert_fails(run_world(&options, false, die_while_others_wait, NULL), LS_PEER,
                 "rank 2 was killed by signal 9 (Killed)");
    assert_true(ls_seconds() - before < 2.0); /* the others are woken, not killed */
}

/* The other ranks do not check for an abort: the launcher kills them after a while. */
static ls_status die_while_others_hang(ls_comm *comm, void *context) {
    (void)context;
    if (ls_comm_rank(comm) == 1) abort();
    for (;;) pause();
    return ls_ok();
}

static void test_hanging_ranks_are_killed(void **state) {
    (void)state;
    const ls_world_options options = small_world(3);
    const double before = ls_seconds();
    assert_fails(run_world(&options, false, die_while_others_hang, NULL), LS_PEER, "rank 1 was killed by signal 6");
    assert_true(ls_seconds() - before < 5.0);
}

/* Rank 0 stops itself while the others wait for it: until they give up, or until it is continued. */
typedef struct stopping {
    bool goes_on;
    _Atomic int *process; /* of rank 0, shared */
} stopping;

static ls_status stop_while_others_wait(ls_comm *comm, void *context) {
    const stopping *s = context;
    const int rank = ls_comm_rank(comm);
    LS_TRY(ls_comm_barrier(comm));
    if (rank == 0) {
        atomic_store(s->process, getpid());
        raise(SIGSTOP);
        sleep_seconds(0.3); /* a rank that is continued and ends at once counts as ended */
        for (int peer = 1; peer < ls_comm_size(comm); peer++) ls_comm_signal(comm, peer, 0, 1);
        return ls_ok();
    }
    if (rank == 1 && s->goes_on) {
        sleep_seconds(1.5);
        kill(atomic_load(s->process), SIGCONT);
    }
    const ls_status status = ls_comm_wait(comm, 0, 1, 0, "what comes late");
    if (rank == 1) kill(atomic_load(s->process), SIGCONT);
    return status;
}

/* The world's result; the output on standard error meanwhile goes to `said`. */
static ls_status run_and_hear(const ls_world_options *options, ls_rank_main rank_main, void *context, char *said,
                              size_t room) {
    FILE *file = tmpfile();
    const int kept = dup(STDERR_FILENO);
    assert_true(file != NULL && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    const ls_status status = run_world(options, false, rank_main, context);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    said[fread(said, 1, room - 1, file)] = 0;
    fclose(file);
    return status;
}

static void test_stopped_rank_is_named(void **state) {
    (void)state;
    ls_world_options options = small_world(3);
    options.wait_timeout = 1.0;
    stopping s = {.process = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    char said[1000];
    assert_fails(run_and_hear(&options, stop_while_others_wait, &s, said, sizeof said), LS_PEER,
                 "s for rank 0, which is stopped (SIGSTOP)");
    assert_non_null(strstr(said, "warning: rank 0 (process "));
    assert_non_null(strstr(said, ") is stopped, and the others wait for it; kill -CONT "));
    s.goes_on = true;
    options.wait_timeout = 2.2; /* told of after 1.1 s */
    assert_ok(run_and_hear(&options, stop_while_others_wait, &s, said, sizeof said));
    assert_non_null(strstr(said, "rank 0 continues"));
    munmap((void *)s.process, sizeof(int));
}

static ls_status exit_silently(ls_comm *comm, void *context) {
    (void)context;
    if (ls_comm_rank(comm) == 1) _exit(7);
    return ls_comm_barrier(comm);
}

static void test_silent_exit(void **state) {
    (void)state;
    const ls_world_options options = small_world(2);
    assert_fails(run_world(&options, false, exit_silently, NULL), LS_PEER,
                 "rank 1 ended with exit code 7 before its work was done");
}

/* Rank 1 reads a file that is truncated meanwhile. */
static ls_status read_cut_file(ls_comm *comm, void *context) {
    const char *path = context;
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) == 1) {
        ls_file_map map;
        LS_TRY(ls_file_map_open(path, &map));
        if (truncate(path, 1) != 0) return ls_error(LS_IO, "cannot cut %s", path);
        if (map.data[map.bytes - 1] == 1) return ls_error(LS_IO, "the byte is there");
    }
    return ls_comm_wait(comm, 0, 1, 1, "what never comes");
}

static void test_cut_file_is_named(void **state) {
    (void)state;
    char path[] = "/tmp/longspan-test-XXXXXX", expected[100];
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
    ls_world_options options = small_world(3);
    options.wait_timeout = 0.0;
    snprintf(expected, sizeof expected, "%s: it was cut from 1048576 to 1 bytes while it was read", path);
    assert_fails(run_world(&options, false, read_cut_file, path), LS_IO, expected);
    close(fd);
    unlink(path);
}

static ls_status fail_while_others_wait(ls_comm *comm, void *context) {
    (void)context;
    if (ls_comm_rank(comm) == 1) {
        sleep_seconds(0.1);
        return ls_error(LS_DIVERGED, "loss is nan");
    }
    return ls_comm_wait(comm, 0, 1, 1, "what never comes");
}

static void test_failure_is_the_cause(void **state) {
    (void)state;
    ls_world_options options = small_world(3);
    options.wait_timeout = 0.0;
    for (int as_threads = 0; as_threads < 2; as_threads++) {
        const double before = ls_seconds();
        assert_fails(run_world(&options, as_threads, fail_while_others_wait, NULL), LS_DIVERGED, "loss is nan");
        assert_true(ls_seconds() - before < 2.0);
    }
}

/* ---- interrupts ---- */

/* In memory that all processes of a test share. */
typedef struct notes {
    _Atomic int ready, stopped;
    _Atomic int result; /* an ls_code + 1 */
    char text[sizeof((ls_status){0}.text)];
} notes;

static notes *notes_create(void) {
    void *memory = mmap(NULL, sizeof(notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static ls_status run_until_stop(ls_comm *comm, void *context) {
    notes *n = context;
    atomic_fetch_add(&n->ready, 1);
    const double end = ls_seconds() + 10.0;
    while (!ls_comm_stop_requested(comm)) {
        if (ls_seconds() > end) return ls_error(LS_INVALID, "no stop in 10 s");
        sleep_seconds(0.01);
    }
    atomic_fetch_add(&n->stopped, 1);
    LS_TRY(ls_comm_barrier(comm)); /* nobody is torn away */
    return ls_error(LS_INTERRUPTED, "stopped after step 3");
}

static ls_status never_stop(ls_comm *comm, void *context) {
    (void)comm;
    notes *n = context;
    atomic_fetch_add(&n->ready, 1);
    for (;;) pause();
    return ls_ok();
}

/* A process group of its own that launches, as under a terminal. */
static pid_t launch_in_group(notes *n, bool as_threads, ls_rank_main rank_main, int ranks) {
    fflush(NULL);
    const pid_t group = fork();
    if (group == 0) {
        setpgid(0, 0);
        const ls_world_options options = small_world(ranks);
        const ls_status status = run_world(&options, as_threads, rank_main, n);
        memcpy(n->text, status.text, sizeof n->text);
        atomic_store(&n->result, (int)status.code + 1);
        _exit(0);
    }
    assert_true(group > 0);
    setpgid(group, group);
    for (int i = 0; i < 1000 && atomic_load(&n->ready) < ranks; i++) sleep_seconds(0.01);
    assert_int_equal(n->ready, ranks);
    return group;
}

static int end_of(pid_t process) {
    int status = 0;
    assert_int_equal(waitpid(process, &status, 0), process);
    return status;
}

static void test_interrupt_stops_all(void **state) {
    (void)state;
    for (int as_threads = 0; as_threads < 2; as_threads++) {
        notes *n = notes_create();
        const pid_t group = launch_in_group(n, as_threads, run_until_stop, 4);
        kill(-group, SIGINT); /* the terminal sends it to every process of the group */
        assert_int_equal(end_of(group), 0);
        assert_int_equal(n->stopped, 4);
        assert_int_equal(n->result, LS_INTERRUPTED + 1);
        assert_string_equal(n->text, "stopped after step 3");
        munmap(n, sizeof *n);
    }
}

/* Both the shell and the kernel send SIGHUP to the group: the second must not end the ranks at once. So do those who
 * send SIGUSR1. */
static void test_hangup_and_notice_stop_all(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool as_threads = i % 2 == 1;
        const int number = i < 2 ? SIGHUP : SIGUSR1;
        notes *n = notes_create();
        const pid_t group = launch_in_group(n, as_threads, run_until_stop, 3);
        kill(-group, number);
        kill(-group, number);
        assert_int_equal(end_of(group), 0);
        assert_int_equal(n->stopped, 3);
        assert_int_equal(n->result, LS_INTERRUPTED + 1);
        assert_string_equal(n->text, "stopped after step 3");
        munmap(n, sizeof *n);
    }
}

static void test_hangup_under_nohup_is_ignored(void **state) {
    (void)state;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    notes *n = notes_create();
    assert_int_equal(sigaction(SIGHUP, &ignore, &old), 0);
    const pid_t group = launch_in_group(n, false, run_until_stop, 2);
    assert_int_equal(sigaction(SIGHUP, &old, NULL), 0);
    kill(-group, SIGHUP);
    sleep_seconds(0.3);
    assert_int_equal(n->stopped, 0);
    kill(group, SIGTERM);
    assert_int_equal(end_of(group), 0);
    assert_string_equal(n->text, "stopped after step 3");
    munmap(n, sizeof *n);
}

/* Work that has no steps: rank 1 waits for what never comes, the others work. */
static ls_status work_without_steps(ls_comm *comm, void *context) {
    notes *n = context;
    ls_comm_end_at_stop(comm, true);
    atomic_fetch_add(&n->ready, 1);
    if (ls_comm_rank(comm) == 1) return ls_comm_wait(comm, 0, 1, 0, "what never comes");
    for (const double end = ls_seconds() + 10.0; ls_seconds() < end; sleep_seconds(0.01))
        LS_TRY(ls_comm_check_stop(comm));
    return ls_error(LS_INVALID, "no stop in 10 s");
}

static void test_first_signal_ends_work_without_steps(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
    for (size_t i = 0; i < 2 * LS_COUNT(signals); i++) {
        notes *n = notes_create();
        const pid_t group = launch_in_group(n, i % 2 == 1, work_without_steps, 3);
        const double before = ls_seconds();
        kill(group, signals[i / 2]);
        assert_int_equal(end_of(group), 0);
        assert_true(ls_seconds() - before < 2.0);
        assert_int_equal(n->result, LS_INTERRUPTED + 1);
        assert_string_equal(n->text, "stopped by a signal before the work was done");
        munmap(n, sizeof *n);
    }
}

static void test_second_interrupt_ends_at_once(void **state) {
    (void)state;
    notes *n = notes_create();
    const pid_t group = launch_in_group(n, false, never_stop, 3);
    kill(group, SIGINT);
    sleep_seconds(0.2);
    assert_int_equal(n->result, 0); /* one is not enough */
    const double before = ls_seconds();
    kill(group, SIGTERM);
    assert_int_equal(end_of(group), 0);
    assert_true(ls_seconds() - before < 1.0);
    assert_int_equal(n->result, LS_INTERRUPTED + 1);
    assert_string_equal(n->text, "ended at once by a second interrupt");
    munmap(n, sizeof *n);
}

static void test_second_interrupt_ends_threads(void **state) {
    (void)state;
    notes *n = notes_create();
    const pid_t group = launch_in_group(n, true, never_stop, 3);
    kill(group, SIGINT);
    sleep_seconds(0.2);
    kill(group, SIGINT);
    const int status = end_of(group);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    munmap(n, sizeof *n);
}

/* The ranks hold the writing end of a pipe, which closes when the last of them ends. */
static void test_ranks_die_with_the_launcher(void **state) {
    (void)state;
    notes *n = notes_create();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t group = launch_in_group(n, false, never_stop, 3);
    close(ends[1]);
    kill(group, SIGKILL);
    end_of(group);
    struct pollfd closed = {.fd = ends[0], .events = POLLIN};
    const int events = poll(&closed, 1, 2000);
    kill(-group, SIGKILL); /* should they be there after all */
    assert_int_equal(events, 1);
    assert_int_equal(closed.revents, POLLHUP);
    close(ends[0]);
    munmap(n, sizeof *n);
}

/* ---- what the caller finds afterwards ---- */

static ls_status write_line(ls_comm *comm, void *context) {
    (void)comm;
    fputs("rank\n", context);
    return ls_ok();
}

/* Text that was buffered before the launch is written once, and output of ranks is not lost. */
static void test_output_once(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs("before\n", file);
    const ls_world_options options = small_world(3);
    assert_ok(run_world(&options, false, write_line, file));
    char text[256] = "";
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_string_equal(text, "before\nrank\nrank\nrank\n");
}

static ls_status do_nothing(ls_comm *comm, void *context) {
    (void)comm;
    (void)context;
    return ls_ok();
}

/* Signal mask and the disposition of SIGCHLD are the caller's; an ignored SIGCHLD loses no child's end. */
static void test_signals_restored(void **state) {
    (void)state;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old, after;
    sigset_t mask_before, mask_after;
    assert_int_equal(sigaction(SIGCHLD, &ignore, &old), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    const ls_world_options options = small_world(2);
    for (int as_threads = 0; as_threads < 2; as_threads++) {
        assert_ok(run_world(&options, as_threads, do_nothing, NULL));
        assert_fails(run_world(&options, as_threads, fail_while_others_wait, NULL), LS_DIVERGED, "nan");
    }
    assert_int_equal(sigaction(SIGCHLD, &old, &after), 0);
    assert_true(after.sa_handler == SIG_IGN);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    for (int s = 1; s < 32; s++) assert_int_equal(sigismember(&mask_before, s), sigismember(&mask_after, s));
}

static ls_status join_twice(ls_comm *comm, void *context) {
    ls_comm *again;
    (void)comm;
    return ls_world_join(context, ls_comm_rank(comm), &again);
}

/* The launcher itself is what joins. */
static void test_rank_is_joined(void **state) {
    (void)state;
    const ls_world_options options = small_world(2);
    ls_world *world;
    assert_ok(ls_world_create("shm", &options, &world));
    assert_fails(ls_launch(world, 2, true, join_twice, world), LS_INVALID, "has joined already");
    ls_world_destroy(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_rank),
        cmocka_unit_test(test_hanging_ranks_are_killed),
        cmocka_unit_test(test_silent_exit),
        cmocka_unit_test(test_stopped_rank_is_named),
        cmocka_unit_test(test_cut_file_is_named),
        cmocka_unit_test(test_failure_is_the_cause),
        cmocka_unit_test(test_interrupt_stops_all),
        cmocka_unit_test(test_hangup_and_notice_stop_all),
        cmocka_unit_test(test_hangup_under_nohup_is_ignored),
        cmocka_unit_test(test_first_signal_ends_work_without_steps),
        cmocka_unit_test(test_second_interrupt_ends_at_once),
        cmocka_unit_test(test_second_interrupt_ends_threads),
        cmocka_unit_test(test_ranks_die_with_the_launcher),
        cmocka_unit_test(test_output_once),
        cmocka_unit_test(test_signals_restored),
        cmocka_unit_test(test_rank_is_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
