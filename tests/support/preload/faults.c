/*
 * A library to preload (build/tests/libfaults.so): counts the calls of a program that change files, over all of its processes, and lets
 * chosen ones fail, or ends the process there.
 *
 *     LS_FAULT_PATH=TEXT    only calls whose path holds TEXT count (of a rename, either path); all without it
 *     LS_FAULT_CALLS=NAMES  only these calls count: names of the table below, with commas between
 *     LS_FAULT_AT=N         the Nth of them (from 1) fails
 *     LS_FAULT_TIMES=M      and the M - 1 after it (1; 0: all after it)
 *     LS_FAULT_WITH=NAME    by which error (ENOSPC); KILL: the process gets SIGKILL in its place
 *     LS_FAULT_WHILE=FILE   only while this file is there; without LS_FAULT_AT all calls fail then
 *     LS_FAULT_LOG=FILE     a line "N CALL PATH" for each call that counts; its last N is how many there are
 *     LS_FAULT_FREE=FILE    statvfs says that so many bytes are free as this file holds as text, while it is there
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROOM = 8192 };

/* Set once, before the program begins; the counter is shared by all processes that it forks. */
static struct settings {
    const char *path, *calls, *present, *free;
    long at, times;
    int error; /* 0: kill */
    int log;   /* -1: none */
    _Atomic long *count;
} settings = {.log = -1};

