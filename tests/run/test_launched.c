/*
 * Ranks that somebody else launched, with their numbers in the environment. This test is the starter: it forks
 * processes that know nothing of each other but what a starter would tell them.
 */
#include "support/world.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { MOST = 4 };

typedef struct job {
    int ranks;
    int first_absent; /* this rank and those after it never come; 0: all do */
    const char *hosts, *transports;
    const char *seconds; /* to wait for all */
    bool slurm;
    int bound_to; /* rank r is bound to one of the first so many processors of the test's own; 0: to none */
    int cores;    /* that each rank is to see */
    ls_rank_main main;
    int victim;                    /* a rank that is special to main */
    const char *victim_transports; /* its own; NULL: as for all */
    size_t denied;                 /* the victim gets no memory for arrays of elements of this size; 0: it does */
    double timeout; /* of waits; 0: long. A victim that has stopped is killed when the others have ended */
} job;

/* What the ranks tell the test; shared. */
typedef struct told {
    ls_status status[MOST];
    int expected_world; /* ranks that a rank asks for; 0: as many as there are */
    double seconds;     /* that the job took */
} told;

static told *tell;
static const job *current;
static int next_port = 41000;

static void set(const char *name, const char *value) {
    if (value != NULL) setenv(name, value, 1);
}

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set(name, text);
}

/* In the process of a victim: how many elements arrays must have, and of what size, to get no memory. */
static size_t denied_count, denied_size;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
void *calloc(size_t count, size_t size) {
    static void *(*system)(size_t, size_t);
    if (size != 0 && size == denied_size && count == denied_count) return NULL;
    if (system == NULL) *(void **)&system = dlsym(RTLD_NEXT, "calloc");
    return system(count, size);
}

static ls_status run_rank(const job *j, int rank) {
    ls_world_options options = small_world(tell->expected_world != 0 ? tell->expected_world : j->ranks);
    options.heap_bytes = (size_t)1 << 20;
    if (j->timeout > 0) options.wait_timeout = j->timeout;
    ls_world *world;
    ls_launched joined;
    LS_TRY(ls_launched_find(&joined));
    if (rank == j->victim) denied_count = (size_t)j->ranks, denied_size = j->denied;
    const char *transports = rank == j->victim && j->victim_transports != NULL ? j->victim_transports : j->transports;
    LS_TRY(ls_world_create(transports, &options, &world));
    const ls_status status = ls_launch(world, j->ranks, false, j->main, NULL);
    ls_world_destroy(world);
    return status;
}

/* Binds this process to the processor with that number of those that it may run on. */
static void bind_to(int number) {
    cpu_set_t own, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof own, &own) != 0) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &own) && number-- == 0) CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

static pid_t start_rank(const job *j, int rank, int port) {
    const pid_t process = fork();
    if (process != 0) return process;
    if (j->slurm) {
        set_number("SLURM_PROCID", rank);
        set_number("SLURM_STEP_NUM_TASKS", j->ranks);
        set_number("SLURM_JOB_ID", port);
        set("SLURM_STEP_ID", "0");
        set("SLURM_STEP_NODELIST", "localhost");
    } else {
        set_number("RANK", rank);
        set_number("WORLD_SIZE", j->ranks);
        set("MASTER_ADDR", "localhost");
        set_number("MASTER_PORT", port);
    }
    set(LS_HOSTS_VARIABLE, j->hosts);
    if (j->bound_to > 0) bind_to(rank % j->bound_to);
    set("LONGSPAN_RENDEZVOUS_SECONDS", j->seconds);
    tell->status[rank] = run_rank(j, rank);
    exit(0); /* as a program ends, with what it has left to do at its end */
}

