/*
 * comm, for this folder alone: who started this process as one rank of several, by the environment alone; nobody is met
 * for that.
 */
#ifndef LS_COMM_STARTER_IMPL_H
#define LS_COMM_STARTER_IMPL_H

#include "base/base.h"

/* The variables that a starter of processes sets; NULL: it has none such. */
typedef struct ls_starter {
    const char *name;
    const char *rank, *ranks;
    const char *local_ranks; /* ranks on this host */
    const char *nodes;       /* hosts of all ranks */
    const char *job, *step;  /* together they name a job */
    const char *hosts;       /* a list of hosts as Slurm writes it, the first being that of rank 0 */
    const char *task;        /* the process that was started */
} ls_starter;

enum { LS_MOST_RANKS = 1 << 20 }; /* rank 0 holds a connection to each */

/*
 * The starter of this process; NULL: none. Of several, such as an mpirun in the script of another one, it is the one
 * that is nearest among the ancestors of the process. A single rank is nobody's: it may start ranks itself. Nor is the
 * interactive shell of a Slurm step a rank, or what runs in it. LS_USAGE: several are as near, and do not say the same.
 */
ls_status ls_starter_find(const ls_starter **out);
/* What it says. LS_USAGE unless these are numbers that fit each other. */
ls_status ls_starter_read(const ls_starter *starter, int *rank, int *ranks);

/* The text of a variable; "" when it is not set. A number from `least`; -1 when it is not set or something else. */
const char *ls_variable_text(const char *variable);
int ls_variable_number(const char *variable, int least);

#endif
