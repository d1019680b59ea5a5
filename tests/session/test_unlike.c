/*
 * Ranks that are given other things: a worker's calls with other arguments fail with what two ranks do, statuses of the
 * user are made sound, and processes that somebody launched compare what decides a result before they plan.
 */
#include "format/format.h"
#include "session/session.h"
#include "support/world.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { RANKS = 3, ODD = 2, B = 2, S = 6 };

/* --- an engine ---------------------------------------------------------------------------------------------------- */

static ls_tensor build(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){5, 3});
    const ls_tensor other = ls_parameter(g, "other", 2, (int64_t[]){5, 3});
    const ls_tensor x = ls_embedding(g, tokens, table);
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, other), labels));
}

static ls_status run_engine(const ls_engine_options *options, ls_work work) {
    ls_graph *g = ls_graph_create(LS_F64);
    ls_engine *engine = NULL;
    ls_status status = ls_engine_open(g, build(g), options, &engine);
    if (status.code == LS_OK) status = ls_engine_run(engine, work, NULL, NULL, 0);
    ls_engine_close(engine);
    ls_graph_destroy(g);
    return status;
}

static ls_status prepare(ls_worker *w) {
    int32_t ids[B * S];
    for (int i = 0; i < B * S; i++) ids[i] = i % 5;
    LS_TRY(ls_worker_set_random(w, 0.5, 1));
    LS_TRY(ls_worker_set_input(w, "tokens", ids));
    return ls_worker_set_input(w, "labels", ids);
}

static ls_status read_other_parameters(ls_worker *w, const void *input, void *result) {
    (void)input, (void)result;
    double values[15];
    LS_TRY(prepare(w));
    return ls_worker_get_parameter(w, w->rank == ODD ? "other" : "table", values);
}

static ls_status step_with_other_rates(ls_worker *w, const void *input, void *result) {
    (void)input, (void)result;
    ls_step_result made;
    LS_TRY(prepare(w));
    return ls_worker_step(w, &(ls_step){.tokens = B * S, .lr = w->rank == ODD ? 0.5 : 0.25}, &made);
}

static ls_status gather_other_sizes(ls_worker *w, const void *input, void *result) {
    (void)input, (void)result;
    char mine[16] = "", all[16 * RANKS];
    return ls_worker_gather(w, mine, w->rank == ODD ? 8 : 16, all);
}

static ls_status return_text_without_end(ls_worker *w, const void *input, void *result) {
    (void)input, (void)result;
    ls_status status = ls_ok();
    if (w->rank != ODD) return status;
    status.code = LS_DIVERGED;
    memset(status.text, 'y', sizeof status.text);
    return status;
}

static ls_status return_code_that_there_is_not(ls_worker *w, const void *input, void *result) {
    (void)input, (void)result;
    ls_status status = ls_error(LS_IO, "the user's text");
    status.code = (ls_code)77;
    return w->rank == ODD ? status : ls_ok();
}

static void test_workers(void **state) {
    (void)state;
    static const char *const shards[] = {"none", "parameters"};
    for (int i = 0; i < 4; i++) {
        const ls_engine_options options = {
            .spread = {
                .ranks = RANKS, .threads = 1, .mesh = "ring=3", .shard = shards[i / 2], .as_threads = i % 2 == 0}};
        ls_status status = run_engine(&options, read_other_parameters);
        assert_fails(status, LS_INVALID, "parameter \"table\"");
        assert_fails(status, LS_INVALID, "parameter \"other\"");
        status = run_engine(&options, step_with_other_rates);
        assert_fails(status, LS_INVALID, "a step of 12 tokens with lr 0.25 and clip 0");
        assert_fails(status, LS_INVALID, "a step of 12 tokens with lr 0.5 and clip 0");
        status = run_engine(&options, gather_other_sizes);
        assert_fails(status, LS_INVALID, "ls_worker_gather (16 bytes)");
        assert_fails(status, LS_INVALID, "ls_worker_gather (8 bytes)");
        status = run_engine(&options, return_text_without_end);
        assert_fails(status, LS_DIVERGED, "yyyy");
        assert_non_null(memchr(status.text, 0, sizeof status.text));
        assert_fails(run_engine(&options, return_code_that_there_is_not), LS_FAULT, "the user's text (its code is 77");
    }
}

/* --- launched processes ------------------------------------------------------------------------------------------- */

typedef struct unlike {
    ls_status (*work)(int rank, const char *folder);
    ls_code code;
    const char *words[3]; /* of the text; NULL: no more */
} unlike;

static ls_status compare_numbers(int rank, const char *folder) {
    (void)folder;
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add(alike, "--first", "%d", 5);
    ls_alike_add(alike, "--second", "%g", rank == ODD ? 0.5 : 0.25);
    ls_alike_add_text(alike, "--third", rank == ODD ? NULL : "there");
    return ls_alike_end(alike, ls_ok());
}

static ls_status compare_what_is_left_out(int rank, const char *folder) {
    (void)folder;
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add_text(alike, "--third", rank == ODD ? NULL : "there");
    return ls_alike_end(alike, ls_ok());
}

static ls_status compare_lists(int rank, const char *folder) {
    (void)folder;
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    for (int i = 0; i < (rank == ODD ? 399 : 400); i++) ls_alike_add(alike, "--data", "file number %d", i);
    return ls_alike_end(alike, ls_ok());
}

