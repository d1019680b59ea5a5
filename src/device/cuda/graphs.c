/*
 * Recordings of a CUDA device: for each queue a graph, which is launched on the queue's stream. A graph is made by
 * capturing what the works of the queue put on a stream, so its nodes are a chain: nothing of a queue runs beside
 * another part of it, and queues wait for each other by words, as they do without graphs.
 *
 * A queue writes its number not after each work, but as often as somebody needs it:
 *   - after a work that another queue comes after, a message, and the last one;
 *   - before whatever waits, so that all that does not wait for others is known to be executed while they are late;
 *   - after each CUDA_SILENT works, so that a long computation is seen to go on.
 */
#include "device/cuda/cuda_impl.h"

#include <stdlib.h>
#include <string.h>

enum { CUDA_SILENT = 32 };

/* A node of the graph: words that follow each other, with the values that they have when nothing has been run. */
typedef struct chain_words chain_words;
struct chain_words {
    chain_words *next;
    ls_cuda_node node;
    const ls_device_work *work;
    unsigned n;
    ls_cuda_word_op *words;
    cuda_growth *growth;
};

struct cuda_chain {
    ls_arena *memory; /* of all chains of the recording */
    int queue;
    ls_recorded **works; /* n of them, in order */
    bool *told;          /* by work */
    size_t n;
    ls_cuda_graph graph;
    ls_cuda_executable executable;
    chain_words *first, **end;
};

/* A recording's state. */
typedef struct chains {
    ls_arena *memory;
    cuda_chain *of; /* by queue */
} chains;

/* --- works by queue ----------------------------------------------------------------------------------------------- */

static chains *make_chains(int queues, ls_device_recording *recording) {
    ls_arena *memory = ls_arena_create();
    chains *made = LS_NEW(memory, chains);
    *made = (chains){memory, LS_NEW_ARRAY(memory, cuda_chain, queues)};
    for (size_t i = 0; i < recording->n; i++) made->of[recording->list[i].work.event.queue].n++;
    for (int q = 0; q < queues; q++) {
        cuda_chain *chain = &made->of[q];
        chain->memory = memory;
        chain->queue = q;
        chain->works = LS_NEW_ARRAY(memory, ls_recorded *, chain->n + 1);
        chain->told = LS_NEW_ARRAY(memory, bool, chain->n + 1);
        chain->end = &chain->first;
        chain->n = 0;
    }
    for (size_t i = 0; i < recording->n; i++) {
        cuda_chain *chain = &made->of[recording->list[i].work.event.queue];
        chain->works[chain->n++] = &recording->list[i];
    }
    return made;
}

/* Leaves out what a work comes after, where it has been waited for in this queue before. */
static void leave_out_implied(const cuda_chain *chain, int queues) {
    uint64_t *waited = LS_NEW_ARRAY(chain->memory, uint64_t, queues); /* by queue: the highest number */
    for (size_t i = 0; i < chain->n; i++) {
        ls_recorded *r = chain->works[i];
        int n = 0;
        for (int k = 0; k < r->work.n_after; k++) {
            const ls_event after = r->after[k];
            if (after.queue == chain->queue || after.number <= waited[after.queue]) continue;
            waited[after.queue] = after.number;
            r->after[n++] = after;
        }
        r->work.n_after = n;
    }
}

/* The first work of a chain with this number or a higher one. */
static size_t find_work(const cuda_chain *chain, uint64_t number) {
    size_t first = 0, past = chain->n;
    while (first < past) {
        const size_t middle = first + (past - first) / 2;
        if (chain->works[middle]->work.event.number < number)
            first = middle + 1;
        else
            past = middle;
    }
    return first;
}

/* What other queues come after is told. */
static void tell_others(const chains *all, const cuda_chain *chain) {
    for (size_t i = 0; i < chain->n; i++) {
        const ls_recorded *r = chain->works[i];
        for (int k = 0; k < r->work.n_after; k++) {
            const cuda_chain *other = &all->of[r->after[k].queue];
            const size_t awaited = find_work(other, r->after[k].number);
            LS_ASSERT(awaited < other->n);
            other->told[awaited] = true;
        }
    }
}

static bool waits(const ls_device_work *work) {
    const bool hold = work->submit == NULL && work->message == NULL;
    return work->n_after > 0 || hold || (work->message != NULL && work->message->awaits);
}

