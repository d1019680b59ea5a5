/*
 * The bell of a rank: a futex in memory that its peers may share. Ringing it and going to sleep are atomic operations
 * on the same 32 bits, so one of the two comes first: either the ringer sees LS_BELL_SLEEPS and wakes the sleeper, or
 * the sleeper sees the new count and does not sleep.
 */
#include "comm/transport_impl.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Without FUTEX_PRIVATE_FLAG, because ranks may be separate processes. */
static void futex(const _Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    (void)syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

void ls_bell_ring(ls_rank_line *line) {
    const uint32_t before = atomic_fetch_add_explicit(&line->bell, LS_BELL_STEP, memory_order_acq_rel);
    if (!(before & LS_BELL_SLEEPS)) return;
    /*
     * The bit is cleared here, so that the next ringer needs no system call. The wake always follows: a sleeper that
     * has just set the bit again wakes once for nothing.
     */
    atomic_fetch_and_explicit(&line->bell, ~LS_BELL_SLEEPS, memory_order_acq_rel);
    futex(&line->bell, FUTEX_WAKE, INT_MAX, NULL);
}

uint32_t ls_bell_read(const ls_rank_line *line) {
    return atomic_load_explicit(&line->bell, memory_order_acquire) & ~LS_BELL_SLEEPS;
}

void ls_bell_sleep(ls_rank_line *line, uint32_t bell, double seconds) {
    const uint32_t asleep = bell | LS_BELL_SLEEPS;
    uint32_t seen = bell;
    if (!atomic_compare_exchange_strong_explicit(&line->bell, &seen, asleep, memory_order_acq_rel,
                                                 memory_order_acquire) &&
        seen != asleep)
        return;
    struct timespec timeout = {(time_t)seconds, 0};
    timeout.tv_nsec = (long)((seconds - (double)timeout.tv_sec) * 1e9);
    futex(&line->bell, FUTEX_WAIT, asleep, &timeout);
    atomic_fetch_and_explicit(&line->bell, ~LS_BELL_SLEEPS, memory_order_acq_rel);
}
