/*
 * The plug-in over MPI, by each MPI that there is: each test starts this program again under mpirun, where it is a rank
 * and runs the function of that name. Tests of an MPI that is not installed are skipped, and say so.
 */
#include "comm/transport_impl.h"
#include "support/world.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

extern const ls_boot_kind ls_boot_mpi;

/* ---- in a rank ---- */

enum { WORDS = 64, HEAP = 8 << 20, SOURCE = HEAP };

/* A world without the rest of comm: the boot, the transport, and a segment of memory. */
typedef struct side {
    ls_boot boot;
    int hosts[64];
    char *segments[64];
    ls_endpoint end;
    void *state;
    uint64_t tickets;
} side;

static ls_status open_world(side *s) {
    const size_t words = ls_round_up(sizeof(ls_rank_line), 128), heap = 4096;
    const ls_segment_form form = {
        .words = words, .heap = heap, .inbox = heap + HEAP, .bytes = heap + HEAP + 4096, .n_words = WORDS};
    s->segments[s->boot.rank] = aligned_alloc(4096, form.bytes);
    memset(s->segments[s->boot.rank], 0, form.bytes);
    s->end = (ls_endpoint){.rank = s->boot.rank,
                           .ranks = s->boot.ranks,
                           .boot = &s->boot,
                           .form = form,
                           .segments = s->segments,
                           .timeout = 20};
    const bool used[64] = {true};
    return s->boot.transport->open(&s->end, used, &s->state);
}

static void close_world(side *s) {
    s->boot.transport->quiet(s->state);
    s->boot.transport->close(s->state);
    free(s->segments[s->boot.rank]);
}

static char *heap_of(const side *s) { return s->segments[s->end.rank] + s->end.form.heap; }

static uint64_t word_of(const side *s, int word) {
    return atomic_load_explicit(&ls_segment_words(&s->end.form, s->segments[s->end.rank])[word], memory_order_acquire);
}

/* Sleeps on the bell, as ranks do, so that a bell that is not rung costs the test its time. */
static ls_status await_word(side *s, int word, uint64_t generation) {
    const double start = ls_seconds();
    for (;;) {
        const uint32_t bell = ls_bell_read(ls_endpoint_line(&s->end));
        if (word_of(s, word) >= generation) return ls_ok();
        LS_TRY(ls_notice_aborted(s->boot.notice));
        if (ls_seconds() - start > 20)
            return ls_error(LS_PEER, "word %d is %llu", word, (unsigned long long)word_of(s, word));
        ls_bell_sleep(ls_endpoint_line(&s->end), bell, 1);
    }
}

static ls_status await_done(side *s, uint64_t ticket) {
    const double start = ls_seconds();
    while (!s->boot.transport->done(s->state, ticket)) {
        (void)s->boot.transport->progress(s->state);
        LS_TRY(ls_notice_aborted(s->boot.notice));
        if (ls_seconds() - start > 20) return ls_error(LS_PEER, "put %llu is not done", (unsigned long long)ticket);
    }
    return ls_ok();
}

static uint64_t put(side *s, int peer, const ls_range *to, const void *source, const ls_range *from, int word,
                    uint64_t generation) {
    const ls_put p = {.peer = peer,
                      .word = word,
                      .generation = generation,
                      .ticket = ++s->tickets,
                      .source = source,
                      .to = to,
                      .from = from};
    s->boot.transport->put(s->state, &p);
    return s->tickets;
}

static ls_status meet(side *s) {
    char mine = 0, all[64];
    return s->boot.kind->gather(&s->boot, s->boot.rank, &mine, 1, all);
}

static ls_status gather(side *s) {
    for (int round = 0; round < 50; round++) {
        int32_t mine[25], all[64 * 25];
        for (int i = 0; i < 25; i++) mine[i] = s->boot.rank * 1000 + round + i;
        LS_TRY(s->boot.kind->gather(&s->boot, s->boot.rank, mine, sizeof mine, all));
        for (int r = 0; r < s->boot.ranks; r++)
            for (int i = 0; i < 25; i++) RANK_CHECK(all[r * 25 + i] == r * 1000 + round + i);
    }
    return ls_ok();
}

