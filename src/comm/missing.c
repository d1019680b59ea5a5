/*
 * Ranks that do not answer, or do not come to a gather of launched ranks: what the other ranks report, and when they
 * give up.
 */
#include "comm/boot_impl.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RENDEZVOUS_SECONDS 120.0
#define SECONDS_VARIABLE "LONGSPAN_RENDEZVOUS_SECONDS"
#define SILENT_SECONDS 30.0 /* a process that is neither stopped nor unreachable answers within this time */
#define WARN_SECONDS 7.0
#define LEAST_WARN_SECONDS 1.0
#define STOP_SECONDS 2.0 /* ranks that are asked to stop wait at most this long for a rank that does not answer */
#define MISSING_TIMES 15 /* how many rendezvous times a rank that answers may keep others waiting in a gather */

ls_status ls_boot_rendezvous_seconds(double *out) {
    const char *text = getenv(SECONDS_VARIABLE);
    if (text == NULL || *text == 0) {
        *out = RENDEZVOUS_SECONDS;
        return ls_ok();
    }
    char *end;
    const long seconds = strtol(text, &end, 10);
    if (end == text || *end != 0 || seconds < 1 || seconds > INT_MAX)
        return ls_error(LS_USAGE, "%s=%s: expected a number of seconds", SECONDS_VARIABLE, text);
    *out = (double)seconds;
    return ls_ok();
}

/*
 * Asks the system: /proc/PID/stat is "PID (NAME) STATE ...", where NAME may contain any characters, and STATE is T for
 * a process that was stopped by a signal, t for one that was stopped by a debugger.
 */
static bool process_is_stopped(int process) {
    char path[32], line[256];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, line, sizeof line) : -1;
    if (fd >= 0) close(fd);
    const char *end = n > 0 ? memrchr(line, ')', (size_t)n) : NULL;
    return end != NULL && end + 2 < line + n && (end[2] == 'T' || end[2] == 't');
}

bool ls_boot_is_stopped(const ls_boot *boot, int rank) {
    if (boot->stopped != NULL) return atomic_load_explicit(&boot->stopped[rank], memory_order_relaxed);
    return boot->processes != NULL && boot->processes[rank] != 0 && process_is_stopped(boot->processes[rank]);
}

/* ---- ranks that do not answer ---- */

void ls_boot_print_silence(const ls_boot *boot, int peer, double silent, char *out, size_t room) {
    const char *host = boot->host_names != NULL ? boot->host_names[peer] : "";
    if (ls_boot_is_stopped(boot, peer))
        snprintf(out, room, "which is stopped (SIGSTOP)");
    else
        ls_print(out, room, "which has not answered for %.3g s: it is stopped, or %s%s is not reached", silent,
                 *host != 0 ? "host " : "its host", host);
}

/* Whether this rank is the first rank of its host, not counting rank 0, that is not stopped. */
static bool is_first_here(const ls_boot *boot) {
    for (int r = 1; r < boot->rank; r++)
        if (boot->hosts != NULL && boot->hosts[r] == boot->hosts[boot->rank] && !ls_boot_is_stopped(boot, r))
            return false;
    return true;
}

bool ls_boot_speaks(const ls_boot *boot) {
    if (boot->rank <= 0) return true;
    const bool heard =
        boot->notice == NULL || !(atomic_load(&boot->notice->first_lost) || atomic_load(&boot->notice->first_unheard));
    return (!heard || ls_boot_is_stopped(boot, 0)) && is_first_here(boot);
}

/* Does not use ls_log, which may be silenced on ranks other than rank 0. */
static void warn(const ls_boot *boot, int rank, int peer, double silent) {
    char why[160], line[320];
    if (!ls_boot_speaks(boot)) return;
    const int process = boot->processes != NULL ? boot->processes[peer] : 0;
    ls_boot_print_silence(boot, peer, silent, why, sizeof why);
    if (process != 0 && ls_boot_is_stopped(boot, peer))
        snprintf(line, sizeof line,
                 "rank %d (process %d) is stopped, and the others wait for it; kill -CONT %d lets it continue", peer,
                 process, process);
    else
        snprintf(line, sizeof line, "rank %d waits for rank %d, %s", rank, peer, why);
    ls_print_line(stderr, "longspan: warning: %s", line);
}

/* The seconds of silence after which to warn: not before an answer is late. */
static double seconds_to_warn(double limit) {
    const double half = limit > 0 && limit / 2 < WARN_SECONDS ? limit / 2 : WARN_SECONDS;
    return half > LEAST_WARN_SECONDS ? half : LEAST_WARN_SECONDS;
}

bool ls_boot_gives_up(const ls_boot *boot, int rank, int peer, double silent, double limit, bool first_heard) {
    ls_notice *notice = boot->notice;
    const bool late = silent >= seconds_to_warn(limit);
    const bool gives_up = (limit > 0 && silent >= limit) || (atomic_load(&notice->stop) && silent >= STOP_SECONDS);
    if (boot->rank < 0) return gives_up; /* the launcher prints the messages */
    if (late || gives_up) atomic_store(&notice->first_unheard, !first_heard);
    if (late && !gives_up && !atomic_exchange(&notice->warned, true)) warn(boot, rank, peer, silent);
    if (!late && !gives_up && atomic_exchange(&notice->warned, false)) atomic_store(&notice->first_unheard, false);
    return gives_up;
}

/* ---- ranks that do not come to a gather ---- */

void ls_missing_add(ls_missing *missing, int rank, double silent) {
    missing->others++;
    if (missing->rank >= 0 && silent <= missing->silent) return;
    missing->rank = rank;
    missing->silent = silent;
}

ls_status ls_boot_check_missing(const ls_boot *boot, const ls_missing *missing, double waited, double seconds) {
    const int peer = missing->rank;
    if (peer < 0) return ls_ok();
    if (peer >= boot->ranks) return ls_error(LS_PEER, "rank %d is told that rank %d is missing", boot->rank, peer);
    const double limit = seconds < SILENT_SECONDS ? seconds : SILENT_SECONDS;
    const bool first_heard = peer != 0 || boot->rank == 0;
    /* Missing ranks are asked in turn; an answer of one of them does not end the silence of another. */
    const bool silent = missing->silent > LEAST_WARN_SECONDS && peer != boot->rank &&
                        ls_boot_gives_up(boot, boot->rank, peer, missing->silent, limit, first_heard);
    if (!silent && waited <= MISSING_TIMES * seconds) return ls_ok();
    char others[48] = "", why[160] = "to come to the same point";
    if (missing->others > 0) snprintf(others, sizeof others, " and %d others", missing->others);
    if (silent) ls_boot_print_silence(boot, peer, missing->silent, why, sizeof why);
    return ls_error(LS_PEER, "rank %d waited %.3g s for rank %d%s%s %s", boot->rank, waited, peer, others,
                    silent ? "," : "", why);
}
