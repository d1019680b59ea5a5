/*
 * Libraries that stand in for NVIDIA's: each checks how it is called, computes on memory of the host in plain loops,
 * and can be told to fail. Each exports one of these, which the test that loads it finds by its name.
 */
#ifndef LS_TESTS_CUDA_FAKE_H
#define LS_TESTS_CUDA_FAKE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct fake_library {
    const char *failing; /* the function of which one call fails; NULL: none */
    int fails_at;        /* which of its calls: 1 is the next */
    int objects;         /* that have been created and not destroyed */
    char wrong[200];     /* the first mistake of the caller; empty: none */
} fake_library;

/* Whether this call of the function is the one that fails. */
static inline bool fake_fails(fake_library *f, const char *function) {
    return f->failing != NULL && strcmp(f->failing, function) == 0 && --f->fails_at == 0;
}

/* Notes a mistake unless it is fine; returns whether it is. */
static inline bool fake_expect(fake_library *f, bool fine, const char *function, const char *what) {
    if (!fine && f->wrong[0] == 0) snprintf(f->wrong, sizeof f->wrong, "%s: expected %s", function, what);
    return fine;
}

#endif
