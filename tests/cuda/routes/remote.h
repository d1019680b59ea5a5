/*
 * What the libraries that stand in for NVSHMEM and NCCL have in common: ranks that find each other by an id, memory of
 * theirs that the fake driver takes for a device's, and a thread that writes into the memory of others after random
 * times. All of it works between processes, and between threads of one.
 *
 * The environment variable of a library has settings with commas:
 *   version=N      that it says it has       seed=N       of the random times
 *   puts=0         what is put never arrives, and no call says so
 *   signals=0      signals do nothing, and no call says so
 *   windows=0      registering memory makes no window, and no call says so; of NCCL
 *   early=1        signals come before the bytes that they are for
 *   CALL=N         the N-th call of that name fails, or has no effect where it returns nothing
 *   CALL=N:dies    the process ends there
 */
#ifndef TESTS_CUDA_ROUTES_REMOTE_H
#define TESTS_CUDA_ROUTES_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REMOTE_RANKS = 8, REMOTE_ID_BYTES = 64 };

typedef struct remote_settings {
    long version, seed, puts, signals, windows, early;
    char failing[64];
    long failing_call;
    bool dies;
} remote_settings;

/* Of the library whose variable it is; `defaults` where it does not say. */
remote_settings remote_read_settings(const char *variable, long version);
/* Whether this call is the one that fails. */
bool remote_fails(remote_settings *settings, const char *call);
_Noreturn void remote_abort(const char *library, const char *what);

/* --- ranks -------------------------------------------------------------------------------------------------------- */

typedef struct remote_world remote_world;

void remote_make_id(char id[REMOTE_ID_BYTES]);
/* Waits for the others, at most 20 s. */
remote_world *remote_join(const char *library, const char *id, int rank, int ranks);
void remote_barrier(remote_world *world);
void remote_leave(remote_world *world);
int remote_rank(const remote_world *world);
int remote_ranks(const remote_world *world);

/* --- memory ------------------------------------------------------------------------------------------------------- */

typedef struct remote_memory {
    char *own; /* as streams address it; not of peers */
    size_t bytes;
    char *plain[REMOTE_RANKS]; /* everybody's, as the delivering thread does */
    int file;
} remote_memory;

/* Memory of a device, which others can be given. */
void remote_allocate(size_t bytes, remote_memory *out);
/* Collective: maps that of the others. */
void remote_exchange(remote_world *world, remote_memory *memory);
void remote_unmap(remote_world *world, remote_memory *memory);
void remote_free(remote_world *world, remote_memory *memory); /* world NULL: it was not exchanged */

/* --- streams ------------------------------------------------------------------------------------------------------ */

/* The fake driver's functions. */
typedef struct remote_driver {
    void (*run)(void *stream, void (*run)(void *context), void (*release)(void *context), void *context);
    void *(*share)(int file, size_t bytes);
    void *(*find)(uintptr_t at, size_t bytes); /* memory of a device as others access it; NULL: it is none */
    unsigned (*words)(void *stream, unsigned count, void *operations, unsigned flags);
    unsigned (*free)(uintptr_t at);
} remote_driver;
const remote_driver *remote_find_driver(void);
/* The stream waits until the word is the value or greater. Returns the driver's result. */
unsigned remote_await(void *stream, uintptr_t at, uint64_t value);

/* What a stream sends: from then on its source may be overwritten. */
typedef struct remote_transfer {
    remote_world *world;
    remote_settings *settings;
    int peer;
    const char *from; /* as the device addresses it; NULL: nothing is copied */
    char *to;         /* in the peer's plain mapping */
    size_t bytes;
    uint64_t *word; /* in the peer's plain mapping; NULL: none */
    uint64_t value;
    bool adds;    /* the word rises by the value */
    bool ordered; /* after all that was sent to the peer before, else in any order */
} remote_transfer;
void remote_send(void *stream, const remote_transfer *transfer);
/* Of what was sent to a peer: how much the stream has not come to. */
int remote_unsent(remote_world *world, int peer);
/* Until all that the stream's process has sent in this world has arrived. */
void remote_quiet(void *stream, remote_world *world);

#endif
