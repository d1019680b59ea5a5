/* Streams: how many can wait for each other, how fast, how much they take, and what waits beside one that is held. */
#include "micro.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- chain -------------------------------------------------------------------------------------------------------- */

static const double PATIENCE = 2.5;

/* Stream i waits for word i and then writes word i + 1; the last is given its work first. */
void micro_chain(micro *m) {
    static const int sizes[] = {8, 16, 24, 32, 33, 48, 64};
    ls_cuda_stream streams[MICRO_STREAMS];
    const int most = m->nothing != NULL ? MICRO_STREAMS : 32; /* the driver for tests ends the process beyond */
    int made = 0;
    for (size_t s = 0; s < LS_COUNT(sizes) && sizes[s] <= most; s++) {
        const int n = sizes[s];
        micro_rescue rescue;
        while (made < n) streams[made++] = micro_stream(m);
        micro_clear(m);
        micro_rescue_begin(m, PATIENCE, &rescue);
        for (int i = n - 1; i >= 0; i--) {
            micro_await(m, streams[i], micro_word(m, i), 1);
            micro_work(m, streams[i]);
            micro_write(m, streams[i], micro_word(m, i + 1), 1);
        }
        const double start = ls_seconds();
        atomic_store(&m->words[0], 1);
        const bool ended = micro_reached(m, n, 1, PATIENCE + 1);
        const double seconds = ls_seconds() - start;
        const bool rescued = micro_rescue_end(&rescue);
        micro_found(m, "%d streams in a chain: %s, %.2f us a stream", n, rescued || !ended ? "BLOCKED" : "goes on",
                    seconds / n * 1e6);
        for (int i = 0; i < n; i++) MICRO_CALL(m, cuStreamSynchronize, streams[i]);
    }
}

/* --- latency ------------------------------------------------------------------------------------------------------ */

enum { HOPS = 100, HELD = 0, ENDED = 1, PING = 2, PONG = 3, ECHOES = 50 };

/* The median of a few runs of HOPS trips between two streams, in microseconds a hop. */
static double time_hops(const micro *m, void (*put)(const micro *, ls_cuda_stream, ls_cuda_stream, int)) {
    double seconds[5];
    const ls_cuda_stream a = micro_stream(m), b = micro_stream(m);
    for (size_t r = 0; r < LS_COUNT(seconds); r++) {
        micro_clear(m);
        MICRO_CALL(m, cuMemsetD8Async, m->own_words, 0, MICRO_WORDS * 8, a);
        MICRO_CALL(m, cuStreamSynchronize, a);
        micro_await(m, a, micro_word(m, HELD), 1);
        for (int i = 0; i < HOPS; i++) put(m, a, b, i);
        micro_write(m, a, micro_word(m, ENDED), 1);
        const double start = ls_seconds();
        atomic_store(&m->words[HELD], 1);
        if (!micro_reached(m, ENDED, 1, 5)) micro_found(m, "trips between two streams did not end in 5 s");
        seconds[r] = ls_seconds() - start;
        MICRO_CALL(m, cuStreamSynchronize, b);
    }
    return ls_median(seconds, (int)LS_COUNT(seconds)) / (2 * HOPS) * 1e6;
}

/* With a kernel before each hop, since what is said of a stream that has done nothing may be left out. */
static void put_trip(const micro *m, ls_cuda_address words, ls_cuda_stream a, ls_cuda_stream b, int i) {
    micro_work(m, a);
    micro_write(m, a, words + 8 * PING, (uint64_t)i + 1);
    micro_await(m, b, words + 8 * PING, (uint64_t)i + 1);
    micro_work(m, b);
    micro_write(m, b, words + 8 * PONG, (uint64_t)i + 1);
    micro_await(m, a, words + 8 * PONG, (uint64_t)i + 1);
}
static void put_by_host_words(const micro *m, ls_cuda_stream a, ls_cuda_stream b, int i) {
    put_trip(m, m->words_at, a, b, i);
}
static void put_by_own_words(const micro *m, ls_cuda_stream a, ls_cuda_stream b, int i) {
    put_trip(m, m->own_words, a, b, i);
}
static void put_by_events(const micro *m, ls_cuda_stream a, ls_cuda_stream b, int i) {
    static micro_event events[2 * HOPS];
    enum { NO_TIMING = 2 };
    for (int e = 2 * i; e < 2 * i + 2; e++)
        if (events[e] == NULL) MICRO_MORE(m, cuEventCreate, &events[e], NO_TIMING);
    micro_work(m, a);
    MICRO_MORE(m, cuEventRecord, events[2 * i], a);
    MICRO_MORE(m, cuStreamWaitEvent, b, events[2 * i], 0);
    micro_work(m, b);
    MICRO_MORE(m, cuEventRecord, events[2 * i + 1], b);
    MICRO_MORE(m, cuStreamWaitEvent, a, events[2 * i + 1], 0);
}

