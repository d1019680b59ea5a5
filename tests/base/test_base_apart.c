/* Work in a process of its own: its results and errors come back, its other changes and its death do not hurt. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

typedef struct task {
    ls_status (*work)(struct task *task);
    int elsewhere;
    char out[200000]; /* more than a pipe holds */
} task;

static ls_status run(void *context) {
    task *t = context;
    return t->work(t);
}

static ls_status fill(task *t) {
    t->elsewhere = 1;
    for (size_t i = 0; i < sizeof t->out; i++) t->out[i] = (char)(i * 7);
    return ls_ok();
}

static ls_status refuse(task *t) {
    t->out[0] = 1;
    return ls_error(LS_UNSUPPORTED, "work %d is refused", 3);
}

static ls_status die(task *t) {
    (void)t;
    (void)raise(SIGKILL);
    return ls_ok();
}

static ls_status leave(task *t) {
    (void)t;
    _exit(7);
}

static task shared;

static ls_status apart(ls_status (*work)(task *task)) {
    shared = (task){.work = work};
    return ls_apart(run, &shared, shared.out, sizeof shared.out);
}

static void test_results_come_back(void **state) {
    (void)state;
    assert_int_equal(apart(fill).code, LS_OK);
    assert_int_equal(shared.elsewhere, 0);
    for (size_t i = 0; i < sizeof shared.out; i++) assert_int_equal(shared.out[i], (char)(i * 7));
}

static void test_errors_come_back(void **state) {
    (void)state;
    const ls_status refused = apart(refuse), killed = apart(die), left = apart(leave);
    assert_int_equal(refused.code, LS_UNSUPPORTED);
    assert_string_equal(refused.text, "work 3 is refused");
    assert_int_equal(killed.code, LS_FAULT);
    assert_non_null(strstr(killed.text, "killed by signal 9"));
    assert_int_equal(left.code, LS_FAULT);
    assert_non_null(strstr(left.text, "ended with 7 before it was done"));
    assert_int_equal(shared.out[0], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_come_back),
        cmocka_unit_test(test_errors_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