static int error_of(const char *name) {
    static const struct {
        const char *name;
        int number;
    } errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},     {"EDQUOT", EDQUOT}, {"EACCES", EACCES},
                  {"EROFS", EROFS},   {"EFBIG", EFBIG}, {"EMFILE", EMFILE}, {"ENOENT", ENOENT},
                  {"ENOMEM", ENOMEM}, {"KILL", 0}};
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
    settings.error = error_of(text_of("LS_FAULT_WITH", "ENOSPC"));
    const char *log = text_of("LS_FAULT_LOG", NULL);
    if (log != NULL)
        settings.log =
            (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    settings.count =
        mmap(NULL, sizeof *settings.count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (settings.count == MAP_FAILED) _exit(99);
}

static bool is_chosen(const char *call) {
    if (settings.calls == NULL) return true;
    const size_t length = strlen(call);
    for (const char *at = settings.calls; (at = strstr(at, call)) != NULL; at += length)
        if ((at == settings.calls || at[-1] == ',') && (at[length] == 0 || at[length] == ',')) return true;
    return false;
}

/* Whether this call is to fail now. errno is the error then. */
static bool fails(const char *call, const char *path) {
    if (settings.count == NULL || strstr(path, settings.path) == NULL || !is_chosen(call)) return false;
    const long n = atomic_fetch_add(settings.count, 1) + 1;
    if (settings.log >= 0) {
        char line[ROOM];
        const int length = snprintf(line, sizeof line, "%ld %s %s\n", n, call, path);
        (void)syscall(SYS_write, settings.log, line,
                      (size_t)length < sizeof line ? (size_t)length : sizeof line);
    }
    if (settings.at == 0 || n < settings.at || (settings.times > 0 && n >= settings.at + settings.times))
        return false;
    if (settings.present != NULL && syscall(SYS_faccessat, AT_FDCWD, settings.present, F_OK) != 0)
        return false;
    if (settings.error == 0) (void)syscall(SYS_kill, getpid(), SIGKILL);
    errno = settings.error;
    return true;
}

/* The same for an open file; what is no file of a file system (a pipe, a socket) never counts. */
static bool fails_open(const char *call, int fd) {
    char link[64], path[ROOM];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/') return false;
    path[length] = 0;
    return fails(call, path);
}

/* Of a call with two paths: it counts once, by the first that holds the text. */
static bool fails_pair(const char *call, const char *from, const char *to) {
    return fails(call, strstr(from, settings.path != NULL ? settings.path : "") != NULL ? from : to);
}

#define NEXT(type, name, ...)         \
    static type (*next)(__VA_ARGS__); \
    if (next == NULL) *(void **)(&next) = dlsym(RTLD_NEXT, name)

/* ---- opening: counts where it may make or change the file ---- */

static bool changes(int flags) {
    return (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY;
}

static mode_t mode_of(int flags, va_list list) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define OPEN(name)                                            \
    int name(const char *path, int flags, ...) {              \
        NEXT(int, #name, const char *, int, ...);             \
        va_list list;                                         \
        va_start(list, flags);                                \
        const mode_t mode = mode_of(flags, list);             \
        va_end(list);                                         \
        if (changes(flags) && fails("open", path)) return -1; \
        return next(path, flags, mode);                       \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                          \
    int name(int folder, const char *path, int flags, ...) {  \
        NEXT(int, #name, int, const char *, int, ...);        \
        va_list list;                                         \
        va_start(list, flags);                                \
        const mode_t mode = mode_of(flags, list);             \
        va_end(list);                                         \
        if (changes(flags) && fails("open", path)) return -1; \
        return next(folder, path, flags, mode);               \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                           \
    FILE *name(const char *path, const char *mode) {                          \
        NEXT(FILE *, #name, const char *, const char *);                      \
        if (strpbrk(mode, "wa+") != NULL && fails("open", path)) return NULL; \
        return next(path, mode);                                              \
    }
FOPEN(fopen)
FOPEN(fopen64)

/* ---- calls on an open file and on paths: NAME(type, what it is called in LS_FAULT_CALLS, parameters, arguments, whether it fails, result) ---- */

#define CALL(type, name, called, parameters, arguments, failing, failed) \
    type name parameters {                                               \
        static type(*next) parameters;                                   \
        if (next == NULL) *(void **)(&next) = dlsym(RTLD_NEXT, #name);   \
        if (failing) return failed;                                      \
        return next arguments;                                           \
    }

CALL(ssize_t, write, "write", (int fd, const void *data, size_t n), (fd, data, n), fails_open("write", fd),
     -1)
CALL(ssize_t, pwrite, "write", (int fd, const void *data, size_t n, off_t at), (fd, data, n, at),
     fails_open("write", fd), -1)
CALL(ssize_t, pwrite64, "write", (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at),
     fails_open("write", fd), -1)
CALL(ssize_t, writev, "write", (int fd, const struct iovec *parts, int n), (fd, parts, n),
     fails_open("write", fd), -1)
CALL(int, ftruncate, "truncate", (int fd, off_t n), (fd, n), fails_open("truncate", fd), -1)
CALL(int, ftruncate64, "truncate", (int fd, off64_t n), (fd, n), fails_open("truncate", fd), -1)
CALL(int, fallocate, "allocate", (int fd, int mode, off_t at, off_t n), (fd, mode, at, n),
     fails_open("allocate", fd), -1)
CALL(int, posix_fallocate, "allocate", (int fd, off_t at, off_t n), (fd, at, n), fails_open("allocate", fd),
     errno)
CALL(int, posix_fallocate64, "allocate", (int fd, off64_t at, off64_t n), (fd, at, n),
     fails_open("allocate", fd), errno)
CALL(int, fsync, "sync", (int fd), (fd), fails_open("sync", fd), -1)
CALL(int, fdatasync, "sync", (int fd), (fd), fails_open("sync", fd), -1)
CALL(int, mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), fails("mkdir", path), -1)
CALL(int, mkdirat, "mkdir", (int folder, const char *path, mode_t mode), (folder, path, mode),
     fails("mkdir", path), -1)
CALL(int, unlink, "unlink", (const char *path), (path), fails("unlink", path), -1)
CALL(int, rmdir, "unlink", (const char *path), (path), fails("unlink", path), -1)
CALL(int, unlinkat, "unlink", (int folder, const char *path, int flags), (folder, path, flags),
     fails("unlink", path), -1)
CALL(int, rename, "rename", (const char *from, const char *to), (from, to), fails_pair("rename", from, to),
     -1)
CALL(int, renameat, "rename", (int a, const char *from, int b, const char *to), (a, from, b, to),
     fails_pair("rename", from, to), -1)
CALL(int, renameat2, "rename", (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags), fails_pair("rename", from, to), -1)
CALL(int, link, "link", (const char *from, const char *to), (from, to), fails_pair("link", from, to), -1)
CALL(int, linkat, "link", (int a, const char *from, int b, const char *to, int flags),
     (a, from, b, to, flags), fails_pair("link", from, to), -1)
CALL(int, symlink, "link", (const char *from, const char *to), (from, to), fails("link", to), -1)

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
    NEXT(int, "statvfs", const char *, struct statvfs *);
    const int result = next(path, info);
    if (result == 0) say_free(info);
    return result;
}
