/*
 * The launcher: one loop in the calling thread that waits for SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD (a signalfd)
 * and for results of a forked rank 0 (a pipe). So there is no signal handler and no state outside this call. A rank
 * that is a thread sends SIGCHLD at its end, as the system does for a process, so that the loop works for both kinds of
 * ranks.
 */
#include "run/launch_impl.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAVE_SECONDS_AFTER_DEATH 3.0
#define LEAVE_SECONDS_AFTER_FAILURE 30.0
/* A rank that has been stopped for this time, or for half of the world's wait_timeout if that is less, is logged. */
#define WARN_SECONDS_AFTER_STOP 7.0
#define STACK_BYTES ((size_t)8 << 20)
/* Another thread of the process may receive a SIGCHLD, so the ranks are also polled. */
#define POLL_MILLISECONDS 50

/*
 * The result of a rank, in shared memory. order: 0 before it has ended, else 1, 2, ... in the order in which ranks
 * ended.
 */
typedef struct report {
    _Atomic int order;
    ls_status status;
} report;

typedef struct reports {
    _Atomic int count;
    report of[]; /* one per rank */
} reports;

typedef struct launch launch;

typedef struct rank_slot {
    launch *launch;
    int rank;
    bool running;
    pid_t process;
    pthread_t thread;
    double stopped; /* since when (ls_seconds); 0: it is not stopped */
    bool warned;    /* the stop has been logged */
} rank_slot;

struct launch {
    ls_world *world;
    int ranks;
    bool as_threads;
    ls_rank_main rank_main;
    void *context;

    reports *reports;
    size_t reports_bytes;
    rank_slot *slots;
    int running;
    int interrupts;  /* SIGINT and SIGTERM so far */
    bool told;       /* the ranks were asked to stop by SIGHUP or SIGUSR1 */
    double deadline; /* when the remaining ranks are killed; 0: never */
    bool killed;     /* the launcher has killed the remaining ranks */
    ls_status died;  /* error of the first rank that died by itself or could not be started */
    int64_t kills;   /* processes that the system had killed for lack of memory before the ranks began */
    pthread_t caller;
    sigset_t signals; /* the signals that the loop receives */
    int signal_file;  /* the file from which they are read */
    sigset_t old_mask;
    struct sigaction old_child;
};

/* ---- in the rank ---- */

static void run_rank(launch *l, int rank) {
    ls_comm *comm = NULL;
    ls_status status = ls_world_join(l->world, rank, &comm);
    if (status.code == LS_OK) status = l->rank_main(comm, l->context);
    /*
     * The order is taken before the rank leaves, because its leaving makes peers fail, and its own failure is earlier.
     */
    const int order = 1 + atomic_fetch_add(&l->reports->count, 1);
    ls_comm_leave(comm);
    report *mine = &l->reports->of[rank];
    mine->status = status;
    atomic_store(&mine->order, order);
}

static void *thread_main(void *argument) {
    const rank_slot *slot = argument;
    run_rank(slot->launch, slot->rank);
    pthread_kill(slot->launch->caller, SIGCHLD);
    return NULL;
}

/* Called in a signal handler: reports that a mapped file of the rank was truncated. */
static void report_fault(void *context, const char *text) {
    const rank_slot *slot = context;
    report *mine = &slot->launch->reports->of[slot->rank];
    mine->status.code = LS_IO;
    size_t n = strnlen(text, sizeof mine->status.text - 1);
    memcpy(mine->status.text, text, n);
    mine->status.text[n] = 0;
    atomic_store(&mine->order, 1 + atomic_fetch_add(&slot->launch->reports->count, 1));
}

/*
 * A forked rank. Only the parent handles signals that stop the work; the child ends with its parent, even if the parent
 * has ended before prctl.
 */
_Noreturn static void process_main(launch *l, int rank, pid_t parent) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &ignore, NULL);
    sigaction(SIGTERM, &ignore, NULL);
    sigaction(SIGHUP, &ignore, NULL);
    sigaction(SIGUSR1, &ignore, NULL);
    sigaction(SIGCHLD, &l->old_child, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    pthread_sigmask(SIG_SETMASK, &l->old_mask, NULL);
    close(l->signal_file);
    ls_world_keep_home(l->world, rank);
    ls_mapped_watch(report_fault, &l->slots[rank]);
    run_rank(l, rank);
    fflush(NULL);
    _exit(0);
}