/* From a word that the host writes to one that the host reads. */
static double time_echo(const micro *m) {
    double seconds[ECHOES];
    const ls_cuda_stream stream = micro_stream(m);
    micro_clear(m);
    for (int i = 0; i < ECHOES; i++) {
        micro_await(m, stream, micro_word(m, PING), (uint64_t)i + 1);
        micro_write(m, stream, micro_word(m, PONG), (uint64_t)i + 1);
    }
    for (int i = 0; i < ECHOES; i++) {
        const double start = ls_seconds();
        atomic_store(&m->words[PING], (uint64_t)i + 1);
        if (!micro_reached(m, PONG, (uint64_t)i + 1, 5)) micro_found(m, "a word of the host was not seen in 5 s");
        seconds[i] = ls_seconds() - start;
    }
    return ls_median(seconds, ECHOES) * 1e6;
}

/* A chain of kernels on one stream, with a word written after each and without; microseconds a kernel. */
static double time_kernels(const micro *m, ls_cuda_address word) {
    double seconds[5];
    const ls_cuda_stream stream = micro_stream(m);
    for (size_t r = 0; r < LS_COUNT(seconds); r++) {
        micro_clear(m);
        micro_await(m, stream, micro_word(m, HELD), 1);
        for (int i = 0; i < 2 * HOPS; i++) {
            micro_work(m, stream);
            if (word != 0) micro_write(m, stream, word, (uint64_t)i + 1);
        }
        micro_write(m, stream, micro_word(m, ENDED), 1);
        const double start = ls_seconds();
        atomic_store(&m->words[HELD], 1);
        (void)micro_reached(m, ENDED, 1, 5);
        seconds[r] = ls_seconds() - start;
        MICRO_CALL(m, cuStreamSynchronize, stream);
    }
    return ls_median(seconds, (int)LS_COUNT(seconds)) / (2 * HOPS) * 1e6;
}

void micro_latency(micro *m) {
    micro_found(m, "host to stream and back by words: %.2f us", time_echo(m));
    micro_found(
        m,
        "a kernel behind another: %.2f us; with a word of the host's memory behind each: %.2f; of the device's: %.2f",
        time_kernels(m, 0), time_kernels(m, micro_word(m, PING)), time_kernels(m, m->own_words + 8 * PING));
    micro_found(m, "a kernel and from stream to stream by a word of the host's memory: %.2f us",
                time_hops(m, put_by_host_words));
    micro_found(m, "a kernel and from stream to stream by a word of the device's memory: %.2f us",
                time_hops(m, put_by_own_words));
    if (m->more.cuEventCreate != NULL)
        micro_found(m, "a kernel and from stream to stream by an event: %.2f us", time_hops(m, put_by_events));
}

/* --- wake --------------------------------------------------------------------------------------------------------- */

/*
 * From a release to the word behind it, where the stream has waited for so long; microseconds, the median of some runs.
 * kernels: behind the wait, the word behind the first.
 */
