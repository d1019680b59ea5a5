/*
 * Simulates programs: computes when each rank would execute each instruction if kernels, puts and signals took the time
 * that a machine's rates give. The planner compares candidates with it, since a sum of flops and bytes does not show
 * where ranks wait.
 */
#ifndef LS_SIMULATE_H
#define LS_SIMULATE_H

#include "program/program.h"

/* Seconds of one rank, from a start that all ranks share. */
typedef struct ls_simulated_rank {
    double end;       /* when its program ends */
    double computing; /* in kernels */
    double sending;   /* in puts, in which the sender's thread copies */
    double waiting; /* of the compute queue, or of all where they share a clock: end = computing + sending + waiting */
} ls_simulated_rank;

/*
 * Called for each span of a rank: of an instruction, or, with instr -1, of a time in which all queues waited. The span
 * of a wait begins when the wait first blocks its queue.
 */
typedef struct ls_simulation_watch {
    void (*on_span)(void *context, int rank, int instr, double begin, double end);
    void *context;
} ls_simulation_watch;

/*
 * Simulates one run of a program on all ranks. Ranks that have the same image are a class, of which one rank is played
 * for all: so time grows with the classes. Peers of a class that lie in several classes are taken to do what those of
 * its first rank do. As in the executor, one thread of a rank executes the heads of its
 * queues in turn, the compute queue's last; or, where the rates say that queues overlap, each queue has its own time. A
 * put or signal takes time of its sender and arrives after the rates' latency. A kernel that reads other ranks' memory
 * takes as long as a put of those bytes in addition. rates: those of every rank. out: [ranks]. watch may be NULL.
 * LS_INVALID when the ranks wait for each other for ever (ls_verify says more).
 */
LS_MUST_USE ls_status ls_simulate(const ls_image *const *images, int ranks, int program, const ls_rates *rates,
                                  const ls_simulation_watch *watch, ls_simulated_rank *out);

/* Seconds of one run of the program by a rank that never waits for others: no more than it takes with them. */
double ls_simulate_alone(const ls_image *image, int program, const ls_rates *rates);

/* The end of the last rank. */
double ls_simulated_seconds(const ls_simulated_rank *ranks, int n);

#endif
