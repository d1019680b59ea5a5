/*
 * The driver's route: the copy engines copy to the memory of a peer; streams set words and wait for words. Words are in
 * memory of the host that ranks share, pinned for each device that uses it. Ranks of one process know each other's
 * addresses; other ranks open each other's memory by handles of the driver (CUDA IPC).
 */
#include "device/cuda/route.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest distance of rows in a copy. */
#define MOST_PITCH ((size_t)INT32_MAX)

/* What a rank tells its peers. */
typedef struct shared_rank {
    pid_t process;
    int ordinal;
    ls_cuda_address heap, words; /* addresses in the rank's own process */
    ls_cuda_memory_handle handle;
} shared_rank;
_Static_assert(sizeof(shared_rank) <= sizeof(ls_device_handle), "a handle has room for it");

struct cuda_opened {
    cuda_opened *next;
    void *pinned;           /* memory that was pinned; NULL: none */
    ls_cuda_address memory; /* memory of a peer that was opened; 0: none */
};

/* --- what ranks share --------------------------------------------------------------------------------------------- */

static cuda_opened *note_opened(cuda *c) {
    cuda_opened *opened = calloc(1, sizeof *opened);
    LS_ASSERT(opened != NULL);
    opened->next = c->opened;
    c->opened = opened;
    return opened;
}

ls_status ls_cuda_pin_words(cuda *c, void *words, size_t bytes, ls_cuda_address *at) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)words % page;
    char *const first = (char *)words - before;
    const size_t pinned = ls_round_up(before + bytes, page);
    LS_TRY(ls_cuda_check(&c->driver,
                         c->driver.cuMemHostRegister_v2(first, pinned, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED),
                         "cuMemHostRegister_v2", "%zu bytes of words for %s", bytes, c->name));
    note_opened(c)->pinned = first;
    LS_TRY(ls_cuda_check(&c->driver, c->driver.cuMemHostGetDevicePointer_v2(at, first, 0),
                         "cuMemHostGetDevicePointer_v2", "%zu bytes of words for %s", bytes, c->name));
    *at += before;
    return ls_ok();
}

static ls_status share(ls_device *device, const ls_device_arena *heap, void *words, size_t bytes,
                       ls_device_handle *out) {
    cuda *c = device->state;
    shared_rank shared = {.process = getpid(), .ordinal = c->ordinal, .heap = (uintptr_t)heap->base};
    LS_TRY(ls_cuda_enter(c));
    if (bytes > 0) LS_TRY(ls_cuda_pin_words(c, words, bytes, &shared.words));
    if (heap->bytes > 0 && c->exports)
        LS_TRY(ls_cuda_check(&c->driver, c->driver.cuIpcGetMemHandle(&shared.handle, shared.heap), "cuIpcGetMemHandle",
                             "the heap of %zu bytes on %s", heap->bytes, c->name));
    memset(out, 0, sizeof *out);
    memcpy(out, &shared, sizeof shared);
    return ls_ok();
}

/* Lets this device access the memory of another one. */
static ls_status reach_device(cuda *c, int ordinal) {
    const ls_cuda_driver *driver = &c->driver;
    int other, able;
    ls_cuda_context context;
    LS_TRY(ls_cuda_check(driver, driver->cuDeviceGet(&other, ordinal), "cuDeviceGet", "cuda:%d", ordinal));
    LS_TRY(ls_cuda_check(driver, driver->cuDeviceCanAccessPeer(&able, c->handle, other), "cuDeviceCanAccessPeer",
                         "cuda:%d from %s", ordinal, c->name));
    if (!able) return ls_error(LS_UNSUPPORTED, "%s cannot access the memory of cuda:%d", c->name, ordinal);
    LS_TRY(ls_cuda_check(driver, driver->cuDevicePrimaryCtxRetain(&context, other), "cuDevicePrimaryCtxRetain",
                         "cuda:%d", ordinal));
    const unsigned result = driver->cuCtxEnablePeerAccess(context, 0);
    (void)driver->cuDevicePrimaryCtxRelease_v2(other); /* the peer has retained it too */
    return result == LS_CUDA_PEER_ACCESS_ALREADY_ENABLED
               ? ls_ok()
               : ls_cuda_check(driver, result, "cuCtxEnablePeerAccess", "cuda:%d from %s", ordinal, c->name);
}

