/* The folder of a run: one run at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_train_support.h"

/* A second start, of either kind, changes nothing and names the first; the first does not notice. */
static void one_run_at_a_time(void **state) {
    run_paths *p = make_paths(state, "one");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 100000;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, p->out, 3);
    char process[32];
    snprintf(process, sizeof process, "process %d ", (int)run.pid);
    ls_train_result result;
    for (int i = 0; i < 2; i++) {
        options.resume = i == 1;
        assert_error(ls_train(&options, &result), LS_USAGE, process, "longspan.lock");
    }
    assert_int_equal(kill(run.pid, SIGTERM), 0);
    ls_status status;
    (void)end_run(&run, &status);
    assert_error(status, LS_INTERRUPTED, "stopped after step", "");
    (void)steps_written(p->out); /* no step twice */
    ls_file_names names;
    assert_ok(ls_file_list(p->out, &names));
    for (size_t i = 0; i < names.count; i++) assert_string_not_equal(names.name[i], "longspan.lock");
    ls_file_names_free(&names);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run_at_a_time),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
