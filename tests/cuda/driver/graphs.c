/*
 * The fake driver's graphs. They are made by capturing a stream, so each node comes after the one before it, and what a
 * launch of a graph executes is one stream's list. Only what the driver lets change of a graph that can be launched may
 * be changed.
 */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_BYTES = 512 }; /* of the device's memory, for each node that can be launched */

/* Modes of a capture: which threads may make calls that act at once. */
enum { GLOBAL, THREAD_LOCAL };

/* Operations that were given at once. */
struct CUgraphNode_st {
    struct CUgraph_st *graph;
    int index, n;
    fake_operation *operations;
};

struct CUgraph_st {
    struct CUctx_st *context;
    struct CUgraphNode_st **nodes;
    int n, executables;
    bool destroyed; /* those that were made of it stay */
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
    struct CUgraphNode_st *nodes; /* copies */
    bool uploaded;
    int running; /* launches that have not been executed, on this stream */
    struct CUstream_st *stream;
};

static void lock(void) { pthread_mutex_lock(&fake.lock); }
static void unlock(void) { pthread_mutex_unlock(&fake.lock); }

static void *make(size_t n, size_t bytes) {
    void *memory = calloc(n + 1, bytes);
    if (memory == NULL) fake_abort("no memory for a graph");
    return memory;
}

static fake_operation *copy_operations(const fake_operation *from, int n) {
    fake_operation *copied = make((size_t)n, sizeof *copied);
    memcpy(copied, from, sizeof *copied * (size_t)n);
    return copied;
}

/* When it has been destroyed and all that was made of it, too. Under the lock. */
static void free_if_unused(struct CUgraph_st *g) {
    if (!g->destroyed || g->executables > 0) return;
    for (int i = 0; i < g->n; i++) {
        for (int k = 0; k < g->nodes[i]->n; k++) {
            const fake_operation *o = &g->nodes[i]->operations[k];
            if (o->release != NULL) o->release(o->context);
        }
        free(g->nodes[i]->operations);
        free(g->nodes[i]);
    }
    g->context->graphs--;
    free(g->nodes);
    free(g);
}

/* --- capturing ---------------------------------------------------------------------------------------------------- */

void fake_capture(struct CUstream_st *s, const fake_operation *operations, int n) {
    struct CUgraph_st *g = s->captured;
    struct CUgraphNode_st *node = make(1, sizeof *node);
    *node = (struct CUgraphNode_st){.graph = g, .index = g->n, .n = n, .operations = copy_operations(operations, n)};
    g->nodes = realloc(g->nodes, sizeof(*g->nodes) * (size_t)(g->n + 1));
    if (g->nodes == NULL) fake_abort("no memory for a graph");
    g->nodes[g->n++] = node;
}

unsigned fake_forbidden(void) {
    unsigned result = 0;
    for (struct CUstream_st *s = fake_streams(); s != NULL; s = s->next) {
        if (s->captured == NULL || s->mode == LS_CUDA_CAPTURE_RELAXED) continue;
        if (s->mode == THREAD_LOCAL && !pthread_equal(s->capturer, pthread_self())) continue;
        s->spoiled = true;
        result = CAPTURE_UNSUPPORTED;
    }
    return result;
}

unsigned fake_forbidden_of(struct CUstream_st *s) {
    if (s->captured == NULL) return 0;
    s->spoiled = true;
    return CAPTURE_UNSUPPORTED;
}

unsigned cuStreamBeginCapture_v2(ls_cuda_stream stream, unsigned mode) {
    struct CUctx_st *context;
    unsigned result = fake_begin("cuStreamBeginCapture_v2");
    if (result == 0) result = fake_context(&context);
    if (result == 0 && (mode > LS_CUDA_CAPTURE_RELAXED || stream->captured != NULL)) result = INVALID_VALUE;
    if (result != 0) return result;
    struct CUgraph_st *g = make(1, sizeof *g);
    lock();
    g->context = stream->context;
    g->context->graphs++;
    stream->captured = g;
    stream->mode = mode;
    stream->capturer = pthread_self();
    stream->spoiled = false;
    unlock();
    return 0;
}

/* Also where it fails nothing is captured any more. */
unsigned cuStreamEndCapture(ls_cuda_stream stream, ls_cuda_graph *graph) {
    unsigned result = fake_begin("cuStreamEndCapture");
    lock();
    struct CUgraph_st *g = stream->captured;
    if (result == 0 && g == NULL) result = ILLEGAL_STATE;
    if (result == 0 && stream->spoiled) result = CAPTURE_INVALIDATED;
    stream->captured = NULL;
    if (result != 0 && g != NULL) {
        g->destroyed = true;
        free_if_unused(g);
    }
    unlock();
    *graph = result == 0 ? g : NULL;
    return result;
}

unsigned cuStreamGetCaptureInfo_v3(ls_cuda_stream stream, unsigned *status, uint64_t *id, ls_cuda_graph *graph,
                                   const ls_cuda_node **last, const struct CUgraphEdgeData_st **edges, size_t *n) {
    const unsigned result = fake_begin("cuStreamGetCaptureInfo_v3");
    if (result != 0 || id != NULL || graph != NULL || edges != NULL) return result != 0 ? result : INVALID_VALUE;
    lock();
    const struct CUgraph_st *g = stream->captured;
    *status = g == NULL ? 0 : stream->spoiled ? 2 : LS_CUDA_CAPTURE_ACTIVE;
    *n = g != NULL && g->n > 0;
    *last = *n > 0 ? &g->nodes[g->n - 1] : NULL;
    unlock();
    return 0;
}