/* Opens the heap of a rank of another process. */
static ls_status open_memory(cuda *c, const shared_rank *shared, ls_cuda_address *heap) {
    if (shared->heap == 0) return ls_ok();
    LS_TRY(ls_cuda_check(&c->driver,
                         c->driver.cuIpcOpenMemHandle_v2(heap, shared->handle, LS_CUDA_IPC_ENABLE_PEER_ACCESS),
                         "cuIpcOpenMemHandle_v2", "memory of process %d on cuda:%d, for %s", (int)shared->process,
                         shared->ordinal, c->name));
    note_opened(c)->memory = *heap;
    return ls_ok();
}

static ls_status reach(ls_device *device, const ls_device_handle *handle, void *words, size_t bytes,
                       ls_device_remote *out) {
    cuda *c = device->state;
    shared_rank shared;
    memcpy(&shared, handle, sizeof shared);
    LS_TRY(ls_cuda_enter(c));
    ls_cuda_address heap = shared.heap, at = shared.words;
    if (shared.process != getpid()) {
        if (bytes > 0) LS_TRY(ls_cuda_pin_words(c, words, bytes, &at));
        LS_TRY(open_memory(c, &shared, &heap));
    } else if (shared.ordinal != c->ordinal) {
        LS_TRY(reach_device(c, shared.ordinal));
    }
    *out = (ls_device_remote){.heap = (char *)(uintptr_t)heap, .words = (uint64_t *)(uintptr_t)at};
    return ls_ok();
}

/*
 * Some drivers and containers provide no handles for other processes, so a handle is requested only if one is needed.
 */
static ls_status find_processes(cuda *c, const ls_device_ranks *ranks) {
    const pid_t mine = getpid();
    pid_t *all = calloc((size_t)ranks->ranks, sizeof *all);
    LS_ASSERT(all != NULL);
    const ls_status status = ranks->exchange(ranks->context, &mine, sizeof mine, all);
    for (int r = 0; r < ranks->ranks; r++) c->exports |= all[r] != mine;
    free(all);
    return status;
}

static ls_status connect_ranks(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap,
                               ls_device_remote *out) {
    static const ls_device_meeting meeting = {share, reach};
    LS_TRY(find_processes(device->state, ranks));
    return ls_device_meet(device, ranks, &meeting, heap, out);
}

void ls_cuda_close_opened(cuda *c) {
    for (cuda_opened *o = c->opened, *next; o != NULL; o = next) {
        next = o->next;
        if (o->pinned != NULL) (void)c->driver.cuMemHostUnregister(o->pinned);
        if (o->memory != 0) (void)c->driver.cuIpcCloseMemHandle(o->memory);
        free(o);
    }
    c->opened = NULL;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* If `range` is one piece, divides it into pieces of the form of another range, which has as many bytes. */
static ls_range in_form_of(const ls_range *range, const ls_range *form) {
    if (!ls_range_is_flat(range) || ls_range_is_flat(form)) return *range;
    ls_range out = {.offset = range->offset, .length = form->length};
    int64_t stride = (int64_t)form->length;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        out.count[d] = form->count[d];
        out.stride[d] = stride;
        stride *= form->count[d];
    }
    return out;
}

static bool same_form(const ls_range *a, const ls_range *b) {
    bool same = a->length == b->length;
    for (int d = 0; d < LS_RANGE_DIMS; d++) same &= a->count[d] == b->count[d];
    return same;
}

static bool has_pitch(const ls_range *r) {
    return r->count[0] == 1 || (r->stride[0] >= (int64_t)r->length && (size_t)r->stride[0] <= MOST_PITCH);
}

static size_t offset_at(const ls_range *r, const int64_t *i) {
    int64_t at = (int64_t)r->offset;
    for (int d = 0; d < LS_RANGE_DIMS; d++) at += i[d] * r->stride[d];
    return (size_t)at;
}