static void tell_host(const cuda_chain *chain) {
    size_t silent = 0;
    for (size_t i = 0; i < chain->n; i++) {
        const ls_device_work *work = &chain->works[i]->work;
        silent++;
        if (i + 1 == chain->n || work->message != NULL || waits(&chain->works[i + 1]->work) || silent == CUDA_SILENT)
            chain->told[i] = true;
        if (chain->told[i]) silent = 0;
    }
}

static uint64_t last_number(const cuda_chain *chain) { return chain->works[chain->n - 1]->work.event.number; }

const ls_device_work *ls_cuda_work_after(const cuda_chain *chain, uint64_t shift, uint64_t number) {
    const size_t i = number < shift ? 0 : find_work(chain, number - shift + 1);
    return i < chain->n ? &chain->works[i]->work : NULL;
}

bool ls_cuda_has_message_after(const cuda_chain *chain, uint64_t shift, uint64_t number) {
    bool any = false;
    for (size_t i = 0; i < chain->n; i++) {
        const ls_device_work *work = &chain->works[i]->work;
        any |= work->message != NULL && work->event.number + shift > number;
    }
    return any;
}

/* --- making graphs ------------------------------------------------------------------------------------------------ */

void ls_cuda_note_words(cuda_chain *chain, ls_cuda_node node, const cuda_submission *s) {
    chain_words *w = LS_NEW(chain->memory, chain_words);
    *w = (chain_words){.node = node,
                       .work = s->work,
                       .n = s->n,
                       .words = LS_NEW_ARRAY(chain->memory, ls_cuda_word_op, s->n),
                       .growth = LS_NEW_ARRAY(chain->memory, cuda_growth, s->n)};
    memcpy(w->words, s->words, sizeof *s->words * s->n);
    memcpy(w->growth, s->growth, sizeof *s->growth * s->n);
    *chain->end = w;
    chain->end = &w->next;
}

static ls_status submit_all(const cuda *c, cuda_chain *chain) {
    cuda_submission s = {.c = c, .to = c->copies, .chain = chain};
    for (size_t i = 0; i < chain->n; i++) {
        s.work = &chain->works[i]->work;
        s.told = chain->told[i];
        LS_TRY(ls_cuda_submit(&s));
    }
    return ls_cuda_end_words(&s);
}

static ls_status check(const cuda *c, unsigned result, const char *call, const cuda_chain *chain) {
    const ls_device_work *first = &chain->works[0]->work;
    return ls_cuda_check(&c->driver, result, call, "a graph of %zu works, %s (queue %d, number %llu) first, on %s",
                         chain->n, first->name, chain->queue, (unsigned long long)first->event.number, c->name);
}

/*
 * The thread may make any call while it captures: a library may allocate or load something when it is called for the
 * first time. What other threads of the process do meanwhile does not matter to it, if they leave the stream alone:
 * that of a queue would be asked by the watcher, which spoils a graph.
 */
static ls_status capture(const cuda *c, cuda_chain *chain) {
    const ls_cuda_driver *driver = &c->driver;
    LS_TRY(check(c, driver->cuStreamBeginCapture_v2(c->copies, LS_CUDA_CAPTURE_RELAXED), "cuStreamBeginCapture_v2",
                 chain));
    const ls_status status = submit_all(c, chain);
    ls_cuda_graph graph = NULL;
    const unsigned result = driver->cuStreamEndCapture(c->copies, &graph);
    if (result == LS_CUDA_SUCCESS) chain->graph = graph;
    return status.code != LS_OK ? status : check(c, result, "cuStreamEndCapture", chain);
}

/* What the first launch would do otherwise, while others wait. */
static ls_status make_executable(const cuda *c, cuda_chain *chain) {
    const ls_cuda_driver *driver = &c->driver;
    ls_cuda_executable executable;
    LS_TRY(check(c, driver->cuGraphInstantiateWithFlags(&executable, chain->graph, 0), "cuGraphInstantiateWithFlags",
                 chain));
    chain->executable = executable;
    return check(c, driver->cuGraphUpload(executable, c->queues[chain->queue].stream), "cuGraphUpload", chain);
}

static ls_status make_graph(cuda *c, cuda_chain *chain) {
    if (chain->n == 0) return ls_ok();
    pthread_mutex_lock(&c->copy_lock);
    const ls_status captured = capture(c, chain);
    pthread_mutex_unlock(&c->copy_lock);
    LS_TRY(captured);
    return make_executable(c, chain);
}

