/*
 * What a put, a signal and a wait cost between two processes of this host. One JSON object per line on
 * standard output.
 *
 *   gcc -std=gnu11 -D_GNU_SOURCE -O3 -Iinclude -Isrc bench/comm.c build/liblongspan.a \
 *       -o build/bench-comm -ldnnl -ljansson -lpthread -lm
 *   build/bench-comm [seconds per measurement, 0.5]
 *
 * round_trip: rank 0 puts 8 bytes with a signal, rank 1 waits and answers likewise; nanoseconds for both ways
 * together. put: rank 0 puts and signals, rank 1 only acknowledges; bytes put per second (a copy reads and
 * writes as many).
 */
#include "base/median.h"
#include "run/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 64, WORD_DATA = 0, WORD_ACK = 1 };
#define LARGEST ((size_t)16 << 20)

/* One thing to measure. */
typedef struct measurement {
    const char *name;
    size_t bytes;  /* of one put */
    bool answered; /* rank 1 puts as much back */
    bool may_spin;
    double seconds;
} measurement;

/* Puts `bytes` of this rank's heap into the peer's with the generation, and waits for the answer. */
static ls_status ask(ls_comm *comm, size_t bytes, uint64_t generation) {
    const ls_range range = ls_range_flat(0, bytes);
    const char *source = (const char *)ls_comm_heap(comm) + LARGEST;
    ls_comm_put_signal(comm, 1, &range, source, &range, WORD_DATA, generation);
    return ls_comm_wait(comm, WORD_ACK, generation, 1, "answer");
}

static ls_status answer(ls_comm *comm, const measurement *m, uint64_t generation) {
    LS_TRY(ls_comm_wait(comm, WORD_DATA, generation, 0, "question"));
    const ls_range range = ls_range_flat(0, m->bytes);
    const char *source = (const char *)ls_comm_heap(comm) + LARGEST;
    if (m->answered)
        ls_comm_put_signal(comm, 0, &range, source, &range, WORD_ACK, generation);
    else
        ls_comm_signal(comm, 0, WORD_ACK, generation);
    return ls_ok();
}

static void print(const measurement *m, double times[BATCHES], long per_batch) {
    const double median = ls_median(times, BATCHES) / (double)per_batch, best = times[0] / (double)per_batch;
    printf("{\"bench\": \"comm\", \"what\": \"%s\", \"bytes\": %zu, \"spin\": %s, \"median_ns\": %.1f, "
           "\"best_ns\": %.1f, \"median_gigabytes_per_second\": %.2f}\n",
           m->name, m->bytes, m->may_spin ? "true" : "false", median * 1e9, best * 1e9,
           (double)m->bytes / median * 1e-9);
}

/* Rank 0 decides how many trips make a batch, from a first one of the same length on both sides. */
static ls_status measure(ls_comm *comm, void *context) {
    const measurement *m = context;
    const int rank = ls_comm_rank(comm);
    uint64_t generation = 0;
    double times[BATCHES];
    long per_batch = 8;
    memset(ls_comm_heap(comm), 1, 2 * LARGEST); /* placed by its owner, and no page fault later */
    LS_TRY(ls_comm_barrier(comm));
    for (int batch = -1; batch < BATCHES; batch++) {
        const double start = ls_seconds();
        for (long i = 0; i < per_batch; i++) {
            generation++;
            LS_TRY(rank == 0 ? ask(comm, m->bytes, generation) : answer(comm, m, generation));
        }
        const double passed = ls_seconds() - start;
        ls_comm_tick(comm);
        if (batch >= 0) {
            times[batch] = passed;
            continue;
        }
        long both[2];
        const long wanted = 1 + (long)(m->seconds / BATCHES / (passed / (double)per_batch));
        LS_TRY(ls_comm_exchange(comm, &wanted, sizeof wanted, both));
        per_batch = both[0];
    }
    if (rank == 0) print(m, times, per_batch);
    return ls_ok();
}

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.5;
    const measurement all[] = {
        {"round_trip", 8, true, true, seconds},         {"round_trip", 8, true, false, seconds},
        {"put", 64 << 10, false, true, seconds},        {"put", 1 << 20, false, true, seconds},
        {"put", (size_t)LARGEST, false, true, seconds},
    };
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        measurement m = all[i];
        const ls_world_options options = {
            .ranks = 2, .heap_bytes = 2 * LARGEST, .words = 2, .may_spin = m.may_spin, .wait_timeout = 30.0};
        ls_world *world;
        ls_status status = ls_world_create("shm", &options, &world);
        if (status.code == LS_OK) {
            status = ls_launch(world, 2, false, measure, &m);
            ls_world_destroy(world);
        }
        if (status.code != LS_OK) {
            ls_log("%s", status.text);
            return 1;
        }
    }
    return 0;
}
