/* Who does not come to a gather of launched ranks, and when the others give up on it. */
#include "comm/boot_impl.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RENDEZVOUS_SECONDS 120.0
#define SECONDS_VARIABLE "LONGSPAN_RENDEZVOUS_SECONDS"
#define SILENT_SECONDS 30.0 /* a process answers within this time, unless it is stopped or not reached */
#define MISSING_TIMES 15    /* a rank that works may keep others waiting for so many times the time of the rendezvous */

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
 * What the system says of a process: /proc/PID/stat is "PID (NAME) STATE ...", where NAME may hold any characters, and
 * STATE is T for a process that a signal has stopped, t for one that a debugger has.
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

void ls_missing_add(ls_missing *missing, int rank, double silent) {
    missing->others++;
    if (missing->rank >= 0 && silent <= missing->silent) return;
    missing->rank = rank;
    missing->silent = silent;
}

ls_status ls_boot_check_missing(const ls_boot *boot, const ls_missing *missing, double waited, double seconds) {
    const double limit = seconds < SILENT_SECONDS ? seconds : SILENT_SECONDS;
    const bool silent = missing->silent > limit;
    if (missing->rank < 0 || (!silent && waited <= MISSING_TIMES * seconds)) return ls_ok();
    char others[48] = "";
    if (missing->others > 0) snprintf(others, sizeof others, " and %d others", missing->others);
    if (ls_boot_is_stopped(boot, missing->rank))
        return ls_error(LS_PEER, "rank %d waited %.3g s for rank %d, which is stopped (SIGSTOP)", boot->rank, waited,
                        missing->rank);
    if (silent)
        return ls_error(LS_PEER,
                        "rank %d waited %.3g s for rank %d, which has not answered for %.3g s: it is stopped, or its "
                        "host is not reached",
                        boot->rank, waited, missing->rank, missing->silent);
    return ls_error(LS_PEER, "rank %d waited %.3g s for rank %d%s to come to the same point", boot->rank, waited,
                    missing->rank, others);
}