/* ---- starting ---- */

static ls_status start_thread(rank_slot *slot) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const int error = pthread_create(&slot->thread, &attributes, thread_main, slot);
    pthread_attr_destroy(&attributes);
    if (error) return ls_error(LS_NO_MEMORY, "cannot start a thread for rank %d: %s", slot->rank, strerror(error));
    return ls_ok();
}

static ls_status start_process(rank_slot *slot) {
    const pid_t parent = getpid();
    fflush(NULL); /* otherwise the child would print the buffered output again */
    slot->process = fork();
    if (slot->process == 0) process_main(slot->launch, slot->rank, parent);
    if (slot->process < 0)
        return ls_error(LS_NO_MEMORY, "cannot start a process for rank %d: %s", slot->rank, strerror(errno));
    return ls_ok();
}

static void start_all(launch *l) {
    for (int rank = 0; rank < l->ranks; rank++) {
        rank_slot *slot = &l->slots[rank];
        *slot = (rank_slot){.launch = l, .rank = rank};
        const ls_status status = l->as_threads ? start_thread(slot) : start_process(slot);
        if (status.code != LS_OK) {
            l->died = status;
            l->deadline = ls_seconds() + LEAVE_SECONDS_AFTER_DEATH;
            ls_world_abort(l->world, status.text);
            break;
        }
        slot->running = true;
        l->running++;
    }
    if (!l->as_threads) ls_world_keep_home(l->world, -1);
}

/* ---- watching ---- */

/* Ranks that have not ended after this time are killed. */
static void leave_within(launch *l, double seconds) {
    const double deadline = ls_seconds() + seconds;
    if (l->deadline == 0.0 || deadline < l->deadline) l->deadline = deadline;
}

static void kill_rest(launch *l) {
    l->killed = true;
    for (int rank = 0; rank < l->ranks; rank++)
        if (l->slots[rank].running) kill(l->slots[rank].process, SIGKILL);
}

/* Whether the system killed the rank for lack of memory: with SIGKILL, and its count of such kills has grown. */
static bool memory_ran_out(const launch *l, int wait_status) {
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && l->kills >= 0 &&
           ls_machine_memory_kills() > l->kills;
}

static ls_status killed_for_memory(int rank) {
    ls_machine machine;
    ls_machine_detect(&machine);
    if (machine.memory_bytes == 0)
        return ls_error(LS_PEER, "rank %d was killed by the system because memory ran out; --memory plans for less",
                        rank);
    const double physical = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const bool limited = physical <= 0 || (double)machine.memory_bytes < physical;
    return ls_error(
        LS_PEER, "rank %d was killed by the system because memory ran out: %s %.2f GiB in all; --memory plans for less",
        rank, limited ? "the control group (memory.max) allows" : "the machine has",
        (double)machine.memory_bytes / (double)(1 << 30));
}

/* A rank has ended without a report; wait_status as waitpid gives it. */
static void note_death(launch *l, int rank, int wait_status) {
    if (l->killed) return; /* the launcher itself killed the rank */
    ls_status status;
    if (memory_ran_out(l, wait_status))
        status = killed_for_memory(rank);
    else if (WIFSIGNALED(wait_status))
        status = ls_error(LS_PEER, "rank %d was killed by signal %d (%s)", rank, WTERMSIG(wait_status),
                          strsignal(WTERMSIG(wait_status)));
    else
        status = ls_error(LS_PEER, "rank %d ended with exit code %d before its work was done", rank,
                          WEXITSTATUS(wait_status));
    if (l->died.code == LS_OK) l->died = status;
    ls_world_abort(l->world, status.text);
    leave_within(l, LEAVE_SECONDS_AFTER_DEATH);
}

static void note_report(launch *l, int rank) {
    const ls_status *status = &l->reports->of[rank].status;
    if (status->code == LS_OK || status->code == LS_INTERRUPTED) return;
    if (status->code == LS_PEER) {
        ls_world_abort(l->world, status->text);
    } else {
        const ls_status why = ls_error_in(*status, "rank %d", rank);
        ls_world_abort(l->world, why.text);
    }
    if (l->deadline == 0.0)
        leave_within(l, status->code == LS_PEER ? LEAVE_SECONDS_AFTER_DEATH : LEAVE_SECONDS_AFTER_FAILURE);
}

