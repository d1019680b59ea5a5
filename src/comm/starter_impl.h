/*
 * comm, for this folder alone: which program started this process as one of several ranks, by the environment alone,
 * without connecting to any rank.
 */
#ifndef LS_COMM_STARTER_IMPL_H
#define LS_COMM_STARTER_IMPL_H

#include "base/base.h"

/* A starter of processes, with the names of the variables that it sets; NULL: it sets no such variable. */
typedef struct ls_starter {
    const char *name;
    const char *rank, *ranks;
    const char *local_ranks; /* ranks on this host */
    const char *nodes;       /* the number of hosts of all ranks */
    const char *job, *step;  /* together they name a job */
    const char *hosts;       /* a list of hosts as Slurm writes it, the first being that of rank 0 */
    const char *task;        /* the process number of the started process */
} ls_starter;

enum { LS_MOST_RANKS = 1 << 20 }; /* rank 0 holds a connection to each */

/*
 * The starter of this process; NULL: none. If there are several, such as an mpirun in a script that another mpirun
 * started, it is the nearest among the ancestors of the process. A starter of a single rank does not count, because
 * that process may start ranks itself. Nor does Slurm count for the interactive shell of a Slurm step and for what runs
 * in it. LS_USAGE: several starters are equally near and do not say the same.
 */
ls_status ls_starter_find(const ls_starter **out);
/* The rank and the number of ranks that the starter says. LS_USAGE unless they are numbers that are consistent. */
ls_status ls_starter_read(const ls_starter *starter, int *rank, int *ranks);

/*
 * The text of a variable; "" if it is not set. Its number, which is at least `least`; -1 if it is not set or is not
 * such a number.
 */
const char *ls_variable_text(const char *variable);
int ls_variable_number(const char *variable, int least);

#endif