/* ---- puts ---- */

/* Flat sizes around the limits of the plug-in and of both MPIs; and strided ones, cut differently at both ends. */
static const ls_range layouts[][2] = {
    {{0, 8, {1, 1, 1}, {0, 0, 0}}, {3, 8, {1, 1, 1}, {0, 0, 0}}},
    {{1, 3 << 10, {1, 1, 1}, {0, 0, 0}}, {5, 3 << 10, {1, 1, 1}, {0, 0, 0}}},
    {{0, (3 << 10) + 1, {1, 1, 1}, {0, 0, 0}}, {0, (3 << 10) + 1, {1, 1, 1}, {0, 0, 0}}},
    {{64, 100000, {1, 1, 1}, {0, 0, 0}}, {0, 100000, {1, 1, 1}, {0, 0, 0}}},
    {{0, 900000, {1, 1, 1}, {0, 0, 0}}, {17, 900000, {1, 1, 1}, {0, 0, 0}}},
    {{8, 16, {10, 3, 1}, {40, 1000, 0}}, {0, 48, {10, 1, 1}, {100, 0, 0}}},
    {{0, 512, {16, 8, 2}, {1024, 20000, 300000}}, {32, 8192, {16, 1, 1}, {9000, 0, 0}}},
    {{0, 4, {30, 30, 2}, {8, 512, 100000}}, {0, 7200, {1, 1, 1}, {0, 0, 0}}},
};

/* Each pair of ranks has its own region of the heap. */
static size_t region(const side *s) { return HEAP / (size_t)s->boot.ranks; }

static ls_range moved(ls_range range, size_t by) {
    range.offset += by;
    return range;
}

static void fill(char *source, size_t bytes, int rank, int peer, int round) {
    for (size_t i = 0; i < bytes; i++)
        source[i] = (char)(i * 31 + (size_t)(rank * 7 + peer * 13 + round * 5) + (i >> 8));
}

/* What that put leaves in a heap of zeros. */
static ls_status check_put(const side *s, int from_rank, int round, char *work) {
    const ls_range *to = &layouts[round][0], *from = &layouts[round][1];
    char *source = work, *expected = work + SOURCE / 2;
    fill(source, ls_range_end(from), from_rank, s->boot.rank, round);
    memset(expected, 0, ls_range_end(to));
    ls_range_copy(expected, to, source, from);
    RANK_CHECK(memcmp(expected, heap_of(s) + (size_t)from_rank * region(s), ls_range_end(to)) == 0);
    return ls_ok();
}

/*
 * All ranks put into all, themselves included. Sources are overwritten as soon as the puts are done; words tell when
 * targets are complete, and when they may be overwritten.
 */
static ls_status all_put(side *s) {
    const int ranks = s->boot.ranks, me = s->boot.rank;
    char *work = malloc(SOURCE), *sources = malloc((size_t)ranks << 20);
    LS_TRY(open_world(s));
    for (int round = 0; round < (int)LS_COUNT(layouts); round++) {
        uint64_t last = 0;
        for (int k = 0; k < ranks; k++) {
            const int peer = (me + k) % ranks;
            const ls_range to = moved(layouts[round][0], (size_t)me * region(s)), *from = &layouts[round][1];
            char *source = sources + ((size_t)peer << 20);
            LS_ASSERT(ls_range_end(from) <= 1 << 20);
            fill(source, ls_range_end(from), me, peer, round);
            last = put(s, peer, &to, source, from, me, (uint64_t)round + 1);
        }
        LS_TRY(await_done(s, last));
        memset(sources, 0xEE, (size_t)ranks << 20);
        for (int peer = 0; peer < ranks; peer++) {
            LS_TRY(await_word(s, peer, (uint64_t)round + 1));
            LS_TRY(check_put(s, peer, round, work));
        }
        memset(heap_of(s), 0, HEAP);
        for (int peer = 0; peer < ranks; peer++)
            s->boot.transport->signal(s->state, peer, 32 + me, (uint64_t)round + 1);
        for (int peer = 0; peer < ranks; peer++) LS_TRY(await_word(s, 32 + peer, (uint64_t)round + 1));
    }
    close_world(s);
    free(work);
    free(sources);
    return ls_ok();
}

