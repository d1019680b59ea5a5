/*
 * A put with a signal between two processes of this host, against bare shared memory. The floor of the latency is a
 * flag that one process sets and the other polls; the floor of the bandwidth is a plain copy, such a flag, and the read
 * of the copied bytes by the other process. Reading in place, without a put, is measured too. In each round the floor
 * is measured right before the put, over the same memory; the ratio is the median of the rounds' ratios.
 */
#include "base/base.h"
#include "cli/bench/bench_impl.h"
#include "cli/bench/trip.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_DATA = 0, WORD_ANSWER = 1 };

#define LARGEST LS_TRIP_LARGEST
#define LINE ((size_t)64)

/* The heap of each rank: target of puts | source of puts | flag of the floor. */
static const size_t source_at = LARGEST, flag_at = 2 * LARGEST, heap_bytes = 2 * LARGEST + LINE;

/*
 * LATENCY: the peer sends as many bytes back, and nobody reads them. PUT: the peer reads the bytes that were put, and
 * answers with a signal. IN_PLACE: after a signal the peer reads the bytes where they lie, and answers with a signal.
 */
typedef enum kind { LATENCY, PUT, IN_PLACE } kind;

typedef struct row {
    kind kind;
    size_t bytes;
} row;

static const char *const kind_names[] = {"latency", "put", "in place"};
static const row rows[] = {
    {LATENCY, 8},        {PUT, 4 << 10},       {PUT, 64 << 10},     {PUT, 1 << 20},      {PUT, LARGEST},
    {IN_PLACE, 4 << 10}, {IN_PLACE, 64 << 10}, {IN_PLACE, 1 << 20}, {IN_PLACE, LARGEST},
};

/* Seconds of a round trip, measured by rank 0. */
typedef struct times {
    double floor[LS_BENCH_MOST_ROUNDS], put[LS_BENCH_MOST_ROUNDS];
} times;

typedef struct outcome {
    times row[LS_COUNT(rows)];
    uint64_t sum; /* of the bytes that rank 1 read, so that the reads are not optimised away */
} outcome;

typedef struct side {
    ls_comm *comm;
    const row *row;
    outcome *out;                   /* of the caller; rank 0 sends it home */
    char *mine, *theirs;            /* heaps */
    uint64_t generation, flag_seen; /* the last ones used */
} side;

/* --- trips -------------------------------------------------------------------------------------------------------- */

static void read_payload(const side *s, const char *payload) {
    if (s->row->kind != LATENCY) s->out->sum += ls_trip_read(payload, s->row->bytes);
}

static void raise_flag(const side *s, uint64_t value) {
    atomic_store_explicit((_Atomic uint64_t *)(void *)(s->theirs + flag_at), value, memory_order_release);
}

/* Yields sometimes, because both processes may run on one core. If the peer dies, ls_launch ends this process. */
static void await_flag(const side *s, uint64_t value) {
    const _Atomic uint64_t *flag = (const _Atomic uint64_t *)(const void *)(s->mine + flag_at);
    for (unsigned polls = 1; atomic_load_explicit(flag, memory_order_acquire) < value; polls++) {
        ls_pause(); /* without a pause the polls take the cache line away from its writer */
        if (polls % 4096 == 0) sched_yield();
    }
}

static ls_status bare_trip(void *of) {
    side *s = of;
    const uint64_t value = ++s->flag_seen;
    if (ls_comm_rank(s->comm) == 0) {
        if (s->row->kind != LATENCY) memcpy(s->theirs, s->mine + source_at, s->row->bytes);
        raise_flag(s, value);
        await_flag(s, value);
    } else {
        await_flag(s, value);
        read_payload(s, s->mine);
        raise_flag(s, value);
    }
    return ls_ok();
}

static ls_status put_trip(void *of) {
    side *s = of;
    const uint64_t generation = ++s->generation;
    const ls_range range = ls_range_flat(0, s->row->bytes);
    const char *source = s->mine + source_at;
    ls_comm_tick(s->comm);
    if (ls_comm_rank(s->comm) == 0) {
        if (s->row->kind == IN_PLACE)
            ls_comm_signal(s->comm, 1, WORD_DATA, generation);
        else
            ls_comm_put_signal(s->comm, 1, &range, source, &range, WORD_DATA, generation);
        return ls_comm_wait(s->comm, WORD_ANSWER, generation, 1, "answer");
    }
    LS_TRY(ls_comm_wait(s->comm, WORD_DATA, generation, 0, "question"));
    read_payload(s, s->row->kind == IN_PLACE ? s->theirs + source_at : s->mine);
    if (s->row->kind == LATENCY)
        ls_comm_put_signal(s->comm, 0, &range, source, &range, WORD_ANSWER, generation);
    else
        ls_comm_signal(s->comm, 0, WORD_ANSWER, generation);
    return ls_ok();
}