static double time_release(const micro *m, double held, int kernels) {
    double seconds[9];
    const ls_cuda_stream stream = micro_stream(m);
    for (size_t r = 0; r < LS_COUNT(seconds); r++) {
        micro_clear(m);
        micro_await(m, stream, micro_word(m, HELD), 1);
        if (kernels > 0) micro_work(m, stream);
        micro_write(m, stream, micro_word(m, ENDED), 1);
        for (int k = 1; k < kernels; k++) micro_work(m, stream);
        double start = ls_seconds();
        while (ls_seconds() - start < held) {
        }
        start = ls_seconds();
        atomic_store(&m->words[HELD], 1);
        (void)micro_reached(m, ENDED, 1, 5);
        seconds[r] = ls_seconds() - start;
        MICRO_CALL(m, cuStreamSynchronize, stream);
    }
    MICRO_CALL(m, cuStreamDestroy_v2, stream);
    return ls_median(seconds, (int)LS_COUNT(seconds)) * 1e6;
}

void micro_wake(micro *m) {
    static const double held[] = {1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 3e-2};
    for (int streams = 0; streams <= 16; streams += 16) {
        for (int s = 0; s < streams; s++) micro_work(m, micro_stream(m));
        for (size_t i = 0; i < LS_COUNT(held); i++)
            micro_found(m,
                        "beside %d idle streams, held for %.2f ms: a word after %.1f us; behind a kernel, 100 more "
                        "behind it: %.1f us",
                        streams, held[i] * 1e3, time_release(m, held[i], 0), time_release(m, held[i], 101));
    }
}

/* --- depth -------------------------------------------------------------------------------------------------------- */

/* Launches on a stream that is held, until one takes long. words: with a word written behind each. */
static void find_depth(const micro *m, bool words) {
    enum { MOST = 1 << 15 };
    static const double LONG = 0.5;
    const ls_cuda_stream stream = micro_stream(m);
    micro_rescue rescue;
    int n = 0;
    micro_clear(m);
    micro_rescue_begin(m, PATIENCE, &rescue);
    micro_await(m, stream, micro_word(m, HELD), 1);
    for (double start; n < MOST && !atomic_load(&rescue.came); n++) {
        start = ls_seconds();
        micro_work(m, stream);
        if (words) micro_write(m, stream, micro_word(m, PING), 1);
        if (ls_seconds() - start > LONG) break;
    }
    atomic_store(&m->words[HELD], 1);
    (void)micro_rescue_end(&rescue);
    micro_found(m, "a stream that is held takes %s%d kernels%s", n == MOST ? "more than " : "", n,
                words ? ", with a word behind each," : "");
    MICRO_CALL(m, cuStreamSynchronize, stream);
}

void micro_depth(micro *m) {
    find_depth(m, false);
    find_depth(m, true);
}

/* --- beside ------------------------------------------------------------------------------------------------------- */

typedef struct aside {
    ls_cuda_stream stream;
    void *memory;
    ls_cuda_address allocated;
} aside;

static void copy_beside(const micro *m, aside *a) {
    MICRO_CALL(m, cuMemcpyHtoDAsync_v2, m->own_words, a->memory, 1 << 12, a->stream);
    MICRO_CALL(m, cuStreamSynchronize, a->stream);
}
static void set_beside(const micro *m, aside *a) {
    MICRO_CALL(m, cuMemsetD8Async, m->own_words, 0, 1 << 12, a->stream);
    MICRO_CALL(m, cuStreamSynchronize, a->stream);
}
static void compute_beside(const micro *m, aside *a) {
    micro_work(m, a->stream);
    MICRO_CALL(m, cuStreamSynchronize, a->stream);
}
static void compute_with_local_memory(const micro *m, aside *a) {
    void *parameters[] = {&a->allocated};
    a->allocated = m->own_words;
    if (m->local == NULL) return;
    MICRO_MORE(m, cuLaunchKernel, m->local, 1, 1, 1, 32, 1, 1, 0, a->stream, parameters, NULL);
    MICRO_CALL(m, cuStreamSynchronize, a->stream);
}
static void allocate_beside(const micro *m, aside *a) { MICRO_CALL(m, cuMemAlloc_v2, &a->allocated, 1 << 28); }
static void free_beside(const micro *m, aside *a) { MICRO_CALL(m, cuMemFree_v2, a->allocated); }
static void pin_beside(const micro *m, aside *a) {
    MICRO_CALL(m, cuMemHostAlloc, &a->memory, 1 << 20, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED);
}
static void make_stream_beside(const micro *m, aside *a) { a->stream = micro_stream(m); }
static void make_graph_beside(const micro *m, aside *a) {
    ls_cuda_graph graph;
    ls_cuda_executable executable;
    MICRO_CALL(m, cuStreamBeginCapture_v2, a->stream, LS_CUDA_CAPTURE_RELAXED);
    micro_work(m, a->stream);
    MICRO_CALL(m, cuStreamEndCapture, a->stream, &graph);
    MICRO_CALL(m, cuGraphInstantiateWithFlags, &executable, graph, 0);
    MICRO_CALL(m, cuGraphUpload, executable, a->stream);
    MICRO_CALL(m, cuGraphLaunch, executable, a->stream);
    MICRO_CALL(m, cuStreamSynchronize, a->stream);
}
static void register_beside(const micro *m, aside *a) {
    const size_t bytes = m->nothing != NULL ? (size_t)1 << 32 : 1 << 24;
    (void)a;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    MICRO_CALL(m, cuMemHostRegister_v2, memory, bytes, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED);
}

