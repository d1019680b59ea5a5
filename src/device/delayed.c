/*
 * The device delayed, for tests: "delayed:SEED[:awaited|:messages|:recorded][:CALL=N]". Each queue has a thread, which
 * executes a launch after a random time, with a thread pool of its own. Code that works on this device does not rely on
 * a launch having been executed when the call returns.
 *
 *   - Allocated memory is mapped twice. At `base` it can be accessed only while launches are executed, one right after
 *     the other; the host's copies and transports use the other mapping. If the host uses a pointer into an arena that
 *     it kept, the process ends. An adopted heap cannot be protected in this way, because others access it too.
 *   - If two launches access the same bytes and neither comes after the other, this is an error (judge.c).
 *   - A queue has room for few launches if the host asks; launches without asking are accepted too.
 *   - awaited: it has no holds, like a device on whose queues a transport cannot order its work.
 *   - messages: it executes the communication between ranks, which are threads of one process.
 *   - recorded: like messages, and launches can be recorded.
 *   - CALL=N: the N-th call of that kind fails, or the N-th execution of a launch (kind_names has the kinds).
 */
#include "device/device_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* One of LAUNCHES_FOR_A_DELAY launches is delayed. */
enum { LAUNCHES_FOR_A_DELAY = 4, MOST_DELAY_MICROSECONDS = 200 };

/* What can fail. */
typedef enum call_kind {
    CALL_ALLOCATE,
    CALL_ADOPT,
    CALL_READ,
    CALL_WRITE,
    CALL_CLEAR,
    CALL_LAUNCH,
    CALL_HOLD,
    CALL_RELEASE,
    CALL_HAPPENED,
    CALL_AWAIT,
    CALL_JOIN,
    CALL_EXECUTE,
    CALL_SHARE,
    CALL_REACH,
    CALL_MESSAGE,
    CALL_KINDS
} call_kind;
static const char *const kind_names[CALL_KINDS] = {"allocate", "adopt",   "read",    "write",    "clear",
                                                   "launch",   "hold",    "release", "happened", "await",
                                                   "join",     "execute", "share",   "reach",    "message"};

typedef struct operation operation;
struct operation {
    operation *next;
    uint64_t number;
    ls_event *after;
    int n_after;
    void (*run)(void *context, ls_pool *pool);
    void *context;
    bool has_message; /* without a message and without run, the operation is a hold */
    ls_device_message message;
};

static bool is_hold(const operation *o) { return o->run == NULL && !o->has_message; }

typedef struct delayed delayed;

/* Launches of a queue that may be outstanding when the host asks for room: few, so that room is often short. */
enum { ROOM = 6 };

typedef struct queue {
    delayed *d;
    int index;
    bool started, busy; /* the thread runs; it executes the first operation */
    pthread_t thread;
    pthread_cond_t startable; /* the first operation may start, or the device is closing */
    ls_pool *pool;
    operation *first, **end;               /* launched and not executed, in order */
    int outstanding;                       /* how many these are */
    uint64_t launched, executed, released; /* the highest number of each */
    uint64_t draws;                        /* random numbers drawn so far */
} queue;

/* All of it is protected by the lock. */
struct delayed {
    ls_device *device;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the host waits for it */
    uint64_t seed;
    call_kind failing_kind;
    long calls, failing; /* calls of failing_kind so far; the number of the one that fails, 0: none */
    ls_status failed;    /* the first failure; then nothing is executed any more */
    bool closing;
    int running;  /* launches that are being executed */
    bool is_open; /* the memory at `base` can be accessed */
    ls_judge *judge;
    queue *queues;
};

static void lock(delayed *d) { pthread_mutex_lock(&d->lock); }
static void unlock(delayed *d) { pthread_mutex_unlock(&d->lock); }

/* Counts a call; the lock is held. Returns the failure that the settings ask for, or an earlier one. */
static ls_status count_call(delayed *d, call_kind kind) {
    if (d->failed.code == LS_OK && kind == d->failing_kind && ++d->calls == d->failing)
        d->failed =
            ls_error(LS_IO, "device delayed: %s number %ld fails, as its settings say", kind_names[kind], d->calls);
    return d->failed;
}