/* Starts all ranks and returns when they have ended. */
static void run_job(const job *j) {
    pid_t process[MOST];
    const int port = next_port, came = j->first_absent > 0 ? j->first_absent : j->ranks;
    next_port += 37; /* ports of earlier jobs may still be in use */
    const int expected = tell->expected_world;
    *tell = (told){.expected_world = expected};
    current = j;
    const double began = ls_seconds();
    for (int r = 0; r < came; r++) {
        snprintf(tell->status[r].text, sizeof tell->status[r].text, "dead");
        process[r] = start_rank(j, r, port);
        assert_true(process[r] > 0);
    }
    for (int r = 0; r < came; r++)
        if (j->timeout <= 0 || r != j->victim) waitpid(process[r], NULL, 0);
    tell->seconds = ls_seconds() - began;
    if (j->timeout > 0) {
        kill(process[j->victim], SIGKILL);
        waitpid(process[j->victim], NULL, 0);
    }
    tell->expected_world = 0;
}

static void all_return(int ranks, ls_code code, const char *text) {
    for (int r = 0; r < ranks; r++) assert_fails(tell->status[r], code, text);
}

/* ---- what works ---- */

/* All put into all, and meet in the collectives of the host. */
static ls_status meet(ls_comm *comm, void *context) {
    (void)context;
    const int me = ls_comm_rank(comm), ranks = ls_comm_size(comm);
    const ls_range from = ls_range_flat(0, sizeof me), to = ls_range_flat((size_t)me * sizeof me, sizeof me);
    int all[MOST];
    for (int round = 1; round <= 20; round++) {
        const int mine = me + 100 * round;
        for (int peer = 0; peer < ranks; peer++) ls_comm_put_signal(comm, peer, &to, &mine, &from, me, (uint64_t)round);
        for (int peer = 0; peer < ranks; peer++) {
            LS_TRY(ls_comm_wait(comm, peer, (uint64_t)round, peer, "a value"));
            RANK_CHECK(((int *)ls_comm_heap(comm))[peer] == peer + 100 * round);
            const int *heap = ls_comm_peer_heap(comm, peer);
            RANK_CHECK(heap == NULL || heap[me] == mine);
        }
        LS_TRY(ls_comm_exchange(comm, &mine, sizeof mine, all));
        for (int peer = 0; peer < ranks; peer++) RANK_CHECK(all[peer] == peer + 100 * round);
        LS_TRY(ls_comm_barrier(comm));
    }
    return ls_ok();
}

static int processors_of_this_process(void) {
    cpu_set_t own;
    return sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : 0;
}

/*
 * Ranks that are bound to one core each see the cores of all, and so plan like ranks that are not bound; they stay
 * bound while one is enough for their threads.
 */
static ls_status count_cores(ls_comm *comm, void *context) {
    (void)comm, (void)context;
    ls_machine machine;
    ls_machine_detect(&machine);
    RANK_CHECK(machine.cores == current->cores);
    ls_machine_unbind(1);
    RANK_CHECK(processors_of_this_process() == 1);
    ls_machine_unbind(2);
    RANK_CHECK(processors_of_this_process() == current->cores);
    return ls_ok();
}

static void test_they_share_cores(void **state) {
    (void)state;
    ls_machine machine;
    ls_machine_detect(&machine);
    if (machine.cores < 2) skip(); /* one core can be shared in one way only */
    const job bound = {.ranks = 3, .main = count_cores, .bound_to = 2, .cores = 2};
    run_job(&bound);
    all_return(bound.ranks, LS_OK, "");
    const job together = {.ranks = 2, .main = count_cores, .bound_to = 1, .cores = 1};
    run_job(&together);
    all_return(together.ranks, LS_OK, "");
}

static void test_they_meet(void **state) {
    (void)state;
    const job jobs[] = {{.ranks = 4, .main = meet},
                        {.ranks = 3, .main = meet, .hosts = "0,0,1"},
                        {.ranks = 4, .main = meet, .hosts = "4", .transports = "chaos:5"},
                        {.ranks = 2, .main = meet, .transports = "tcp"},
                        {.ranks = 3, .main = meet, .slurm = true}};
    for (size_t i = 0; i < LS_COUNT(jobs); i++) {
        run_job(&jobs[i]);
        all_return(jobs[i].ranks, LS_OK, "");
        for (int r = 0; r < jobs[i].ranks; r++) assert_string_equal(tell->status[r].text, "");
    }
}

