/* Tests under an emulator (tools/run-tests.sh), where arithmetic takes some hundred times as long. */
#ifndef TESTS_EMULATED_H
#define TESTS_EMULATED_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool is_emulated(void) {
    const char *emulator = getenv("TEST_EMULATOR");
    return emulator != NULL && emulator[0] != 0;
}

/*
 * Whether the machine's own processor goes through all cases, so that the emulated one need only execute every path of
 * the code once: on x86 (tools/check.sh). On aarch64 there may be nothing but the emulator.
 */
static inline bool is_repeated_by_emulator(void) {
#ifdef __x86_64__
    return is_emulated();
#else
    return false;
#endif
}

#endif
