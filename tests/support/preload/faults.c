/*
 * Decides which calls fail: counts the calls that change files, or connect ranks, over all processes of a program, and
 * lets chosen ones fail or kills the process there.
 *
 *     LS_FAULT_PATH=TEXT    only calls whose path contains TEXT count (for a rename, either path); without it all
 *     LS_FAULT_CALLS=NAMES  only these calls count: names of calls.c and network.c, with commas between
 *     LS_FAULT_AT=N         the Nth of them (from 1) fails
 *     LS_FAULT_TIMES=M      and the M - 1 after it (1; 0: all after it)
 *     LS_FAULT_EVERY=K      instead of those, every Kth after it
 *     LS_FAULT_WITH=NAME    by which error (ENOSPC); KILL: the process gets SIGKILL in its place
 *     LS_FAULT_WHILE=FILE   only while this file exists; without LS_FAULT_AT all calls fail then
 *     LS_FAULT_LOG=FILE     a line "N CALL PATH" for each call that counts; its last N is how many there are
 *     LS_FAULT_FREE=FILE    statvfs reports the number of free bytes that this file holds as text, while the file
 *                           exists
 */
#include "support/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { ROOM = 8192 };

/* Set once, before the program begins. All processes that it forks share the counter. */
static struct settings {
    const char *path, *calls, *present, *free;
    long at, times, every;
    int error; /* 0: kill */
    int log;   /* -1: none */
    _Atomic long *count;
} settings = {.log = -1};

static int error_of(const char *name) {
    static const struct {
        const char *name;
        int number;
    } errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EDQUOT", EDQUOT}, {"EACCES", EACCES}, {"EROFS", EROFS},
                  {"EFBIG", EFBIG},   {"EMFILE", EMFILE}, {"ENOENT", ENOENT}, {"ENOMEM", ENOMEM}, {"KILL", 0}};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(name, errors[i].name) == 0) return errors[i].number;
    fprintf(stderr, "faults: LS_FAULT_WITH is %s, expected the name of an error or KILL\n", name);
    _exit(99);
}

static const char *text_of(const char *name, const char *otherwise) {
    const char *text = getenv(name);
    return text != NULL && text[0] != 0 ? text : otherwise;
}

__attribute__((constructor)) static void begin(void) {
    settings.path = text_of("LS_FAULT_PATH", "");
    settings.calls = text_of("LS_FAULT_CALLS", NULL);
    settings.present = text_of("LS_FAULT_WHILE", NULL);
    settings.free = text_of("LS_FAULT_FREE", NULL);
    settings.at = atol(text_of("LS_FAULT_AT", settings.present != NULL ? "1" : "0"));
    settings.times = atol(text_of("LS_FAULT_TIMES", getenv("LS_FAULT_AT") == NULL ? "0" : "1"));
    settings.every = atol(text_of("LS_FAULT_EVERY", "0"));
    settings.error = error_of(text_of("LS_FAULT_WITH", "ENOSPC"));
    const char *log = text_of("LS_FAULT_LOG", NULL);
    if (log != NULL)
        settings.log = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    settings.count = mmap(NULL, sizeof *settings.count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (settings.count == MAP_FAILED) _exit(99);
}

static bool is_chosen(const char *call) {
    if (settings.calls == NULL) return true;
    const size_t length = strlen(call);
    for (const char *at = settings.calls; (at = strstr(at, call)) != NULL; at += length)
        if ((at == settings.calls || at[-1] == ',') && (at[length] == 0 || at[length] == ',')) return true;
    return false;
}

bool fault_fails(const char *call, const char *path) {
    if (settings.count == NULL || strstr(path, settings.path) == NULL || !is_chosen(call)) return false;
    const long n = atomic_fetch_add(settings.count, 1) + 1;
    if (settings.log >= 0) {
        char line[ROOM];
        const int length = snprintf(line, sizeof line, "%ld %s %s\n", n, call, path);
        (void)syscall(SYS_write, settings.log, line, (size_t)length < sizeof line ? (size_t)length : sizeof line);
    }
    const long behind = n - settings.at;
    const bool is_one =
        settings.every > 0 ? behind % settings.every == 0 : settings.times == 0 || behind < settings.times;
    if (settings.at == 0 || behind < 0 || !is_one) return false;
    if (settings.present != NULL && syscall(SYS_faccessat, AT_FDCWD, settings.present, F_OK) != 0) return false;
    if (settings.error == 0) (void)syscall(SYS_kill, getpid(), SIGKILL);
    errno = settings.error;
    return true;
}

bool fault_fails_open(const char *call, int fd) {
    char link[64], path[ROOM];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/') return false;
    path[length] = 0;
    return fault_fails(call, path);
}

bool fault_fails_pair(const char *call, const char *from, const char *to) {
    return fault_fails(call, strstr(from, settings.path != NULL ? settings.path : "") != NULL ? from : to);
}

/* ---- free space ---- */

static void say_free(struct statvfs *info) {
    char text[32];
    if (settings.free == NULL || info->f_frsize == 0) return;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, settings.free, O_RDONLY | O_CLOEXEC, 0);
    const ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (length <= 0) return;
    text[length] = 0;
    info->f_frsize = 1;
    info->f_bavail = (fsblkcnt_t)strtoull(text, NULL, 10);
}

int statvfs(const char *path, struct statvfs *info) {
    static int (*next)(const char *, struct statvfs *);
    if (next == NULL) *(void **)(&next) = dlsym(RTLD_NEXT, "statvfs");
    const int result = next(path, info);
    if (result == 0) say_free(info);
    return result;
}