/* Somebody else listens at the port, and never says anything: the ranks meet at the next one. */
static void test_they_pass_a_taken_port(void **state) {
    (void)state;
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)next_port)};
    const int other = socket(AF_INET6, SOCK_STREAM, 0);
    if (other < 0 || bind(other, (const struct sockaddr *)&any, sizeof any) != 0 || listen(other, 8) != 0) skip();
    run_job(&(job){.ranks = 2, .main = meet});
    close(other);
    all_return(2, LS_OK, "");
}

/* ---- what is refused ---- */

static void test_wrong_number_of_ranks(void **state) {
    (void)state;
    tell->expected_world = 3;
    run_job(&(job){.ranks = 2, .main = meet});
    all_return(2, LS_INVALID, "3 ranks; expected 2, which is what this process was launched as one of");
}

static void test_absent_ranks_are_named(void **state) {
    (void)state;
    run_job(&(job){.ranks = 4, .main = meet, .first_absent = 2, .seconds = "1"});
    all_return(2, LS_INVALID, "waited 1 s for rank 2, rank 3");
}

static void test_unconnected_hosts_are_refused(void **state) {
    (void)state;
    run_job(&(job){.ranks = 2, .main = meet, .hosts = "2", .transports = "shm"});
    all_return(2, LS_UNSUPPORTED, "nothing connects rank 0");
}

/* ---- what goes wrong ---- */

static ls_status fail_alone(ls_comm *comm, void *context) {
    (void)context;
    if (ls_comm_rank(comm) == current->victim) return ls_error(LS_IO, "no such file");
    return ls_comm_barrier(comm);
}

static void test_all_return_the_cause(void **state) {
    (void)state;
    for (int hosts = 0; hosts < 2; hosts++) {
        run_job(&(job){.ranks = 3, .main = fail_alone, .victim = 1, .hosts = hosts ? "3" : NULL});
        all_return(3, LS_IO, "no such file");
    }
}

static ls_status die_alone(ls_comm *comm, void *context) {
    (void)context;
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) == current->victim) raise(SIGKILL);
    return ls_comm_wait(comm, 0, 1, current->victim, "nothing");
}

static void test_each_rank_killed(void **state) {
    (void)state;
    for (int victim = 0; victim < 3; victim++) {
        char text[64];
        snprintf(text, sizeof text, "rank %d ended before its work was done", victim);
        run_job(&(job){.ranks = 3, .main = die_alone, .victim = victim});
        for (int r = 0; r < 3; r++)
            if (r != victim) assert_fails(tell->status[r], LS_PEER, text);
        assert_true(tell->seconds < 10);
    }
}

/* One rank is stopped (SIGSTOP), as by Ctrl-Z. On its own host it is seen in /proc, from others it does not answer. */
static ls_status stop_alone(ls_comm *comm, void *context) {
    (void)context;
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) == current->victim) raise(SIGSTOP);
    return ls_comm_wait(comm, 0, 1, current->victim, "nothing");
}

static void test_a_stopped_rank_is_named(void **state) {
    (void)state;
    for (int victim = 0; victim < 3; victim += 2) {
        for (int hosts = 0; hosts < 2; hosts++) {
            char text[96];
            snprintf(text, sizeof text, "for rank %d, which %s", victim,
                     hosts ? "has not answered for" : "is stopped (SIGSTOP)");
            run_job(
                &(job){.ranks = 3, .main = stop_alone, .victim = victim, .timeout = 1, .hosts = hosts ? "3" : NULL});
            for (int r = 0; r < 3; r++)
                if (r != victim) assert_fails(tell->status[r], LS_PEER, text);
            assert_true(tell->seconds < 10);
        }
    }
}

/* The same where ranks meet outside of programs: the meeting asks who is there. */
static ls_status stop_before_meeting(ls_comm *comm, void *context) {
    (void)context;
    int mine = 0, all[MOST];
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) == current->victim) raise(SIGSTOP);
    return ls_launched_gather("a number", &mine, sizeof mine, all);
}

