/*
 * Libraries that stand in for NVIDIA's: each checks how it is called, computes on memory of the host in plain loops,
 * and can be told to fail. Each exports one of these, which the test that loads it finds by its name.
 */
#ifndef LS_TESTS_CUDA_FAKE_H
#define LS_TESTS_CUDA_FAKE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

/*
 * Where the driver for tests has been loaded: the life of the calling thread's context (cuda/driver/fake.h), in which a
 * handle is made; the process ends where the thread has none that lives. Else 0.
 */
static inline long fake_life(const char *function) {
    const char *file = getenv("LONGSPAN_CUDA_DRIVER");
    void *const driver = file != NULL ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *const found = driver != NULL ? dlsym(driver, "fake_context_life") : NULL;
    long (*life_of_context)(void);
    if (found == NULL) return 0;
    memcpy(&life_of_context, &found, sizeof life_of_context);
    const long life = life_of_context();
    if (life != 0) return life;
    fprintf(stderr, "%s of a stand-in: the thread's context has been released\n", function);
    abort();
}

/* Ends the process unless the calling thread's context is the one in which a handle was made, and still lives. */
static inline void fake_need_life(const char *function, long made) {
    if (fake_life(function) == made) return;
    fprintf(stderr, "%s of a stand-in: its handle was made in a context that has been released, or in another\n",
            function);
    abort();
}

/*
 * Whether EMULATED_BLOCKS is set (cuda_runtime.h): a product or a graph then touches the first and the last element of
 * what is described to it, and computes nothing.
 */
static inline bool fake_ends_only(void) { return getenv("EMULATED_BLOCKS") != NULL; }
static inline void fake_touch_ends(const void *data, int64_t last_byte) {
    volatile char *const at = (volatile char *)data;
    at[0] = at[0];
    at[last_byte] = at[last_byte];
}

/* The library's number, under one name in all of them. */
size_t fake_version(void);

/* Notes a mistake unless it is fine; returns whether it is. */
static inline bool fake_expect(fake_library *f, bool fine, const char *function, const char *what) {
    if (!fine && f->wrong[0] == 0) snprintf(f->wrong, sizeof f->wrong, "%s: expected %s", function, what);
    return fine;
}

#endif
