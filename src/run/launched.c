/*
 * What ls_launch does when somebody else has launched the ranks: the caller is one of them, and runs its main function.
 * The ranks then tell each other how they ended, so that all return the same status.
 */
#include "run/launch_impl.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* ---- signals ---- */

static const int stop_signals[] = {SIGUSR1, SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = LS_COUNT(stop_signals) };

static volatile sig_atomic_t interrupts; /* so far; reset when a launch begins */

/*
 * The first signal asks all ranks to stop. A second SIGINT or SIGTERM ends this process, and thereby the job. SIGUSR1
 * may come any number of times: those who pass it on to all ranks send it to each.
 */
static void on_signal(int number) {
    ls_launched_request_stop();
    if ((number == SIGINT || number == SIGTERM) && interrupts++ > 0) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

/* Signals that were ignored stay so (nohup), but SIGUSR1, which nobody ignores by chance. */
static void catch_signals(struct sigaction before[STOP_SIGNALS]) {
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    interrupts = 0;
    for (int i = 0; i < STOP_SIGNALS; i++) {
        sigaction(stop_signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN || stop_signals[i] == SIGUSR1) sigaction(stop_signals[i], &ours, NULL);
    }
}

static void restore_signals(const struct sigaction before[STOP_SIGNALS]) {
    for (int i = 0; i < STOP_SIGNALS; i++) sigaction(stop_signals[i], &before[i], NULL);
}

/* ---- the end ---- */

/*
 * A rank that failed waits so long for the others to end: they may be writing a checkpoint, but not where a peer was
 * lost.
 */
#define SECONDS_AFTER_FAILURE 30.0
#define SECONDS_AFTER_PEER 3.0

/* Aborts the job when the others have not ended in time: one that is stopped, or stuck, never would. */
typedef struct abort_timer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over, runs;
    const ls_status *status; /* of this rank */
} abort_timer;

static void *wait_for_others(void *argument) {
    abort_timer *t = argument;
    const double seconds = t->status->code == LS_PEER ? SECONDS_AFTER_PEER : SECONDS_AFTER_FAILURE;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    pthread_mutex_lock(&t->lock);
    while (!t->over && pthread_cond_timedwait(&t->ended, &t->lock, &until) == 0) continue;
    if (!t->over) ls_launched_abort(t->status->text);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void start_abort_timer(abort_timer *t, const ls_status *status) {
    *t = (abort_timer){.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER, .status = status};
    if (status->code == LS_OK || status->code == LS_INTERRUPTED) return;
    t->runs = pthread_create(&t->thread, NULL, wait_for_others, t) == 0;
}

static void stop_abort_timer(abort_timer *t) {
    if (!t->runs) return;
    pthread_mutex_lock(&t->lock);
    t->over = true;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
}

/* Of all ranks' statuses, the cause of the others; of equal ones that of the lowest rank. */
static ls_status agree(const ls_world *world, ls_status mine) {
    const int ranks = ls_world_ranks(world);
    ls_status *all = calloc((size_t)ranks, sizeof *all);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the statuses of %d ranks", ranks);
    abort_timer timer;
    start_abort_timer(&timer, &mine);
    const ls_status gathered = ls_launched_gather(&mine, sizeof mine, all);
    stop_abort_timer(&timer);
    ls_status worst = ls_ok();
    for (int r = 0; r < ranks && gathered.code == LS_OK; r++)
        if (ls_severity(all[r].code) > ls_severity(worst.code)) worst = all[r];
    free(all);
    if (gathered.code == LS_OK) return worst;
    /* A rank died, or the world was aborted: that is the cause, unless this rank knows a better one. */
    return ls_severity(mine.code) > ls_severity(gathered.code) ? mine : gathered;
}

ls_status ls_run_launched(ls_world *world, int rank, ls_rank_main rank_main, void *context) {
    struct sigaction before[STOP_SIGNALS];
    ls_comm *comm = NULL;
    catch_signals(before);
    ls_status status = ls_world_join(world, rank, &comm);
    if (status.code == LS_OK) {
        status = rank_main(comm, context);
        ls_comm_leave(comm);
    } else if (status.code != LS_PEER) { /* the others wait for this rank where it failed */
        const ls_status why = ls_error_in(status, "rank %d", rank);
        ls_launched_abort(why.text);
    }
    status = agree(world, status);
    restore_signals(before);
    return status;
}
