/*
 * A library that stands in for NCCL (remote.h; FAKE_NCCL). What is launched in a communicator is executed one after
 * another, also on several streams. A put waits within its call where too many to the same rank have been launched that
 * their streams have not come to. Puts arrive late, those to one rank in their order; signals are counted by sender
 * and number. Mistakes of the caller end the process.
 */
#include "cuda/routes/remote.h"
#include "device/cuda/nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DECLARE(function, arguments) unsigned function arguments;
LS_NCCL_FUNCTIONS(DECLARE)
const char *ncclGetLastError(ls_nccl_comm comm);
const char *ncclGetErrorString(unsigned result);

enum { INVALID_ARGUMENT = 4, SYSTEM_ERROR = 2, MOST_BLOCKS = 16, MOST_UNSENT = 32, MOST_SECONDS = 20 };

struct ncclWindow_vidmem {
    remote_memory memory; /* as this communicator has it */
    struct ncclWindow_vidmem *next;
};

struct ncclComm {
    remote_world *world;
    remote_memory signals; /* by sender and number: how many have come */
    remote_memory chain;   /* a word: how many operations have been executed */
    uint64_t launched;
    uint64_t *expected; /* by sender and number: how many are waited for */
    int n_signals;
    struct ncclWindow_vidmem *windows;
};

