/* The fake driver's streams: threads that execute what they are given, in order, after random times. */
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One of so many operations is delayed, and by how much at most. */
enum { OPERATIONS_FOR_A_DELAY = 4, MOST_DELAY_MICROSECONDS = 200, LOOK_MICROSECONDS = 20 };

static struct CUstream_st *streams;
static fake_operation *never_executed; /* kept, because what they run with belongs to others */

struct CUstream_st *fake_streams(void) {
    return streams;
}

static void lock(void) { pthread_mutex_lock(&fake.lock); }
static void unlock(void) { pthread_mutex_unlock(&fake.lock); }

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* Waits for a change, at most until the time. */
static void wait_until(const struct timespec *end, const char *who) {
    if (pthread_cond_timedwait(&fake.changed, &fake.lock, end) == ETIMEDOUT) fake_abort(who);
}

static struct timespec time_limit(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += fake.settings.patience;
    return end;
}

static bool is_idle(const struct CUctx_st *context) {
    for (const struct CUstream_st *s = streams; s != NULL; s = s->next)
        if (s->context == context && s->n > 0) return false;
    return true;
}

void fake_wait_idle(const struct CUctx_st *context, const char *who) {
    const struct timespec end = time_limit();
    while (!is_idle(context)) wait_until(&end, who);
}

