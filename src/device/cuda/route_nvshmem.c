/*
 * The route "nvshmem": puts and signals of NVSHMEM on streams. A signal word of NVSHMEM takes any 64-bit value, so it
 * holds the generation itself. One process is one rank (a PE) with one GPU.
 */
#include "device/cuda/nvshmem.h"
#include "device/cuda/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The same as in the library's own declarations (tests/cuda/check_nvshmem.cpp). */
_Static_assert(sizeof(ls_nvshmem_id) == 128, "an id");
_Static_assert(sizeof(ls_nvshmem_place) == 24, "a place among ranks");
_Static_assert(sizeof(ls_nvshmem_arguments) == 128, "arguments");
_Static_assert(sizeof(ls_nvshmem_attributes) == 144, "attributes");

typedef struct state {
    ls_nvshmem library;
    char version[32];
} state;

static const ls_nvshmem *library_of(const cuda *c) { return &((const state *)c->route_state)->library; }

static ls_status load(cuda *c) {
#define FUNCTION(result, name, arguments) {#name, offsetof(ls_nvshmem, name)},
    static const ls_cuda_function functions[] = {LS_NVSHMEM_FUNCTIONS(FUNCTION)};
#undef FUNCTION
    state *s = calloc(1, sizeof *s);
    LS_ASSERT(s != NULL);
    c->route_state = s;
    LS_TRY(
        ls_cuda_library_load("LONGSPAN_NVSHMEM", "libnvshmem_host.so.3", functions, LS_COUNT(functions), &s->library));
    int major, minor, patch;
    s->library.nvshmemx_vendor_get_version_info(&major, &minor, &patch);
    snprintf(s->version, sizeof s->version, "NVSHMEM %d.%d.%d", major, minor, patch);
    if (major == LS_NVSHMEM_OLDEST_MAJOR) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s is there; expected %d", s->version, LS_NVSHMEM_OLDEST_MAJOR);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static ls_status check(const state *s, int result, const char *call, const char *what) {
    if (result == 0) return ls_ok();
    return ls_error(LS_FAULT, "%s: %s: error %d: %s", s->version, call, result, what);
}

/* Collective: *out = the id that rank 0 makes. */
static ls_status share_id(const state *s, const ls_device_ranks *ranks, ls_nvshmem_id *out) {
    ls_nvshmem_id mine = {.version = LS_NVSHMEM_VERSION(ls_nvshmem_id)},
                  *all = calloc((size_t)ranks->ranks, sizeof *all);
    LS_ASSERT(all != NULL);
    ls_status made = ls_ok();
    if (ranks->rank == 0) made = check(s, s->library.nvshmemx_get_uniqueid(&mine), "nvshmemx_get_uniqueid", "rank 0");
    ls_status status = ls_device_agree(ranks, made);
    if (status.code == LS_OK) status = ranks->exchange(ranks->context, &mine, sizeof mine, all);
    if (status.code == LS_OK) *out = all[0];
    free(all);
    return status;
}

/* Collective in the library. */
static ls_status initialise(const state *s, const ls_device_ranks *ranks, ls_nvshmem_id *id) {
    ls_nvshmem_attributes attributes = {.version = LS_NVSHMEM_VERSION(ls_nvshmem_attributes),
                                        .arguments = {.version = LS_NVSHMEM_VERSION(ls_nvshmem_arguments),
                                                      .place = {.version = LS_NVSHMEM_VERSION(ls_nvshmem_place)}}};
    char what[64];
    snprintf(what, sizeof what, "rank %d of %d", ranks->rank, ranks->ranks);
    LS_TRY(check(s, s->library.nvshmemx_set_attr_uniqueid_args(ranks->rank, ranks->ranks, id, &attributes),
                 "nvshmemx_set_attr_uniqueid_args", what));
    LS_TRY(check(s, s->library.nvshmemx_hostlib_init_attr(LS_NVSHMEM_BY_ID, &attributes), "nvshmemx_hostlib_init_attr",
                 what));
    const int rank = s->library.nvshmem_my_pe(), n = s->library.nvshmem_n_pes();
    if (rank == ranks->rank && n == ranks->ranks) return ls_ok();
    return ls_error(LS_FAULT, "%s: this is PE %d of %d; expected %s", s->version, rank, n, what);
}

