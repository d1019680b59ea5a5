/*
 * The entry points of libFuzzer. The environment variable FUZZ_TARGET names the target to run; without it, all names
 * are printed.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t room);

/* Set before the first input. It is global because libFuzzer's callbacks have no context argument. */
static const fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *name = getenv("FUZZ_TARGET");
    (void)argc;
    (void)argv;
    for (int i = 0; i < fuzz_target_count; i++) {
        if (!name) puts(fuzz_targets[i]->name);
        if (name && strcmp(fuzz_targets[i]->name, name) == 0) target = fuzz_targets[i];
    }
    if (name && !target)
        fprintf(stderr, "FUZZ_TARGET is '%s', which is no target; without FUZZ_TARGET all targets are listed\n", name);
    if (!target) exit(name ? 1 : 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    target->run(data, bytes);
    return 0;
}

/* One mutation in sixteen is not repaired, so that the checks of lengths and checksums are tested too. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed) {
    const size_t n = LLVMFuzzerMutate(data, bytes, room);
    return target->repair && seed % 16 != 0 ? target->repair(data, n, room) : n;
}
