/*
 * What comes back from the ranks of a session (ls_session_run): the result of rank 0, whole, and only where the ranks
 * ended well; of forked ranks, threads, and ranks that somebody else launched. Of the latter rank 0's process plans.
 */
#include "session/session.h"
#include "support/world.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { RANKS = 3, LARGE = 3 << 20, UNTOUCHED = 0x5a };

typedef struct answer {
    int rank, ranks, told;
    unsigned char large[LARGE];
} answer;

/* What the ranks are told: which of them ends otherwise than well, and how. */
typedef struct question {
    int told, bad_rank;
    ls_code code; /* that it returns */
    bool dies;
    int64_t memory[2]; /* that the machines of rank 0 and of the others let a rank map; 0: what this one has */
} question;

/* A process with threads cannot be forked under the race detector. */
static bool only_threads(void) {
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    return sanitizer != NULL && strcmp(sanitizer, "thread") == 0;
}

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

static ls_status fill(ls_rank *rank, const void *input, void *result) {
    const question *q = input;
    answer *a = result;
    RANK_CHECK(a->rank == 0 && a->ranks == 0 && a->large[0] == 0 && a->large[LARGE - 1] == 0);
    *a = (answer){.rank = rank->rank, .ranks = rank->ranks, .told = q->told};
    memset(a->large, 7 + rank->rank, sizeof a->large);
    LS_TRY(ls_comm_barrier(rank->comm));
    RANK_CHECK(a->rank == rank->rank && a->large[LARGE / 2] == 7 + rank->rank); /* nobody else's */
    if (rank->rank != q->bad_rank) return ls_ok();
    if (q->dies) raise(SIGKILL);
    return q->code == LS_OK ? ls_ok() : ls_error(q->code, "as told");
}

static ls_status without_result(ls_rank *rank, const void *input, void *result) {
    (void)rank;
    RANK_CHECK(input == NULL && result == NULL);
    return ls_ok();
}

/* --- a session ---------------------------------------------------------------------------------------------------- */

typedef struct opened {
    ls_attention_graph graph;
    ls_job job;
    ls_session *session;
} opened;

/* Its programs are not run: any graph will do. */
static ls_status open_session(bool as_threads, int64_t memory, opened *out) {
    static const ls_mask full = {.n = 0};
    const ls_attention_options options = {.batch = 1,
                                          .seq = 2 * RANKS,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .head_size = 4,
                                          .mask = &full,
                                          .spread = {.ranks = RANKS, .threads = 1, .as_threads = as_threads}};
    LS_TRY(ls_attention_graph_build(&options, &out->graph));
    out->job = ls_attention_graph_job(&out->graph, false);
    ls_plan_request request;
    LS_TRY(ls_session_request(&options.spread, &request));
    if (memory > 0) request.memory = memory;
    ls_plan plan = {.n_candidates = 0};
    ls_status status = ls_plan_decide(&out->job, &request, &options.spread, &plan);
    if (status.code == LS_OK) status = ls_session_open_planned(&out->job, &plan, &options.spread, &out->session);
    ls_plan_free(&plan);
    return status;
}

static void close_session(const opened *o) {
    ls_session_close(o->session);
    ls_graph_destroy(o->graph.graph);
}

static ls_status ask(bool as_threads, const question *q, answer *out) {
    opened o = {.session = NULL};
    ls_status status = open_session(as_threads, q->memory[!ls_is_home()], &o);
    memset(out, UNTOUCHED, sizeof *out);
    if (status.code == LS_OK) status = ls_session_run(o.session, fill, q, out, sizeof *out);
    close_session(&o);
    return status;
}

static bool is_untouched(const answer *a) {
    const unsigned char *bytes = (const unsigned char *)a;
    size_t same = 0;
    for (size_t i = 0; i < sizeof *a; i++) same += bytes[i] == UNTOUCHED;
    return same == sizeof *a;
}

static bool is_of_rank_0(const answer *a, int told) {
    size_t same = 0;
    for (size_t i = 0; i < sizeof a->large; i++) same += a->large[i] == 7;
    return a->rank == 0 && a->ranks == RANKS && a->told == told && same == sizeof a->large;
}

static answer *new_answer(void) {
    answer *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(a != MAP_FAILED);
    return a;
}

/* --- local ranks -------------------------------------------------------------------------------------------------- */