static ls_status meet(void *of) { return ls_comm_barrier(((side *)of)->comm); }

static ls_trips trips_of(side *s, ls_status (*trip)(void *side)) {
    const bool writes = s->row->kind != LATENCY && ls_comm_rank(s->comm) == 0;
    return (ls_trips){s, meet, trip, writes ? s->mine + source_at : NULL, s->row->bytes};
}

/* --- one rank ----------------------------------------------------------------------------------------------------- */

typedef struct bench {
    int rounds;
    outcome *out;
} bench;

static ls_status on_rank(ls_comm *comm, void *context) {
    const bench *b = context;
    ls_trip_pin(ls_comm_rank(comm));
    side s = {.comm = comm, .out = b->out, .mine = ls_comm_heap(comm)};
    s.theirs = ls_comm_peer_heap(comm, 1 - ls_comm_rank(comm));
    memset(s.mine, 1, 2 * LARGEST); /* places the pages near their owner, and avoids page faults later */
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        int64_t n;
        s.row = &rows[i];
        const ls_trips bare_trips = trips_of(&s, bare_trip), put_trips = trips_of(&s, put_trip);
        LS_TRY(ls_trips_count(&put_trips, &n));
        LS_TRY(ls_comm_broadcast(comm, &n, sizeof n));
        for (int r = 0; r < b->rounds; r++) {
            double bare, put;
            LS_TRY(ls_trips_time(&bare_trips, n, &bare));
            LS_TRY(ls_trips_time(&put_trips, n, &put));
            if (ls_comm_rank(comm) != 0) continue;
            b->out->row[i].floor[r] = bare;
            b->out->row[i].put[r] = put;
        }
    }
    return ls_comm_send_home(comm, b->out, b->out, sizeof *b->out);
}

static ls_status measure(bench *b) {
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_world_options options = {.ranks = 2,
                                      .local = true,
                                      .heap_bytes = heap_bytes,
                                      .words = 2,
                                      .may_spin = machine.cores > 1,
                                      .wait_timeout = 30};
    ls_world *world;
    LS_TRY(ls_world_create("shm", &options, &world));
    const ls_status status = ls_launch(world, 2, false, on_rank, b);
    ls_world_destroy(world);
    return status;
}

/* --- the figures -------------------------------------------------------------------------------------------------- */

static ls_bench_figure figure_of(const bench *b, size_t i) {
    const times *t = &b->out->row[i];
    return ls_bench_trip_figure(rows[i].kind == LATENCY, rows[i].bytes, t->floor, t->put, b->rounds);
}

static void print_page(const bench *b, FILE *out) {
    fprintf(out, "put + signal between two processes over shm, the reader reads · medians of %d rounds\n\n", b->rounds);
    fprintf(out, "%-10s %10s", "what", "bytes");
    ls_bench_print_titles("put+signal", out);
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        char bytes[LS_BYTES_TEXT];
        const ls_bench_figure figure = figure_of(b, i);
        fprintf(out, "%-10s %10s", kind_names[rows[i].kind], ls_bytes_text((double)rows[i].bytes, bytes));
        ls_bench_print_figure(&figure, out);
    }
    fprintf(out,
            "\nfloor: a bare flag in shared memory, one way; a plain copy into the peer's memory, a flag, the "
            "peer's read, a flag back. In place: a signal, the peer's read of the sender's memory, a signal back\n");
}

static void print_json(const bench *b, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_json_open_array(w, "rows");
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        const ls_bench_figure figure = figure_of(b, i);
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "what", kind_names[rows[i].kind]);
        ls_json_put_int(w, "bytes", (int64_t)rows[i].bytes);
        ls_bench_put_figure(&figure, w);
        ls_json_close(w);
    }
    ls_json_close(w);
    ls_json_end(w, out);
}

ls_status ls_run_bench_comm(const ls_bench_job *job, FILE *out) {
    bench b = {0};
    const char *name;
    ls_device_traits device;
    ls_host_of of;
    LS_TRY(ls_device_choose(job->options.device, &name, &device));
    if (!device.at_once) {
        LS_TRY(ls_bench_device(&job->options, &of));
        return ls_run_bench_comm_device(job, &of, out);
    }
    LS_TRY(ls_bench_rounds(&job->options, 15, &b.rounds));
    b.out = calloc(1, sizeof *b.out);
    if (b.out == NULL) return ls_error(LS_NO_MEMORY, "no memory for the times of a bench");
    const ls_status status = measure(&b);
    if (status.code == LS_OK && job->json)
        print_json(&b, out);
    else if (status.code == LS_OK)
        print_page(&b, out);
    free(b.out);
    return status;
}