void micro_beside(micro *m) {
    static const struct {
        const char *what;
        void (*run)(const micro *, aside *);
    } calls[] = {
        {"a copy from the host", copy_beside},
        {"setting bytes", set_beside},
        {"a kernel", compute_beside},
        {"a kernel with 64 KiB of local memory a thread", compute_with_local_memory},
        {"allocating 256 MiB", allocate_beside},
        {"freeing it", free_beside},
        {"pinning 1 MiB", pin_beside},
        {"making a stream", make_stream_beside},
        {"making a graph and launching it", make_graph_beside},
        {"registering 4 GiB of untouched memory", register_beside},
    };
    aside a = {.stream = micro_stream(m)};
    const ls_cuda_stream held = micro_stream(m);
    MICRO_CALL(m, cuMemHostAlloc, &a.memory, 1 << 20, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED);
    for (size_t i = 0; i < LS_COUNT(calls); i++) {
        micro_rescue rescue;
        micro_clear(m);
        micro_rescue_begin(m, PATIENCE, &rescue);
        micro_await(m, held, micro_word(m, HELD), 1);
        micro_work(m, held);
        const double start = ls_seconds();
        calls[i].run(m, &a);
        const double seconds = ls_seconds() - start;
        micro_found(m, "%s, beside a stream that is held: %s, %.3f ms", calls[i].what,
                    micro_rescue_end(&rescue) ? "WAITS" : "does not wait", seconds * 1e3);
        atomic_store(&m->words[HELD], 1);
        MICRO_CALL(m, cuStreamSynchronize, held);
    }
}

/* --- handles ------------------------------------------------------------------------------------------------------ */

void micro_handles(micro *m) {
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    void *library = NULL, *handle = NULL;
    for (size_t i = 0; library == NULL && i < LS_COUNT(files); i++) library = dlopen(files[i], RTLD_NOW);
    void *const made = library != NULL ? dlsym(library, "cublasLtCreate") : NULL, *const ended =
                                                                                      library != NULL
                                                                                          ? dlsym(library,
                                                                                                  "cublasLtDestroy")
                                                                                          : NULL;
    int (*create)(void **), (*destroy)(void *);
    if (made == NULL || ended == NULL) {
        micro_found(m, "cuBLASLt is not there");
        return;
    }
    memcpy(&create, &made, sizeof create);
    memcpy(&destroy, &ended, sizeof destroy);
    const double start = ls_seconds();
    const int created = create(&handle);
    micro_found(m, "making a handle of cuBLASLt: %d, %.1f ms", created, (ls_seconds() - start) * 1e3);
    if (created != 0) return;
    MICRO_CALL(m, cuDevicePrimaryCtxRelease_v2, m->device);
    micro_found(m, "destroying it after its context: %d", destroy(handle));
}
