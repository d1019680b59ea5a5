/*
 * What a CUDA driver does that no document says and that device/cuda/ builds on: small experiments over libcuda alone,
 * one a process (micro.c has the table). Each prints what it found as lines "name: what: value".
 */
#ifndef LS_BENCH_GPU_MICRO_H
#define LS_BENCH_GPU_MICRO_H

#include "device/cuda/driver.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct CUevent_st *micro_event;
typedef struct CUmod_st *micro_module;
typedef struct CUfunc_st *micro_function;

/* Functions of the driver beyond those of driver.h. The driver for tests has none of them. */
#define MICRO_FUNCTIONS(X)                                                                                       \
    X(cuModuleLoadData, (micro_module * module, const void *image))                                              \
    X(cuModuleGetFunction, (micro_function * function, micro_module module, const char *name))                   \
    X(cuLaunchKernel, (micro_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                       unsigned bz, unsigned shared, ls_cuda_stream stream, void **parameters, void **extra))    \
    X(cuEventCreate, (micro_event * event, unsigned flags))                                                      \
    X(cuEventRecord, (micro_event event, ls_cuda_stream stream))                                                 \
    X(cuStreamWaitEvent, (ls_cuda_stream stream, micro_event event, unsigned flags))                             \
    X(cuGraphGetNodes, (ls_cuda_graph graph, ls_cuda_node * nodes, size_t * n))

#define MICRO_FIELD(function, arguments) unsigned(*function) arguments;
typedef struct micro {
    const char *name; /* of the experiment */
    ls_cuda_driver driver;
    struct {
        MICRO_FUNCTIONS(MICRO_FIELD)
    } more; /* all NULL: the driver has them not */
    ls_cuda_context context;
    int device;
    micro_function nothing, local; /* a kernel that does nothing, and one with much local memory; NULL: none */
    _Atomic uint64_t *words;       /* [MICRO_WORDS], pinned memory of the host, */
    ls_cuda_address words_at;      /* as the device addresses it */
    ls_cuda_address own_words;     /* as many in memory of the device */
} micro;

enum { MICRO_WORDS = 4096, MICRO_STREAMS = 64 };

/* Ends the process with a message unless the result is LS_CUDA_SUCCESS. */
#define MICRO_CALL(m, function, ...) micro_check((m), (m)->driver.function(__VA_ARGS__), #function)
#define MICRO_MORE(m, function, ...) micro_check((m), (m)->more.function(__VA_ARGS__), #function)
void micro_check(const micro *m, unsigned result, const char *call);

/* Prints "name: what: value", printf-like. */
void micro_found(const micro *m, const char *format, ...) LS_PRINTF(2, 3);

ls_cuda_stream micro_stream(const micro *m);
/* Puts on a stream: a wait until the word is the value or more; a write; both at an address of the device. */
void micro_await(const micro *m, ls_cuda_stream stream, ls_cuda_address word, uint64_t value);
void micro_write(const micro *m, ls_cuda_stream stream, ls_cuda_address word, uint64_t value);
/* A kernel that does nothing; on the driver for tests four bytes are set. */
void micro_work(const micro *m, ls_cuda_stream stream);
static inline ls_cuda_address micro_word(const micro *m, int i) { return m->words_at + 8 * (ls_cuda_address)i; }

/* Waits at most so many seconds for a word of the host's memory to be the value or more; false: it is not. */
bool micro_reached(const micro *m, int word, uint64_t value, double seconds);
void micro_clear(const micro *m);

/*
 * A rescue: after `seconds` a thread sets all words of the host's memory to a great number, so that whatever waits for
 * them goes on. Its end says whether that was needed.
 */
typedef struct micro_rescue {
    const micro *m;
    double seconds;
    pthread_t thread;
    atomic_bool done, came;
} micro_rescue;
void micro_rescue_begin(const micro *m, double seconds, micro_rescue *rescue);
bool micro_rescue_end(micro_rescue *rescue);

/* The experiments: graphs.c, streams.c, products.c. */
void micro_node(micro *m);
void micro_blocked(micro *m);
void micro_chain(micro *m);
void micro_latency(micro *m);
void micro_depth(micro *m);
void micro_wake(micro *m);
void micro_beside(micro *m);
void micro_handles(micro *m);
void micro_products(micro *m);

#endif