static void nap(long microseconds) {
    const struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

/* --- a stream's thread -------------------------------------------------------------------------------------------- */

static void copy(const fake_operation *o) {
    for (size_t r = 0; r < o->rows; r++) memcpy(o->to + r * o->to_pitch, o->from + r * o->from_pitch, o->width);
}

/* Without the lock. */
static void execute(const fake_operation *o) {
    switch (o->kind) {
    case FAKE_WAIT:
        break;
    case FAKE_WRITE:
        __atomic_store_n(o->word, o->value, __ATOMIC_RELEASE);
        break;
    case FAKE_COPY:
        copy(o);
        break;
    case FAKE_SET:
        memset(o->to, o->byte, o->width);
        break;
    case FAKE_RUN:
        o->run(o->context);
        if (o->release != NULL) o->release(o->context);
        break;
    }
}

static bool share(const struct CUstream_st *s, const struct CUstream_st *other, long n) {
    return n > 0 && s->context == other->context && s->place % n == other->place % n;
}

/* Whether a stream has something that was given before, or a copy. */
static bool has_before(const struct CUstream_st *s, long turn, bool copies) {
    for (const fake_operation *o = s->first; o != NULL && o->turn < turn; o = o->next)
        if (!copies || o->kind == FAKE_COPY) return true;
    return false;
}

/* Whether it waits for what another stream was given before, with which its own shares a way. */
static bool is_behind(const struct CUstream_st *s, const fake_operation *o) {
    for (const struct CUstream_st *other = streams; other != NULL; other = other->next) {
        if (other == s) continue;
        if (share(s, other, fake.settings.ways) && has_before(other, o->turn, false)) return true;
        if (o->kind == FAKE_COPY && share(s, other, fake.settings.copies) && has_before(other, o->turn, true))
            return true;
    }
    return false;
}

static bool may_start(const struct CUstream_st *s, const fake_operation *o) {
    if (is_behind(s, o)) return false;
    return o->kind != FAKE_WAIT || (int64_t)(__atomic_load_n(o->word, __ATOMIC_ACQUIRE) - o->value) >= 0;
}

/* A time of random length, mostly none. */
static void delay(long draw) {
    const uint64_t random = (uint64_t)(draw + 1000003 * fake.settings.seed) * 0x9e3779b97f4a7c15u;
    const long microseconds = (long)((random >> 33) % (OPERATIONS_FOR_A_DELAY * MOST_DELAY_MICROSECONDS));
    if (microseconds < MOST_DELAY_MICROSECONDS) nap(microseconds);
}

/* Removes the first operation of a stream. */
static fake_operation *pop(struct CUstream_st *s) {
    fake_operation *o = s->first;
    s->first = o->next;
    if (s->first == NULL) s->end = &s->first;
    s->n -= o->last;
    s->of_graphs -= o->of_graph;
    if (o->part != NULL) fake_note_executed(o->part);
    pthread_cond_broadcast(&fake.changed);
    return o;
}

/* Executes the first operation. The lock is held before and after. */
static void step(struct CUstream_st *s) {
    const fake_operation *o = s->first;
    const long draw = fake.draws++;
    if (o->kind == FAKE_RUN) fake_open_memory();
    unlock();
    delay(draw);
    execute(o);
    lock();
    if (o->kind == FAKE_RUN) fake_close_memory();
    free(pop(s));
}

static void *stream_main(void *argument) {
    struct CUstream_st *s = argument;
    lock();
    while (!s->ending || s->n > 0) {
        fake_operation *o = s->first;
        if (o == NULL) {
            pthread_cond_wait(&fake.changed, &fake.lock);
        } else if (fake.lost == 0 && !may_start(s, o)) {
            unlock();
            nap(LOOK_MICROSECONDS);
            lock();
        } else if (fake.lost != 0 || (o->kind != FAKE_WAIT && fake_count("execute") != 0)) {
            o = pop(s);
            o->next = never_executed;
            never_executed = o;
        } else {
            step(s);
        }
    }
    unlock();
    return NULL;
}

/* --- what streams are given --------------------------------------------------------------------------------------- */

/* Appends a copy. Under the lock. */
static void append_one(struct CUstream_st *s, const fake_operation *operation, bool last, bool of_graph) {
    fake_operation *copied = malloc(sizeof *copied);
    if (copied == NULL) fake_abort("no memory for an operation");
    *copied = *operation;
    copied->next = NULL;
    copied->turn = fake.given++;
    copied->last = last;
    copied->of_graph = of_graph;
    *s->end = copied;
    s->end = &copied->next;
    s->of_graphs += of_graph;
}

static void append_all(struct CUstream_st *s, const fake_operation *operations, int n) {
    for (int i = 0; i < n; i++) append_one(s, &operations[i], i == n - 1, false);
    s->n++;
    pthread_cond_broadcast(&fake.changed);
}

/* Held by who launches, also while that waits for a stream that is full. */
static pthread_mutex_t launches = PTHREAD_MUTEX_INITIALIZER;

void fake_give_graph(struct CUstream_st *s, const fake_operation *operations, int n) {
    const struct timespec end = time_limit();
    pthread_mutex_lock(&launches);
    lock();
    s->n++;
    for (int i = 0; i < n; i++) {
        while (s->of_graphs >= fake.settings.depth && fake.lost == 0)
            wait_until(&end, "the launch of a graph waits for a stream that is full");
        append_one(s, &operations[i], i == n - 1, true);
        pthread_cond_broadcast(&fake.changed);
    }
    unlock();
    pthread_mutex_unlock(&launches);
}

unsigned fake_give(struct CUstream_st *s, const fake_operation *operations, int n) {
    const struct timespec end = time_limit();
    pthread_mutex_lock(&launches);
    lock();
    while (s->n >= STREAM_ROOM && s->captured == NULL) wait_until(&end, "a launch waits for a stream that is full");
    if (s->captured != NULL)
        fake_capture(s, operations, n);
    else
        append_all(s, operations, n);
    unlock();
    pthread_mutex_unlock(&launches);
    return 0;
}

static unsigned append(struct CUstream_st *s, fake_operation o) { return fake_give(s, &o, 1); }

static void *find(fake_side side, uintptr_t at, size_t bytes) {
    lock();
    void *found = fake_find(side, at, bytes);
    unlock();
    return found;
}

static unsigned begin(const char *function) {
    struct CUctx_st *context;
    const unsigned result = fake_begin(function);
    return result != 0 ? result : fake_context(&context);
}

unsigned fake_read_words(const union CUstreamBatchMemOpParams_union *ops, unsigned count, fake_operation *out) {
    if (count == 0 || count > FAKE_MOST_WORDS) return INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const bool waits = ops[i].operation == LS_CUDA_WAIT_WORD;
        uint64_t *word = find(SIDE_DEVICE, ops[i].waitValue.address, sizeof *word);
        if (word == NULL || (!waits && ops[i].operation != LS_CUDA_WRITE_WORD) ||
            ops[i].waitValue.flags != (waits ? LS_CUDA_WAIT_GEQ : LS_CUDA_WRITE_DEFAULT))
            return INVALID_VALUE;
        out[i] =
            (fake_operation){.kind = waits ? FAKE_WAIT : FAKE_WRITE, .word = word, .value = ops[i].waitValue.value64};
    }
    return 0;
}

