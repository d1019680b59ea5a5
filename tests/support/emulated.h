/* Tests that run again: with lesser instruction sets, and under an emulator (tools/run-tests.sh), where arithmetic
 * takes some hundred times as long. */
#ifndef TESTS_EMULATED_H
#define TESTS_EMULATED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static inline bool is_emulated(void) {
    const char *emulator = getenv("TEST_EMULATOR");
    return emulator != NULL && emulator[0] != 0;
}

/*
 * Whether the machine's own instruction set goes through all cases, so that this run of the test need only execute
 * every path of the code once: with a lesser set, or on x86 under an emulator (tools/check.sh). On aarch64 there may be
 * nothing but the emulator.
 */
static inline bool is_repeated(void) {
    if (getenv("LS_TEST_REPEATED") != NULL) return true;
#ifdef __x86_64__
    return is_emulated();
#else
    return false;
#endif
}

/* At the head of a test whose cases run the same code with every instruction set: arithmetic in f64, proofs, refusals.
 */
static inline void skip_if_repeated(void) {
    if (is_repeated()) skip();
}

#endif
