/*
 * A put with a signal between two launched ranks, over the transport that LONGSPAN_TRANSPORTS names or that the world
 * chooses. bench/peers/comm_mpi.c measures the same with MPI's messages; bench/comm_hosts.sh starts both.
 *
 * Bytes go to a peer, which reads them all, and a signal comes back; with 8 bytes, 8 bytes come back. Rank 0 prints a
 * line "said put BYTES SECONDS" for each size: the median, over its rounds, of a trip there and back.
 */
#include <stdio.h>
#include <string.h>

#include "cli/bench/trip.h"
#include "run/run.h"

enum { WORD_DATA, WORD_ANSWER, WORDS, ROUNDS = 3 };

typedef struct side {
    ls_comm *comm;
    size_t bytes;
    char *source, *slot; /* in the heap, source after slot */
    uint64_t generation;
    uint64_t sum; /* of the bytes read, so that the reads are not optimised away */
} side;

static void give(const side *s, int word, size_t bytes) {
    const ls_range range = ls_range_flat(0, bytes);
    const int peer = 1 - ls_comm_rank(s->comm);
    if (bytes > 0)
        ls_comm_put_signal(s->comm, peer, &range, s->source, &range, word, s->generation);
    else
        ls_comm_signal(s->comm, peer, word, s->generation);
}

static ls_status meet(void *of) { return ls_comm_barrier(((side *)of)->comm); }

static ls_status trip(void *of) {
    side *s = of;
    const bool latency = ls_trip_is_latency(s->bytes);
    s->generation++;
    ls_comm_tick(s->comm);
    if (ls_comm_rank(s->comm) == 0) {
        give(s, WORD_DATA, s->bytes);
        return ls_comm_wait(s->comm, WORD_ANSWER, s->generation, 1, "answer");
    }
    LS_TRY(ls_comm_wait(s->comm, WORD_DATA, s->generation, 0, "question"));
    if (!latency) s->sum += ls_trip_read(s->slot, s->bytes);
    give(s, WORD_ANSWER, latency ? s->bytes : 0);
    return ls_ok();
}

static ls_status measure(side *s) {
    const bool writes = !ls_trip_is_latency(s->bytes) && ls_comm_rank(s->comm) == 0;
    const ls_trips trips = {s, meet, trip, writes ? s->source : NULL, s->bytes};
    double seconds[ROUNDS];
    int64_t n;
    LS_TRY(ls_trips_count(&trips, &n));
    LS_TRY(ls_comm_broadcast(s->comm, &n, sizeof n));
    for (int r = 0; r < ROUNDS; r++) LS_TRY(ls_trips_time(&trips, n, &seconds[r]));
    if (ls_comm_rank(s->comm) == 0) printf("said put %zu %.12f\n", s->bytes, ls_median(seconds, ROUNDS));
    return ls_ok();
}

static ls_status on_rank(ls_comm *comm, void *context) {
    (void)context;
    ls_trip_pin(ls_comm_rank(comm));
    side s = {.comm = comm, .slot = ls_comm_heap(comm)};
    s.source = s.slot + LS_TRIP_LARGEST;
    memset(s.slot, 1, 2 * LS_TRIP_LARGEST); /* so that the pages are placed by their owner */
    for (size_t i = 0; i < LS_COUNT(ls_trip_sizes); i++) {
        s.bytes = ls_trip_sizes[i];
        LS_TRY(measure(&s));
    }
    if (s.sum == 1) puts("said nothing"); /* never true, but the compiler cannot know that */
    return ls_comm_barrier(comm);
}

int main(void) {
    const ls_world_options options = {.ranks = 2,
                                      .heap_bytes = 2 * LS_TRIP_LARGEST,
                                      .words = WORDS,
                                      .may_spin = true,
                                      .wait_timeout = 30,
                                      .unguarded = true};
    ls_world *world;
    ls_status status = ls_world_create(NULL, &options, &world);
    if (status.code == LS_OK) {
        status = ls_launch(world, options.ranks, false, on_rank, NULL);
        ls_world_destroy(world);
    }
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    return status.code != LS_OK;
}