unsigned cuStreamBatchMemOp_v2(ls_cuda_stream stream, unsigned count, union CUstreamBatchMemOpParams_union *ops,
                               unsigned flags) {
    fake_operation operations[FAKE_MOST_WORDS];
    unsigned result = begin("cuStreamBatchMemOp_v2");
    if (result == 0) result = flags != 0 ? INVALID_VALUE : fake_read_words(ops, count, operations);
    return result != 0 ? result : fake_give(stream, operations, (int)count);
}

/* The host's side of an asynchronous copy must be pinned. */
static unsigned append_copy(struct CUstream_st *s, char *to, const char *from, fake_operation o) {
    if (to == NULL || from == NULL || o.width == 0 || o.rows == 0) return INVALID_VALUE;
    o.kind = FAKE_COPY;
    o.to = to;
    o.from = from;
    return append(s, o);
}

unsigned cuMemcpyHtoDAsync_v2(ls_cuda_address to, const void *from, size_t bytes, ls_cuda_stream stream) {
    const unsigned result = begin("cuMemcpyHtoDAsync_v2");
    if (result != 0) return result;
    return append_copy(stream, find(SIDE_DEVICE, to, bytes), find(SIDE_HOST, (uintptr_t)from, bytes),
                       (fake_operation){.width = bytes, .rows = 1});
}

unsigned cuMemcpyDtoHAsync_v2(void *to, ls_cuda_address from, size_t bytes, ls_cuda_stream stream) {
    const unsigned result = begin("cuMemcpyDtoHAsync_v2");
    if (result != 0) return result;
    return append_copy(stream, find(SIDE_HOST, (uintptr_t)to, bytes), find(SIDE_DEVICE, from, bytes),
                       (fake_operation){.width = bytes, .rows = 1});
}

unsigned cuMemcpyDtoDAsync_v2(ls_cuda_address to, ls_cuda_address from, size_t bytes, ls_cuda_stream stream) {
    const unsigned result = begin("cuMemcpyDtoDAsync_v2");
    if (result != 0) return result;
    return append_copy(stream, find(SIDE_DEVICE, to, bytes), find(SIDE_DEVICE, from, bytes),
                       (fake_operation){.width = bytes, .rows = 1});
}

/* One side of a copy of rows. */
static void *find_rows(unsigned memory, const void *host, ls_cuda_address device, size_t pitch,
                       const struct CUDA_MEMCPY2D_st *c) {
    if (pitch < c->WidthInBytes || pitch > INT32_MAX || c->Height == 0) return NULL;
    const size_t bytes = pitch * (c->Height - 1) + c->WidthInBytes;
    return memory == LS_CUDA_MEMORY_DEVICE ? find(SIDE_DEVICE, device, bytes) : find(SIDE_HOST, (uintptr_t)host, bytes);
}

