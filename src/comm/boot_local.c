/*
 * The boot of ranks that this process starts, by fork or as threads. The values that they exchange lie in one shared
 * mapping, which is made before they start.
 */
#include "comm/comm_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GATHER_SECONDS 60.0 /* a rank that has not come to a gather within this time is taken for missing */
#define POLL_MICROSECONDS 200

/*
 * The start of the mapping. `calls` and `stopped` of each rank follow, then two sets of values, which gathers use in
 * turn.
 */
typedef struct shared {
    ls_notice notice;
    _Atomic uint64_t arrived; /* calls of gather by all ranks together */
} shared;

typedef struct local {
    ls_mapping mapping;
    shared *shared;
    _Atomic uint64_t *calls; /* [ranks] calls of gather so far */
    _Atomic bool *stopped;
    char *values;
} local;

static ls_status open_local(ls_boot *boot) {
    const size_t ranks = (size_t)boot->ranks;
    local *l = calloc(1, sizeof *l);
    if (l == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a world", sizeof *l);
    const size_t calls = ls_round_up(sizeof(shared), 64), stopped = calls + ranks * sizeof *l->calls;
    const size_t values = ls_round_up(stopped + ranks * sizeof *l->stopped, 64);
    const ls_status status = ls_map_shared(values + 2 * ranks * LS_GATHER_VALUE, &l->mapping);
    if (status.code != LS_OK) {
        free(l);
        return status;
    }
    char *base = l->mapping.base;
    l->shared = (shared *)base;
    l->calls = (_Atomic uint64_t *)(base + calls);
    l->stopped = (_Atomic bool *)(base + stopped);
    l->values = base + values;
    boot->notice = &l->shared->notice;
    boot->stopped = l->stopped;
    boot->state = l;
    boot->has_secret = true; /* only this process and its children have the memory */
    memcpy(boot->address, "127.0.0.1", sizeof "127.0.0.1");
    return ls_ok();
}

/* LS_PEER that names a rank which has not come to gather number n. */
static ls_status missing(const ls_boot *boot, int rank, uint64_t n) {
    const local *l = boot->state;
    int late = 0;
    while (late < boot->ranks - 1 && atomic_load(&l->calls[late]) >= n) late++;
    return ls_error(LS_PEER, "rank %d waited %.3g s for rank %d to join the world", rank, GATHER_SECONDS, late);
}

/*
 * Gather n + 2 reuses the memory of the values of gather n. A rank enters it only after all ranks have come to gather n
 * + 1, hence have read the values of n.
 */
static ls_status gather(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all) {
    local *l = boot->state;
    const uint64_t n = 1 + atomic_fetch_add(&l->calls[rank], 1);
    char *values = l->values + (n & 1) * (size_t)boot->ranks * LS_GATHER_VALUE;
    memcpy(values + (size_t)rank * LS_GATHER_VALUE, mine, bytes);
    atomic_fetch_add(&l->shared->arrived, 1);
    for (const double began = ls_seconds(); atomic_load(&l->shared->arrived) < n * (uint64_t)boot->ranks;) {
        LS_TRY(ls_notice_aborted(boot->notice));
        if (ls_seconds() - began > GATHER_SECONDS) return missing(boot, rank, n);
        usleep(POLL_MICROSECONDS);
    }
    for (int r = 0; r < boot->ranks; r++)
        memcpy((char *)all + (size_t)r * bytes, values + (size_t)r * LS_GATHER_VALUE, bytes);
    return ls_ok();
}

static void close_local(ls_boot *boot) {
    local *l = boot->state;
    ls_unmap(&l->mapping);
    free(l);
}

void ls_boot_set_stopped(ls_boot *boot, int rank, bool stopped) {
    const local *l = boot->state;
    atomic_store(&l->stopped[rank], stopped);
}

const ls_boot_kind ls_boot_local = {.name = "local", .open = open_local, .gather = gather, .close = close_local};