/* Large and small puts in turn to one word: it never falls, and shows no generation before its bytes. */
static ls_status rising(side *s) {
    enum { PUTS = 400, SLOT = 8192 };
    LS_TRY(open_world(s));
    const int me = s->boot.rank, next = (me + 1) % s->boot.ranks, previous = (me + s->boot.ranks - 1) % s->boot.ranks;
    char *sources = calloc(PUTS, SLOT);
    uint64_t last = 0, seen = 0;
    for (int g = 1; g <= PUTS; g++) {
        const ls_range to = ls_range_flat((size_t)g * SLOT, g % 3 == 0 ? 64 : SLOT), from = ls_range_flat(0, to.length);
        memset(sources + (size_t)(g - 1) * SLOT, g & 127, SLOT);
        last = put(s, next, &to, sources + (size_t)(g - 1) * SLOT, &from, 0, (uint64_t)g);
    }
    const double start = ls_seconds();
    while (seen < PUTS && ls_seconds() - start < 20) {
        const uint64_t value = word_of(s, 0);
        RANK_CHECK(value >= seen && value <= PUTS);
        if (value > 0) RANK_CHECK(heap_of(s)[value * SLOT] == (char)(value & 127));
        if (value > 0) RANK_CHECK(heap_of(s)[value * SLOT + (value % 3 == 0 ? 63 : SLOT - 1)] == (char)(value & 127));
        seen = value;
    }
    RANK_CHECK(seen == PUTS);
    LS_TRY(await_done(s, last));
    s->boot.transport->quiet(s->state);
    s->boot.transport->signal(s->state, previous, 1, 1);
    LS_TRY(await_word(s, 1, 1));
    close_world(s);
    free(sources);
    return ls_ok();
}

/* After quiet and a meeting, what was put without signals is in place. */
static ls_status quiet(side *s) {
    LS_TRY(open_world(s));
    const int me = s->boot.rank, ranks = s->boot.ranks;
    const size_t sizes[] = {100, 200000};
    char *source = malloc(200000);
    memset(source, 1 + me, 200000);
    for (int i = 0; i < 2; i++) {
        for (int peer = 0; peer < ranks; peer++) {
            const ls_range to = ls_range_flat((size_t)me * region(s), sizes[i]), from = ls_range_flat(0, sizes[i]);
            (void)put(s, peer, &to, source, &from, -1, 0);
        }
        s->boot.transport->quiet(s->state);
        LS_TRY(meet(s));
        for (int peer = 0; peer < ranks; peer++)
            for (size_t at = 0; at < sizes[i]; at++) RANK_CHECK(heap_of(s)[(size_t)peer * region(s) + at] == 1 + peer);
        LS_TRY(meet(s));
    }
    close_world(s);
    free(source);
    return ls_ok();
}

/* Worlds one after the other, with messages until the last moment. */
static ls_status worlds(side *s) {
    const int next = (s->boot.rank + 1) % s->boot.ranks;
    for (int i = 0; i < 5; i++) {
        LS_TRY(open_world(s));
        s->boot.transport->signal(s->state, next, 3, 1);
        (void)s->boot.transport->look(s->state, next);
        LS_TRY(await_word(s, 3, 1));
        s->boot.transport->signal(s->state, next, 4, 1);
        close_world(s);
    }
    return ls_ok();
}

/* ---- what else ranks learn of each other ---- */

