/*
 * ls_launch, if somebody else has launched the ranks: the caller is one of them, and runs its main function. The ranks
 * then tell each other how they ended, so that all return the same status.
 */
#include "run/launch_impl.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- signals ---- */

static const int stop_signals[] = {SIGUSR1, SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = LS_COUNT(stop_signals) };

static volatile sig_atomic_t interrupts;       /* so far; set to 0 when a launch begins, like the next two */
static volatile sig_atomic_t continued, ended; /* SIGCONT came; SIGTERM came */

/*
 * The first signal asks all ranks to stop. A second SIGINT or SIGTERM ends this process, and thereby the job. SIGUSR1
 * may come any number of times, because several senders may pass it on to every rank.
 */
static void on_signal(int number) {
    if (number == SIGTERM) ended = true;
    ls_launched_request_stop();
    if ((number == SIGINT || number == SIGTERM) && interrupts++ > 0) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

static void on_continue(int number) {
    (void)number;
    continued = true;
}

/* Signals that were ignored stay ignored (nohup), except SIGUSR1. */
static void catch_signals(struct sigaction before[STOP_SIGNALS], struct sigaction *before_continue) {
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    interrupts = 0;
    continued = ended = false;
    const struct sigaction to_continue = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    sigaction(SIGCONT, &to_continue, before_continue);
    for (int i = 0; i < STOP_SIGNALS; i++) {
        sigaction(stop_signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN || stop_signals[i] == SIGUSR1) sigaction(stop_signals[i], &ours, NULL);
    }
}

/*
 * Whether this process was stopped (SIGSTOP) until its launcher ended the job. If so, the others have failed without
 * it, and have reported why. Open MPI's mpirun continues all processes, and asks them to end a second later.
 */
static bool was_continued_to_end(void) {
    for (int i = 0; i < 200 && continued && !ended; i++) usleep(10000);
    return continued && ended;
}

static void restore_signals(const struct sigaction before[STOP_SIGNALS], const struct sigaction *before_continue) {
    sigaction(SIGCONT, before_continue, NULL);
    for (int i = 0; i < STOP_SIGNALS; i++) sigaction(stop_signals[i], &before[i], NULL);
}

/* ---- the end ---- */

/* What a rank tells the others at its end. */
typedef struct ending {
    ls_status status;
    int32_t follows; /* 1: it failed because a rank that it waited for had left, and that rank knows why; else 0 */
} ending;

/*
 * How long a rank that failed waits for the others to end. They may be writing a checkpoint, but not if a peer was
 * lost. A rank that failed only because another one failed waits longer than that one, whose text is to be that of the
 * abort.
 */
static time_t seconds_to_abort(const ending *mine) {
    if (mine->status.code != LS_PEER) return 30;
    return mine->follows ? 6 : 3;
}

/* The higher the number, the more an ending says about the cause. */
static int weight_of(const ending *of) { return 2 * ls_severity(of->status.code) - (of->follows != 0 ? 1 : 0); }

/* Aborts the job if the others have not ended in time: a rank that is stopped or stuck would never end. */
typedef struct abort_timer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over, runs;
    const ending *mine;
} abort_timer;

static void *wait_for_others(void *argument) {
    abort_timer *t = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds_to_abort(t->mine);
    pthread_mutex_lock(&t->lock);
    while (!t->over && pthread_cond_timedwait(&t->ended, &t->lock, &until) == 0) continue;
    if (!t->over) ls_launched_abort(t->mine->status.text);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void start_abort_timer(abort_timer *t, const ending *mine) {
    *t = (abort_timer){.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER, .mine = mine};
    if (mine->status.code == LS_OK || mine->status.code == LS_INTERRUPTED) return;
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

/* The one of all ranks' statuses that is the cause of the others; among equals, that of the lowest rank. */
static ls_status agree(const ls_world *world, const ending *mine) {
    const int ranks = ls_world_ranks(world);
    ending *all = calloc((size_t)ranks, sizeof *all);
    if (all == NULL) { /* the others wait for this rank's status */
        const ls_status status = ls_error(LS_NO_MEMORY, "cannot allocate the statuses of %d ranks", ranks);
        ls_launched_abort(status.text);
        return status;
    }
    abort_timer timer;
    start_abort_timer(&timer, mine);
    const ls_status gathered = ls_launched_gather("how the ranks ended", mine, sizeof *mine, all);
    stop_abort_timer(&timer);
    ending worst = {.status = ls_ok()};
    for (int r = 0; r < ranks && gathered.code == LS_OK; r++)
        if (weight_of(&all[r]) > weight_of(&worst)) worst = all[r];
    free(all);
    if (gathered.code == LS_OK) return ls_status_sound(worst.status);
    /* A rank died, or the world was aborted: that is the cause, unless this rank knows a better one. */
    return ls_severity(mine->status.code) > ls_severity(gathered.code) ? mine->status : gathered;
}

ls_status ls_run_launched(ls_world *world, int rank, ls_rank_main rank_main, void *context) {
    struct sigaction before[STOP_SIGNALS], before_continue;
    ls_comm *comm = NULL;
    catch_signals(before, &before_continue);
    ending mine = {.status = ls_world_join(world, rank, &comm)};
    if (mine.status.code == LS_OK) {
        mine.status = rank_main(comm, context);
        mine.follows = mine.status.code == LS_PEER && ls_comm_was_left(comm);
        ls_comm_leave(comm);
    } else if (mine.status.code != LS_PEER) { /* it failed to join, and the others wait for it there */
        const ls_status why = ls_error_in(mine.status, "rank %d", rank);
        ls_launched_abort(why.text);
    }
    const ls_status status = agree(world, &mine);
    if (status.code == LS_PEER && was_continued_to_end()) ls_launched_be_silent();
    restore_signals(before, &before_continue);
    return status;
}
