/*
 * Simulates programs: computes when each rank would execute each instruction if kernels, puts and signals took the time
 * that a machine's rates give. The planner compares candidates by simulation, because a sum of flops and bytes does not
 * show where ranks wait.
 */
#ifndef LS_SIMULATE_H
#define LS_SIMULATE_H

#include "program/program.h"

/* Seconds of one rank, from a start that all ranks share. */
typedef struct ls_simulated_rank {
    double end;       /* when its program ends */
    double computing; /* in kernels */
    double sending;   /* in puts, during which the sender's thread copies */
    double waiting; /* of the compute queue; if all queues share a clock, of all: end = computing + sending + waiting */
} ls_simulated_rank;

/*
 * Called for each span of a rank: that of an instruction or, with instr -1, of a time in which all queues waited. The
 * span of a wait begins when the wait first blocks its queue.
 */
typedef struct ls_simulation_watch {
    void (*on_span)(void *context, int rank, int instr, double begin, double end);
    void *context;
} ls_simulation_watch;

/*
 * Simulates one run of a program on all ranks. Ranks with the same image are a class, of which only the first rank is
 * simulated, so that the time grows with the number of classes. If the peers of a class are in several classes, they
 * are assumed to do what the peers of its first rank do.
 *
 * As in the executor, one thread of a rank executes the heads of its queues in turn, that of the compute queue last; if
 * the rates say that queues overlap, each queue has its own time. A put or a signal takes time of its sender and
 * arrives after the rates' latency. A kernel that reads other ranks' memory takes, in addition, as long as a put of
 * those bytes.
 *
 * rates: those of every rank. out: [ranks]. watch may be NULL. LS_INVALID if the ranks wait for each other for ever
 * (ls_verify says more).
 */
LS_MUST_USE ls_status ls_simulate(const ls_image *const *images, int ranks, int program, const ls_rates *rates,
                                  const ls_simulation_watch *watch, ls_simulated_rank *out);

/* Seconds of one run of the program by a rank that never waits for others: a lower bound of the time with them. */
double ls_simulate_alone(const ls_image *image, int program, const ls_rates *rates);

/* The end of the last rank. */
double ls_simulated_seconds(const ls_simulated_rank *ranks, int n);

#endif
