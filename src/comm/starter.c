/* Which program started this process as a rank: the table of starters, and which of them counts. */
#include "comm/comm_impl.h"
#include "comm/starter_impl.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of starters that are equally near and say the same, the first counts. */
static const ls_starter starters[] = {
    {.name = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .ranks = "OMPI_COMM_WORLD_SIZE",
     .local_ranks = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .job = "PMIX_NAMESPACE"},
    {.name = "PMI",
     .rank = "PMI_RANK",
     .ranks = "PMI_SIZE",
     .local_ranks = "MPI_LOCALNRANKS",
     .nodes = "SLURM_STEP_NUM_NODES",
     .job = "PMI_JOBID",
     .step = "SLURM_STEP_ID",
     .hosts = "SLURM_STEP_NODELIST"},
    {.name = "torchrun",
     .rank = "RANK",
     .ranks = "WORLD_SIZE",
     .local_ranks = "LOCAL_WORLD_SIZE",
     .job = "TORCHELASTIC_RUN_ID",
     .step = "TORCHELASTIC_RESTART_COUNT"},
    {.name = "Slurm",
     .rank = "SLURM_PROCID",
     .ranks = "SLURM_STEP_NUM_TASKS",
     .nodes = "SLURM_STEP_NUM_NODES",
     .job = "SLURM_JOB_ID",
     .step = "SLURM_STEP_ID",
     .hosts = "SLURM_STEP_NODELIST",
     .task = "SLURM_TASK_PID"},
};

const char *ls_variable_text(const char *variable) {
    const char *text = variable != NULL ? getenv(variable) : NULL;
    return text != NULL ? text : "";
}

int ls_variable_number(const char *variable, int least) {
    char *end;
    const char *text = ls_variable_text(variable);
    const long value = strtol(text, &end, 10);
    return end != text && *end == 0 && value >= least && value <= INT_MAX ? (int)value : -1;
}

/*
 * Whether an interactive shell that Slurm started as a task stands between Slurm and this process: commands typed into
 * the shell of `srun --pty bash` inherit the variables of task 0. Such a shell gives each command its own process group
 * in the shell's session, which has a terminal; a script does not.
 */
static bool is_in_shell_of(const ls_starter *s) {
    const int task = ls_variable_number(s->task, 2);
    if (task < 0 || !ls_process_is_ancestor(task)) return false;
    if (getpgid(task) == getpgrp() || getsid(task) != getsid(0)) return false;
    const int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0) (void)close(terminal);
    return terminal >= 0;
}

static bool is_set(const ls_starter *s) {
    if (*ls_variable_text(s->rank) == 0 || *ls_variable_text(s->ranks) == 0) return false;
    return ls_variable_number(s->ranks, 0) != 1 && !is_in_shell_of(s);
}

static bool say_the_same(const ls_starter *a, const ls_starter *b) {
    return strcmp(ls_variable_text(a->rank), ls_variable_text(b->rank)) == 0 &&
           strcmp(ls_variable_text(a->ranks), ls_variable_text(b->ranks)) == 0;
}

ls_status ls_starter_find(const ls_starter **out) {
    const ls_starter *nearest = NULL, *rival = NULL;
    int least = 0;
    for (size_t i = 0; i < LS_COUNT(starters); i++) {
        const ls_starter *s = &starters[i];
        if (!is_set(s)) continue;
        const int distance = ls_launcher_distance(s->rank);
        if (nearest != NULL && distance == least && !say_the_same(s, nearest)) rival = s;
        if (nearest != NULL && distance >= least) continue;
        nearest = s;
        least = distance;
        rival = NULL;
    }
    if (rival != NULL)
        return ls_error(LS_USAGE,
                        "two launchers started this process: %s=%s of %s=%s, and %s=%s of %s=%s; unset the variables "
                        "of one, or set %s",
                        nearest->rank, ls_variable_text(nearest->rank), nearest->ranks,
                        ls_variable_text(nearest->ranks), rival->rank, ls_variable_text(rival->rank), rival->ranks,
                        ls_variable_text(rival->ranks), LS_BOOT_VARIABLE);
    *out = nearest;
    return ls_ok();
}

ls_status ls_starter_read(const ls_starter *s, int *rank, int *ranks) {
    const int number = ls_variable_number(s->rank, 0), all = ls_variable_number(s->ranks, 1);
    if (number < 0 || all < 0 || all > LS_MOST_RANKS || number >= all)
        return ls_error(LS_USAGE, "%s=%s, %s=%s: expected a number of ranks, at most %d, and one of them", s->rank,
                        ls_variable_text(s->rank), s->ranks, ls_variable_text(s->ranks), LS_MOST_RANKS);
    *rank = number;
    *ranks = all;
    return ls_ok();
}
