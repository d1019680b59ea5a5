/*
 * What `longspan bench comm` measures, by MPI: bytes go to a peer who then reads them all, and an answer comes back. A
 * plain program of two ranks, built with each MPI that there is and started by bench/comm_mpi.c, which puts the figures
 * side by side.
 *
 *   send     MPI_Send and MPI_Recv
 *   put      MPI_Put, MPI_Win_flush, then a flag by MPI_Put; one passive epoch for all; the reader looks at its own
 *            window
 *   shared   MPI_Win_allocate_shared: a copy and a flag by plain stores
 *
 * Rank 0 prints a line "said WAY BYTES SECONDS" for each: the median over its rounds of a trip there and back. With the
 * argument "send" it measures messages alone: between hosts there are no shared windows, and not everywhere others.
 */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/bench/trip.h"

enum { ROUNDS = 3, LOOKS_BETWEEN_PROGRESS = 64 };

#define LARGEST LS_TRIP_LARGEST
#define HUGE_PAGE ((size_t)2 << 20)
/* Of a window: what is put | the flag, on a page of its own. */
#define FLAG_AT LARGEST
#define WINDOW_BYTES (LARGEST + 4096)

typedef struct window {
    MPI_Win handle;
    char *mine, *theirs; /* theirs: of shared alone */
} window;

typedef struct side {
    int rank, peer;
    size_t bytes;
    char *source, *slot; /* slot: of messages */
    window put, shared;
    uint64_t value; /* of the flag, so far */
    uint64_t sum;   /* of what was read, so that it is read */
} side;

static void read_all(side *s, const char *data) {
    if (!ls_trip_is_latency(s->bytes)) s->sum += ls_trip_read(data, s->bytes);
}

static size_t answer_bytes(const side *s) { return ls_trip_is_latency(s->bytes) ? s->bytes : 0; }

/* --- the ways ----------------------------------------------------------------------------------------------------- */

static void give(side *s, size_t bytes) { MPI_Send(s->source, (int)bytes, MPI_BYTE, s->peer, 0, MPI_COMM_WORLD); }

