/*
 * The driver for tests by itself (cuda/driver/fake.h): programs that would hang on a GPU, or use what is gone, end
 * their process with a message that says so, and what differs from them in that alone goes on.
 */
#include "device/cuda/driver.h"
#include "kernel/cuda/cublaslt.h"
#include "kernel/cuda/cudnn.h"
#include "support/fake_cuda.h"
#include "support/process.h"
#include "support/world.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { MOST_STREAMS = 40, FIRST_DEVICE = 0, COPIED = 64 };

/* A context with streams, words that these wait for, and memory of the device. */
typedef struct rig {
    ls_cuda_driver driver;
    ls_cuda_context context;
    int device;
    ls_cuda_stream stream[MOST_STREAMS];
    ls_cuda_address words, memory;
} rig;

static void good(unsigned result) { LS_ASSERT(result == 0); }

static rig open_rig(const char *settings, int streams) {
    rig r;
    void *words;
    use_fake_cuda(settings);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    LS_ASSERT(ls_cuda_driver_load(&r.driver).code == LS_OK);
    good(r.driver.cuDeviceGet(&r.device, FIRST_DEVICE));
    good(r.driver.cuDevicePrimaryCtxRetain(&r.context, r.device));
    good(r.driver.cuCtxSetCurrent(r.context));
    good(r.driver.cuMemAlloc_v2(&r.memory, 2 * COPIED));
    good(r.driver.cuMemHostAlloc(&words, sizeof(uint64_t) * MOST_STREAMS, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED));
    memset(words, 0, sizeof(uint64_t) * MOST_STREAMS);
    good(r.driver.cuMemHostGetDevicePointer_v2(&r.words, words, 0));
    for (int i = 0; i < streams; i++)
        good(r.driver.cuStreamCreateWithPriority(&r.stream[i], LS_CUDA_STREAM_NON_BLOCKING, 0));
    return r;
}

/* The stream waits until the word is the value or greater, or writes it. */
static void give(const rig *r, int stream, bool waits, int word, uint64_t value) {
    ls_cuda_word_op op = {.operation = waits ? LS_CUDA_WAIT_WORD : LS_CUDA_WRITE_WORD};
    op.waitValue.address = r->words + sizeof(uint64_t) * (size_t)word;
    op.waitValue.value64 = value;
    good(r->driver.cuStreamBatchMemOp_v2(r->stream[stream], 1, &op, 0));
}

/* --- ways to the hardware ----------------------------------------------------------------------------------------- */

typedef struct chain {
    const char *settings;
    int streams;
} chain;

/* Each stream waits for the next one, which is launched later. An H200 goes on with 32 and hangs with 33. */
static bool ends(void *context) {
    const chain *c = context;
    const rig r = open_rig(c->settings, c->streams);
    for (int i = 0; i < c->streams; i++) {
        if (i + 1 < c->streams) give(&r, i, true, i + 1, 1);
        give(&r, i, false, i, 1);
    }
    return r.driver.cuStreamSynchronize(r.stream[0]) == 0;
}

/* Two streams, of which one copies after it has waited for the other, which copies too. */
typedef struct copying {
    const char *settings;
    int first; /* that is launched: 0: the one that waits */
} copying;

