/*
 * The boot `mpi`: the processes that an mpirun started are the ranks of MPI_COMM_WORLD. `open` compares what the
 * launcher's environment says with what the library says. Otherwise, processes that the mpirun of one MPI started and
 * that load the library of another MPI would each take themselves for the only rank, and all would write the same
 * output.
 */
#include "comm/mpi/plugin/mpi_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/*
 * Seconds in which the other ranks may end by themselves when the job is aborted. Launchers kill all processes after
 * the first has ended.
 */
#define LEAVE_SECONDS 2.0
#define TIMER_SLACK 1000UL /* nanoseconds, because the thread sleeps for tens of microseconds */

/* ---- MPI's start and end ---- */

/* The first line of the library's name: "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, ..." */
static void library_name(char *out, size_t room) {
    char whole[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    (void)MPI_Get_library_version(whole, &length);
    snprintf(out, room, "%.*s", (int)strcspn(whole, ",\n"), whole);
    for (char *c = out; *c != 0; c++)
        if (*c == '\t') *c = ' ';
}

static int number_in(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL ? (int)strtol(text, NULL, 10) : -1;
}

/*
 * A program that uses the library may have started MPI already; then its calls of MPI run concurrently with those of
 * this boot.
 */
static ls_status start_mpi(ls_mpi *m) {
    const ls_mpi_launcher *launcher = m->boot->state;
    int started = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&started);
    const int needed = started ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    m->is_ours = !started;
    if (started)
        MPI_Query_thread(&provided);
    else if (MPI_Init_thread(NULL, NULL, needed, &provided) != MPI_SUCCESS)
        return ls_error(LS_PEER, "rank %d: MPI_Init_thread failed", number_in(launcher->rank));
    if (provided >= needed) return ls_ok();
    char name[128];
    library_name(name, sizeof name);
    return ls_error(LS_UNSUPPORTED, "%s was started with a thread level that is too low; expected %s", name,
                    started ? "MPI_THREAD_MULTIPLE, because the program has called MPI_Init itself"
                            : "MPI_THREAD_SERIALIZED");
}

static ls_status check_launcher(const ls_mpi_launcher *launcher, const ls_boot *boot) {
    const int rank = number_in(launcher->rank), ranks = number_in(launcher->size);
    if (rank == boot->rank && ranks == boot->ranks) return ls_ok();
    char name[128];
    library_name(name, sizeof name);
    return ls_error(
        LS_INVALID,
        "the launcher says that this is rank %d of %d (%s=%d, %s=%d), but %s says rank %d of %d: expected the "
        "mpirun of the MPI that the plug-in mpi-%s.so was built with",
        rank, ranks, launcher->rank, rank, launcher->size, ranks, name, boot->rank, boot->ranks, launcher->plugin);
}

enum { COMMUNICATORS = 6 };

static void list_communicators(ls_mpi *m, MPI_Comm *out[COMMUNICATORS]) {
    MPI_Comm *const all[COMMUNICATORS] = {&m->messages, &m->bodies, &m->gathers, &m->worlds, &m->leaving, &m->aborting};
    memcpy(out, all, sizeof all);
}

static ls_status make_communicators(ls_mpi *m) {
    MPI_Comm *all[COMMUNICATORS];
    list_communicators(m, all);
    for (int i = 0; i < COMMUNICATORS; i++) {
        if (!ls_mpi_succeeded(m, MPI_Comm_dup(MPI_COMM_WORLD, all[i]), "MPI_Comm_dup"))
            return ls_notice_aborted(&m->notice);
        MPI_Comm_set_errhandler(*all[i], MPI_ERRORS_RETURN);
    }
    return ls_ok();
}

/* ---- the thread ---- */

static ls_status start(ls_mpi *m) {
    LS_TRY(start_mpi(m));
    if (m->is_ours) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &m->boot->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m->boot->ranks);
    LS_TRY(check_launcher(m->boot->state, m->boot));
    m->peers = calloc((size_t)m->boot->ranks, sizeof *m->peers);
    if (m->peers == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the state of %d peers", m->boot->ranks);
    return make_communicators(m);
}

static void finalise(ls_mpi *m) {
    MPI_Comm *all[COMMUNICATORS];
    list_communicators(m, all);
    for (int i = 0; i < COMMUNICATORS; i++) MPI_Comm_free(all[i]);
    if (m->is_ours) MPI_Finalize();
}

/*
 * MPI must be finalised by the thread that initialised it. It is this thread, because the rank's own thread must not
 * hang in MPI.
 */