/* A rank was stopped or continued. */
static void note_stop(launch *l, rank_slot *slot, bool stopped) {
    ls_world_set_stopped(l->world, slot->rank, stopped);
    if (!stopped && slot->warned) ls_log("rank %d continues", slot->rank);
    slot->stopped = stopped ? ls_seconds() : 0;
    slot->warned = false;
}

/* Logs once that a rank is stopped. */
static void warn_if_stopped(const launch *l, rank_slot *slot) {
    const double limit = ls_world_wait_timeout(l->world);
    const double most = limit > 0 && limit / 2 < WARN_SECONDS_AFTER_STOP ? limit / 2 : WARN_SECONDS_AFTER_STOP;
    if (slot->stopped <= 0 || slot->warned || ls_seconds() - slot->stopped < most) return;
    slot->warned = true;
    ls_log("warning: rank %d (process %d) is stopped, and the others wait for it; kill -CONT %d lets it continue",
           slot->rank, (int)slot->process, (int)slot->process);
}

/* Whether the rank's process has ended. Notes whether it was stopped or continued. */
static bool has_ended(launch *l, rank_slot *slot, int *wait_status) {
    while (waitpid(slot->process, wait_status, WNOHANG | WUNTRACED | WCONTINUED) == slot->process) {
        if (!WIFSTOPPED(*wait_status) && !WIFCONTINUED(*wait_status)) return true;
        note_stop(l, slot, WIFSTOPPED(*wait_status));
    }
    warn_if_stopped(l, slot);
    return false;
}

/* Handles the ranks that have ended. */
static void reap(launch *l) {
    for (int rank = 0; rank < l->ranks; rank++) {
        rank_slot *slot = &l->slots[rank];
        if (!slot->running) continue;
        int wait_status = 0;
        const bool reported = atomic_load(&l->reports->of[rank].order) != 0;
        if (l->as_threads) {
            if (!reported) continue;
            pthread_join(slot->thread, NULL);
        } else if (!has_ended(l, slot, &wait_status)) {
            continue;
        }
        slot->running = false;
        l->running--;
        if (atomic_load(&l->reports->of[rank].order) != 0)
            note_report(l, rank);
        else
            note_death(l, rank, wait_status);
    }
}

/*
 * SIGHUP: the terminal closed; shells may send it more than once. SIGUSR1: a job scheduler says that time is nearly up,
 * perhaps to each process of a group. So only the first of these signals has an effect, and none ends the ranks at
 * once.
 */
static void on_notice(launch *l, const char *what) {
    if (l->told) return;
    l->told = true;
    ls_world_request_stop(l->world);
    ls_log("%s: stopping after this step", what);
}

static void on_interrupt(launch *l, int signal_number) {
    if (l->interrupts++ == 0) {
        ls_world_request_stop(l->world);
        ls_log("stopping after this step; press Ctrl-C again to end at once");
        return;
    }
    if (!l->as_threads) {
        kill_rest(l);
        return;
    }
    /* Threads cannot be killed, so the whole process ends. */
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal_number, &standard, NULL);
    pthread_sigmask(SIG_UNBLOCK, &l->signals, NULL);
    raise(signal_number);
}

/* Takes what rank 0 has sent. */
static void take_results(launch *l) {
    const ls_status status = ls_world_take_home(l->world);
    if (status.code == LS_OK || l->died.code != LS_OK) return;
    l->died = status;
    ls_world_abort(l->world, status.text);
    leave_within(l, LEAVE_SECONDS_AFTER_DEATH);
}

