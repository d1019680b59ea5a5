/* Runs work in a separate process: forks it, and reads its status and its results from a pipe. */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* false: the other end has closed the pipe. */
static bool write_all(int file, const void *from, size_t bytes) {
    const char *at = from;
    while (bytes > 0) {
        const ssize_t n = write(file, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* false: the pipe ended before `bytes` bytes had come. */
static bool read_all(int file, void *to, size_t bytes) {
    char *at = to;
    while (bytes > 0) {
        const ssize_t n = read(file, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

_Noreturn static void work_and_end(ls_status (*work)(void *context), void *context, const void *out, size_t bytes,
                                   int file) {
    const ls_status status = work(context);
    const bool sent = write_all(file, &status, sizeof status) && (status.code != LS_OK || write_all(file, out, bytes));
    _exit(sent ? 0 : 1);
}

static int wait_for_end(pid_t process) {
    int how = 0;
    while (waitpid(process, &how, 0) < 0 && errno == EINTR) {
    }
    return how;
}

static ls_status collect(int file, pid_t process, void *out, size_t bytes) {
    ls_status status;
    char *result = malloc(bytes + 1);
    LS_ASSERT(result != NULL);
    bool complete = read_all(file, &status, sizeof status);
    if (complete && status.code == LS_OK) complete = read_all(file, result, bytes);
    const int how = wait_for_end(process);
    if (complete && status.code == LS_OK) memcpy(out, result, bytes);
    free(result);
    if (complete) return status;
    if (WIFSIGNALED(how))
        return ls_error(LS_FAULT, "a process for work apart was killed by signal %d (%s)", WTERMSIG(how),
                        strsignal(WTERMSIG(how)));
    return ls_error(LS_FAULT, "a process for work apart ended with %d before it was done", WEXITSTATUS(how));
}

ls_status ls_apart(ls_status (*work)(void *context), void *context, void *out, size_t bytes) {
    int ends[2];
    if (pipe(ends) != 0) return ls_error(LS_NO_MEMORY, "cannot make a pipe: %s", strerror(errno));
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        work_and_end(work, context, out, bytes, ends[1]);
    }
    const int failure = errno;
    close(ends[1]);
    const ls_status status =
        process < 0 ? ls_error(LS_NO_MEMORY, "cannot start a process for work apart: %s", strerror(failure))
                    : collect(ends[0], process, out, bytes);
    close(ends[0]);
    return status;
}
