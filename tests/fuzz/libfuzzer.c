/*
 * The entry points of libFuzzer. FUZZ_TARGET in the environment says which target runs; without it the names of all are printed.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t room);

/* Set once, before the first input: libFuzzer hands its callbacks nothing else. */
static const fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *name = getenv("FUZZ_TARGET");
    (void)argc;
    (void)argv;
    for (int i = 0; i < fuzz_target_count; i++) {
        if (!name) puts(fuzz_targets[i]->name);
        if (name && strcmp(fuzz_targets[i]->name, name) == 0) target = fuzz_targets[i];
    }
    if (name && !target) fprintf(stderr, "FUZZ_TARGET is '%s'; without it the targets are listed\n", name);
    if (!target) exit(name ? 1 : 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    target->run(data, bytes);
    return 0;
}

/* One mutation in sixteen leaves lengths and checksums wrong, so that their checks are tried too. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned seed) {
    const size_t n = LLVMFuzzerMutate(data, bytes, room);
    return target->repair && seed % 16 != 0 ? target->repair(data, n, room) : n;
}
