/* Kernels of ref whose answers a test knows. It needs the assertions of cmocka, which tests include first. */
#ifndef LS_TESTS_SUPPORT_KNOWN_ANSWERS_H
#define LS_TESTS_SUPPORT_KNOWN_ANSWERS_H

#include <math.h>
#include <stdio.h>

#include "support/kernel_call.h"

static inline void ref(const char *name, ls_dtype dtype, ls_kernel_call call) {
    run_kernel(name, dtype, LS_ISA_REF, 1, call);
}

/* out = kernel(a [, b]), all of the same dense shape. */
static inline void ref_map(const char *name, ls_view a, ls_view b, ls_view out, const void *params) {
    ref(name, a.dtype,
        (ls_kernel_call){.n_in = b.data != NULL ? 2 : 1, .n_out = 1, .in = {a, b}, .out = {out}, .params = params});
}

static inline void close_to(double is, double expected, double tolerance) {
    if (!(fabs(is - expected) <= tolerance)) printf("is %.17g, expected %.17g\n", is, expected);
    assert_true(fabs(is - expected) <= tolerance);
}

#endif
