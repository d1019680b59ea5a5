/* For tests: loads a library that stands in for one of NVIDIA's (fake.h), and lets each of its calls fail. */
#ifndef LS_TESTS_CUDA_FAKE_LOAD_H
#define LS_TESTS_CUDA_FAKE_LOAD_H

#include "cuda/fake/fake.h"
#include "kernel/kernel.h"

#include <dlfcn.h>

#include <cmocka.h>

/* From then on the dynamic linker finds it under the file's name. NULL, after a message: it cannot be loaded. */
static inline fake_library *fake_load(const char *path, const char *name) {
    void *const library = dlopen(path, RTLD_NOW);
    fake_library *const fake = library != NULL ? dlsym(library, name) : NULL;
    if (fake == NULL) fprintf(stderr, "%s\n", dlerror());
    return fake;
}

static inline void fake_expect_clean(const fake_library *fake) {
    if (fake->wrong[0] != 0) fail_msg("%s", fake->wrong);
    assert_int_equal(fake->objects, 0);
}

/* One call, from preparing to releasing. */
static inline ls_status fake_run(const ls_kernel *row, const ls_kernel_call *call) {
    void *state = NULL;
    LS_TRY(row->prepare(call, &state));
    const ls_status status = row->launch(call, state, NULL);
    row->release(state);
    return status;
}

/*
 * Runs the call with the first, second, ... call of the function failing, up to the last that there is: nothing is
 * left, and one line names the function and the status, or has the text `or_says`; with that, the call may also do
 * without. Returns how many there are.
 */
static inline int fake_fail_each(fake_library *fake, const char *function, const char *status_name, const char *or_says,
                                 const ls_kernel *row, const ls_kernel_call *call) {
    for (int n = 1;; n++) {
        fake->failing = function;
        fake->fails_at = n;
        const ls_status status = fake_run(row, call);
        const bool failed = fake->fails_at <= 0;
        fake->failing = NULL;
        fake_expect_clean(fake);
        if (!failed && status.code != LS_OK) fail_msg("%s", status.text);
        if (!failed) return n - 1;
        const bool names = strstr(status.text, function) != NULL && strstr(status.text, status_name) != NULL;
        const bool says = or_says != NULL && (status.code == LS_OK || strstr(status.text, or_says) != NULL);
        if ((status.code == LS_OK || !names) && !says) fail_msg("%s fails at call %d: %s", function, n, status.text);
        if (status.code != LS_OK) assert_null(strchr(status.text, '\n'));
    }
}

#endif
