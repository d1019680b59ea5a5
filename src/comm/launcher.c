/*
 * The surroundings of a process that was launched as a rank: the program that launched it, and the processes of the
 * other ranks on its machine. One thread watches them until the process ends.
 *   - Without the launcher nothing would end the ranks, or start them again, so its end aborts the job.
 *   - When the process of a rank is gone, the job is aborted, unless the boot itself notices that.
 */
#include "comm/comm_impl.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MILLISECONDS 250

/* ---- processes, as /proc shows them ---- */

typedef struct seen {
    char name[32];
    char state; /* 'R', 'S', 'T' ...; 0: there is no such process */
    int parent;
} seen;

/* The state of a process; all zeros if there is no process with that number. */
static seen look_at(int number) {
    char path[40], line[512] = "";
    seen p = {.state = 0};
    snprintf(path, sizeof path, "/proc/%d/stat", number);
    FILE *file = fopen(path, "re");
    if (file == NULL) return p;
    line[fread(line, 1, sizeof line - 1, file)] = 0;
    fclose(file);
    /* "NUMBER (NAME) STATE PARENT ...", where the name may hold anything. */
    const char *name = strchr(line, '('), *end = strrchr(line, ')');
    if (name == NULL || end == NULL || sscanf(end, ") %c %d", &p.state, &p.parent) != 2) return (seen){.state = 0};
    snprintf(p.name, sizeof p.name, "%.*s", (int)(end - name - 1), name + 1);
    return p;
}

/* Whether a process in this state still exists; a stopped one does. */
static bool is_there(char state) { return state != 0 && strchr("ZXx", state) == NULL; }

/* Whether the process was started with that variable. */
static bool has_variable(int number, const char *variable) {
    char path[40], *entry = NULL;
    size_t room = 0, length = strlen(variable);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", number);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && getdelim(&entry, &room, 0, file) > 0)
        found = strncmp(entry, variable, length) == 0 && entry[length] == '=';
    free(entry);
    if (file != NULL) fclose(file);
    return found;
}

/* ---- the program that launched this process ---- */

/*
 * The launcher: the nearest ancestor without the variable of a rank. Scripts may stand between the launcher and this
 * process. 0: there is none.
 */
static int find_launcher(const char *variable) {
    int number = getppid();
    while (number > 1 && has_variable(number, variable)) number = look_at(number).parent;
    return number > 1 ? number : 0;
}

int ls_launcher_distance(const char *variable) {
    int distance = 0;
    for (int number = getppid(); number > 1 && has_variable(number, variable); number = look_at(number).parent)
        distance++;
    return distance;
}

bool ls_process_is_ancestor(int process) {
    int number = getppid();
    while (number > 1 && number != process) number = look_at(number).parent;
    return number == process;
}

char *ls_shared_files(const char *without) {
    char *line = NULL, *files = NULL;
    size_t room = 0, bytes = 0;
    FILE *maps = fopen("/proc/self/maps", "re"), *to = open_memstream(&files, &bytes);
    while (maps != NULL && to != NULL && getline(&line, &room, maps) > 0) {
        const char *path = strstr(line, " /dev/shm/");
        if (path != NULL && (without == NULL || strstr(without, path + 1) == NULL)) fputs(path + 1, to);
    }
    free(line);
    if (maps != NULL) fclose(maps);
    if (to != NULL) fclose(to);
    return files;
}

/*
 * Some MPI libraries share memory in files that their launcher removes at the end of the job. When the launcher is
 * gone, this function removes those that this process mapped when the boot started MPI.
 */
static void remove_shared_files(const ls_boot *boot) {
    const char *next = boot->files;
    while (next != NULL && *next != 0) {
        char path[LS_PATH_ROOM];
        const int bytes = (int)strcspn(next, "\n");
        snprintf(path, sizeof path, "%.*s", bytes, next);
        (void)unlink(path);
        next += bytes + (next[bytes] == '\n');
    }
}

const char *ls_launcher_at_interrupt(void) {
    /* mpirun passes its options to the ranks as variables. */
    const char *seconds = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL || (seconds != NULL && strtol(seconds, NULL, 10) > 1)) return NULL;
    return "Open MPI's mpirun kills the ranks a second after Ctrl-C; with --mca odls_base_sigkill_timeout 30 they stop "
           "with a checkpoint, but mpirun shows a rank's death a minute late (kill -USR1 of mpirun needs no option)";
}

/* ---- the thread ---- */

typedef struct watch {
    ls_boot *boot;
    struct pollfd launcher; /* fd -1: it is not watched */
    int launcher_number;
    char launcher_name[32];
    bool gone[]; /* [ranks] at the last look: a process counts as lost at the second look, so that what its rank sent
                    before is received first */
} watch;

/* Aborts the job because the process of a rank is gone. */
static void lose(ls_boot *boot, int rank) {
    char why[96];
    snprintf(why, sizeof why, "rank %d ended before its work was done", rank);
    if (ls_notice_abort(boot->notice, why) && rank == 0) atomic_store(&boot->notice->first_lost, true);
}

/* One rank of a machine watches for all: the first whose process exists. If that one is gone, the next one notices. */
static void look_at_ranks(watch *w) {
    const ls_boot *boot = w->boot;
    bool first = true;
    for (int r = 0; r < boot->ranks && first; r++) {
        if (r == boot->rank || boot->processes[r] == 0) continue;
        const bool gone = !is_there(look_at(boot->processes[r]).state);
        if (gone && w->gone[r]) lose(w->boot, r);
        w->gone[r] = gone;
        first = gone || r > boot->rank;
    }
}

static void *thread_main(void *argument) {
    watch *w = argument;
    for (;;) {
        if (poll(&w->launcher, 1, LOOK_MILLISECONDS) > 0) {
            char why[160];
            snprintf(why, sizeof why, "the program that launched the ranks (%s, process %d) has ended",
                     w->launcher_name, w->launcher_number);
            (void)ls_notice_abort(w->boot->notice, why);
            w->launcher.fd = -1;
            remove_shared_files(w->boot);
        }
        const bool over = !w->boot->ends_together || atomic_load(&w->boot->closing) ||
                          ls_notice_aborted(w->boot->notice).code != LS_OK;
        if (!over) look_at_ranks(w);
    }
    return NULL;
}

/* On systems without pidfd_open (before Linux 5.3) the launcher is not watched. */
ls_status ls_launcher_watch(ls_boot *boot) {
    pthread_t thread;
    watch *w = calloc(1, sizeof *w + (size_t)boot->ranks * sizeof w->gone[0]);
    if (w == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate what is known of %d processes", boot->ranks);
    *w = (watch){.boot = boot, .launcher = {.fd = -1, .events = POLLIN}};
    w->launcher_number = boot->rank_variable != NULL ? find_launcher(boot->rank_variable) : 0;
    if (w->launcher_number > 0) {
        memcpy(w->launcher_name, look_at(w->launcher_number).name, sizeof w->launcher_name);
        w->launcher.fd = (int)syscall(SYS_pidfd_open, w->launcher_number, 0);
    }
    const int error = pthread_create(&thread, NULL, thread_main, w);
    if (error != 0)
        return ls_error(LS_NO_MEMORY,
                        "rank %d cannot start the thread that watches the processes of its machine: pthread_create: %s",
                        boot->rank, strerror(error));
    pthread_detach(thread);
    return ls_ok();
}
