/* Graphs: nodes of words, and launches of long graphs that wait. */
#include "micro.h"

#include <stdlib.h>

/* A graph that is captured on a stream of its own. */
typedef struct captured {
    ls_cuda_graph graph;
    ls_cuda_executable executable;
    ls_cuda_stream stream; /* where it is launched */
    ls_cuda_node words;    /* the first node of words */
    size_t nodes;
    double made; /* seconds */
} captured;

static ls_cuda_node last_node(const micro *m, ls_cuda_stream stream) {
    const ls_cuda_node *last = NULL;
    unsigned status;
    size_t n = 0;
    MICRO_CALL(m, cuStreamGetCaptureInfo_v3, stream, &status, NULL, NULL, &last, NULL, &n);
    return n == 1 ? last[0] : NULL;
}

static captured begin(const micro *m) {
    captured c = {.stream = micro_stream(m), .made = ls_seconds()};
    MICRO_CALL(m, cuStreamBeginCapture_v2, c.stream, LS_CUDA_CAPTURE_RELAXED);
    return c;
}

static void end(const micro *m, captured *c) {
    MICRO_CALL(m, cuStreamEndCapture, c->stream, &c->graph);
    MICRO_CALL(m, cuGraphInstantiateWithFlags, &c->executable, c->graph, 0);
    MICRO_CALL(m, cuGraphUpload, c->executable, c->stream);
    MICRO_CALL(m, cuStreamSynchronize, c->stream);
    if (m->more.cuGraphGetNodes != NULL) MICRO_MORE(m, cuGraphGetNodes, c->graph, NULL, &c->nodes);
    c->made = ls_seconds() - c->made;
}

static void discard(const micro *m, const captured *c) {
    MICRO_CALL(m, cuStreamSynchronize, c->stream);
    MICRO_CALL(m, cuGraphExecDestroy, c->executable);
    MICRO_CALL(m, cuGraphDestroy, c->graph);
    MICRO_CALL(m, cuStreamDestroy_v2, c->stream);
}

/* --- node --------------------------------------------------------------------------------------------------------- */

enum { OPS = 8, SETS = 500 };

/* SETS nodes of a word each, between kernels. */
static void time_sets(const micro *m) {
    captured c = begin(m);
    ls_cuda_node nodes[SETS];
    for (int i = 0; i < SETS; i++) {
        micro_work(m, c.stream);
        micro_write(m, c.stream, micro_word(m, i), 1);
        nodes[i] = last_node(m, c.stream);
    }
    end(m, &c);
    double set = 0, launch[2] = {0, 0};
    for (int round = 0; round < 3; round++) {
        for (int sets = 0; sets < 2; sets++) {
            double start = ls_seconds();
            for (int i = 0; i < SETS && sets; i++) {
                ls_cuda_word_op op = {.writeValue = {LS_CUDA_WRITE_WORD, micro_word(m, i), (uint64_t)round + 2, 0, 0}};
                const ls_cuda_word_ops ops = {m->context, 1, &op, 0};
                MICRO_CALL(m, cuGraphExecBatchMemOpNodeSetParams, c.executable, nodes[i], &ops);
            }
            if (sets) set = ls_seconds() - start;
            start = ls_seconds();
            MICRO_CALL(m, cuGraphLaunch, c.executable, c.stream);
            launch[sets] = ls_seconds() - start;
            MICRO_CALL(m, cuStreamSynchronize, c.stream);
        }
    }
    micro_found(m, "setting the value of one of %d nodes: %.2f us", SETS, set / SETS * 1e6);
    micro_found(m, "launch of %d nodes: %.1f us; after all values were set: %.1f us", 2 * SETS, launch[0] * 1e6,
                launch[1] * 1e6);
    discard(m, &c);
}

void micro_node(micro *m) {
    captured c = begin(m);
    ls_cuda_word_op ops[OPS];
    for (int i = 0; i < OPS; i++)
        ops[i] = (ls_cuda_word_op){.writeValue = {LS_CUDA_WRITE_WORD, micro_word(m, i), 1, 0, 0}};
    MICRO_CALL(m, cuStreamBatchMemOp_v2, c.stream, OPS, ops, 0);
    c.words = last_node(m, c.stream);
    end(m, &c);
    if (m->more.cuGraphGetNodes != NULL)
        micro_found(m, "%d words that are captured together: %zu nodes, the last %s", OPS, c.nodes,
                    c.words != NULL ? "found" : "not found");
    MICRO_CALL(m, cuGraphLaunch, c.executable, c.stream);
    micro_found(m, "after a launch the last word is %llu, expected 1",
                micro_reached(m, OPS - 1, 1, 2) ? (unsigned long long)m->words[OPS - 1] : 0);
    for (int i = 0; i < OPS; i++) ops[i].writeValue.value64 = 7;
    const ls_cuda_word_ops set = {m->context, OPS, ops, 0};
    MICRO_CALL(m, cuGraphExecBatchMemOpNodeSetParams, c.executable, c.words, &set);
    MICRO_CALL(m, cuGraphLaunch, c.executable, c.stream);
    micro_found(m, "after values were set to 7, without an upload: %s",
                micro_reached(m, OPS - 1, 7, 2) ? "7" : "not 7");
    discard(m, &c);
    time_sets(m);
}