/* Collective in the library. */
static ls_status allocate(cuda *c, const state *s) {
    void *const memory = s->library.nvshmem_malloc(c->symmetric->bytes);
    if (memory == NULL)
        return ls_error(LS_NO_MEMORY,
                        "%s: nvshmem_malloc: %zu bytes of the symmetric heap; NVSHMEM_SYMMETRIC_SIZE in the "
                        "environment is its size where it does not grow",
                        s->version, c->symmetric->bytes);
    c->symmetric->base = (uintptr_t)memory;
    return ls_ok();
}

static ls_status connect_ranks(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap,
                               ls_device_remote *out) {
    cuda *c = device->state;
    const state *s = c->route_state;
    ls_nvshmem_id id;
    LS_TRY(ls_cuda_symmetric_plan(c, ranks, heap->bytes, true));
    snprintf(c->symmetric->library, sizeof c->symmetric->library, "%s", s->version);
    LS_TRY(share_id(s, ranks, &id));
    LS_TRY(ls_device_agree(ranks, initialise(s, ranks, &id)));
    return ls_cuda_symmetric_open(device, ranks, allocate(c, s), heap, out);
}

static void close_route(cuda *c) {
    const state *s = c->route_state;
    s->library.nvshmem_free((void *)(uintptr_t)c->symmetric->base);
    s->library.nvshmemx_hostlib_finalize();
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void signal_peer(const cuda_submission *s, ls_cuda_stream stream) {
    const ls_device_message *m = s->work->message;
    library_of(s->c)->nvshmemx_signal_op_on_stream(m->word, m->generation, LS_NVSHMEM_SIGNAL_SET, m->peer, stream);
}

/*
 * The word of a put with signal is set after the bytes of that put only. So if a message has several puts, the word is
 * set separately, when all of them are complete.
 */
static ls_status put(cuda_submission *s, ls_cuda_address target, ls_cuda_address source, size_t bytes, bool last) {
    const ls_device_message *m = s->work->message;
    const ls_nvshmem *library = library_of(s->c);
    void *const to = (void *)(uintptr_t)target;
    const void *const from = (const void *)(uintptr_t)source;
    ls_cuda_stream stream;
    LS_TRY(ls_cuda_stream_of(s, &stream));
    if (last && bytes == ls_range_bytes(&m->from)) {
        library->nvshmemx_putmem_signal_on_stream(to, from, bytes, m->word, m->generation, LS_NVSHMEM_SIGNAL_SET,
                                                  m->peer, stream);
        return ls_ok();
    }
    library->nvshmemx_putmem_on_stream(to, from, bytes, m->peer, stream);
    if (!last) return ls_ok();
    library->nvshmemx_quiet_on_stream(stream);
    signal_peer(s, stream);
    return ls_ok();
}

static ls_status message(cuda_submission *s) {
    const ls_device_message *m = s->work->message;
    ls_cuda_stream stream;
    LS_TRY(ls_cuda_stream_of(s, &stream));
    if (m->awaits) {
        library_of(s->c)->nvshmemx_signal_wait_until_on_stream(m->word, LS_NVSHMEM_GEQ, m->generation, stream);
        return ls_cuda_show(s);
    }
    if (m->source != NULL && ls_range_bytes(&m->from) > 0) return ls_cuda_send(s, put);
    signal_peer(s, stream);
    return ls_ok();
}

/* A stream takes some thousand operations; a put is a few of them. */
enum { ROOM = 256 };

const ls_cuda_route ls_cuda_route_nvshmem = {
    .name = "nvshmem", .room = ROOM, .load = load, .connect = connect_ranks, .message = message, .close = close_route};
