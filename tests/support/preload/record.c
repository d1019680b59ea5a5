/*
 * Records what a program does to files, so that tests/support/power.py can repeat it up to a loss of power: with
 * LS_RECORD=FILE, every change by any of its processes in the folder LS_RECORD_FOLDER (an absolute path without links),
 * in the order in which it happened. Recorded calls run one at a time. One line each, paths last, after a tab:
 *
 *     open TRUNCATED	PATH           a file that was opened for writing, and created if needed; 1: truncated
 *     write AT BYTES	PATH           BYTES bytes follow the line
 *     size BYTES SHRINK	PATH       its length; SHRINK 0: at least
 *     sync	PATH                       of a file or of a folder
 *     mkdir|unlink	PATH
 *     rename|exchange|link|symlink	FROM	TO
 */
#include "support/preload/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROOM = 8192 };

static struct {
    const char *folder;
    int file;              /* -1: nothing is recorded */
    pthread_mutex_t *turn; /* of all processes */
} record = {.file = -1};

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("LS_RECORD");
    record.folder = getenv("LS_RECORD_FOLDER");
    if (file == NULL || record.folder == NULL) return;
    record.turn = mmap(NULL, sizeof *record.turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (record.turn == MAP_FAILED) _exit(99);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST); /* a process may be killed in its turn */
    pthread_mutex_init(record.turn, &shared);
    record.file = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (record.file < 0) _exit(99);
}

void record_begin(void) {
    if (record.file < 0) return;
    if (pthread_mutex_lock(record.turn) == EOWNERDEAD) pthread_mutex_consistent(record.turn);
}

void record_end(void) {
    if (record.file < 0) return;
    const int kept = errno;
    pthread_mutex_unlock(record.turn);
    errno = kept;
}

static bool is_inside(const char *path) {
    const size_t length = strlen(record.folder);
    return strncmp(path, record.folder, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static bool path_of(int fd, char out[ROOM]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, out, ROOM - 1);
    if (length <= 0) return false;
    out[length] = 0;
    return true;
}

/* The whole path of a path that begins at a folder. */
static bool path_from(int folder, const char *path, char out[ROOM]) {
    char start[ROOM] = "";
    if (path[0] != '/' && folder == AT_FDCWD && getcwd(start, sizeof start) == NULL) return false;
    if (path[0] != '/' && folder != AT_FDCWD && !path_of(folder, start)) return false;
    return snprintf(out, ROOM, "%s%s%s", start, path[0] != '/' ? "/" : "", path) < ROOM;
}

static void put(const char *line, int length, const void *data, size_t bytes) {
    const struct iovec parts[] = {{(void *)(size_t)line, (size_t)length}, {(void *)(size_t)data, bytes}};
    if (syscall(SYS_writev, record.file, parts, 2) != (long)length + (long)bytes) _exit(99);
}

#define PUT(data, bytes, ...)                                             \
    do {                                                                  \
        char line[2 * ROOM + 100];                                        \
        put(line, snprintf(line, sizeof line, __VA_ARGS__), data, bytes); \
    } while (0)

void record_open(int fd, int flags) {
    char path[ROOM];
    if (record.file < 0 || !path_of(fd, path) || !is_inside(path)) return;
    PUT(NULL, 0, "open %d\t%s\n", (flags & O_TRUNC) != 0, path);
}

void record_write(int fd, const void *data, ssize_t bytes, off_t at) {
    char path[ROOM];
    if (record.file < 0 || bytes <= 0 || !path_of(fd, path) || !is_inside(path)) return;
    if (at < 0) at = lseek(fd, 0, SEEK_CUR) - bytes;
    PUT(data, (size_t)bytes, "write %lld %zd\t%s\n", (long long)at, bytes, path);
}

void record_size(int fd, off_t bytes, bool may_shrink) {
    char path[ROOM];
    if (record.file < 0 || !path_of(fd, path) || !is_inside(path)) return;
    PUT(NULL, 0, "size %lld %d\t%s\n", (long long)bytes, may_shrink, path);
}

void record_sync(int fd) {
    char path[ROOM];
    if (record.file < 0 || !path_of(fd, path) || !is_inside(path)) return;
    PUT(NULL, 0, "sync\t%s\n", path);
}

void record_name(const char *what, int folder, const char *path) {
    char whole[ROOM];
    if (record.file < 0 || !path_from(folder, path, whole) || !is_inside(whole)) return;
    PUT(NULL, 0, "%s\t%s\n", what, whole);
}

void record_names(const char *what, int folder, const char *from, int to_folder, const char *to) {
    char first[ROOM], second[ROOM];
    if (record.file < 0 || !path_from(to_folder, to, second) || !is_inside(second)) return;
    if (folder == -1) /* the text of a link */
        snprintf(first, sizeof first, "%s", from);
    else if (!path_from(folder, from, first))
        return;
    PUT(NULL, 0, "%s\t%s\t%s\n", what, first, second);
}