/* Rank 0 sees the counter of rank 1, and whom it waits for, while rank 1 does nothing at all. */
static ls_status look(side *s) {
    LS_TRY(open_world(s));
    if (s->boot.rank == 1) {
        atomic_store(&ls_endpoint_line(&s->end)->ticks, 7);
        atomic_store(&ls_endpoint_line(&s->end)->waits_for, 1 + 0);
        sleep_seconds(1);
        atomic_store(&ls_endpoint_line(&s->end)->left, true);
        LS_TRY(await_word(s, 0, 1));
    } else if (s->boot.rank == 0) {
        ls_peer_state seen = {0};
        const double start = ls_seconds();
        while (ls_seconds() - start < 10 && !seen.left) {
            seen = s->boot.transport->look(s->state, 1);
            if (ls_seconds() - start > 0.5 && !seen.left) RANK_CHECK(seen.ticks == 7 && seen.waits_for == 0);
            sleep_seconds(0.001);
        }
        RANK_CHECK(seen.left);
        s->boot.transport->signal(s->state, 1, 0, 1);
    }
    close_world(s);
    return ls_ok();
}

static ls_status stop(side *s) {
    if (s->boot.rank == s->boot.ranks - 1) atomic_store(&s->boot.notice->stop, true);
    const double start = ls_seconds();
    while (!atomic_load(&s->boot.notice->stop) && ls_seconds() - start < 10) sleep_seconds(0.001);
    RANK_CHECK(atomic_load(&s->boot.notice->stop));
    return ls_ok();
}

/* One rank aborts; the others, who wait in an all-gather or for a word, learn why. */
static ls_status aborted(side *s) {
    LS_TRY(open_world(s));
    if (s->boot.rank == 1) {
        sleep_seconds(0.2);
        (void)ls_notice_abort(s->boot.notice, "rank 1: the disk is full");
    } else if (s->boot.rank == 2) {
        const ls_status status = await_word(s, 0, 1);
        RANK_CHECK(status.code == LS_PEER);
    } else {
        const ls_status status = meet(s);
        RANK_CHECK(status.code == LS_PEER && strcmp(status.text, "rank 1: the disk is full") == 0);
    }
    close_world(s);
    return ls_notice_aborted(s->boot.notice);
}

/* ---- a rank that does not come ---- */