static bool copies(void *context) {
    const copying *c = context;
    const rig r = open_rig(c->settings, 2);
    for (int turn = 0; turn < 2; turn++) {
        const int stream = turn ^ c->first;
        if (stream == 0) give(&r, 0, true, 0, 1);
        good(r.driver.cuMemcpyDtoDAsync_v2(r.memory, r.memory + COPIED, COPIED, r.stream[stream]));
        if (stream == 1) give(&r, 1, false, 0, 1);
    }
    return r.driver.cuStreamSynchronize(r.stream[0]) == 0;
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

/* Two streams that wait for each other so often. */
enum { TURNS = 20 };

typedef struct graphs {
    const char *settings;
    bool by_two_threads, second_is_none; /* it is launched without a graph */
} graphs;

typedef struct side {
    rig *r;
    int stream;
    ls_cuda_executable graph; /* NULL: none */
} side;

static void give_turns(const rig *r, int stream) {
    for (uint64_t t = 1; t <= TURNS; t++) {
        if (stream == 0) give(r, 0, true, 1, t);
        give(r, stream, false, stream, t);
        if (stream == 1) give(r, 1, true, 0, t);
    }
}

static ls_cuda_executable make_graph(const rig *r, int stream) {
    ls_cuda_graph graph;
    ls_cuda_executable executable;
    good(r->driver.cuStreamBeginCapture_v2(r->stream[stream], LS_CUDA_CAPTURE_RELAXED));
    give_turns(r, stream);
    good(r->driver.cuStreamEndCapture(r->stream[stream], &graph));
    good(r->driver.cuGraphInstantiateWithFlags(&executable, graph, 0));
    good(r->driver.cuGraphUpload(executable, r->stream[stream]));
    return executable;
}

static void *launch_side(void *context) {
    const side *s = context;
    good(s->r->driver.cuCtxSetCurrent(s->r->context));
    if (s->graph != NULL)
        good(s->r->driver.cuGraphLaunch(s->graph, s->r->stream[s->stream]));
    else
        give_turns(s->r, s->stream);
    return NULL;
}

static bool alternate(void *context) {
    const graphs *g = context;
    rig r = open_rig(g->settings, 2);
    side sides[2] = {{&r, 0, make_graph(&r, 0)}, {&r, 1, g->second_is_none ? NULL : make_graph(&r, 1)}};
    pthread_t thread;
    if (g->by_two_threads) {
        LS_ASSERT(pthread_create(&thread, NULL, launch_side, &sides[0]) == 0);
        while (r.driver.cuStreamQuery(r.stream[0]) != LS_CUDA_NOT_READY) sleep_seconds(1e-3); /* it is there first */
    } else {
        launch_side(&sides[0]);
    }
    launch_side(&sides[1]);
    if (g->by_two_threads) pthread_join(thread, NULL);
    return r.driver.cuStreamSynchronize(r.stream[0]) == 0;
}

/* --- handles of libraries ----------------------------------------------------------------------------------------- */

typedef enum fate { KEPT, RELEASED, USED } fate; /* of a context: USED: the handle is used after its release */

static void release_context(const rig *r, fate is) {
    ls_cuda_context again;
    if (is == KEPT) return;
    good(r->driver.cuDevicePrimaryCtxRelease_v2(r->device));
    good(r->driver.cuDevicePrimaryCtxRetain(&again, r->device));
    good(r->driver.cuCtxSetCurrent(again));
}

static void find(const char *file, const char *name, void *function) {
    void *const library = dlopen(file, RTLD_NOW);
    void *const found = library != NULL ? dlsym(library, name) : NULL;
    LS_ASSERT(found != NULL);
    memcpy(function, &found, sizeof found);
}
#define FIND(file, name)               \
    __typeof__(name) *stand_in_##name; \
    find(LS_TEST_FAKES file, #name, &stand_in_##name)

static bool cublaslt_goes_on(void *context) {
    const fate *is = context;
    const rig r = open_rig("", 0);
    cublasLtHandle_t handle;
    FIND("libcublasLt.so.13", cublasLtCreate);
    FIND("libcublasLt.so.13", cublasLtDestroy);
    FIND("libcublasLt.so.13", cublasLtMatmulAlgoGetHeuristic);
    good(stand_in_cublasLtCreate(&handle));
    release_context(&r, *is);
    if (*is == USED)
        good(stand_in_cublasLtMatmulAlgoGetHeuristic(handle, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL));
    return stand_in_cublasLtDestroy(handle) == CUBLAS_STATUS_SUCCESS;
}

static bool cudnn_goes_on(void *context) {
    const fate *is = context;
    const rig r = open_rig("", 0);
    cudnnHandle_t handle;
    FIND("libcudnn.so.9", cudnnCreate);
    FIND("libcudnn.so.9", cudnnDestroy);
    FIND("libcudnn.so.9", cudnnSetStream);
    good(stand_in_cudnnCreate(&handle));
    release_context(&r, *is);
    if (*is != RELEASED) good(stand_in_cudnnSetStream(handle, NULL));
    return stand_in_cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------------ */

#define FULL "the launch of a graph waits for a stream that is full"
#define NEVER "somebody waits for a stream that never ends"
#define DEAD " of a stand-in: its handle was made in a context that has been released, or in another"
#define DESTROYED(library) library "Destroy" DEAD

static void test_what_hangs_is_named(void **state) {
    (void)state;
    static const chain own = {"", 32}, too_many = {"", 33}, shared = {"ways=32,patience=1", 33}, two = {"ways=1", 1},
                       few = {"ways=2,patience=1", 3};
    static const copying apart = {"", 0}, in_order = {"copies=1", 1}, behind = {"copies=1,patience=1", 0},
                         by_two = {"copies=2", 0};
    static const graphs fits = {"depth=40", false, false}, full = {"depth=39,patience=1", false, false},
                        others = {"depth=39,patience=1", true, false}, launched = {"depth=39,patience=1", true, true},
                        both = {"depth=40", true, true};
    static const fate kept = KEPT, released = RELEASED, used = USED;
    static const struct {
        const char *name;
        bool (*f)(void *context);
        const void *context;
        const char *says; /* NULL: it goes on */
    } cases[] = {
        {"32 streams with ways of their own", ends, &own, NULL},
        {"33 streams", ends, &too_many, "streams share a way to the hardware"},
        {"33 streams, of which two share a way", ends, &shared, NEVER},
        {"a stream on one way", ends, &two, NULL},
        {"three streams on two ways", ends, &few, NEVER},
        {"copies of their own", copies, &apart, NULL},
        {"a copy before the one that waits", copies, &in_order, NULL},
        {"a copy behind one that waits", copies, &behind, NEVER},
        {"two channels for copies", copies, &by_two, NULL},
        {"graphs that a stream takes", alternate, &fits, NULL},
        {"a graph that is too deep", alternate, &full, FULL},
        {"a graph launched beside one that is too deep", alternate, &others, FULL},
        {"words launched beside a graph that is too deep", alternate, &launched, FULL},
        {"words launched beside a graph", alternate, &both, NULL},
        {"cuBLASLt in its context", cublaslt_goes_on, &kept, NULL},
        {"cuDNN in its context", cudnn_goes_on, &kept, NULL},
        {"cuBLASLt destroyed after its context", cublaslt_goes_on, &released, DESTROYED("cublasLt")},
        {"cuDNN destroyed after its context", cudnn_goes_on, &released, DESTROYED("cudnn")},
        {"cuBLASLt used after its context", cublaslt_goes_on, &used, "cublasLtMatmulAlgoGetHeuristic" DEAD},
        {"cuDNN used after its context", cudnn_goes_on, &used, "cudnnSetStream" DEAD},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char text[256];
        const bool goes_on = is_true_in_a_process(cases[i].f, (void *)(uintptr_t)cases[i].context, text, sizeof text);
        if (goes_on != (cases[i].says == NULL) || (!goes_on && strstr(text, cases[i].says) == NULL))
            fail_msg("%s: expected \"%s\", got \"%s\"", cases[i].name, cases[i].says != NULL ? cases[i].says : "",
                     text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_hangs_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