/* Of the process. */
static struct {
    pthread_mutex_t lock;
    remote_settings settings;
    char text[256];
    bool read;
    remote_memory blocks[MOST_BLOCKS];
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void expect(bool fine, const char *what) {
    if (!fine) remote_abort("NCCL", what);
}

static bool fails(const char *call) { return remote_fails(&library.settings, call); }

unsigned ncclGetVersion(int *version) {
    const char *text = getenv("FAKE_NCCL");
    if (text == NULL) text = "";
    pthread_mutex_lock(&library.lock);
    if (!library.read || strcmp(text, library.text) != 0) {
        snprintf(library.text, sizeof library.text, "%s", text);
        library.settings = remote_read_settings("FAKE_NCCL", 23203);
        library.read = true;
    }
    *version = (int)library.settings.version;
    pthread_mutex_unlock(&library.lock);
    return 0;
}

const char *ncclGetLastError(ls_nccl_comm comm) {
    (void)comm;
    return "it was told to fail";
}
const char *ncclGetErrorString(unsigned result) {
    return result == INVALID_ARGUMENT ? "invalid argument"
           : result == SYSTEM_ERROR   ? "unhandled system error"
                                      : "other";
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

unsigned ncclGetUniqueId(ls_nccl_id *id) {
    if (fails("ncclGetUniqueId")) return SYSTEM_ERROR;
    remote_make_id(id->bytes);
    return 0;
}

unsigned ncclCommInitRankConfig(ls_nccl_comm *comm, int ranks, ls_nccl_id id, int rank, ls_nccl_config *config) {
    expect(config->size == sizeof *config && config->magic == LS_NCCL_MAGIC && config->version >= LS_NCCL_OLDEST,
           "a configuration of this version");
    expect(config->blocking == LS_NCCL_UNSET && config->host_cft == LS_NCCL_UNSET, "what is not set is marked so");
    if (config->rma_signals < 1) return INVALID_ARGUMENT;
    struct ncclComm *c = calloc(1, sizeof *c);
    expect(c != NULL, "memory");
    c->world = remote_join("NCCL", id.bytes, rank, ranks);
    c->n_signals = config->rma_signals;
    c->expected = calloc((size_t)(ranks * c->n_signals), sizeof *c->expected);
    remote_allocate(sizeof(uint64_t) * (size_t)(ranks * c->n_signals), &c->signals);
    remote_exchange(c->world, &c->signals);
    remote_allocate(sizeof(uint64_t), &c->chain);
    *comm = c;
    return fails("ncclCommInitRankConfig") ? SYSTEM_ERROR : 0;
}

unsigned ncclCommDestroy(ls_nccl_comm comm) {
    expect(comm->windows == NULL, "windows are gone before their communicator");
    remote_barrier(comm->world);
    remote_free(comm->world, &comm->signals);
    remote_free(NULL, &comm->chain);
    remote_leave(comm->world);
    free(comm->expected);
    free(comm);
    return 0;
}

unsigned ncclCommGetAsyncError(ls_nccl_comm comm, unsigned *error) {
    expect(comm != NULL, "a communicator");
    *error = fails("ncclCommGetAsyncError") ? SYSTEM_ERROR : 0;
    return 0;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static remote_memory *find_block(const void *memory) {
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (library.blocks[i].own == memory) return &library.blocks[i];
    remote_abort("NCCL", "memory that ncclMemAlloc has made");
}

unsigned ncclMemAlloc(void **memory, size_t bytes) {
    if (fails("ncclMemAlloc")) return SYSTEM_ERROR;
    pthread_mutex_lock(&library.lock);
    remote_memory *block = find_block(NULL);
    remote_allocate(bytes, block);
    *memory = block->own;
    pthread_mutex_unlock(&library.lock);
    return 0;
}

unsigned ncclMemFree(void *memory) {
    pthread_mutex_lock(&library.lock);
    remote_memory *block = find_block(memory);
    remote_free(NULL, block);
    *block = (remote_memory){0};
    pthread_mutex_unlock(&library.lock);
    return 0;
}

unsigned ncclCommWindowRegister(ls_nccl_comm comm, void *memory, size_t bytes, ls_nccl_window *window, int flags) {
    pthread_mutex_lock(&library.lock);
    const remote_memory block = *find_block(memory);
    pthread_mutex_unlock(&library.lock);
    expect(flags == LS_NCCL_WINDOW_SYMMETRIC && block.bytes == bytes, "a window of a whole allocation");
    struct ncclWindow_vidmem *w = calloc(1, sizeof *w);
    expect(w != NULL, "memory");
    w->memory = block;
    remote_exchange(comm->world, &w->memory);
    w->next = comm->windows;
    comm->windows = w;
    *window = library.settings.windows ? w : NULL;
    return fails("ncclCommWindowRegister") ? SYSTEM_ERROR : 0;
}

/* The memory itself is freed by ncclMemFree: here only what of others is mapped. */
unsigned ncclCommWindowDeregister(ls_nccl_comm comm, ls_nccl_window window) {
    struct ncclWindow_vidmem **place = &comm->windows;
    while (*place != NULL && *place != window) place = &(*place)->next;
    expect(*place == window, "a window of the communicator");
    *place = window->next;
    remote_unmap(comm->world, &window->memory);
    free(window);
    return 0;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static void end_link(void *context) { __atomic_add_fetch((uint64_t *)context, 1, __ATOMIC_RELEASE); }

/* What is launched comes after all that was launched in the communicator before. */
static void begin_operation(ls_nccl_comm comm, void *stream) {
    expect(remote_await(stream, (uintptr_t)comm->chain.own, comm->launched) == 0, "a stream that waits");
    comm->launched++;
}

static void end_operation(ls_nccl_comm comm, void *stream) {
    remote_find_driver()->run(stream, end_link, NULL,
                              remote_find_driver()->find((uintptr_t)comm->chain.own, sizeof(uint64_t)));
}

static bool is_in_window(const struct ncclComm *comm, const char *source, size_t bytes) {
    for (const struct ncclWindow_vidmem *w = comm->windows; w != NULL; w = w->next)
        if (source >= w->memory.own && source + bytes <= w->memory.own + w->memory.bytes) return true;
    return false;
}

static void wait_for_room(const struct ncclComm *comm, int peer) {
    const struct timespec time = {0, 50000};
    for (long naps = 0; remote_unsent(comm->world, peer) >= MOST_UNSENT; naps++) {
        expect(naps < MOST_SECONDS * 10000L, "puts that do not wait for room for ever");
        nanosleep(&time, NULL);
    }
}

unsigned ncclPutSignal(const void *source, size_t count, unsigned type, int peer, ls_nccl_window window, size_t offset,
                       int signal, int context, unsigned flags, ls_nccl_comm comm, struct CUstream_st *stream) {
    expect(count > 0 && type == LS_NCCL_INT8 && is_in_window(comm, source, count), "a source in a window");
    expect(peer >= 0 && peer < remote_ranks(comm->world) && offset + count <= window->memory.bytes,
           "a place at a peer");
    expect(signal >= 0 && signal < comm->n_signals && context == 0 && flags == 0, "a signal's number");
    if (fails("ncclPutSignal")) return SYSTEM_ERROR;
    wait_for_room(comm, peer);
    const remote_transfer transfer = {.world = comm->world,
                                      .settings = &library.settings,
                                      .peer = peer,
                                      .from = source,
                                      .to = window->memory.plain[peer] + offset,
                                      .bytes = count,
                                      .word = (uint64_t *)(void *)comm->signals.plain[peer] +
                                              remote_rank(comm->world) * comm->n_signals + signal,
                                      .value = 1,
                                      .adds = true,
                                      .ordered = true};
    begin_operation(comm, stream);
    remote_send(stream, &transfer);
    end_operation(comm, stream);
    return 0;
}

unsigned ncclWaitSignal(int n, ls_nccl_awaited *awaited, ls_nccl_comm comm, struct CUstream_st *stream) {
    if (fails("ncclWaitSignal")) return SYSTEM_ERROR;
    begin_operation(comm, stream);
    for (int i = 0; i < n; i++) {
        const ls_nccl_awaited *a = &awaited[i];
        expect(a->count > 0 && a->peer >= 0 && a->peer < remote_ranks(comm->world), "signals of a peer");
        expect(a->signal >= 0 && a->signal < comm->n_signals && a->context == 0, "a signal's number");
        const int at = a->peer * comm->n_signals + a->signal;
        comm->expected[at] += (uint64_t)a->count;
        expect(remote_await(stream, (uintptr_t)comm->signals.own + (size_t)at * sizeof(uint64_t), comm->expected[at]) ==
                   0,
               "a stream that waits");
    }
    end_operation(comm, stream);
    return 0;
}
