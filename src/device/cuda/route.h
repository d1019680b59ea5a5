/*
 * Routes: how messages of a CUDA device reach other ranks. All ranks of a world use one route, but for what a rank says
 * to itself, which is the driver's. A row of the table in routes.c.
 *
 * The route of a library owns the memory that messages access: one allocation of the same form on all ranks, in which
 * the heap, the words and what is sent from lie at the same places (ls_cuda_symmetric).
 */
#ifndef LS_DEVICE_CUDA_ROUTE_H
#define LS_DEVICE_CUDA_ROUTE_H

#include "device/cuda/cuda_impl.h"

struct ls_cuda_route {
    const char *name;
    /*
     * Puts of a queue that may be outstanding: a call beyond waits within the library, behind what waits for other
     * ranks perhaps for ever. 0: as many as launches (CUDA_ROOM). A message that needs more than half is large.
     */
    size_t room;
    /* Loads the library. LS_UNSUPPORTED: it is missing, too old, or lacks a function. NULL: there is none. */
    ls_status (*load)(cuda *c);
    /* Collective. Makes the heap, and says where messages find each rank. */
    ls_status (*connect)(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap, ls_device_remote *out);
    /* Gives the stream its message. */
    ls_status (*message)(cuda_submission *s);
    /* Whether what was sent has failed since, as far as is known. Any thread. NULL: streams tell all. */
    ls_status (*check)(cuda *c);
    /* After all that was launched has been executed. Collective. */
    void (*close)(cuda *c);
};

extern const ls_cuda_route ls_cuda_route_driver;
extern const ls_cuda_route ls_cuda_route_nvshmem;
extern const ls_cuda_route ls_cuda_route_nccl;

/* --- the memory of a library -------------------------------------------------------------------------------------- */

/* Bytes that are gathered from pieces before they are sent at once, by queue. */
enum { CUDA_PACKED_BYTES = 4 << 20 };
/* Bytes that the first message of one rank to another has. */
enum { CUDA_PROBE_BYTES = 256 };
/* Words beside those of programs, by rank that sets them. */
enum { CUDA_PROBE_PIECE, CUDA_PROBE_PIECES, CUDA_PROBE_PLAIN, CUDA_PROBE_WORDS };

/* Offsets are the same on all ranks. */
typedef struct ls_cuda_symmetric {
    char library[64]; /* its name and version, for messages */
    int rank, ranks;
    ls_cuda_address base; /* the heap lies there */
    size_t bytes;
    int n_words;   /* of programs; those of probes follow */
    size_t words;  /* what others set */
    size_t values; /* by word: what this rank sets it to, where a library sends bytes alone */
    size_t packed; /* by queue */
    size_t sent;   /* by rank: the bytes of first messages */
    size_t came;
    ls_cuda_address seen; /* this rank's words on the host, for whoever looks at them; 0: there are none */
    /* For a route that counts: of each word the generation that was sent last, then of each the one awaited last. */
    uint64_t last[];
} ls_cuda_symmetric;

/*
 * Collective: makes c->symmetric; its `base` and `library` are still to be set. LS_UNSUPPORTED: two ranks use one GPU,
 * or, where only one may be in a process, are in one.
 */
LS_MUST_USE ls_status ls_cuda_symmetric_plan(cuda *c, const ls_device_ranks *ranks, size_t heap_bytes,
                                             bool one_per_process);
/*
 * Collective, when `base` is set or the allocation has failed (`made`): zeroes the memory, sets up the arena and the
 * remotes, and lets each rank send the others first messages of all kinds (probe.c). LS_UNSUPPORTED says
 * what did not come.
 */
LS_MUST_USE ls_status ls_cuda_symmetric_open(ls_device *device, const ls_device_ranks *ranks, ls_status made,
                                             ls_device_arena *heap, ls_device_remote *out);
/* The number of the word that a rank sets in a probe; and of a message's word. Those of programs are below n_words. */
static inline int ls_cuda_probe_word(const ls_cuda_symmetric *s, int rank, int kind) {
    return s->n_words + CUDA_PROBE_WORDS * rank + kind;
}
static inline int ls_cuda_word(const ls_cuda_symmetric *s, const ls_device_message *m) {
    return (int)(((uintptr_t)m->word - s->base - s->words) / sizeof(uint64_t));
}
/* Shows the host that a wait is over. */
LS_MUST_USE ls_status ls_cuda_show(cuda_submission *s);
/*
 * Sends what a message copies by calls of `put`, each for bytes in one piece of memory that the library owns: what lies
 * elsewhere, or in pieces that are one at the target, is gathered first. last: of the message.
 */
typedef ls_status (*ls_cuda_put)(cuda_submission *s, ls_cuda_address target, ls_cuda_address source, size_t bytes,
                                 bool last);
LS_MUST_USE ls_status ls_cuda_send(cuda_submission *s, ls_cuda_put put);
/* probe.c. Collective: first messages to all other ranks and from them. */
LS_MUST_USE ls_status ls_cuda_probe(cuda *c, const ls_device_ranks *ranks);

/* --- libraries ---------------------------------------------------------------------------------------------------- */

typedef struct ls_cuda_function {
    const char *name;
    size_t offset; /* of its pointer */
} ls_cuda_function;
/*
 * library.c. Loads the file that the environment's variable names, else `file`, and fills in the pointers. It is never
 * unloaded. LS_UNSUPPORTED: it is not there, or lacks a function.
 */
LS_MUST_USE ls_status ls_cuda_library_load(const char *variable, const char *file, const ls_cuda_function *functions,
                                           size_t n, void *pointers);

#endif