unsigned cuMemcpy2DAsync_v2(const struct CUDA_MEMCPY2D_st *c, ls_cuda_stream stream) {
    const unsigned result = begin("cuMemcpy2DAsync_v2");
    if (result != 0) return result;
    return append_copy(
        stream, find_rows(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, c),
        find_rows(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, c),
        (fake_operation){
            .width = c->WidthInBytes, .rows = c->Height, .to_pitch = c->dstPitch, .from_pitch = c->srcPitch});
}

unsigned cuMemsetD8Async(ls_cuda_address at, unsigned char value, size_t bytes, ls_cuda_stream stream) {
    const unsigned result = begin("cuMemsetD8Async");
    char *to = find(SIDE_DEVICE, at, bytes);
    if (result != 0 || to == NULL) return result != 0 ? result : INVALID_VALUE;
    return append(stream, (fake_operation){.kind = FAKE_SET, .to = to, .width = bytes, .byte = value});
}

/*
 * The first kernel of a process is loaded, which waits for the device, unless all are loaded before; a capture may
 * forbid that.
 */
void fake_stream_run(void *stream, void (*run)(void *context), void (*release)(void *context), void *context) {
    struct CUstream_st *s = stream;
    lock();
    if (fake.settings.lazy && !fake.loaded && fake_forbidden() == 0)
        fake_wait_idle(s->context, "a kernel is loaded at its first launch");
    fake.loaded = true;
    unlock();
    (void)append(s, (fake_operation){.kind = FAKE_RUN, .run = run, .release = release, .context = context});
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

unsigned cuStreamCreateWithPriority(ls_cuda_stream *stream, unsigned flags, int priority) {
    struct CUctx_st *context;
    unsigned result = fake_begin("cuStreamCreateWithPriority");
    if (result == 0) result = fake_context(&context);
    if (result == 0 && (flags != LS_CUDA_STREAM_NON_BLOCKING || priority > 0 || priority < -5)) result = INVALID_VALUE;
    if (result != 0) return result;
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (s == NULL) fake_abort("no memory for a stream");
    s->context = context;
    s->end = &s->first;
    lock();
    s->place = context->made++;
    if (context->streams++ >= fake.settings.connections && fake.settings.ways == 0)
        fake_abort("streams share a way to the hardware");
    s->next = streams;
    streams = s;
    unlock();
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) fake_abort("no thread for a stream");
    *stream = s;
    return 0;
}

unsigned cuStreamDestroy_v2(ls_cuda_stream stream) {
    const unsigned result = fake_begin("cuStreamDestroy_v2");
    const struct timespec end = time_limit();
    lock();
    if (stream->captured != NULL) fake_abort("a stream is destroyed that captures");
    stream->ending = true;
    pthread_cond_broadcast(&fake.changed);
    while (stream->n > 0) wait_until(&end, "a stream is destroyed that never ends");
    unlock();
    pthread_join(stream->thread, NULL);
    lock();
    struct CUstream_st **place = &streams;
    while (*place != stream) place = &(*place)->next;
    *place = stream->next;
    stream->context->streams--;
    unlock();
    free(stream);
    return result;
}

unsigned cuStreamQuery(ls_cuda_stream stream) {
    const unsigned result = begin("cuStreamQuery");
    if (result != 0) return result;
    lock();
    const unsigned forbidden = fake_forbidden_of(stream);
    const bool idle = stream->n == 0;
    unlock();
    return forbidden != 0 ? forbidden : idle ? 0 : LS_CUDA_NOT_READY;
}

unsigned cuStreamSynchronize(ls_cuda_stream stream) {
    const unsigned result = begin("cuStreamSynchronize");
    if (result != 0) return result;
    const struct timespec end = time_limit();
    lock();
    const unsigned forbidden = fake_forbidden_of(stream);
    while (stream->n > 0 && fake.lost == 0) wait_until(&end, "somebody waits for a stream that never ends");
    const unsigned lost = fake.lost;
    unlock();
    return forbidden != 0 ? forbidden : lost;
}
