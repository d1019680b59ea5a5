/* Arena, status, log, progress. */
#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_arena_memory_is_zeroed_aligned_and_apart(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    enum { N = 2000 };
    unsigned char *blocks[N];
    size_t sizes[N], total = 0;
    for (int i = 0; i < N; i++) {
        sizes[i] = (size_t)ls_rng_below(1, 1, (uint64_t)i, i % 50 == 0 ? 600000 : 300);
        blocks[i] = ls_arena_alloc(arena, sizes[i]);
        total += ls_round_up(sizes[i] > 0 ? sizes[i] : 1, 64);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(blocks[i][b], 0);
        memset(blocks[i], i % 255 + 1, sizes[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(blocks[i][b], i % 255 + 1);
    assert_int_equal(ls_arena_bytes(arena), total);
    ls_arena_destroy(arena);
    ls_arena_destroy(NULL);
}

static void test_arena_texts_and_lists(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    assert_string_equal(ls_arena_strdup(arena, "name"), "name");
    assert_string_equal(ls_arena_printf(arena, "%s.%d", "layer", 12), "layer.12");
    char *longer = ls_arena_printf(arena, "%0*d", 400000, 7);
    assert_int_equal(strlen(longer), 400000);
    assert_memory_equal(ls_arena_copy(arena, "abc", 3), "abc", 3);

    struct pair {
        int64_t a, b;
    } *items = NULL;
    size_t count = 0, capacity = 0;
    for (int64_t i = 0; i < 1000; i++) {
        struct pair *item = LS_PUSH(arena, items, count, capacity);
        assert_true(item->a == 0 && item->b == 0);
        *item = (struct pair){i, -i};
    }
    assert_int_equal(count, 1000);
    for (int64_t i = 0; i < 1000; i++) assert_true(items[i].a == i && items[i].b == -i);
    count = 10;
    assert_true(LS_PUSH(arena, items, count, capacity)->a == 0); /* zeroed although it was used before */
    ls_arena_destroy(arena);
}

static ls_status pass_on(ls_status inner, int *reached) {
    LS_TRY(inner);
    ++*reached;
    return ls_ok();
}

static void test_status(void **state) {
    (void)state;
    ls_status status = ls_error(LS_INVALID, "rank %d of\n%s", 3, "\"x\"\t");
    assert_int_equal(status.code, LS_INVALID);
    assert_string_equal(status.text, "rank 3 of?\"x\"?"); /* one line, whatever is in the values */
    const ls_status cut =
        ls_error(LS_INVALID, "%s", "caf\xc3\xa9 \xf0\x9f\x98\x80 \xc2\x9b\xc3 \xed\xa0\x80 \xe2\x80\xae\xf0\x9f");
    assert_string_equal(cut.text,
                        "caf\xc3\xa9 \xf0\x9f\x98\x80 ??? ??? ?????"); /* of UTF-8, which a terminal may print */
    status = ls_error_in(status, "file '%s'", "a.json");
    assert_string_equal(status.text, "file 'a.json': rank 3 of?\"x\"?");
    assert_int_equal(status.code, LS_INVALID);
    assert_int_equal(ls_error_in(ls_ok(), "file").code, LS_OK);
    assert_string_equal(ls_error_in(ls_ok(), "file").text, "");

    char big[2000];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = 0;
    status = ls_error_in(ls_error(LS_IO, "%s", big), "%s", big);
    assert_int_equal(strlen(status.text), sizeof status.text - 1);
    status = ls_error(LS_IO, "cannot open %s: %s", big, "No such file"); /* the middle goes, the reason stays */
    assert_int_equal(strncmp(status.text, "cannot open yyy", 15), 0);
    assert_non_null(strstr(status.text, "yyy...yyy"));
    assert_string_equal(strchr(status.text, ':'), ": No such file");
    status = ls_error_in(ls_error(LS_IO, "%s", big), "short");
    assert_int_equal(strlen(status.text), sizeof status.text - 1);
    assert_memory_equal(status.text, "short: yyy", 10);

    int reached = 0;
    assert_int_equal(pass_on(ls_ok(), &reached).code, LS_OK);
    assert_int_equal(pass_on(ls_error(LS_PEER, "x"), &reached).code, LS_PEER);
    assert_int_equal(reached, 1);
    for (int code = LS_OK; code <= LS_FAULT; code++) assert_string_not_equal(ls_code_name((ls_code)code), "unknown");
    assert_string_equal(ls_code_name((ls_code)99), "unknown");
    assert_string_equal(ls_code_name(LS_IO), "io");
}

/* What `act` writes to standard error. The caller frees it. */
static char *stderr_of(void (*act)(void)) {
    fflush(stderr);
    FILE *file = tmpfile();
    const int saved = dup(STDERR_FILENO);
    assert_true(file && saved >= 0);
    dup2(fileno(file), STDERR_FILENO);
    act();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    const long bytes = lseek(fileno(file), 0, SEEK_END);
    char *text = calloc(1, (size_t)bytes + 1);
    assert_true(text && pread(fileno(file), text, (size_t)bytes, 0) == bytes);
    fclose(file);
    return text;
}

static void log_a_line(void) { ls_log("read %d files", 3); }

static void plain_progress(void) {
    ls_progress progress = ls_progress_start("training", 4);
    progress.terminal = false;
    progress.started -= 125; /* half of four units took 125 s: as much is left */
    ls_progress_show(&progress, 2, "loss 2.31");
    ls_progress_show(&progress, 4, "");
    ls_progress_end(&progress);
}

/* Half of four units took 125 s, but the work stops in 40 s. */
static void limited_progress(void) {
    ls_progress progress = ls_progress_start("training", 4);
    progress.terminal = false;
    progress.started -= 125;
    progress.limit = ls_seconds() + 40;
    ls_progress_show(&progress, 2, "");
    progress.limit = ls_seconds() - 3;
    ls_progress_show(&progress, 2, "");
    ls_progress_end(&progress);
}

static void terminal_progress(void) {
    ls_progress progress = ls_progress_start("training", 1000);
    progress.terminal = true;
    for (int i = 1; i <= 1000; i++) ls_progress_show(&progress, i, "loss · 2.31");
    ls_progress_end(&progress);
}

static void test_log(void **state) {
    (void)state;
    char *text = stderr_of(log_a_line);
    assert_string_equal(text, "longspan: read 3 files\n");
    free(text);
}

static void test_progress_in_a_pipe(void **state) {
    (void)state;
    char *text = stderr_of(plain_progress);
    assert_string_equal(text, "longspan: training 2/4 · loss 2.31 · 2:05 left\nlongspan: training 4/4\n");
    free(text);
}

static void test_progress_within_a_limit(void **state) {
    (void)state;
    char *text = stderr_of(limited_progress);
    assert_string_equal(text, "longspan: training 2/4 · 0:40 left\nlongspan: training 2/4 · 0:00 left\n");
    free(text);
}

static void test_progress_on_a_terminal(void **state) {
    (void)state;
    char *text = stderr_of(terminal_progress);
    int redraws = 0;
    for (const char *p = text; (p = strchr(p, '\r')); p++) redraws++;
    assert_true(redraws >= 2 && redraws < 100); /* the first, the last, and ten a second between */
    const char *last = strrchr(text, '\r');
    assert_non_null(strstr(last, "training 1000/1000 · loss · 2.31"));
    assert_null(strstr(last, "░"));
    const size_t length = strlen(text);
    assert_int_equal(text[length - 1], '\n');
    assert_ptr_equal(strchr(text, '\n'), text + length - 1);
    free(text);
}

static void test_helpers(void **state) {
    (void)state;
    for (int64_t n = 0; n < 40; n++)
        for (int64_t parts = 1; parts < 9; parts++) {
            assert_int_equal(ls_part_start(n, parts, 0), 0);
            assert_int_equal(ls_part_start(n, parts, parts), n);
            for (int64_t i = 0; i < parts; i++) {
                const int64_t size = ls_part_start(n, parts, i + 1) - ls_part_start(n, parts, i);
                assert_true(size == n / parts || size == ls_ceil_div(n, parts));
            }
        }
}

static void test_medians(void **state) {
    (void)state;
    const double odd[] = {5, 1, 3}, even[] = {4, 2, 2, 9}, same[] = {7, 7, 7}, one[] = {6};
    assert_int_equal(ls_median_place(odd, 3), 2);
    assert_int_equal(ls_median_place(even, 4), 2); /* the second 2: one value is before it */
    assert_int_equal(ls_median_place(same, 3), 1);
    assert_int_equal(ls_median_place(one, 1), 0);
    const double endless[] = {INFINITY, -INFINITY, NAN};
    const int place = ls_median_place(endless, 3);
    assert_true(place >= 0 && place < 3);
    double sorted[] = {4, 2, 2, 9};
    assert_true(ls_median(sorted, 4) == 3);
    assert_true(sorted[0] == 2 && sorted[3] == 9);
}

static void test_clock(void **state) {
    (void)state;
    const double before = ls_seconds();
    usleep(2000);
    const double passed = ls_seconds() - before;
    assert_true(passed >= 0.002 && passed < 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(test_arena_texts_and_lists),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_progress_in_a_pipe),
        cmocka_unit_test(test_progress_within_a_limit),
        cmocka_unit_test(test_progress_on_a_terminal),
        cmocka_unit_test(test_helpers),
        cmocka_unit_test(test_medians),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