static void take(side *s, size_t bytes) {
    MPI_Recv(s->slot, (int)bytes, MPI_BYTE, s->peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static ls_status trip_by_send(void *of) {
    side *s = of;
    if (s->rank == 0) {
        give(s, s->bytes);
        take(s, answer_bytes(s));
    } else {
        take(s, s->bytes);
        read_all(s, s->slot);
        give(s, answer_bytes(s));
    }
    return ls_ok();
}

static _Atomic uint64_t *flag_in(char *memory) { return (_Atomic uint64_t *)(void *)(memory + FLAG_AT); }

static void put(side *s, size_t bytes) {
    if (bytes > 0) {
        MPI_Put(s->source, (int)bytes, MPI_BYTE, s->peer, 0, (int)bytes, MPI_BYTE, s->put.handle);
        MPI_Win_flush(s->peer, s->put.handle); /* before the flag may be seen */
    }
    MPI_Put(&s->value, 8, MPI_BYTE, s->peer, (MPI_Aint)FLAG_AT, 8, MPI_BYTE, s->put.handle);
    MPI_Win_flush(s->peer, s->put.handle);
}

/* Some MPIs move puts on only while their target is in MPI. */
static void await_put(side *s) {
    int any, looks = 0;
    while (atomic_load_explicit(flag_in(s->put.mine), memory_order_acquire) < s->value) {
        MPI_Win_sync(s->put.handle);
        if (++looks % LOOKS_BETWEEN_PROGRESS == 0) MPI_Iprobe(s->peer, 1, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
    }
    MPI_Win_sync(s->put.handle);
}

static ls_status trip_by_put(void *of) {
    side *s = of;
    s->value++;
    if (s->rank == 0) {
        put(s, s->bytes);
        await_put(s);
    } else {
        await_put(s);
        read_all(s, s->put.mine);
        put(s, answer_bytes(s));
    }
    return ls_ok();
}

static void store(side *s, size_t bytes) {
    if (bytes > 0) memcpy(s->shared.theirs, s->source, bytes);
    MPI_Win_sync(s->shared.handle);
    atomic_store_explicit(flag_in(s->shared.theirs), s->value, memory_order_release);
}

static void await_store(side *s) {
    for (unsigned looks = 1; atomic_load_explicit(flag_in(s->shared.mine), memory_order_acquire) < s->value; looks++) {
        ls_pause();
        if (looks % 4096 == 0) sched_yield();
    }
    MPI_Win_sync(s->shared.handle);
}

static ls_status trip_by_store(void *of) {
    side *s = of;
    s->value++;
    if (s->rank == 0) {
        store(s, s->bytes);
        await_store(s);
    } else {
        await_store(s);
        read_all(s, s->shared.mine);
        store(s, answer_bytes(s));
    }
    return ls_ok();
}

static const struct {
    const char *name;
    ls_status (*trip)(void *side);
} ways[] = {{"send", trip_by_send}, {"put", trip_by_put}, {"shared", trip_by_store}};

/* --- a rank ------------------------------------------------------------------------------------------------------- */

/* In huge pages where the system gives them: more than Longspan's shared heap has everywhere. */
static char *make_room(void) {
    char *memory = aligned_alloc(HUGE_PAGE, LARGEST);
    if (memory == NULL) abort();
    (void)madvise(memory, LARGEST, MADV_HUGEPAGE);
    return memset(memory, 1, LARGEST);
}

static void open_windows(side *s) {
    MPI_Win_allocate((MPI_Aint)WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &s->put.mine, &s->put.handle);
    MPI_Win_allocate_shared((MPI_Aint)WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &s->shared.mine,
                            &s->shared.handle);
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(s->shared.handle, s->peer, &bytes, &unit, &s->shared.theirs);
    window *const both[] = {&s->put, &s->shared};
    for (int i = 0; i < 2; i++) {
        memset(both[i]->mine, 0, WINDOW_BYTES); /* placed by its owner */
        MPI_Win_lock_all(MPI_MODE_NOCHECK, both[i]->handle);
        MPI_Win_sync(both[i]->handle);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void close_windows(side *s) {
    window *const both[] = {&s->put, &s->shared};
    for (int i = 0; i < 2; i++) {
        MPI_Win_unlock_all(both[i]->handle);
        MPI_Win_free(&both[i]->handle);
    }
}

static ls_status meet(void *side) {
    (void)side;
    MPI_Barrier(MPI_COMM_WORLD);
    return ls_ok();
}

static ls_status measure(side *s, size_t way) {
    const bool writes = !ls_trip_is_latency(s->bytes) && s->rank == 0;
    const ls_trips trips = {s, meet, ways[way].trip, writes ? s->source : NULL, s->bytes};
    double seconds[ROUNDS];
    int64_t n;
    LS_TRY(ls_trips_count(&trips, &n));
    MPI_Bcast(&n, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    for (int r = 0; r < ROUNDS; r++) LS_TRY(ls_trips_time(&trips, n, &seconds[r]));
    if (s->rank == 0) printf("said %s %zu %.12f\n", ways[way].name, s->bytes, ls_median(seconds, ROUNDS));
    return ls_ok();
}

static ls_status measure_all(side *s, size_t n_ways) {
    for (size_t i = 0; i < LS_COUNT(ls_trip_sizes); i++) {
        s->bytes = ls_trip_sizes[i];
        for (size_t way = 0; way < n_ways; way++) LS_TRY(measure(s, way));
    }
    return ls_ok();
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    side s = {0};
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    s.peer = 1 - s.rank;
    ls_trip_pin(s.rank);
    s.source = make_room();
    s.slot = make_room();
    const bool messages_alone = argc == 2 && strcmp(argv[1], "send") == 0;
    if (!messages_alone) open_windows(&s);
    (void)measure_all(&s, messages_alone ? 1 : LS_COUNT(ways)); /* nothing in it returns an error: MPI aborts */
    if (!messages_alone) close_windows(&s);
    free(s.source);
    free(s.slot);
    if (s.sum == 1) puts("said nothing"); /* never: but the compiler cannot know */
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