/* --- blocked ------------------------------------------------------------------------------------------------------ */

/* Seconds after which a launch counts as blocked. The words: what the first waits for, and where both have ended. */
static const double PATIENCE = 2.5;
enum { GATE, FIRST_ENDED, SECOND_ENDED, STEPS, BETWEEN = 64 };

/* A graph that waits at its first node, and the one that lets it go at its end. */
static void make_pair(const micro *m, int nodes, captured pair[2]) {
    pair[0] = begin(m);
    micro_await(m, pair[0].stream, micro_word(m, GATE), 1);
    for (int i = 0; i < nodes; i++) micro_work(m, pair[0].stream);
    micro_write(m, pair[0].stream, micro_word(m, FIRST_ENDED), 1);
    end(m, &pair[0]);
    pair[1] = begin(m);
    for (int i = 0; i < nodes; i++) micro_work(m, pair[1].stream);
    micro_write(m, pair[1].stream, micro_word(m, GATE), 1);
    micro_write(m, pair[1].stream, micro_word(m, SECOND_ENDED), 1);
    end(m, &pair[1]);
}

/* Two graphs that wait for each other again and again, as two queues of a program do. */
static void make_mutual(const micro *m, int nodes, captured pair[2]) {
    for (int g = 0; g < 2; g++) {
        pair[g] = begin(m);
        for (int i = 0; i < nodes; i += BETWEEN) {
            const int step = i / BETWEEN;
            if (g == 1 || step > 0)
                micro_await(m, pair[g].stream, micro_word(m, STEPS + (1 - g)), (uint64_t)(g == 1 ? step + 1 : step));
            for (int k = 0; k < BETWEEN; k++) micro_work(m, pair[g].stream);
            micro_write(m, pair[g].stream, micro_word(m, STEPS + g), (uint64_t)step + 1);
        }
        micro_write(m, pair[g].stream, micro_word(m, FIRST_ENDED + g), 1);
        end(m, &pair[g]);
    }
}

typedef struct launching {
    const micro *m;
    const captured *graph;
    double seconds;
} launching;

static void *launch(void *argument) {
    launching *l = argument;
    MICRO_CALL(l->m, cuCtxSetCurrent, l->m->context);
    const double start = ls_seconds();
    MICRO_CALL(l->m, cuGraphLaunch, l->graph->executable, l->graph->stream);
    l->seconds = ls_seconds() - start;
    return NULL;
}

/* order: which is launched first; both at once, each by a thread, where it is 2. */
static void launch_pair(const micro *m, const char *kind, int nodes, const captured pair[2], int order) {
    static const char *const orders[] = {"the waiting one first", "the waiting one last", "from two threads"};
    launching l[2] = {{m, &pair[0], 0}, {m, &pair[1], 0}};
    micro_rescue rescue;
    pthread_t thread;
    micro_clear(m);
    micro_rescue_begin(m, PATIENCE, &rescue);
    if (order == 2) LS_ASSERT(pthread_create(&thread, NULL, launch, &l[0]) == 0);
    launch(&l[order == 0 ? 0 : 1]);
    if (order == 2)
        (void)pthread_join(thread, NULL);
    else
        launch(&l[1 - order]);
    const double start = ls_seconds();
    const bool ended = micro_reached(m, FIRST_ENDED, 1, PATIENCE) && micro_reached(m, SECOND_ENDED, 1, PATIENCE);
    const double waited = ls_seconds() - start;
    const bool rescued = micro_rescue_end(&rescue);
    micro_found(m, "%s, %d nodes, %s: %s; launches %.0f and %.0f us, end %.0f us after them", kind, nodes,
                orders[order], rescued || !ended ? "BLOCKED" : "goes on", l[0].seconds * 1e6, l[1].seconds * 1e6,
                waited * 1e6);
    for (int g = 0; g < 2; g++) MICRO_CALL(m, cuStreamSynchronize, pair[g].stream);
}

static void try_pairs(const micro *m, const char *kind, int nodes, void (*make)(const micro *, int, captured *)) {
    captured pair[2];
    size_t before, after, total;
    MICRO_CALL(m, cuMemGetInfo_v2, &before, &total);
    make(m, nodes, pair);
    MICRO_CALL(m, cuMemGetInfo_v2, &after, &total);
    micro_found(m, "%s, %d nodes: made in %.3f s, %.1f MiB of the device for two", kind, nodes,
                pair[0].made + pair[1].made, (double)(before - after) / 0x1p20);
    for (int order = 0; order < 3; order++) launch_pair(m, kind, nodes, pair, order);
    for (int g = 0; g < 2; g++) discard(m, &pair[g]);
}

void micro_blocked(micro *m) {
    static const int sizes[] = {256, 2048, 8192, 16384, 65536};
    const size_t n = m->nothing != NULL ? LS_COUNT(sizes) : 1; /* the driver for tests executes slowly */
    for (size_t i = 0; i < n; i++) {
        try_pairs(m, "one waits for the other's end", sizes[i], make_pair);
        try_pairs(m, "each waits for the other again and again", sizes[i], make_mutual);
    }
}
