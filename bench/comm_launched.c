/*
 * A put with a signal between two launched ranks, over the transport that LONGSPAN_TRANSPORTS names or the world
 * chooses: what bench/peers/comm_mpi.c measures of MPI's messages. bench/comm_hosts.sh starts both.
 *
 * Bytes go to a peer who then reads them all, and a signal comes back; of 8 bytes as many come back. Rank 0 prints a
 * line "said put BYTES SECONDS" for each size: the median over its rounds of a trip there and back.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "run/run.h"

enum { WORD_DATA, WORD_ANSWER, WORDS, ROUNDS = 3, WARM = 8 };

#define LARGEST ((size_t)16 << 20)
#define LINE ((size_t)64)

static const size_t sizes[] = {8, 4 << 10, 64 << 10, 1 << 20, LARGEST};
static const double batch_seconds = 0.02;

typedef struct side {
    ls_comm *comm;
    size_t bytes;
    char *source, *slot; /* in the heap: source behind slot */
    uint64_t generation;
    uint64_t sum; /* of what was read, so that it is read */
} side;

static bool is_latency(const side *s) { return s->bytes == sizes[0]; }

/* What is sent was just made: else it would lie in the caches of a peer who copies it from there. */
static void make_payload(const side *s) {
    for (size_t i = 0; i < s->bytes; i += LINE) s->source[i]++;
}

/* With four sums: one addition at a time would bound the reading, by where the loop lies in the program. */
static void read_all(side *s) {
    const uint64_t *words = (const uint64_t *)(const void *)s->slot;
    if (is_latency(s)) return;
    uint64_t sum[4] = {0};
    for (size_t i = 0; i + LS_COUNT(sum) <= s->bytes / sizeof *words; i += LS_COUNT(sum))
        for (size_t k = 0; k < LS_COUNT(sum); k++) sum[k] += words[i + k];
    s->sum += sum[0] + sum[1] + sum[2] + sum[3];
}

static void give(const side *s, int word, size_t bytes) {
    const ls_range range = ls_range_flat(0, bytes);
    const int peer = 1 - ls_comm_rank(s->comm);
    if (bytes > 0)
        ls_comm_put_signal(s->comm, peer, &range, s->source, &range, word, s->generation);
    else
        ls_comm_signal(s->comm, peer, word, s->generation);
}

static ls_status trip(side *s) {
    s->generation++;
    ls_comm_tick(s->comm);
    if (ls_comm_rank(s->comm) == 0) {
        give(s, WORD_DATA, s->bytes);
        return ls_comm_wait(s->comm, WORD_ANSWER, s->generation, 1, "answer");
    }
    LS_TRY(ls_comm_wait(s->comm, WORD_DATA, s->generation, 0, "question"));
    read_all(s);
    give(s, WORD_ANSWER, is_latency(s) ? s->bytes : 0);
    return ls_ok();
}

/* *seconds becomes the mean of n trips, without the making of what is sent. */
static ls_status time_trips(side *s, int64_t n, double *seconds) {
    const bool makes = !is_latency(s) && ls_comm_rank(s->comm) == 0;
    LS_TRY(ls_comm_barrier(s->comm));
    double start = ls_seconds(), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (makes) {
            sum += ls_seconds() - start;
            make_payload(s);
            start = ls_seconds();
        }
        LS_TRY(trip(s));
    }
    *seconds = (sum + ls_seconds() - start) / (double)n;
    return ls_ok();
}

static ls_status measure(side *s) {
    double seconds[ROUNDS];
    for (int i = 0; i < 2; i++) LS_TRY(time_trips(s, WARM, &seconds[0])); /* the first warms up */
    int64_t n = 1 + (int64_t)(batch_seconds / seconds[0]);
    LS_TRY(ls_comm_broadcast(s->comm, &n, sizeof n));
    for (int r = 0; r < ROUNDS; r++) LS_TRY(time_trips(s, n, &seconds[r]));
    if (ls_comm_rank(s->comm) == 0) printf("said put %zu %.12f\n", s->bytes, ls_median(seconds, ROUNDS));
    return ls_ok();
}

/* A processor of its own, as the other side has. */
static void pin(int rank) {
    cpu_set_t allowed, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == rank) CPU_SET(cpu, &own);
    if (CPU_COUNT(&own) == 1) (void)sched_setaffinity(0, sizeof own, &own);
}

static ls_status on_rank(ls_comm *comm, void *context) {
    (void)context;
    pin(ls_comm_rank(comm));
    side s = {.comm = comm, .slot = ls_comm_heap(comm)};
    s.source = s.slot + LARGEST;
    memset(s.slot, 1, 2 * LARGEST); /* placed by its owner */
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        s.bytes = sizes[i];
        LS_TRY(measure(&s));
    }
    if (s.sum == 1) puts("said nothing"); /* never: but the compiler cannot know */
    return ls_comm_barrier(comm);
}

int main(void) {
    const ls_world_options options = {
        .ranks = 2, .heap_bytes = 2 * LARGEST, .words = WORDS, .may_spin = true, .wait_timeout = 30};
    ls_world *world;
    ls_status status = ls_world_create(NULL, &options, &world);
    if (status.code == LS_OK) {
        status = ls_launch(world, options.ranks, false, on_rank, NULL);
        ls_world_destroy(world);
    }
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    return status.code != LS_OK;
}