/* Rank 1 is stopped for some seconds while rank 0 waits for it in a gather. */
static ls_status stopped(side *s) {
    enum { SECONDS = 4 };
    LS_TRY(meet(s));
    if (s->boot.rank == 1) {
        const pid_t process = getpid();
        if (fork() == 0) {
            sleep(SECONDS);
            kill(process, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
    }
    return meet(s);
}

/* ---- whole worlds ---- */

/* Host collectives, and puts of all to all, again and again. */
static ls_status use_world(ls_comm *comm, void *context) {
    (void)context;
    const int me = ls_comm_rank(comm), ranks = ls_comm_size(comm);
    for (uint64_t round = 1; round <= 8; round++) {
        uint64_t all[64];
        const uint64_t mine = round * 100 + (uint64_t)me;
        LS_TRY(ls_comm_exchange(comm, &mine, sizeof mine, all));
        for (int r = 0; r < ranks; r++) RANK_CHECK(all[r] == round * 100 + (uint64_t)r);
        char *heap = ls_comm_heap(comm);
        const size_t bytes = round % 2 == 0 ? 64 : 20000, slot = 32768;
        char *source = malloc(bytes);
        memset(source, (int)(round + (uint64_t)me), bytes);
        uint64_t last = 0;
        for (int peer = 0; peer < ranks; peer++) {
            const ls_range to = ls_range_flat((size_t)me * slot, bytes), from = ls_range_flat(0, bytes);
            last = ls_comm_put_signal(comm, peer, &to, source, &from, me, round);
        }
        for (int peer = 0; peer < ranks; peer++) {
            LS_TRY(ls_comm_wait(comm, peer, round, peer, "a put"));
            for (size_t i = 0; i < bytes; i++)
                RANK_CHECK(heap[(size_t)peer * slot + i] == (char)(round + (uint64_t)peer));
        }
        while (!ls_comm_done(comm, last)) continue;
        free(source);
        LS_TRY(ls_comm_barrier(comm));
        ls_comm_tick(comm);
    }
    return ls_ok();
}

/* As a session makes its worlds: two, one after the other; the transports are those of the environment. */
static ls_status run_worlds(const ls_launched *job) {
    ls_world_options options = small_world(job->ranks);
    options.heap_bytes = 1 << 20;
    for (int i = 0; i < 2; i++) LS_TRY(run_world_on(NULL, &options, false, use_world, NULL));
    return ls_ok();
}

static int run_launched(void) {
    ls_launched job;
    ls_status status = ls_launched_find(&job);
    if (status.code == LS_OK && strcmp(job.boot, "mpi") != 0) status = ls_error(LS_INVALID, "the boot is %s", job.boot);
    if (status.code == LS_OK) status = run_worlds(&job);
    if (status.code != LS_OK) printf("%s\n", status.text);
    return status.code == LS_OK ? 0 : 1;
}

/* ---- the launcher of the tests ---- */

typedef struct scenario {
    const char *name;
    ls_status (*run)(side *s);
} scenario;

static const scenario scenarios[] = {
    {"gather", gather}, {"puts", all_put}, {"rising", rising},   {"quiet", quiet},     {"worlds", worlds},
    {"look", look},     {"stop", stop},    {"aborted", aborted}, {"stopped", stopped},
};

/* A rank: runs the scenario, and says how it ended. */
static int run_rank(const char *name) {
    if (strcmp(name, "world") == 0) return run_launched();
    side s = {.boot = {.kind = &ls_boot_mpi, .hosts = s.hosts}};
    ls_status status = ls_boot_mpi.open(&s.boot);
    if (status.code != LS_OK) {
        printf("not opened: %s\n", status.text);
        return 2;
    }
    for (size_t i = 0; i < LS_COUNT(scenarios); i++)
        if (strcmp(scenarios[i].name, name) == 0) status = scenarios[i].run(&s);
    if (status.code != LS_OK) {
        printf("rank %d: %s\n", s.boot.rank, status.text);
        fflush(stdout);
        (void)ls_notice_abort(s.boot.notice, status.text);
    }
    s.boot.kind->close(&s.boot);
    return status.code == LS_OK ? 0 : 1;
}

typedef struct mpi {
    const char *name, *mpirun;
} mpi;

static const mpi mpis[] = {{"openmpi", "mpirun.openmpi --oversubscribe"}, {"mpich", "mpirun.mpich"}};

static char program[4096];

/* Whether that MPI's mpirun and the plug-in are there; else says what is missing. */
static bool is_there(const mpi *m) {
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    if (sanitizer != NULL && strcmp(sanitizer, "thread") == 0) {
        printf("skipped: the libraries of MPI are not built for this sanitizer\n");
        return false;
    }
    char command[8192], folder[4096];
    snprintf(folder, sizeof folder, "%s", program);
    *strrchr(folder, '/') = 0;
    snprintf(command, sizeof command, "command -v mpirun.%s >/dev/null", m->name);
    const bool launcher = system(command) == 0; /* NOLINT(cert-env33-c) */
    snprintf(command, sizeof command, "%s/../lib/longspan/mpi-%s.so", folder, m->name);
    const bool plugin = access(command, R_OK) == 0;
    if (!launcher || !plugin)
        printf("skipped: mpirun.%s %s\n", m->name, launcher ? "is there, but no plug-in" : "is not installed");
    return launcher && plugin;
}

/* Runs a shell command; returns its exit code, and the start of what it prints. */
static int run_command(const char *command, char *output, size_t room) {
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c) */
    assert_non_null(pipe);
    const size_t n = fread(output, 1, room - 1, pipe);
    output[n] = 0;
    while (fgetc(pipe) != EOF) continue;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Runs the scenario under each MPI; returns how many there are. */
static int run_everywhere(const char *name, int ranks, int expected_code, const char *expected_text) {
    int n = 0;
    for (size_t i = 0; i < LS_COUNT(mpis); i++) {
        char command[8192], output[16384];
        if (!is_there(&mpis[i])) continue;
        n++;
        snprintf(command, sizeof command, "timeout 60 %s -n %d %s %s 2>&1", mpis[i].mpirun, ranks, program, name);
        const int code = run_command(command, output, sizeof output);
        if ((code != 0) != (expected_code != 0) || strstr(output, expected_text) == NULL)
            fail_msg("%s, %s, %d ranks: exit code %d, output: %s", name, mpis[i].name, ranks, code, output);
    }
    return n;
}

static void run_ranks(const char *name, const int *ranks) {
    for (; *ranks > 0; ranks++)
        if (run_everywhere(name, *ranks, 0, "") == 0) skip();
}

static void test_gather(void **state) {
    (void)state;
    run_ranks("gather", (const int[]){2, 8, 0});
}

static void test_puts(void **state) {
    (void)state;
    run_ranks("puts", (const int[]){2, 3, 8, 0});
}

static void test_rising(void **state) {
    (void)state;
    run_ranks("rising", (const int[]){2, 4, 0});
}

static void test_quiet(void **state) {
    (void)state;
    run_ranks("quiet", (const int[]){4, 0});
}

static void test_worlds(void **state) {
    (void)state;
    run_ranks("worlds", (const int[]){3, 0});
}

/* By MPI between all ranks, between pretended hosts, and as the world chooses. */
static void test_world(void **state) {
    (void)state;
    static const char *const settings[][2] = {{LS_TRANSPORTS_VARIABLE, "mpi"},
                                              {LS_HOSTS_VARIABLE, "2"},
                                              {LS_TRANSPORTS_VARIABLE, "chaos:3:0:mpi"},
                                              {"LONGSPAN", ""}};
    for (size_t i = 0; i < LS_COUNT(settings); i++) {
        setenv(settings[i][0], settings[i][1], 1);
        run_ranks("world", (const int[]){4, 0});
        unsetenv(settings[i][0]);
    }
}

static void test_look(void **state) {
    (void)state;
    run_ranks("look", (const int[]){3, 0});
}

static void test_stop(void **state) {
    (void)state;
    run_ranks("stop", (const int[]){4, 0});
}

static void test_abort(void **state) {
    (void)state;
    if (run_everywhere("aborted", 4, 1, "rank 0: rank 1: the disk is full") == 0) skip();
}

static void test_stopped(void **state) {
    (void)state;
    setenv("LONGSPAN_RENDEZVOUS_SECONDS", "1", 1);
    const int n = run_everywhere("stopped", 2, 1, "s for rank 1, which has not answered for 1");
    unsetenv("LONGSPAN_RENDEZVOUS_SECONDS");
    if (n == 0) skip();
}

/* A launcher whose MPI is another than the plug-in's: the library would see one rank of 1, and so would all others. */
static void test_mismatch(void **state) {
    (void)state;
    char command[8192], output[16384];
    if (!is_there(&mpis[0])) skip();
    snprintf(command, sizeof command, "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 timeout 60 %s gather 2>&1",
             program);
    assert_int_equal(run_command(command, output, sizeof output), 2);
    if (strstr(output, "the launcher says that this is rank 2 of 4") == NULL || strstr(output, "rank 0 of 1") == NULL)
        fail_msg("%s", output);
}

int main(int argc, char **argv) {
    if (argc == 2) return run_rank(argv[1]);
    if (realpath(argv[0], program) == NULL) return 1;
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* MPI's own */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),  cmocka_unit_test(test_puts),     cmocka_unit_test(test_rising),
        cmocka_unit_test(test_quiet),   cmocka_unit_test(test_worlds),   cmocka_unit_test(test_world),
        cmocka_unit_test(test_look),    cmocka_unit_test(test_stop),     cmocka_unit_test(test_abort),
        cmocka_unit_test(test_stopped), cmocka_unit_test(test_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
