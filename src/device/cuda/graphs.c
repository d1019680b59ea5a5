/*
 * Recordings of a CUDA device: for each queue graphs, which are launched on the queue's stream. A graph is made by
 * capturing what works of the queue put on a stream, so its nodes are a chain: nothing of a queue runs beside another
 * part of it, and queues wait for each other by words, as they do without graphs.
 *
 * A graph has CUDA_SEGMENT works, and CUDA_AHEAD of a queue are launched beyond what it has executed: whoever launches
 * more than a stream takes is held up until the stream has room, behind what it waits for, perhaps for ever. The
 * watcher launches the next ones.
 *
 * A queue writes its number not after each work, but as often as somebody needs it:
 *   - after a work that another queue comes after, a message, and the last one of a graph;
 *   - before whatever waits, so that all that does not wait for others is known to be executed while they are late;
 *   - after each CUDA_SILENT works, so that a long computation is seen to go on.
 */
#include "device/cuda/cuda_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CUDA_SILENT = 32, CUDA_SEGMENT = 256, CUDA_AHEAD = 2 };

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

/* Works first .. past - 1 of a chain. */
typedef struct segment {
    size_t first, past;
    ls_cuda_graph graph;
    ls_cuda_executable executable;
    chain_words *words, **end;
} segment;

struct cuda_chain {
    ls_arena *memory; /* of all chains of the recording */
    int queue;
    ls_recorded **works; /* n of them, in order */
    bool *told;          /* by work */
    size_t n, n_segments;
    segment *segments, *captured; /* which is being captured */
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
        chain->n_segments = (chain->n + CUDA_SEGMENT - 1) / CUDA_SEGMENT;
        chain->segments = LS_NEW_ARRAY(memory, segment, chain->n_segments + 1);
        for (size_t i = 0; i < chain->n_segments; i++) {
            segment *s = &chain->segments[i];
            s->first = i * CUDA_SEGMENT;
            s->past = ls_min(chain->n, s->first + CUDA_SEGMENT);
            s->end = &s->words;
        }
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
        if (i + 1 == chain->n || (i + 1) % CUDA_SEGMENT == 0 || work->message != NULL ||
            waits(&chain->works[i + 1]->work) || silent == CUDA_SILENT)
            chain->told[i] = true;
        if (chain->told[i]) silent = 0;
    }
}

static uint64_t last_number(const cuda_chain *chain, const segment *s) {
    return chain->works[s->past - 1]->work.event.number;
}

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
    *chain->captured->end = w;
    chain->captured->end = &w->next;
}

static ls_status submit_all(const cuda *c, cuda_chain *chain) {
    cuda_submission s = {.c = c, .to = c->copies, .chain = chain};
    for (size_t i = chain->captured->first; i < chain->captured->past; i++) {
        s.work = &chain->works[i]->work;
        s.told = chain->told[i];
        LS_TRY(ls_cuda_submit(&s));
    }
    return ls_cuda_end_words(&s);
}

static ls_status check(const cuda *c, unsigned result, const char *call, const cuda_chain *chain, const segment *s) {
    const ls_device_work *first = &chain->works[s->first]->work;
    return ls_cuda_check(&c->driver, result, call, "a graph of %zu works, %s (queue %d, number %llu) first, on %s",
                         s->past - s->first, first->name, chain->queue, (unsigned long long)first->event.number,
                         c->name);
}

/*
 * The thread may make any call while it captures: a library may allocate or load something when it is called for the
 * first time. What other threads of the process do meanwhile does not matter to it, if they leave the stream alone:
 * that of a queue would be asked by the watcher, which spoils a graph.
 */
static ls_status capture(const cuda *c, cuda_chain *chain) {
    const ls_cuda_driver *driver = &c->driver;
    segment *s = chain->captured;
    LS_TRY(check(c, driver->cuStreamBeginCapture_v2(c->copies, LS_CUDA_CAPTURE_RELAXED), "cuStreamBeginCapture_v2",
                 chain, s));
    const ls_status status = submit_all(c, chain);
    ls_cuda_graph graph = NULL;
    const unsigned result = driver->cuStreamEndCapture(c->copies, &graph);
    if (result == LS_CUDA_SUCCESS) s->graph = graph;
    return status.code != LS_OK ? status : check(c, result, "cuStreamEndCapture", chain, s);
}

