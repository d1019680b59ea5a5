/*
 * What watches kernels (cuda/watch/watch.h) finds each fault that is planted for it and says which it is, finds none in
 * kernels that are right, and counts the turns of accesses. Each call is a process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/watch/planted.h"
#include "cuda/watch/watch.h"
#include "support/kernel_call.h"

enum { N = 1024 };

static watch_count counted;

static void call_planted(const ls_kernel *row) {
    _Alignas(64) float x[N], y[N];
    const ls_scale_params once = {.factor = 1};
    for (int i = 0; i < N; i++) x[i] = (float)i;
    memset(y, 0xff, sizeof y);
    ls_kernel_call call = {
        .n_in = 1, .n_out = 1, .in = {VIEW(x, LS_F32, N)}, .out = {VIEW(y, LS_F32, N)}, .params = &once};
    call_kernel(row, &call, NULL);
    assert_memory_equal(y, x, sizeof x);
    counted = watch_counted();
}

/* What the call says on standard error before its process ends. */
static void try_call(const ls_kernel *row, char out[400]) {
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL); /* cmocka's would go on here */
        call_planted(row);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n < 399 && (got = read(ends[0], out + n, 399 - n)) > 0;) n += (size_t)got;
    out[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static const struct {
    const ls_kernel *row;
    const char *kernel, *says, *or_says;
} faults[] = {
    {&planted_no_block_barrier, "watch: turn<", "race in a block: ", "reads what nobody wrote: byte"},
    {&planted_no_warp_barrier, "watch: turn<", "race in a block: ", NULL},
    {&planted_late_block_barrier, "watch: turn<", "race in a block: ", NULL},
    {&planted_between_blocks, "watch: write_first(",
     "race between blocks: writes byte 0 of output 0, which has 4096, written by", NULL},
    {&planted_of_another_block, "watch: read_before(", "race between blocks: ", "reads what nobody wrote: byte"},
    {&planted_unwritten_shared, "watch: misplaced<", "reads what nobody wrote: byte 1024 of shared memory", NULL},
    {&planted_unwritten_output, "watch: misplaced<", "reads what nobody wrote: byte ", NULL},
    {&planted_read_beside, "watch: misplaced<", "reads beside its operands: byte 4096 of input 0, which has 4096",
     NULL},
    {&planted_write_beside, "watch: misplaced<", "writes beside its operands: byte 4096 of output 0, which has 4096",
     NULL},
    {&planted_write_input, "watch: misplaced<", "writes what it must not: byte ", NULL},
    {&planted_beyond_shared, "watch: misplaced<", "writes byte 2048 of shared memory, of which the launch has 1028",
     NULL},
    {&planted_no_wait, "watch: copy<", "before the copy to it was waited for", NULL},
    {&planted_wait_without_barrier, "watch: copy<", "race in a block: ", "before the copy to it was waited for"},
    {&planted_overwritten_copy, "watch: copy<", "before the copy to it was waited for", NULL},
};

static void test_faults(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < LS_COUNT(faults); i++) {
        char text[400];
        try_call(faults[i].row, text);
        const bool named = strstr(text, faults[i].kernel) == text;
        const bool is = strstr(text, faults[i].says) != NULL ||
                        (faults[i].or_says != NULL && strstr(text, faults[i].or_says) != NULL);
        if (!is || !named) print_error("fault %zu: '%s'; expected '%s'\n", i, text, faults[i].says);
        wrong += !is || !named;
    }
    assert_int_equal(wrong, 0);
}

static void test_what_is_right(void **state) {
    (void)state;
    call_planted(&planted_right);
    call_planted(&planted_right_in_warps);
    call_planted(&planted_right_copy);
}

static void test_turns(void **state) {
    (void)state;
    call_planted(&planted_right);
    assert_true(counted.shared == counted.least_turns && counted.turns == counted.shared);
    assert_true(counted.global == 2 * 8 && counted.sectors == counted.global * 4);
    assert_true(counted.least_sectors == counted.sectors);
    call_planted(&planted_by_columns);
    assert_int_equal(counted.shared, 64); /* 32 rows written, 32 columns read in 32 turns each */
    assert_int_equal(counted.least_turns, 64);
    assert_int_equal(counted.turns, 32 + 32 * 32);
    assert_int_equal(counted.least_sectors, 64 * 4);
    assert_int_equal(counted.sectors, 32 * 4 + 32 * 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_right), cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
