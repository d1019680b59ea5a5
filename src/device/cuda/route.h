/*
 * Routes: how messages of a CUDA device reach other ranks. All ranks of a world use the same route, but messages of a
 * rank to itself take the driver's. A route is a row of the table in routes.c.
 *
 * The route of a library owns the memory that messages access: one allocation with the same layout on all ranks, in
 * which the heap, the words and the areas for sending have the same offsets (ls_cuda_symmetric).
 */
#ifndef LS_DEVICE_CUDA_ROUTE_H
#define LS_DEVICE_CUDA_ROUTE_H

#include "device/cuda/cuda_impl.h"

struct ls_cuda_route {
    const char *name;
    /*
     * Puts of a queue that may be outstanding: a further call blocks within the library, behind a wait for other ranks
     * perhaps for ever. 0: only launches are limited (CUDA_ROOM). A message that needs more than half of `room` is
     * large.
     */
    size_t room;
    /*
     * Loads the library. LS_UNSUPPORTED: it is missing, too old, or lacks a function. NULL: the route has no library.
     */
    ls_status (*load)(cuda *c);
    /* Collective. Makes the heap, and finds the addresses for messages to each rank. */
    ls_status (*connect)(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap, ls_device_remote *out);
    /* Puts the message on the stream. */
    ls_status (*message)(cuda_submission *s);
    /* The failure of an earlier message, if one is known. Any thread. NULL: streams report all failures. */
    ls_status (*check)(cuda *c);
    /* After all launches have been executed. Collective. */
    void (*close)(cuda *c);
};

extern const ls_cuda_route ls_cuda_route_driver;
extern const ls_cuda_route ls_cuda_route_nvshmem;
extern const ls_cuda_route ls_cuda_route_nccl;

/* --- the memory of a library -------------------------------------------------------------------------------------- */

/* Bytes of each queue's area in which pieces are gathered before they are sent in one call. */
enum { CUDA_PACKED_BYTES = 4 << 20 };
/* Bytes of the first message of one rank to another. */
enum { CUDA_PROBE_BYTES = 256 };
/* Words for first messages, in addition to those of programs; each rank that sets words has one of each kind. */
enum { CUDA_PROBE_PIECE, CUDA_PROBE_PIECES, CUDA_PROBE_PLAIN, CUDA_PROBE_WORDS };

/* Offsets are the same on all ranks. */
typedef struct ls_cuda_symmetric {
    char library[64]; /* its name and version, for messages */
    int rank, ranks;
    ls_cuda_address base; /* the allocation, which begins with the heap */
    size_t bytes;
    int n_words;          /* words of programs; those of first messages follow */
    size_t words;         /* the words that other ranks set */
    size_t values;        /* by word: the value that this rank sends, if a library can only send bytes */
    size_t packed;        /* by queue: the area for gathering pieces */
    size_t sent;          /* by rank: bytes of first messages that are sent */
    size_t came;          /* by rank: bytes of first messages that have arrived */
    ls_cuda_address seen; /* this rank's words in memory of the host, where the host can read them; 0: there are none */
    /* For a route that counts signals: by word the generation sent last, then by word the generation awaited last. */
    uint64_t last[];
} ls_cuda_symmetric;

/*
 * Collective: makes c->symmetric; the caller sets `base` and `library`. LS_UNSUPPORTED: two ranks use one GPU or, if
 * one_per_process, are in one process.
 */
LS_MUST_USE ls_status ls_cuda_symmetric_plan(cuda *c, const ls_device_ranks *ranks, size_t heap_bytes,
                                             bool one_per_process);
/*
 * Collective, called when `base` is set, or the allocation has failed (`made`): zeroes the memory, sets the arena and
 * the remotes, and makes each rank send the others first messages of all kinds (probe.c). LS_UNSUPPORTED says what did
 * not arrive.
 */
LS_MUST_USE ls_status ls_cuda_symmetric_open(ls_device *device, const ls_device_ranks *ranks, ls_status made,
                                             ls_device_arena *heap, ls_device_remote *out);
/* The number of the word that a rank sets by a first message; the number of a message's word. Programs': < n_words. */
static inline int ls_cuda_probe_word(const ls_cuda_symmetric *s, int rank, int kind) {
    return s->n_words + CUDA_PROBE_WORDS * rank + kind;
}
static inline int ls_cuda_word(const ls_cuda_symmetric *s, const ls_device_message *m) {
    return (int)(((uintptr_t)m->word - s->base - s->words) / sizeof(uint64_t));
}
/* Sets the word in memory of the host too, so that the host sees that a wait is over. */
LS_MUST_USE ls_status ls_cuda_show(cuda_submission *s);
/*
 * Sends what a message copies by calls of `put`. The source of each call is contiguous in memory that the library owns:
 * if the message's source is elsewhere, or in several pieces, it is gathered first. last: the last call of the message.
 */
typedef ls_status (*ls_cuda_put)(cuda_submission *s, ls_cuda_address target, ls_cuda_address source, size_t bytes,
                                 bool last);
LS_MUST_USE ls_status ls_cuda_send(cuda_submission *s, ls_cuda_put put);
/* probe.c. Collective: exchanges first messages with all other ranks. */
LS_MUST_USE ls_status ls_cuda_probe(cuda *c, const ls_device_ranks *ranks);

/* --- libraries ---------------------------------------------------------------------------------------------------- */

typedef struct ls_cuda_function {
    const char *name;
    size_t offset; /* of its pointer in the struct of pointers */
} ls_cuda_function;
/*
 * library.c. Loads the file that the environment variable names, else `file`, and sets the pointers. The library is
 * never unloaded. LS_UNSUPPORTED: it is missing, or lacks a function.
 */
LS_MUST_USE ls_status ls_cuda_library_load(const char *variable, const char *file, const ls_cuda_function *functions,
                                           size_t n, void *pointers);

#endif