static void *thread_main(void *argument) {
    ls_mpi *m = argument;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK);
    m->start = start(m);
    const bool good = m->start.code == LS_OK;
    sem_post(&m->started);
    if (!good) return NULL;
    ls_mpi_run(m);
    if (m->finalise) finalise(m);
    return NULL;
}

static ls_status start_thread(ls_mpi *m) {
    sem_init(&m->started, 0, 0);
    const int error = pthread_create(&m->thread, NULL, thread_main, m);
    if (error != 0) return ls_error(LS_NO_MEMORY, "cannot start the thread for MPI: %s", strerror(error));
    const ls_status status = ls_mpi_await_start(m, m->boot->state);
    m->exit_at_once = status.code == LS_PEER; /* the thread may stay in MPI_Init for ever */
    return status;
}

/*
 * Waits until the thread has ended. MPICH with UCX, before its version 4.2, often hangs in MPI_Finalize on several
 * hosts (its pull request 6596), in any program. All ranks have met, so the process then exits without it.
 */
static void stop_thread(ls_mpi *m) {
    struct timespec until;
    atomic_store(&m->closing, true);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)LEAVE_SECONDS;
    const bool ended = pthread_timedjoin_np(m->thread, NULL, &until) == 0;
    m->exit_at_once = !ended || !m->finalise;
}

/* Ends the process without the libraries' own clean-up, in which MPI, which was not finalised, might be entered. */
static void exit_at_once(int code, void *argument) {
    const ls_mpi *m = argument;
    if (!m->exit_at_once) return;
    fflush(NULL);
    _exit(code);
}

/* ---- the boot ---- */

static ls_status open(ls_boot *boot) {
    ls_mpi *m = calloc(1, sizeof *m);
    if (m == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for MPI", sizeof *m);
    const ls_mpi_launcher *launcher = boot->state;
    m->boot = boot;
    LS_TRY(ls_boot_rendezvous_seconds(&m->rendezvous_seconds)); /* the process ends with an error */
    pthread_mutex_init(&m->library, NULL);
    pthread_mutex_init(&m->list, NULL);
    (void)on_exit(exit_at_once, m);
    LS_TRY(start_thread(m));
    boot->notice = &m->notice;
    boot->transport = &ls_mpi_transport_row;
    boot->rank_variable = launcher->rank;
    boot->ends_together = true;
    boot->has_secret = true; /* only processes that the launcher knows see what MPI gathers */
    boot->state = m;
    return ls_ok();
}

/* Waits until the messages of this process are sent, such as why it aborts the job. */
static void send_all(ls_mpi *m) {
    const double started = ls_seconds();
    while (!ls_mpi_all_sent(m) && !atomic_load(&m->silent) && ls_seconds() - started < LEAVE_SECONDS) {
        (void)ls_mpi_advance(m, false);
        ls_mpi_give_way(started);
    }
}

/*
 * After an abort MPI cannot be finalised, because messages are on their way. When the first process exits with an
 * error, the launcher kills the others. So the ranks wait for each other here, until rank 0 has reported why.
 */
static void leave_aborted(ls_mpi *m) {
    if (!ls_mpi_meet(m, m->aborting, LEAVE_SECONDS, true) && m->boot->rank != 0)
        (void)usleep((useconds_t)(1e6 * LEAVE_SECONDS));
}

static void leave(ls_boot *boot) {
    ls_mpi *m = boot->state;
    send_all(m);
    const bool good = ls_notice_aborted(&m->notice).code == LS_OK;
    if (good && ls_mpi_meet(m, m->leaving, 0, false)) {
        /* Meets once more: other ranks may need this one's messages to see that all have met. */
        (void)ls_mpi_meet(m, m->leaving, LEAVE_SECONDS, true);
        m->finalise = true;
    } else {
        leave_aborted(m);
    }
    stop_thread(m);
    /* After the work is done, no other code reports what goes wrong here, unless this is rank 0 (boot.c). */
    const ls_status late = ls_notice_aborted(&m->notice);
    if (m->boot->rank != 0 && !atomic_load(&m->boot->failed) && late.code != LS_OK)
        fprintf(stderr, "longspan: %s\n", late.text);
}

static const ls_boot_kind boot_row = {.name = "mpi", .open = open, .gather = ls_mpi_gather, .close = leave};

__attribute__((visibility("default"))) extern const ls_mpi_plugin ls_mpi_plugin_1;
const ls_mpi_plugin ls_mpi_plugin_1 = {.layout = LS_MPI_LAYOUT, .boot = &boot_row};