static ls_status count_locked(ls_device *device, call_kind kind) {
    delayed *d = device->state;
    lock(d);
    const ls_status status = count_call(d, kind);
    unlock(d);
    return status;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static ls_status map_both(int file, ls_device_arena *arena) {
    if (ftruncate(file, (off_t)arena->bytes) != 0)
        return ls_error(LS_NO_MEMORY, "an arena of %zu bytes cannot be made: %s", arena->bytes, strerror(errno));
    void *base = mmap(NULL, arena->bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void *source = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    arena->base = base == MAP_FAILED ? NULL : base;
    arena->source = source == MAP_FAILED ? NULL : source;
    if (arena->base != NULL && arena->source != NULL) return ls_ok();
    ls_memory_unmap(arena->base, arena->bytes);
    ls_memory_unmap(arena->source, arena->bytes);
    return ls_error(LS_NO_MEMORY, "an arena of %zu bytes cannot be mapped: %s", arena->bytes, strerror(errno));
}

static ls_status allocate(ls_device *device, ls_device_arena *arena) {
    LS_TRY(count_locked(device, CALL_ALLOCATE));
    if (arena->bytes == 0) return ls_ok();
    const int file = memfd_create("longspan", MFD_CLOEXEC);
    if (file < 0) return ls_error(LS_NO_MEMORY, "no file in memory can be made: %s", strerror(errno));
    const ls_status status = map_both(file, arena);
    close(file);
    delayed *d = device->state;
    lock(d);
    d->is_open = false; /* not the new arena: the next launch opens all of them */
    unlock(d);
    return status;
}

static ls_status adopt(ls_device *device, ls_device_arena *arena) {
    (void)arena;
    return count_locked(device, CALL_ADOPT);
}

static void free_arena(ls_device *device, ls_device_arena *arena) {
    (void)device;
    ls_memory_unmap(arena->base, arena->bytes);
    ls_memory_unmap(arena->source, arena->bytes);
}

static void protect(const delayed *d, int protection) {
    for (int i = 0; i < d->device->n_arenas; i++) {
        const ls_device_arena *arena = &d->device->arenas[i];
        if (arena->adopted || arena->bytes == 0) continue;
        LS_ASSERT(mprotect(arena->base, arena->bytes, protection) == 0);
    }
}

/* Allows access to the memory at `base` of all arenas. */
static void open_memory(delayed *d) {
    if (!d->is_open) protect(d, PROT_READ | PROT_WRITE);
    d->is_open = true;
}

/* Forbids it unless a launch is being executed. */
static void close_memory(delayed *d) {
    if (!d->is_open || d->running > 0) return;
    protect(d, PROT_NONE);
    d->is_open = false;
}

/* Whether the host may access the bytes now. */
static ls_status check_host(ls_device *device, const ls_device_arena *arena, const ls_range *range, bool writes,
                            call_kind kind) {
    delayed *d = device->state;
    const ls_device_access access = {arena, device->options.rank, *range, writes};
    lock(d);
    ls_status status = count_call(d, kind);
    if (status.code == LS_OK) status = ls_judge_host(d->judge, &access);
    unlock(d);
    return status;
}

static ls_status read_bytes(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out) {
    LS_TRY(check_host(device, arena, from, false, CALL_READ));
    return ls_device_host_read(device, arena, from, out);
}

static ls_status write_bytes(ls_device *device, const ls_device_arena *arena, const ls_range *to, const void *from) {
    LS_TRY(check_host(device, arena, to, true, CALL_WRITE));
    return ls_device_host_write(device, arena, to, from);
}

static ls_status clear_bytes(ls_device *device, const ls_device_arena *arena, const ls_range *range) {
    LS_TRY(check_host(device, arena, range, true, CALL_CLEAR));
    return ls_device_host_clear(device, arena, range);
}

/* --- the addresses of messages ------------------------------------------------------------------------------------ */

/* The contents of a handle. */
typedef struct shared_arena {
    pid_t process;
    char *source;
} shared_arena;
_Static_assert(sizeof(shared_arena) <= sizeof(ls_device_handle), "a handle has room for it");

static ls_status share(ls_device *device, const ls_device_arena *heap, void *words, size_t bytes,
                       ls_device_handle *out) {
    (void)words, (void)bytes;
    LS_TRY(count_locked(device, CALL_SHARE));
    const shared_arena shared = {getpid(), heap->source};
    memset(out, 0, sizeof *out);
    memcpy(out, &shared, sizeof shared);
    return ls_ok();
}

static ls_status reach(ls_device *device, const ls_device_handle *handle, void *words, size_t bytes,
                       ls_device_remote *out) {
    (void)bytes;
    LS_TRY(count_locked(device, CALL_REACH));
    shared_arena shared;
    memcpy(&shared, handle, sizeof shared);
    if (shared.process != getpid())
        return ls_error(LS_UNSUPPORTED, "device delayed: messages reach ranks of this process; expected --ranks-as "
                                        "threads");
    *out = (ls_device_remote){.heap = shared.source, .words = words};
    return ls_ok();
}

static ls_status connect_ranks(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap,
                               ls_device_remote *out) {
    static const ls_device_meeting meeting = {share, reach};
    return ls_device_meet(device, ranks, &meeting, heap, out);
}

/* --- a queue's thread --------------------------------------------------------------------------------------------- */

static bool has_happened(const delayed *d, ls_event event) { return d->queues[event.queue].executed >= event.number; }

static bool may_start(const queue *q, const operation *o) {
    for (int i = 0; i < o->n_after; i++) {
        if (!has_happened(q->d, o->after[i])) return false;
    }
    return !is_hold(o) || q->released >= o->number;
}

/* The lock is held before and after. */
static void delay(queue *q) {
    delayed *d = q->d;
    const uint64_t microseconds =
        ls_rng_below(d->seed, (uint64_t)q->index, q->draws++, (uint64_t)LAUNCHES_FOR_A_DELAY * MOST_DELAY_MICROSECONDS);
    const struct timespec time = {0, (long)microseconds * 1000};
    if (microseconds >= MOST_DELAY_MICROSECONDS) return;
    close_memory(d);
    unlock(d);
    nanosleep(&time, NULL);
    lock(d);
}

/* Executes a launch. The lock is held before and after. */
static void run(queue *q, const operation *o) {
    delayed *d = q->d;
    delay(q);
    if (count_call(d, CALL_EXECUTE).code != LS_OK) return;
    open_memory(d);
    d->running++;
    unlock(d);
    o->run(o->context, q->pool);
    lock(d);
    d->running--;
}

/* Executes a message. The lock is held before and after. */
static void exchange(queue *q, const operation *o) {
    delayed *d = q->d;
    const ls_device_message *m = &o->message;
    _Atomic uint64_t *word = (_Atomic uint64_t *)m->word;
    if (count_call(d, CALL_MESSAGE).code != LS_OK) return;
    delay(q);
    unlock(d);
    ls_range from = m->from, to = m->to;
    const ls_status counted = ls_device_count_rows(&m->count, m->peer, &from, &to);
    if (counted.code == LS_OK && m->source != NULL) ls_range_copy(m->target, &to, m->source, &from);
    if (counted.code == LS_OK && !m->awaits) atomic_store_explicit(word, m->generation, memory_order_release);
    lock(d);
    if (d->failed.code == LS_OK) d->failed = counted;
    while (m->awaits && !d->closing && d->failed.code == LS_OK &&
           atomic_load_explicit(word, memory_order_acquire) < m->generation) {
        unlock(d);
        nanosleep(&(struct timespec){0, 20000}, NULL);
        lock(d);
    }
}

/* Removes the first operation of a queue, which has been executed. */
static void pop(queue *q) {
    operation *o = q->first;
    q->executed = o->number;
    q->first = o->next;
    q->outstanding--;
    if (q->first == NULL) q->end = &q->first;
    free(o->after);
    free(o);
}

static bool is_startable(const queue *q) {
    return q->first != NULL && !is_hold(q->first) && q->d->failed.code == LS_OK && may_start(q, q->first);
}

/* Removes all holds that are released, and wakes the threads of the queues whose next launch may start. */
static void pass_holds(delayed *d) {
    bool moved;
    do {
        moved = false;
        for (int i = 0; i < d->device->options.queues && d->failed.code == LS_OK; i++) {
            queue *q = &d->queues[i];
            for (; q->first != NULL && is_hold(q->first) && may_start(q, q->first); moved = true) pop(q);
        }
    } while (moved);
    for (int i = 0; i < d->device->options.queues; i++)
        if (is_startable(&d->queues[i])) pthread_cond_signal(&d->queues[i].startable);
    pthread_cond_broadcast(&d->changed);
}

/* Whether an operation may start that has not. */
static bool any_startable(const delayed *d) {
    for (int i = 0; i < d->device->options.queues; i++)
        if (!d->queues[i].busy && is_startable(&d->queues[i])) return true;
    return false;
}

static void *queue_main(void *argument) {
    queue *q = argument;
    delayed *d = q->d;
    lock(d);
    while (!d->closing) {
        if (!is_startable(q)) {
            if (!any_startable(d)) close_memory(d);
            pthread_cond_wait(&q->startable, &d->lock);
            continue;
        }
        const operation *o = q->first;
        q->busy = true;
        if (o->has_message)
            exchange(q, o);
        else
            run(q, o);
        q->busy = false;
        if (d->failed.code == LS_OK && !d->closing) pop(q);
        pass_holds(d);
        if (d->device->options.wake != NULL) d->device->options.wake(d->device->options.context);
    }
    unlock(d);
    return NULL;
}

static ls_status start(queue *q) {
    const ls_device_options *options = &q->d->device->options;
    if (q->started) return ls_ok();
    LS_TRY(ls_pool_create(ls_pool_threads(options->pool), false, &q->pool));
    const int error = ls_thread_start(&q->thread, queue_main, q);
    if (error != 0) return ls_error(LS_NO_MEMORY, "no thread for a queue: %s", strerror(error));
    q->started = true;
    return ls_ok();
}

/* --- the host's calls --------------------------------------------------------------------------------------------- */

static void append(queue *q, const ls_device_work *work) {
    operation *o = calloc(1, sizeof *o);
    ls_event *after = calloc((size_t)work->n_after + 1, sizeof *after);
    LS_ASSERT(o != NULL && after != NULL);
    if (work->n_after > 0) memcpy(after, work->after, sizeof *after * (size_t)work->n_after);
    *o = (operation){.number = work->event.number,
                     .after = after,
                     .n_after = work->n_after,
                     .run = work->run,
                     .context = work->context,
                     .has_message = work->message != NULL};
    if (work->message != NULL) o->message = *work->message;
    *q->end = o;
    q->end = &o->next;
    q->outstanding++;
    q->launched = o->number;
}

static ls_status launch_locked(delayed *d, const ls_device_work *work) {
    queue *q = &d->queues[work->event.queue];
    const bool hold = work->run == NULL && work->message == NULL;
    LS_TRY(count_call(d, hold ? CALL_HOLD : CALL_LAUNCH));
    LS_ASSERT(work->event.number > q->launched);
    for (int i = 0; i < work->n_after; i++)
        LS_ASSERT(work->after[i].number <= d->queues[work->after[i].queue].launched);
    LS_TRY(ls_judge_launch(d->judge, work));
    if (!hold) LS_TRY(start(q));
    append(q, work);
    pass_holds(d);
    return ls_ok();
}

static ls_status launch(ls_device *device, const ls_device_work *work) {
    delayed *d = device->state;
    lock(d);
    const ls_status status = launch_locked(d, work);
    unlock(d);
    return status;
}

static bool has_room(ls_device *device, int q) {
    delayed *d = device->state;
    lock(d);
    const bool room = d->queues[q].outstanding < ROOM;
    unlock(d);
    return room;
}

static ls_status release(ls_device *device, ls_event hold) {
    delayed *d = device->state;
    lock(d);
    const ls_status status = count_call(d, CALL_RELEASE);
    if (status.code == LS_OK) d->queues[hold.queue].released = hold.number;
    pass_holds(d);
    unlock(d);
    return status;
}

static ls_status happened(ls_device *device, ls_event event, bool *out) {
    delayed *d = device->state;
    lock(d);
    const ls_status status = count_call(d, CALL_HAPPENED);
    *out = has_happened(d, event);
    if (*out) ls_judge_see(d->judge, event);
    unlock(d);
    return status;
}

static ls_status await_locked(delayed *d, ls_event event) {
    while (d->failed.code == LS_OK && !has_happened(d, event)) pthread_cond_wait(&d->changed, &d->lock);
    LS_TRY(d->failed);
    ls_judge_see(d->judge, event);
    return ls_ok();
}

static ls_status await(ls_device *device, ls_event event) {
    delayed *d = device->state;
    lock(d);
    ls_status status = count_call(d, CALL_AWAIT);
    if (status.code == LS_OK) status = await_locked(d, event);
    unlock(d);
    return status;
}

static ls_status join(ls_device *device) {
    delayed *d = device->state;
    lock(d);
    ls_status status = count_call(d, CALL_JOIN);
    for (int q = 0; q < device->options.queues && status.code == LS_OK; q++)
        status = await_locked(d, (ls_event){q, d->queues[q].launched});
    unlock(d);
    return status;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

/* The text after a word that it begins with; else NULL. */
static const char *skip(const char *text, const char *word) {
    const size_t n = strlen(word);
    return strncmp(text, word, n) == 0 ? text + n : NULL;
}

/* Reads "CALL=N". */
static bool read_failing(const char *text, delayed *d) {
    for (int k = 0; k < CALL_KINDS; k++) {
        const char *number = skip(text, kind_names[k]);
        if (number == NULL || *number != '=') continue;
        char *end;
        d->failing_kind = (call_kind)k;
        d->failing = strtol(number + 1, &end, 10);
        return d->failing > 0 && *end == 0;
    }
    return false;
}

static ls_status read_settings(const char *text, delayed *d, ls_device_traits *traits) {
    char *end;
    d->seed = strtoull(text, &end, 10);
    static const struct {
        const char *word;
        bool messages, records;
    } kinds[] = {{":awaited", false, false}, {":messages", true, false}, {":recorded", true, true}};
    const char *rest = end;
    for (size_t k = 0; k < LS_COUNT(kinds) && rest == end; k++) {
        const char *behind = skip(end, kinds[k].word);
        if (behind == NULL) continue;
        rest = behind;
        traits->holds = false;
        traits->messages = kinds[k].messages;
        traits->records = kinds[k].records;
    }
    if (end != text && (*rest == 0 || (*rest == ':' && read_failing(rest + 1, d)))) return ls_ok();
    return ls_error(LS_INVALID, "device 'delayed:%s': expected delayed:SEED[:awaited|:messages|:recorded][:CALL=N]",
                    text);
}

static ls_status open_device(ls_device *device, const char *settings) {
    const int queues = device->options.queues;
    delayed read = {.device = device, .failed = ls_ok()};
    LS_TRY(read_settings(settings, &read, &device->traits));
    delayed *d = calloc(1, sizeof *d);
    queue *q = calloc((size_t)queues, sizeof *q);
    LS_ASSERT(d != NULL && q != NULL);
    *d = read;
    d->seed += 1000003 * (uint64_t)device->options.rank; /* so that ranks differ */
    d->judge = ls_judge_create(queues);
    d->queues = q;
    for (int i = 0; i < queues; i++) {
        q[i].d = d;
        q[i].index = i;
        q[i].end = &q[i].first;
        pthread_cond_init(&q[i].startable, NULL);
    }
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    device->state = d;
    return ls_ok();
}

static bool stop_device(ls_device *device) {
    delayed *d = device->state;
    lock(d);
    d->closing = true;
    for (int i = 0; i < device->options.queues; i++) pthread_cond_signal(&d->queues[i].startable);
    pthread_cond_broadcast(&d->changed);
    unlock(d);
    for (int i = 0; i < device->options.queues; i++)
        if (d->queues[i].started) pthread_join(d->queues[i].thread, NULL);
    return true;
}

static void close_device(ls_device *device) {
    delayed *d = device->state;
    for (int i = 0; i < device->options.queues; i++) {
        queue *q = &d->queues[i];
        ls_pool_destroy(q->pool);
        pthread_cond_destroy(&q->startable);
        for (operation *o = q->first; o != NULL;) {
            operation *next = o->next;
            free(o->after);
            free(o);
            o = next;
        }
    }
    ls_judge_destroy(d->judge);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->queues);
    free(d);
}

const ls_device_row ls_device_delayed = {
    .name = "delayed",
    .settings = "SEED[:awaited|:messages|:recorded][:CALL=N]",
    .traits = {.holds = true, .host_memory = true, .judges = true, .tiles = LS_TILES_OF_HOST},
    .open = open_device,
    .stop = stop_device,
    .close = close_device,
    .allocate = allocate,
    .adopt = adopt,
    .free = free_arena,
    .read = read_bytes,
    .write = write_bytes,
    .clear = clear_bytes,
    .connect = connect_ranks,
    .launch = launch,
    .release = release,
    .happened = happened,
    .await = await,
    .join = join,
    .has_room = has_room,
};