/* --- what can be launched ----------------------------------------------------------------------------------------- */

unsigned cuGraphInstantiateWithFlags(ls_cuda_executable *exec, ls_cuda_graph graph, unsigned long long flags) {
    unsigned result = fake_begin_at_once("cuGraphInstantiateWithFlags");
    if (result == 0 && (flags != 0 || graph->destroyed)) result = INVALID_VALUE;
    if (result != 0) return result;
    const size_t bytes = (size_t)graph->n * NODE_BYTES;
    lock();
    struct CUctx_st *context = graph->context;
    fake_wait_idle(context, "cuGraphInstantiateWithFlags");
    if (bytes > (size_t)fake.settings.memory - context->allocated) {
        result = LS_CUDA_OUT_OF_MEMORY;
    } else {
        struct CUgraphExec_st *e = make(1, sizeof *e);
        *e = (struct CUgraphExec_st){.graph = graph, .nodes = make((size_t)graph->n, sizeof *e->nodes)};
        for (int i = 0; i < graph->n; i++) {
            e->nodes[i] = *graph->nodes[i];
            e->nodes[i].operations = copy_operations(graph->nodes[i]->operations, graph->nodes[i]->n);
        }
        graph->executables++;
        context->graphs++;
        context->allocated += bytes;
        *exec = e;
    }
    unlock();
    return result;
}

unsigned cuGraphExecBatchMemOpNodeSetParams(ls_cuda_executable exec, ls_cuda_node node,
                                            const struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st *ops) {
    fake_operation operations[FAKE_MOST_WORDS];
    unsigned result = fake_begin("cuGraphExecBatchMemOpNodeSetParams");
    if (result == 0) result = fake_read_words(ops->paramArray, ops->count, operations);
    if (result != 0) return result;
    lock();
    const struct CUgraph_st *g = exec->graph;
    if (node->graph != g || g->destroyed || ops->ctx != g->context || ops->flags != 0 || (int)ops->count != node->n)
        result = INVALID_VALUE;
    for (int i = 0; i < node->n && result == 0; i++)
        if (operations[i].kind != node->operations[i].kind) result = INVALID_VALUE;
    if (result == 0) memcpy(exec->nodes[node->index].operations, operations, sizeof *operations * ops->count);
    unlock();
    return result;
}

unsigned cuGraphUpload(ls_cuda_executable exec, ls_cuda_stream stream) {
    const unsigned result = fake_begin_at_once("cuGraphUpload");
    if (result != 0 || stream->captured != NULL) return result != 0 ? result : INVALID_VALUE;
    lock();
    fake_wait_idle(exec->graph->context, "cuGraphUpload");
    exec->uploaded = true;
    unlock();
    return 0;
}

/* All operations of its nodes, in order. Under the lock. */
static fake_operation *list_operations(struct CUgraphExec_st *e, int *n) {
    *n = 0;
    for (int i = 0; i < e->graph->n; i++) *n += e->nodes[i].n;
    fake_operation *all = make((size_t)*n, sizeof *all), *next = all;
    for (int i = 0; i < e->graph->n; i++)
        for (int k = 0; k < e->nodes[i].n; k++, next++) {
            *next = e->nodes[i].operations[k];
            next->release = NULL;
        }
    if (*n > 0) next[-1].part = e;
    return all;
}

unsigned cuGraphLaunch(ls_cuda_executable exec, ls_cuda_stream stream) {
    const unsigned result = fake_begin("cuGraphLaunch");
    if (result != 0) return result;
    int n;
    lock();
    if (exec->graph->context != stream->context || stream->captured != NULL || exec->graph->n == 0) {
        unlock();
        return INVALID_VALUE;
    }
    if (exec->running++ > 0 && exec->stream != stream) fake_abort("a graph is launched on two streams");
    exec->stream = stream;
    if (!exec->uploaded) fake_wait_idle(stream->context, "a graph is uploaded at its first launch");
    exec->uploaded = true;
    fake_operation *all = list_operations(exec, &n);
    unlock();
    fake_give_graph(stream, all, n);
    free(all);
    return 0;
}

void fake_note_executed(struct CUgraphExec_st *graph) { graph->running--; }

unsigned cuGraphExecDestroy(ls_cuda_executable exec) {
    const unsigned result = fake_begin("cuGraphExecDestroy");
    struct CUgraph_st *g = exec->graph;
    lock();
    while (exec->running > 0) {
        if (fake.lost == 0) fake_abort("a graph is freed that runs");
        pthread_cond_wait(&fake.changed, &fake.lock); /* until what was launched has been thrown away */
    }
    for (int i = 0; i < g->n; i++) free(exec->nodes[i].operations);
    g->context->allocated -= (size_t)g->n * NODE_BYTES;
    g->context->graphs--;
    g->executables--;
    free_if_unused(g);
    unlock();
    free(exec->nodes);
    free(exec);
    return result;
}

unsigned cuGraphDestroy(ls_cuda_graph graph) {
    const unsigned result = fake_begin("cuGraphDestroy");
    lock();
    graph->destroyed = true;
    free_if_unused(graph);
    unlock();
    return result;
}