/* What the first launch would do otherwise, while others wait. */
static ls_status make_executable(const cuda *c, const cuda_chain *chain, segment *s) {
    const ls_cuda_driver *driver = &c->driver;
    ls_cuda_executable executable;
    LS_TRY(check(c, driver->cuGraphInstantiateWithFlags(&executable, s->graph, 0), "cuGraphInstantiateWithFlags", chain,
                 s));
    s->executable = executable;
    return check(c, driver->cuGraphUpload(executable, c->queues[chain->queue].stream), "cuGraphUpload", chain, s);
}

static ls_status make_graph(cuda *c, cuda_chain *chain, segment *s) {
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
    chains *all = make_chains(queues, recording);
    recording->state = all;
    for (int q = 0; q < queues; q++) leave_out_implied(&all->of[q], queues);
    for (int q = 0; q < queues; q++) tell_others(all, &all->of[q]);
    for (int q = 0; q < queues; q++) tell_host(&all->of[q]);
    LS_TRY(unused_memory(c, &before));
    for (int q = 0; q < queues; q++) LS_TRY(make_graphs(c, &all->of[q]));
    LS_TRY(unused_memory(c, &after));
    recording->bytes = before > after ? before - after : 0;
    return ls_ok();
}

void ls_cuda_free_graphs(const cuda *c, ls_device_recording *recording) {
    chains *all = recording->state;
    if (all == NULL) return;
    for (int q = 0; q < c->device->options.queues; q++) {
        for (size_t i = 0; i < all->of[q].n_segments; i++) {
            const segment *s = &all->of[q].segments[i];
            if (s->executable != NULL) (void)c->driver.cuGraphExecDestroy(s->executable);
            if (s->graph != NULL) (void)c->driver.cuGraphDestroy(s->graph);
        }
    }
    recording->state = NULL;
    ls_arena_destroy(all->memory);
}

/* --- launching them ----------------------------------------------------------------------------------------------- */

/* The words of a run. */
static ls_status set_words(const cuda *c, const segment *s, const cuda_run *run) {
    for (const chain_words *w = s->words; w != NULL; w = w->next) {
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

/* Gives the graphs that a queue has room for their words. */
static ls_status make_ready(const cuda *c, cuda_queue *q) {
    cuda_run *run = &q->run;
    const cuda_chain *chain = run->chain;
    const uint64_t executed = ls_cuda_executed(q);
    while (run->executed < run->launched &&
           last_number(chain, &chain->segments[run->executed]) + run->shift <= executed)
        run->executed++;
    for (; run->ready < chain->n_segments && run->ready - run->executed < CUDA_AHEAD; run->ready++)
        LS_TRY(set_words(c, &chain->segments[run->ready], run));
    return ls_ok();
}

static ls_status launch_next(cuda *c, cuda_queue *q) {
    cuda_run *run = &q->run;
    if (run->launched == run->ready) return ls_ok();
    const segment *s = &run->chain->segments[run->launched];
    LS_TRY(check(c, c->driver.cuGraphLaunch(s->executable, q->stream), "cuGraphLaunch", run->chain, s));
    note_launched(c, run);
    return ls_ok();
}

/* All words first: where one fails when nothing is launched, nothing waits. Then the queues in turn. */
static ls_status launch_some(cuda *c) {
    const int queues = c->device->options.queues;
    for (int q = 0; q < queues; q++)
        if (c->queues[q].run.chain != NULL) LS_TRY(make_ready(c, &c->queues[q]));
    for (int turn = 0; turn < CUDA_AHEAD; turn++)
        for (int q = 0; q < queues; q++) LS_TRY(launch_next(c, &c->queues[q]));
    return ls_ok();
}

/* Some graphs of the run were launched, and some not. Under the lock. */
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

/* The queues' part of a run begins. */
static void begin(cuda *c, const chains *all, uint64_t shift, uint64_t times) {
    pthread_mutex_lock(&c->run_lock);
    pthread_mutex_lock(&c->lock);
    for (int q = 0; q < c->device->options.queues; q++) {
        const cuda_chain *chain = &all->of[q];
        c->queues[q].run = (cuda_run){.chain = NULL};
        if (chain->n == 0) continue;
        c->queues[q].run = (cuda_run){.chain = chain, .shift = shift, .times = times};
        c->queues[q].launched = last_number(chain, &chain->segments[chain->n_segments - 1]) + shift;
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