static ls_status unused_memory(const cuda *c, size_t *out) {
    size_t total;
    return ls_cuda_check(&c->driver, c->driver.cuMemGetInfo_v2(out, &total), "cuMemGetInfo_v2", "%s", c->name);
}

ls_status ls_cuda_record(ls_device *device, ls_device_recording *recording) {
    cuda *c = device->state;
    const int queues = device->options.queues;
    size_t before, after;
    LS_TRY(ls_cuda_enter(c));
    if (!device->traits.records) return ls_cuda_load(c, recording);
    chains *all = make_chains(queues, recording);
    recording->state = all;
    for (int q = 0; q < queues; q++) leave_out_implied(&all->of[q], queues);
    for (int q = 0; q < queues; q++) tell_others(all, &all->of[q]);
    for (int q = 0; q < queues; q++) tell_host(&all->of[q]);
    LS_TRY(unused_memory(c, &before));
    for (int q = 0; q < queues; q++) LS_TRY(make_graph(c, &all->of[q]));
    LS_TRY(unused_memory(c, &after));
    recording->bytes = before > after ? before - after : 0;
    return ls_ok();
}

void ls_cuda_free_graphs(const cuda *c, ls_device_recording *recording) {
    chains *all = recording->state;
    if (all == NULL) return;
    for (int q = 0; q < c->device->options.queues; q++) {
        const cuda_chain *chain = &all->of[q];
        if (chain->executable != NULL) (void)c->driver.cuGraphExecDestroy(chain->executable);
        if (chain->graph != NULL) (void)c->driver.cuGraphDestroy(chain->graph);
    }
    recording->state = NULL;
    ls_arena_destroy(all->memory);
}

/* --- launching them ----------------------------------------------------------------------------------------------- */

/* The words of a run. */
static ls_status set_words(const cuda *c, const cuda_chain *chain, uint64_t shift, uint64_t times) {
    for (const chain_words *w = chain->first; w != NULL; w = w->next) {
        ls_cuda_word_op words[CUDA_WORDS];
        memcpy(words, w->words, sizeof *words * w->n);
        for (unsigned i = 0; i < w->n; i++)
            words[i].waitValue.value64 += (w->growth[i].shifts ? shift : 0) + times * w->growth[i].rise;
        const ls_cuda_word_ops ops = {.ctx = c->context, .count = w->n, .paramArray = words};
        LS_TRY(ls_cuda_check_work(c, c->driver.cuGraphExecBatchMemOpNodeSetParams(chain->executable, w->node, &ops),
                                  "cuGraphExecBatchMemOpNodeSetParams", w->work));
    }
    return ls_ok();
}

static ls_status launch(cuda *c, const cuda_chain *chain, uint64_t shift) {
    cuda_queue *q = &c->queues[chain->queue];
    LS_TRY(check(c, c->driver.cuGraphLaunch(chain->executable, q->stream), "cuGraphLaunch", chain));
    pthread_mutex_lock(&c->lock);
    q->replayed = chain;
    q->shift = shift;
    q->launched = last_number(chain) + shift;
    c->torn = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return ls_ok();
}

static ls_status launch_all(cuda *c, const chains *all, uint64_t shift, uint64_t times) {
    const int queues = c->device->options.queues;
    for (int q = 0; q < queues; q++) LS_TRY(set_words(c, &all->of[q], shift, times));
    for (int q = queues - 1; q >= 0; q--)
        if (all->of[q].n > 0) LS_TRY(launch(c, &all->of[q], shift));
    c->torn = false;
    return ls_ok();
}

ls_status ls_cuda_replay(ls_device *device, ls_device_recording *recording, uint64_t shift, uint64_t times) {
    cuda *c = device->state;
    for (int q = 0; q < device->options.queues; q++)
        LS_ASSERT(ls_cuda_executed(&c->queues[q]) >= c->queues[q].launched);
    LS_TRY(ls_cuda_failure_of(c));
    LS_TRY(ls_cuda_enter(c));
    ls_status status = launch_all(c, recording->state, shift, times);
    if (status.code == LS_OK) return status;
    pthread_mutex_lock(&c->lock);
    status = ls_cuda_fail(c, status);
    pthread_mutex_unlock(&c->lock);
    return status;
}
