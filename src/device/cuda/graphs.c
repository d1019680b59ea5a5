/*
 * Recordings of a CUDA device: for each queue there are graphs, which are launched on the queue's stream. A graph is
 * made by capturing what works of the queue put on a stream, so its nodes are a chain: no two parts of a queue run at
 * the same time, and queues wait for each other's words, as they do without graphs.
 *
 * A graph is a segment of the works (chain.h). At most CUDA_AHEAD graphs of a queue are launched beyond those that it
 * has executed, because a launch blocks when the stream has no room: behind a wait, perhaps for ever. The watcher
 * launches the next graphs.
 */
#include "device/cuda/chain.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CUDA_AHEAD = 2 };

/* --- making graphs ------------------------------------------------------------------------------------------------ */

static ls_status submit_all(const cuda *c, cuda_chain *chain) {
    cuda_submission s = {.c = c, .to = c->copies, .chain = chain};
    for (size_t i = chain->captured->first; i < chain->captured->past; i++) {
        s.work = &chain->works[i]->work;
        s.told = chain->told[i];
        LS_TRY(ls_cuda_submit(&s));
    }
    return ls_cuda_end_words(&s);
}

static ls_status check(const cuda *c, unsigned result, const char *call, const cuda_chain *chain,
                       const cuda_segment *s) {
    const ls_device_work *first = &chain->works[s->first]->work;
    return ls_cuda_check(&c->driver, result, call, "a graph of %zu works, %s (queue %d, number %llu) first, on %s",
                         s->past - s->first, first->name, chain->queue, (unsigned long long)first->event.number,
                         c->name);
}

/*
 * With LS_CUDA_CAPTURE_RELAXED, the thread may make any call while it captures, because a library may allocate or load
 * something when it is first called. Other threads of the process may make any call that does not use the stream. The
 * stream captured is not that of a queue, because the watcher queries those, which would invalidate the capture.
 */
static ls_status capture(const cuda *c, cuda_chain *chain) {
    const ls_cuda_driver *driver = &c->driver;
    cuda_segment *s = chain->captured;
    LS_TRY(check(c, driver->cuStreamBeginCapture_v2(c->copies, LS_CUDA_CAPTURE_RELAXED), "cuStreamBeginCapture_v2",
                 chain, s));
    const ls_status status = submit_all(c, chain);
    ls_cuda_graph graph = NULL;
    const unsigned result = driver->cuStreamEndCapture(c->copies, &graph);
    if (result == LS_CUDA_SUCCESS) s->graph = graph;
    return status.code != LS_OK ? status : check(c, result, "cuStreamEndCapture", chain, s);
}

/* Instantiates and uploads a graph now. Otherwise its first launch would, while other ranks wait. */
static ls_status make_executable(const cuda *c, const cuda_chain *chain, cuda_segment *s) {
    const ls_cuda_driver *driver = &c->driver;
    ls_cuda_executable executable;
    LS_TRY(check(c, driver->cuGraphInstantiateWithFlags(&executable, s->graph, 0), "cuGraphInstantiateWithFlags", chain,
                 s));
    s->executable = executable;
    return check(c, driver->cuGraphUpload(executable, c->queues[chain->queue].stream), "cuGraphUpload", chain, s);
}

static ls_status make_graph(cuda *c, cuda_chain *chain, cuda_segment *s) {
    chain->captured = s;
    pthread_mutex_lock(&c->copy_lock);
    const ls_status captured = capture(c, chain);
    pthread_mutex_unlock(&c->copy_lock);
    LS_TRY(captured);
    return make_executable(c, chain, s);
}

static ls_status make_graphs(cuda *c, cuda_chain *chain) {
    for (size_t i = 0; i < chain->n_segments; i++) LS_TRY(make_graph(c, chain, &chain->segments[i]));
    return ls_ok();
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
    cuda_chains *all = ls_cuda_chains_make(queues, recording);
    recording->state = all;
    LS_TRY(unused_memory(c, &before));
    for (int q = 0; q < queues; q++) LS_TRY(make_graphs(c, &all->of[q]));
    LS_TRY(unused_memory(c, &after));
    recording->bytes = before > after ? before - after : 0;
    return ls_ok();
}

void ls_cuda_free_graphs(const cuda *c, ls_device_recording *recording) {
    cuda_chains *all = recording->state;
    if (all == NULL) return;
    for (int q = 0; q < c->device->options.queues; q++) {
        for (size_t i = 0; i < all->of[q].n_segments; i++) {
            const cuda_segment *s = &all->of[q].segments[i];
            if (s->executable != NULL) (void)c->driver.cuGraphExecDestroy(s->executable);
            if (s->graph != NULL) (void)c->driver.cuGraphDestroy(s->graph);
        }
    }
    recording->state = NULL;
    ls_arena_destroy(all->memory);
}

/* --- launching them ----------------------------------------------------------------------------------------------- */

