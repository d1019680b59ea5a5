/*
 * A library that stands in for NVSHMEM (remote.h; FAKE_NVSHMEM). Puts arrive in any order, and after their sources have
 * been read; a signal comes with the bytes of its own put; quiet waits for all. One allocation. Mistakes of the caller
 * end the process.
 */
#include "cuda/routes/remote.h"
#include "device/cuda/nvshmem.h"

#include <stdlib.h>
#include <string.h>

#define DECLARE(result, function, arguments) result function arguments;
LS_NVSHMEM_FUNCTIONS(DECLARE)

/* Of the process: one PE. */
static struct {
    remote_world *world;
    remote_settings settings;
    remote_memory memory;
    bool allocated;
} pe;

static void expect(bool fine, const char *what) {
    if (!fine) remote_abort("NVSHMEM", what);
}

static bool fails(const char *call) { return remote_fails(&pe.settings, call); }

void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch) {
    pe.settings = remote_read_settings("FAKE_NVSHMEM", 30800);
    *major = (int)pe.settings.version / 10000;
    *minor = (int)pe.settings.version / 100 % 100;
    *patch = (int)pe.settings.version % 100;
}

int nvshmemx_get_uniqueid(ls_nvshmem_id *id) {
    expect(id->version == LS_NVSHMEM_VERSION(ls_nvshmem_id), "an id without its version");
    if (fails("nvshmemx_get_uniqueid")) return 7;
    remote_make_id(id->bytes);
    return 0;
}

int nvshmemx_set_attr_uniqueid_args(const int rank, const int ranks, const ls_nvshmem_id *id,
                                    ls_nvshmem_attributes *attributes) {
    expect(attributes->version == LS_NVSHMEM_VERSION(ls_nvshmem_attributes) &&
               attributes->arguments.version == LS_NVSHMEM_VERSION(ls_nvshmem_arguments) &&
               attributes->arguments.place.version == LS_NVSHMEM_VERSION(ls_nvshmem_place),
           "attributes without their versions");
    if (fails("nvshmemx_set_attr_uniqueid_args")) return 7;
    ls_nvshmem_id *copied = malloc(sizeof *copied); /* stays, like what the process is */
    expect(copied != NULL, "no memory");
    *copied = *id;
    attributes->arguments.place.id = copied;
    attributes->arguments.place.rank = rank;
    attributes->arguments.place.ranks = ranks;
    return 0;
}

int nvshmemx_hostlib_init_attr(unsigned flags, ls_nvshmem_attributes *attributes) {
    const ls_nvshmem_place *place = &attributes->arguments.place;
    expect(flags == LS_NVSHMEM_BY_ID && pe.world == NULL, "one initialisation, by an id");
    pe.world = remote_join("NVSHMEM", place->id->bytes, place->rank, place->ranks);
    free(place->id);
    return fails("nvshmemx_hostlib_init_attr") ? 7 : 0;
}

void nvshmemx_hostlib_finalize(void) {
    expect(pe.world != NULL && !pe.allocated, "what was allocated is freed first");
    remote_barrier(pe.world);
    remote_leave(pe.world);
    pe.world = NULL;
}

int nvshmem_my_pe(void) { return remote_rank(pe.world); }
int nvshmem_n_pes(void) { return remote_ranks(pe.world); }

void *nvshmem_malloc(size_t bytes) {
    expect(pe.world != NULL && !pe.allocated && bytes > 0, "one allocation");
    const bool failed = fails("nvshmem_malloc");
    remote_allocate(bytes, &pe.memory);
    remote_exchange(pe.world, &pe.memory);
    pe.allocated = true;
    return failed ? NULL : pe.memory.own;
}

void nvshmem_free(void *memory) {
    expect(pe.allocated && memory == pe.memory.own, "what was allocated");
    remote_barrier(pe.world);
    remote_free(pe.world, &pe.memory);
    pe.allocated = false;
}

/* Where a symmetric address lies at a peer. */
static char *at_peer(const void *symmetric, size_t bytes, int peer) {
    const size_t offset = (size_t)((const char *)symmetric - pe.memory.own);
    expect(pe.allocated && (const char *)symmetric >= pe.memory.own && offset + bytes <= pe.memory.bytes,
           "a symmetric address");
    expect(peer >= 0 && peer < remote_ranks(pe.world), "a peer");
    return pe.memory.plain[peer] + offset;
}

static bool is_symmetric(const void *memory, size_t bytes) {
    const char *first = memory;
    return first >= pe.memory.own && first + bytes <= pe.memory.own + pe.memory.bytes;
}

static remote_transfer transfer_to(int peer) {
    return (remote_transfer){.world = pe.world, .settings = &pe.settings, .peer = peer};
}

static void add_bytes(remote_transfer *p, void *target, const void *source, size_t bytes) {
    expect(bytes > 0 && is_symmetric(source, bytes), "a source that networks can read");
    p->from = source;
    p->to = at_peer(target, bytes, p->peer);
    p->bytes = bytes;
}

static void add_word(remote_transfer *p, const uint64_t *word, uint64_t value, int kind) {
    expect(kind == LS_NVSHMEM_SIGNAL_SET && (uintptr_t)word % sizeof *word == 0, "a word that is set");
    p->word = (uint64_t *)(void *)at_peer(word, sizeof *word, p->peer);
    p->value = value;
}

void nvshmemx_putmem_on_stream(void *target, const void *source, size_t bytes, int peer, struct CUstream_st *stream) {
    remote_transfer p = transfer_to(peer);
    add_bytes(&p, target, source, bytes);
    if (!fails("nvshmemx_putmem_on_stream")) remote_send(stream, &p);
}

void nvshmemx_putmem_signal_on_stream(void *target, const void *source, size_t bytes, uint64_t *word, uint64_t value,
                                      int kind, int peer, struct CUstream_st *stream) {
    remote_transfer p = transfer_to(peer);
    add_bytes(&p, target, source, bytes);
    add_word(&p, word, value, kind);
    if (!fails("nvshmemx_putmem_signal_on_stream")) remote_send(stream, &p);
}

void nvshmemx_signal_op_on_stream(uint64_t *word, uint64_t value, int kind, int peer, struct CUstream_st *stream) {
    remote_transfer p = transfer_to(peer);
    add_word(&p, word, value, kind);
    if (!fails("nvshmemx_signal_op_on_stream")) remote_send(stream, &p);
}

void nvshmemx_signal_wait_until_on_stream(uint64_t *word, int condition, uint64_t value, struct CUstream_st *stream) {
    expect(condition == LS_NVSHMEM_GEQ && is_symmetric(word, sizeof *word), "a word of its own");
    expect(remote_await(stream, (uintptr_t)word, value) == 0, "a wait that the driver takes");
}

void nvshmemx_quiet_on_stream(struct CUstream_st *stream) { remote_quiet(stream, pe.world); }