ls_status ls_cuda_copy_rows(cuda_submission *s, ls_cuda_address from, size_t from_pitch, ls_cuda_address to,
                            size_t to_pitch, size_t width, size_t rows) {
    const ls_cuda_driver *driver = &s->c->driver;
    ls_cuda_stream stream;
    LS_TRY(ls_cuda_stream_of(s, &stream));
    if (rows == 1)
        return ls_cuda_check_work(s->c, driver->cuMemcpyDtoDAsync_v2(to, from, width, stream), "cuMemcpyDtoDAsync_v2",
                                  s->work);
    const struct CUDA_MEMCPY2D_st copy = {.srcMemoryType = LS_CUDA_MEMORY_DEVICE,
                                          .srcDevice = from,
                                          .srcPitch = from_pitch,
                                          .dstMemoryType = LS_CUDA_MEMORY_DEVICE,
                                          .dstDevice = to,
                                          .dstPitch = to_pitch,
                                          .WidthInBytes = width,
                                          .Height = rows};
    return ls_cuda_check_work(s->c, driver->cuMemcpy2DAsync_v2(&copy, stream), "cuMemcpy2DAsync_v2", s->work);
}

/* Copies between two ranges of one form: all rows of the innermost dimension at once, if they have a pitch. */
static ls_status copy_pieces(cuda_submission *s, ls_cuda_address source, const ls_range *from, ls_cuda_address target,
                             const ls_range *to) {
    const int64_t rows = has_pitch(from) && has_pitch(to) ? from->count[0] : 1;
    int64_t i[LS_RANGE_DIMS] = {0};
    while (i[LS_RANGE_DIMS - 1] < from->count[LS_RANGE_DIMS - 1]) {
        LS_TRY(ls_cuda_copy_rows(s, source + offset_at(from, i), (size_t)from->stride[0], target + offset_at(to, i),
                                 (size_t)to->stride[0], from->length, (size_t)rows));
        i[0] += rows;
        for (int d = 0; d + 1 < LS_RANGE_DIMS && i[d] == from->count[d]; d++) {
            i[d] = 0;
            i[d + 1]++;
        }
    }
    return ls_ok();
}

/* A place in a range. */
typedef struct place {
    const ls_range *range;
    size_t piece, within; /* within: bytes of the piece that have been visited */
} place;

static size_t offset_of(const place *p) {
    int64_t i[LS_RANGE_DIMS];
    size_t left = p->piece;
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        i[d] = (int64_t)(left % (size_t)p->range->count[d]);
        left /= (size_t)p->range->count[d];
    }
    return offset_at(p->range, i) + p->within;
}

static void go_on(place *p, size_t bytes) {
    p->within += bytes;
    if (p->within < p->range->length) return;
    p->within = 0;
    p->piece++;
}

/* Copies between any two ranges of equal bytes, in parts that are contiguous in both. */
static ls_status copy_overlaps(cuda_submission *s, ls_cuda_address source, const ls_range *from, ls_cuda_address target,
                               const ls_range *to) {
    place f = {.range = from}, t = {.range = to};
    for (size_t left = ls_range_bytes(from), n; left > 0; left -= n) {
        n = from->length - f.within < to->length - t.within ? from->length - f.within : to->length - t.within;
        LS_TRY(ls_cuda_copy_rows(s, source + offset_of(&f), 0, target + offset_of(&t), 0, n, 1));
        go_on(&f, n);
        go_on(&t, n);
    }
    return ls_ok();
}

static ls_status copy(cuda_submission *s) {
    const ls_device_message *m = s->work->message;
    const ls_range from = in_form_of(&m->from, &m->to), to = in_form_of(&m->to, &m->from);
    if (ls_range_bytes(&from) == 0) return ls_ok();
    return (same_form(&from, &to) ? copy_pieces : copy_overlaps)(s, (uintptr_t)m->source, &from, (uintptr_t)m->target,
                                                                 &to);
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

static ls_status message(cuda_submission *s) {
    const ls_device_message *m = s->work->message;
    const cuda_growth growth = {.rise = m->rise};
    if (m->awaits) return ls_cuda_await_word(s, (uintptr_t)m->word, m->generation, growth);
    if (m->source != NULL) LS_TRY(copy(s));
    return ls_cuda_set_word(s, (uintptr_t)m->word, m->generation, growth);
}

const ls_cuda_route ls_cuda_route_driver = {.name = "driver", .connect = connect_ranks, .message = message};