/* Sets the values of a graph's words for a run. */
static ls_status set_words(const cuda *c, const cuda_segment *s, const cuda_run *run) {
    for (const cuda_chain_words *w = s->words; w != NULL; w = w->next) {
        ls_cuda_word_op words[CUDA_WORDS];
        memcpy(words, w->words, sizeof *words * w->n);
        for (unsigned i = 0; i < w->n; i++)
            words[i].waitValue.value64 += (w->growth[i].shifts ? run->shift : 0) + run->times * w->growth[i].rise;
        const ls_cuda_word_ops ops = {.ctx = c->context, .count = w->n, .paramArray = words};
        LS_TRY(ls_cuda_check_work(c, c->driver.cuGraphExecBatchMemOpNodeSetParams(s->executable, w->node, &ops),
                                  "cuGraphExecBatchMemOpNodeSetParams", w->work));
    }
    return ls_ok();
}

static void note_launched(cuda *c, cuda_run *run) {
    pthread_mutex_lock(&c->lock);
    run->launched++;
    pthread_mutex_unlock(&c->lock);
}

/* Sets the words of the graphs for which a queue has room. */
static ls_status make_ready(const cuda *c, cuda_queue *q) {
    cuda_run *run = &q->run;
    const cuda_chain *chain = run->chain;
    const uint64_t executed = ls_cuda_executed(q);
    while (run->executed < run->launched &&
           ls_cuda_last_number(chain, &chain->segments[run->executed]) + run->shift <= executed)
        run->executed++;
    for (; run->ready < chain->n_segments && run->ready - run->executed < CUDA_AHEAD; run->ready++)
        LS_TRY(set_words(c, &chain->segments[run->ready], run));
    return ls_ok();
}

static ls_status launch_next(cuda *c, cuda_queue *q) {
    cuda_run *run = &q->run;
    if (run->chain == NULL || run->launched == run->ready) return ls_ok();
    const cuda_segment *s = &run->chain->segments[run->launched];
    LS_TRY(check(c, c->driver.cuGraphLaunch(s->executable, q->stream), "cuGraphLaunch", run->chain, s));
    note_launched(c, run);
    return ls_ok();
}

/*
 * First sets all words: if this fails when nothing has been launched, nothing waits. Then launches graphs of the queues
 * in turn.
 */
static ls_status launch_some(cuda *c) {
    const int queues = c->device->options.queues;
    for (int q = 0; q < queues; q++)
        if (c->queues[q].run.chain != NULL) LS_TRY(make_ready(c, &c->queues[q]));
    for (int turn = 0; turn < CUDA_AHEAD; turn++)
        for (int q = 0; q < queues; q++) LS_TRY(launch_next(c, &c->queues[q]));
    return ls_ok();
}

/* Whether some graphs of the run were launched and some were not. Under the lock. */
static bool is_torn(const cuda *c) {
    bool any = false, left = false;
    for (int q = 0; q < c->device->options.queues; q++) {
        const cuda_run *run = &c->queues[q].run;
        any |= run->chain != NULL && run->launched > 0;
        left |= run->chain != NULL && run->launched < run->chain->n_segments;
    }
    return any && left;
}

ls_status ls_cuda_go_on(cuda *c) {
    pthread_mutex_lock(&c->run_lock);
    ls_status status = launch_some(c);
    pthread_mutex_lock(&c->lock);
    c->torn = is_torn(c);
    if (status.code != LS_OK) status = ls_cuda_fail(c, status);
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&c->run_lock);
    return status;
}

/* Begins each queue's part of a run. */
static void begin(cuda *c, const cuda_chains *all, uint64_t shift, uint64_t times) {
    pthread_mutex_lock(&c->run_lock);
    pthread_mutex_lock(&c->lock);
    for (int q = 0; q < c->device->options.queues; q++) {
        const cuda_chain *chain = &all->of[q];
        c->queues[q].run = (cuda_run){.chain = NULL};
        if (chain->n == 0) continue;
        c->queues[q].run = (cuda_run){.chain = chain, .shift = shift, .times = times};
        c->queues[q].launched = ls_cuda_last_number(chain, &chain->segments[chain->n_segments - 1]) + shift;
    }
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&c->run_lock);
}

ls_status ls_cuda_replay(ls_device *device, ls_device_recording *recording, uint64_t shift, uint64_t times) {
    cuda *c = device->state;
    for (int q = 0; q < device->options.queues; q++)
        LS_ASSERT(ls_cuda_executed(&c->queues[q]) >= c->queues[q].launched);
    LS_TRY(ls_cuda_failure_of(c));
    LS_TRY(ls_cuda_enter(c));
    begin(c, recording->state, shift, times);
    return ls_cuda_go_on(c);
}

void ls_cuda_await_launches(cuda *c) {
    const struct timespec nap = {0, 50000};
    for (bool left = true; left;) {
        pthread_mutex_lock(&c->lock);
        left = c->torn && c->failed.code == LS_OK;
        pthread_mutex_unlock(&c->lock);
        if (left) nanosleep(&nap, NULL);
    }
}