static ls_status compare_long_values(int rank, const char *folder) {
    (void)folder;
    char value[5000];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = 0;
    value[4321] = rank == ODD ? 'B' : 'A';
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add_text(alike, "--system", value);
    return ls_alike_end(alike, ls_ok());
}

static ls_status compare_a_failure(int rank, const char *folder) {
    (void)folder;
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    return ls_alike_end(alike, rank == ODD ? ls_error(LS_IO, "the disk is gone") : ls_ok());
}

/* A file of 17 MiB, which is too large to be read whole: one byte in its middle, or its size, differs. */
static ls_status compare_files(int rank, const char *folder) {
    const size_t bytes = (size_t)17 << 20;
    char path[500], *content = calloc(1, bytes);
    RANK_CHECK(content != NULL);
    memset(content + bytes / 4, rank == ODD ? 2 : 1, bytes / 2);
    snprintf(path, sizeof path, "%s/%d", folder, rank);
    LS_TRY(ls_file_make_folders(path));
    snprintf(path, sizeof path, "%s/%d/model.safetensors", folder, rank);
    const ls_status written = ls_file_write(path, content, bytes);
    free(content);
    LS_TRY(written);
    snprintf(path, sizeof path, "%s/%d", folder, rank);
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add_folder(alike, "--model", path);
    return ls_alike_end(alike, ls_ok());
}

static ls_status open_engine(int rank, ls_engine_options options) {
    options.spread.ranks = RANKS;
    if (rank == ODD && options.spread.isa == NULL) options.beta1 = 0.5;
    return run_engine(&options, return_text_without_end);
}

static ls_status engines(int rank, const char *folder) {
    (void)folder;
    return open_engine(rank, (ls_engine_options){.micro_batches = 1});
}

static ls_status instruction_sets(int rank, const char *folder) {
    (void)folder;
    return open_engine(rank, (ls_engine_options){.spread = {.isa = rank == ODD ? "ref" : "base"}});
}

static ls_status layouts(int rank, const char *folder) {
    (void)folder;
    return open_engine(rank, (ls_engine_options){.spread = {.isa = "ref", .layout = rank == ODD ? "zigzag" : NULL}});
}

static ls_status tell_and_agree(int rank, const char *folder) {
    (void)folder;
    int64_t value = 3;
    int ranks;
    LS_TRY(ls_home_find(&ranks));
    return rank == ODD ? ls_home_tell(&value, sizeof value) : ls_home_agree(ls_ok());
}

static const unlike cases[] = {
    {compare_numbers, LS_USAGE, {"rank 2 has --second 0.5, rank 0 0.25; expected the same on all ranks of a job"}},
    {compare_what_is_left_out, LS_USAGE, {"rank 2 has --third left out, rank 0 there;"}},
    {compare_lists, LS_USAGE, {"rank 2 has nothing more where rank 0 has --data;"}},
    {compare_long_values, LS_USAGE, {"rank 2 has --system ...", "vvvvB", "vvvvA"}},
    {compare_a_failure, LS_IO, {"the disk is gone"}},
    {compare_files, LS_USAGE, {"rank 2 has --model model.safetensors of 17825792 bytes, with hash "}},
    {engines, LS_USAGE, {"rank 2 has beta1 0.5, rank 0 0.9"}},
    {instruction_sets, LS_USAGE, {"rank 2 has instruction set ref, rank 0 base", "LONGSPAN_ISA=NAME"}},
    {layouts, LS_USAGE, {"rank 2 has --layout zigzag, rank 0 left out"}},
    {tell_and_agree, LS_INVALID, {"whether all is well (4 bytes)", "what rank 0 tells (8 bytes)"}},
};

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static pid_t start_rank(const unlike *u, int rank, int port, const char *folder, ls_status *tell) {
    fflush(NULL);
    const pid_t process = fork();
    if (process != 0) return process;
    set_number("RANK", rank);
    set_number("WORLD_SIZE", RANKS);
    setenv("MASTER_ADDR", "localhost", 1);
    set_number("MASTER_PORT", port);
    *tell = u->work(rank, folder);
    exit(0);
}

/* This process must not look for ranks that were launched before its children do: this test is the first. */
static void test_launched(void **state) {
    (void)state;
    ls_status *tell = mmap(NULL, RANKS * sizeof *tell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tell != MAP_FAILED);
    char folder[] = "/tmp/longspan-unlike-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        pid_t process[RANKS];
        for (int r = 0; r < RANKS; r++) {
            tell[r] = ls_error(LS_PEER, "dead");
            process[r] = start_rank(&cases[i], r, 42200 + 37 * (int)i, folder, &tell[r]);
            assert_true(process[r] > 0);
        }
        for (int r = 0; r < RANKS; r++) waitpid(process[r], NULL, 0);
        for (int r = 0; r < RANKS; r++)
            for (size_t k = 0; k < LS_COUNT(cases[i].words) && cases[i].words[k] != NULL; k++)
                assert_fails(tell[r], cases[i].code, cases[i].words[k]);
    }
    assert_ok(ls_file_remove_tree(folder));
    munmap(tell, RANKS * sizeof *tell);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launched), cmocka_unit_test(test_workers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
