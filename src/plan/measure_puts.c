/* Measures puts and signals between ranks of one thread each, one rank per core. */
#include "plan/plan_impl.h"
#include "run/run.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1 << 20, TRIPS = 1024, MOST_RANKS = 64, WORD_DATA = 0, WORD_ANSWER = 1 };

/* How many blocks each rank sends, one after the other, and receives. */
typedef struct exchange {
    int near, far; /* few enough for the cache; too many for it */
    ls_host *out;  /* written by rank 0 */
} exchange;

/* Round trips of a signal between the first two ranks. *seconds: for one direction. */
static ls_status time_signals(ls_comm *comm, uint64_t *generation, double *seconds) {
    const int rank = ls_comm_rank(comm);
    LS_TRY(ls_comm_barrier(comm));
    const double start = ls_seconds();
    for (int i = 0; i < TRIPS && rank < 2; i++) {
        ++*generation;
        if (rank == 0) {
            ls_comm_signal(comm, 1, WORD_ANSWER, *generation);
            LS_TRY(ls_comm_wait(comm, WORD_ANSWER, *generation, 1, "answer"));
        } else {
            LS_TRY(ls_comm_wait(comm, WORD_ANSWER, *generation, 0, "question"));
            ls_comm_signal(comm, 0, WORD_ANSWER, *generation);
        }
    }
    *seconds = (ls_seconds() - start) / TRIPS / 2;
    return ls_comm_barrier(comm);
}

/* Every rank sends all its blocks to the next rank, all ranks at once. *seconds: per byte sent by this rank. */
static ls_status send_round(ls_comm *comm, int blocks, uint64_t *generation, double *seconds) {
    const int rank = ls_comm_rank(comm), ranks = ls_comm_size(comm);
    double spent = 0;
    LS_TRY(ls_comm_barrier(comm));
    for (int i = 0; i < blocks; i++) {
        const ls_range from = ls_range_flat((size_t)i * BLOCK, BLOCK),
                       to = ls_range_flat((size_t)(blocks + i) * BLOCK, BLOCK);
        const double start = ls_seconds();
        ls_comm_put_signal(comm, (rank + 1) % ranks, &to, ls_comm_heap(comm), &from, WORD_DATA, ++*generation);
        spent += ls_seconds() - start;
        LS_TRY(ls_comm_wait(comm, WORD_DATA, *generation, (rank + ranks - 1) % ranks, "block"));
    }
    ls_comm_tick(comm);
    *seconds = spent / blocks / BLOCK;
    return ls_ok();
}

static ls_status send(ls_comm *comm, int blocks, uint64_t *generation, double *seconds) {
    double runs[LS_MEASURED_RUNS];
    for (int i = -1; i < LS_MEASURED_RUNS; i++) /* run -1 warms up */
        LS_TRY(send_round(comm, blocks, generation, &runs[i < 0 ? 0 : i]));
    *seconds = ls_median(runs, LS_MEASURED_RUNS);
    return ls_ok();
}

static ls_status on_rank(ls_comm *comm, void *context) {
    const exchange *x = context;
    double small[LS_MEASURED_RUNS];
    ls_byte_cost put;
    uint64_t answers = 0, blocks = 0;
    memset(ls_comm_heap(comm), 1,
           2 * (size_t)x->far * BLOCK); /* places the pages near their owner, and avoids page faults later */
    for (int i = 0; i < LS_MEASURED_RUNS; i++) LS_TRY(time_signals(comm, &answers, &small[i]));
    LS_TRY(send(comm, x->near, &blocks, &put.near));
    LS_TRY(send(comm, x->far, &blocks, &put.far));
    if (ls_comm_rank(comm) != 0) return ls_ok();
    x->out->latency = fmax(ls_median(small, LS_MEASURED_RUNS), 1e-12);
    x->out->put = (ls_byte_cost){put.near, fmax(put.near, put.far)};
    return ls_ok();
}

ls_status ls_measure_puts(double cache, ls_host *out) {
    ls_machine machine;
    ls_machine_detect(&machine);
    exchange x = {
        .near = (int)fmax(1, fmin(cache / 4 / BLOCK, 4)), .far = (int)fmin(fmax(4 * cache / BLOCK, 8), 64), .out = out};
    const int ranks = (int)ls_max(2, ls_min(machine.cores, MOST_RANKS));
    const ls_world_options options = {.ranks = ranks,
                                      .local = true,
                                      .heap_bytes = 2 * (size_t)x.far * BLOCK,
                                      .words = 2,
                                      .may_spin = machine.cores > 1,
                                      .wait_timeout = 30};
    ls_world *world;
    LS_TRY(ls_world_create("shm", &options, &world));
    /* Ranks are threads here, so rank 0 can write to *out. */
    const ls_status status = ls_launch(world, ranks, true, on_rank, &x);
    ls_world_destroy(world);
    return status;
}