/* Waits a moment for a signal or for results. Returns the signal, or 0. */
static int await_signal(launch *l) {
    struct pollfd files[] = {{l->signal_file, POLLIN, 0}, {ls_world_home_file(l->world), POLLIN, 0}};
    struct signalfd_siginfo info;
    if (poll(files, LS_COUNT(files), POLL_MILLISECONDS) <= 0) return 0;
    if (files[1].revents != 0) take_results(l);
    return read(l->signal_file, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

/* Handles signals, results and ends of ranks until all ranks have ended. */
static void watch(launch *l) {
    for (reap(l); l->running > 0; reap(l)) {
        if (!l->as_threads && !l->killed && l->deadline > 0.0 && ls_seconds() >= l->deadline) kill_rest(l);
        const int signal_number = await_signal(l);
        if (signal_number == SIGINT || signal_number == SIGTERM) on_interrupt(l, signal_number);
        if (signal_number == SIGHUP) on_notice(l, "the terminal closed");
        if (signal_number == SIGUSR1) on_notice(l, "SIGUSR1");
    }
    /* The results that the ranks sent before they ended are still in the pipe. */
    for (struct pollfd left = {.events = POLLIN};; take_results(l)) {
        left.fd = ls_world_home_file(l->world);
        if (poll(&left, 1, 0) <= 0) break;
    }
}

/* ---- the end ---- */

static ls_status root_cause(const launch *l) {
    if (l->died.code != LS_OK) return l->died;
    const report *worst = NULL;
    for (int rank = 0; rank < l->ranks; rank++) {
        const report *one = &l->reports->of[rank];
        if (one->order == 0 || one->status.code == LS_OK) continue;
        const int above = worst ? ls_severity(one->status.code) - ls_severity(worst->status.code) : 1;
        if (above > 0 || (above == 0 && one->order < worst->order)) worst = one;
    }
    if (worst && worst->status.code != LS_INTERRUPTED) return worst->status;
    if (l->killed) return ls_error(LS_INTERRUPTED, "ended at once by a second interrupt");
    return worst ? worst->status : ls_ok();
}

static void block_signals(launch *l) {
    struct sigaction hangup;
    sigaction(SIGHUP, NULL, &hangup);
    sigemptyset(&l->signals);
    sigaddset(&l->signals, SIGINT);
    sigaddset(&l->signals, SIGTERM);
    if (hangup.sa_handler != SIG_IGN) sigaddset(&l->signals, SIGHUP); /* ignored: started by nohup */
    sigaddset(&l->signals, SIGUSR1);
    sigaddset(&l->signals, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &l->signals, &l->old_mask);
    /* If SIGCHLD was inherited as ignored, the ends of children would be lost. */
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &standard, &l->old_child);
}

static void restore_signals(const launch *l) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const struct timespec at_once = {0, 0};
    while (sigtimedwait(&child, NULL, &at_once) == SIGCHLD) continue;
    sigaction(SIGCHLD, &l->old_child, NULL);
    pthread_sigmask(SIG_SETMASK, &l->old_mask, NULL);
}

/* Opens what the loop waits for. */
static ls_status open_files(launch *l) {
    l->signal_file = signalfd(-1, &l->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (l->signal_file < 0)
        return ls_error(LS_NO_MEMORY, "cannot watch for signals to %d ranks: %s", l->ranks, strerror(errno));
    return l->as_threads ? ls_ok() : ls_world_open_home(l->world);
}

/* Runs the ranks to their end, with signals blocked. */
static ls_status run_ranks(launch *l) {
    LS_TRY(open_files(l));
    start_all(l);
    watch(l);
    return root_cause(l);
}

ls_status ls_launch(ls_world *world, int ranks, bool as_threads, ls_rank_main rank_main, void *context) {
    if (ls_world_rank(world) >= 0) return ls_run_launched(world, ls_world_rank(world), rank_main, context);
    launch l = {.world = world, .ranks = ranks, .as_threads = as_threads, .rank_main = rank_main, .context = context};
    l.died = ls_ok();
    l.kills = ls_machine_memory_kills();
    l.caller = pthread_self();
    l.signal_file = -1;
    l.reports_bytes = sizeof(reports) + (size_t)ranks * sizeof(report);
    l.slots = calloc((size_t)ranks, sizeof *l.slots);
    l.reports = mmap(NULL, l.reports_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ls_status status;
    if (!l.slots || l.reports == MAP_FAILED) {
        status = ls_error(LS_NO_MEMORY, "cannot map %zu bytes to launch %d ranks", l.reports_bytes, ranks);
    } else {
        block_signals(&l);
        status = run_ranks(&l);
        restore_signals(&l);
    }
    ls_world_close_home(world);
    if (l.signal_file >= 0) close(l.signal_file);
    if (l.reports != MAP_FAILED) munmap(l.reports, l.reports_bytes);
    free(l.slots);
    return status;
}
