/*
 * The wait while MPI starts. MPI has started once all processes of the job have called MPI_Init, and a process that
 * runs another program never calls it. No rank can be asked yet, so a rank looks at the processes that the launcher
 * started on its host.
 */
#include "comm/mpi/plugin/mpi_impl.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARN_SECONDS 7.0
#define LOOK_NANOSECONDS 2000000L

static int rank_in(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL ? (int)strtol(text, NULL, 10) : -1;
}

/* Reads a small file of a process: at most room - 1 bytes, which end with a zero. */
static size_t read_file(int process, const char *name, char *out, size_t room) {
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/%s", process, name);
    FILE *file = fopen(path, "re");
    const size_t n = file != NULL ? fread(out, 1, room - 1, file) : 0;
    if (file != NULL) fclose(file);
    out[n] = 0;
    return n;
}

static int parent_of(int process) {
    char line[512];
    int parent = 0;
    (void)read_file(process, "stat", line, sizeof line);
    const char *end = strrchr(line, ')'); /* "NUMBER (NAME) STATE PARENT ...", where the name may hold anything */
    return end != NULL && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* The rank that the launcher gave a process by a variable; -1: none. */
static int rank_of(int process, const char *variable) {
    char all[1 << 17];
    const size_t n = read_file(process, "environ", all, sizeof all), length = strlen(variable);
    for (size_t at = 0; at < n; at += strlen(all + at) + 1)
        if (strncmp(all + at, variable, length) == 0 && all[at + length] == '=')
            return (int)strtol(all + at + length + 1, NULL, 10);
    return -1;
}

/* Whether the process runs the same program as this one. */
static bool runs_the_same(int process) {
    char path[32], mine[1024] = "", theirs[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", process);
    return readlink("/proc/self/exe", mine, sizeof mine - 1) > 0 && readlink(path, theirs, sizeof theirs - 1) > 0 &&
           strcmp(mine, theirs) == 0;
}

/*
 * Looks at the processes beside this one: returns the first rank that runs this program, and writes one that runs
 * another program as text.
 */
static int look_around(const char *variable, char *other, size_t room) {
    int first = rank_in(variable);
    DIR *all = opendir("/proc");
    for (const struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        const int process = (int)strtol(entry->d_name, NULL, 10);
        if (process <= 0 || process == getpid() || parent_of(process) != getppid()) continue;
        const int rank = rank_of(process, variable);
        char name[32];
        if (rank < 0) continue;
        if (runs_the_same(process)) {
            first = rank < first ? rank : first;
        } else {
            (void)read_file(process, "comm", name, sizeof name);
            name[strcspn(name, "\n")] = 0;
            snprintf(other, room, ": rank %d is process %d, which runs '%s'", rank, process, name);
        }
    }
    if (all != NULL) closedir(all);
    return first;
}

ls_status ls_mpi_await_start(ls_mpi *m, const ls_mpi_launcher *launcher) {
    const double began = ls_seconds();
    const int rank = rank_in(launcher->rank);
    bool warned = false;
    while (sem_trywait(&m->started) != 0) {
        const double waited = ls_seconds() - began;
        const double most = WARN_SECONDS < m->rendezvous_seconds / 2 ? WARN_SECONDS : m->rendezvous_seconds / 2;
        char other[128] = "";
        if (waited > most && !warned) {
            warned = true;
            if (look_around(launcher->rank, other, sizeof other) == rank)
                ls_print_to(stderr,
                            "longspan: warning: rank %d of %d has waited %.3g s in MPI_Init for all ranks to start%s\n",
                            rank, rank_in(launcher->size), waited, other);
        }
        if (waited > m->rendezvous_seconds) {
            (void)look_around(launcher->rank, other, sizeof other);
            return ls_error(LS_PEER, "rank %d of %d waited %.3g s in MPI_Init for all ranks to start%s", rank,
                            rank_in(launcher->size), waited, other);
        }
        (void)nanosleep(&(struct timespec){0, LOOK_NANOSECONDS}, NULL);
    }
    return m->start;
}