static const question well = {.told = 41, .bad_rank = -1};
static const question failing[] = {{.bad_rank = 1, .code = LS_DIVERGED}, {.bad_rank = 0, .code = LS_IO}};
static const question interrupted[] = {{.told = 5, .bad_rank = 0, .code = LS_INTERRUPTED},
                                       {.told = 6, .bad_rank = 2, .code = LS_INTERRUPTED}};

static void test_local(void **state) {
    (void)state;
    answer *a = new_answer();
    for (int threads = only_threads(); threads < 2; threads++) {
        assert_ok(ask(threads, &well, a));
        assert_true(is_of_rank_0(a, well.told));
        for (size_t i = 0; i < LS_COUNT(interrupted); i++) {
            assert_fails(ask(threads, &interrupted[i], a), LS_INTERRUPTED, "as told");
            assert_true(is_of_rank_0(a, interrupted[i].told));
        }
        for (size_t i = 0; i < LS_COUNT(failing); i++) {
            assert_fails(ask(threads, &failing[i], a), failing[i].code, "as told");
            assert_true(is_untouched(a));
        }
    }
    munmap(a, sizeof *a);
}

static void test_dead_ranks(void **state) {
    (void)state;
    if (only_threads()) skip();
    answer *a = new_answer();
    for (int rank = 0; rank < 2; rank++) {
        assert_fails(ask(false, &(question){.bad_rank = rank, .dies = true}, a), LS_PEER, "was killed by signal 9");
        assert_true(is_untouched(a));
    }
    munmap(a, sizeof *a);
}

static void test_no_result(void **state) {
    (void)state;
    for (int threads = only_threads(); threads < 2; threads++) {
        opened o = {.session = NULL};
        assert_ok(open_session(threads, 0, &o));
        assert_ok(ls_session_run(o.session, without_result, NULL, NULL, 0));
        close_session(&o);
    }
}

/* --- launched ranks ----------------------------------------------------------------------------------------------- */

typedef struct told {
    ls_status status;
    answer answer;
} told;

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static pid_t start_rank(int rank, int port, const question *q, told *tell) {
    const pid_t process = fork();
    if (process != 0) return process;
    set_number("RANK", rank);
    set_number("WORLD_SIZE", RANKS);
    setenv("MASTER_ADDR", "localhost", 1);
    set_number("MASTER_PORT", port);
    tell->status = ask(false, q, &tell->answer);
    exit(0); /* as a program ends, with what it has left to do at its end */
}

static void launch(const question *q, int port, told *tell) {
    pid_t process[RANKS];
    for (int r = 0; r < RANKS; r++) {
        tell[r].status = ls_error(LS_PEER, "dead");
        process[r] = start_rank(r, port, q, &tell[r]);
        assert_true(process[r] > 0);
    }
    for (int r = 0; r < RANKS; r++) waitpid(process[r], NULL, 0);
}

/* The first tests: this process must not have looked for ranks that were launched before its children do. */
static void test_launched(void **state) {
    (void)state;
    told *tell = mmap(NULL, RANKS * sizeof *tell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tell != MAP_FAILED);
    launch(&well, 42011, tell);
    for (int r = 0; r < RANKS; r++) assert_ok(tell[r].status);
    assert_true(is_of_rank_0(&tell[0].answer, well.told));
    for (int r = 1; r < RANKS; r++) assert_true(is_untouched(&tell[r].answer));
    launch(&failing[0], 42048, tell);
    for (int r = 0; r < RANKS; r++) {
        assert_fails(tell[r].status, LS_DIVERGED, "as told");
        assert_true(is_untouched(&tell[r].answer));
    }
    munmap(tell, RANKS * sizeof *tell);
}

/* Only rank 0's process plans: its plan and its failure are those of all. */
static void test_launched_plan(void **state) {
    (void)state;
    told *tell = mmap(NULL, RANKS * sizeof *tell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tell != MAP_FAILED);
    launch(&(question){.told = 3, .bad_rank = -1, .memory = {0, 1}}, 42085, tell);
    for (int r = 0; r < RANKS; r++) assert_ok(tell[r].status);
    assert_true(is_of_rank_0(&tell[0].answer, 3));
    launch(&(question){.bad_rank = -1, .memory = {1, 0}}, 42122, tell);
    for (int r = 0; r < RANKS; r++) assert_fails(tell[r].status, LS_NO_MEMORY, "allows 1");
    munmap(tell, RANKS * sizeof *tell);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launched), cmocka_unit_test(test_launched_plan),
                                       cmocka_unit_test(test_local), cmocka_unit_test(test_dead_ranks),
                                       cmocka_unit_test(test_no_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