static void test_a_rank_that_does_not_come_is_named(void **state) {
    (void)state;
    for (int victim = 0; victim < 3; victim += 2) {
        for (int hosts = 0; hosts < 2; hosts++) {
            char text[96];
            snprintf(text, sizeof text, "for rank %d, which %s", victim,
                     hosts ? "has not answered for" : "is stopped (SIGSTOP)");
            run_job(&(job){.ranks = 3,
                           .main = stop_before_meeting,
                           .victim = victim,
                           .timeout = 60,
                           .seconds = "1",
                           .hosts = hosts ? "3" : NULL});
            for (int r = 0; r < 3; r++)
                if (r != victim) assert_fails(tell->status[r], LS_PEER, text);
            assert_true(tell->seconds < 10);
        }
    }
}

/* A rank that works, and answers, may keep the others waiting for longer than all had to meet. */
static ls_status come_late(ls_comm *comm, void *context) {
    (void)context;
    int mine = ls_comm_rank(comm), all[MOST];
    if (mine == current->victim) sleep_seconds(3);
    LS_TRY(ls_launched_gather("a number", &mine, sizeof mine, all));
    for (int r = 0; r < ls_comm_size(comm); r++) RANK_CHECK(all[r] == r);
    return ls_ok();
}

static void test_a_rank_may_come_late(void **state) {
    (void)state;
    run_job(&(job){.ranks = 3, .main = come_late, .victim = 1, .seconds = "1"});
    all_return(3, LS_OK, "");
}

/* One rank gets the signal, all stop. */
static ls_status work_until_stopped(ls_comm *comm, void *context) {
    (void)context;
    LS_TRY(ls_comm_barrier(comm));
    if (ls_comm_rank(comm) == current->victim) raise(SIGUSR1);
    for (int i = 0; i < 500; i++) {
        if (ls_comm_stop_requested(comm)) return ls_error(LS_INTERRUPTED, "stopped");
        sleep_seconds(0.01);
    }
    return ls_ok();
}

static void test_all_hear_a_stop(void **state) {
    (void)state;
    run_job(&(job){.ranks = 3, .main = work_until_stopped, .victim = 2});
    all_return(3, LS_INTERRUPTED, "stopped");
}

/* A rank that cannot take part in a world says why to all ranks; none waits for that rank. */
static void test_all_learn_why_a_rank_has_no_world(void **state) {
    (void)state;
    const struct {
        const char *transports;
        size_t denied;
        ls_code code;
        const char *text;
    } cases[] = {
        {"nonsense", 0, LS_USAGE, "rank 1: transports 'nonsense': expected some of shm, tcp, mpi"},
        {NULL, 4, LS_NO_MEMORY, "rank 1: cannot allocate what 3 ranks use"},
        {NULL, sizeof(char *), LS_NO_MEMORY, "rank 1: cannot allocate the addresses of 3 segments"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_job(&(job){.ranks = 3,
                       .main = meet,
                       .victim = 1,
                       .victim_transports = cases[i].transports,
                       .denied = cases[i].denied});
        all_return(3, cases[i].code, cases[i].text);
    }
}

static int map_told(void **state) {
    (void)state;
    tell = mmap(NULL, sizeof *tell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return tell == MAP_FAILED;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_meet),
        cmocka_unit_test(test_they_share_cores),
        cmocka_unit_test(test_they_pass_a_taken_port),
        cmocka_unit_test(test_wrong_number_of_ranks),
        cmocka_unit_test(test_absent_ranks_are_named),
        cmocka_unit_test(test_unconnected_hosts_are_refused),
        cmocka_unit_test(test_all_return_the_cause),
        cmocka_unit_test(test_each_rank_killed),
        cmocka_unit_test(test_a_stopped_rank_is_named),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named),
        cmocka_unit_test(test_a_rank_may_come_late),
        cmocka_unit_test(test_all_hear_a_stop),
        cmocka_unit_test(test_all_learn_why_a_rank_has_no_world),
    };
    return cmocka_run_group_tests(tests, map_told, NULL);
}
