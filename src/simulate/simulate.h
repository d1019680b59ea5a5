/*
 * A clock for programs: when every rank would be where, if kernels, puts and signals took the time that a machine's rates give them.
 * What plan compares candidates by: unlike a sum of flops and bytes it knows who waits for whom, at every hop.
 */
#ifndef LS_SIMULATE_H
#define LS_SIMULATE_H

#include "program/program.h"

/* Seconds of one rank, from a start that all ranks share. */
typedef struct ls_simulated_rank {
    double end;       /* when it is through */
    double computing; /* in kernels */
    double sending;   /* in puts: the sender's own thread copies */
    double waiting;   /* until what it needed next was there; end = computing + sending + waiting */
} ls_simulated_rank;

/* Who is told what happens when: instruction instr of the rank; -1: until then neither queue could go on. A wait begins when it first holds up its queue. */
typedef struct ls_simulation_watch {
    void (*see)(void *context, int rank, int instr, double begin, double end);
    void *context;
} ls_simulation_watch;

/*
 * Plays one run of a program on all ranks. One thread of a rank takes the heads of both queues in turn, the copy queue's first, as the
 * executor does. A put takes its sender's time and arrives the rates' latency later; so does a signal. A kernel that reads other ranks' memory takes as
 * long as a put of those bytes on top. rates: of every rank. out: [ranks].
 * watch: NULL for nobody. LS_INVALID when the ranks wait for each other for ever (ls_verify says more).
 */
LS_MUST_USE ls_status ls_simulate(const ls_image *const *images, int ranks, int program,
                                  const ls_rates *rates, const ls_simulation_watch *watch,
                                  ls_simulated_rank *out);

/* When the last of them is through. */
double ls_simulated_seconds(const ls_simulated_rank *ranks, int n);

#endif
