/* The calls that change files: each may fail by choice, is otherwise executed, and is recorded. */
#include "support/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The next definition of a function, after this library's. */
#define FIND(next, name) \
    if (next == NULL) *(void **)(&next) = dlsym(RTLD_NEXT, name)

/* ---- opening counts where it may create or change the file ---- */

static bool changes(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY; }

static mode_t mode_of(int flags, va_list list) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define OPEN(name, parameters, arguments)           \
    int name parameters {                           \
        static int(*next) parameters;               \
        FIND(next, #name);                          \
        va_list list;                               \
        va_start(list, flags);                      \
        const mode_t mode = mode_of(flags, list);   \
        va_end(list);                               \
        if (!changes(flags)) return next arguments; \
        if (fault_fails("open", path)) return -1;   \
        record_begin();                             \
        const int fd = next arguments;              \
        if (fd >= 0) record_open(fd, flags);        \
        record_end();                               \
        return fd;                                  \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

/* Writes of a stream are not seen here, so a stream counts when it is opened, and its writes are not recorded. */
#define FOPEN(name)                                                                 \
    FILE *name(const char *path, const char *mode) {                                \
        static FILE *(*next)(const char *, const char *);                           \
        FIND(next, #name);                                                          \
        if (strpbrk(mode, "wa+") != NULL && fault_fails("open", path)) return NULL; \
        return next(path, mode);                                                    \
    }
FOPEN(fopen)
FOPEN(fopen64)

/* ---- on an open file, and on paths ---- */

/*
 * called: the name in LS_FAULT_CALLS; failing: whether the call shall fail; failed: what it returns then; record: how
 * the call is recorded.
 */
#define CALL(type, name, called, parameters, arguments, failing, failed, record) \
    type name parameters {                                                       \
        static type(*next) parameters;                                           \
        FIND(next, #name);                                                       \
        if (failing) return failed;                                              \
        record_begin();                                                          \
        const type result = next arguments;                                      \
        if (result >= 0) record;                                                 \
        record_end();                                                            \
        return result;                                                           \
    }
#define ON_FILE(type, name, called, parameters, arguments, failed, record) \
    CALL(type, name, called, parameters, arguments, fault_fails_open(called, fd), failed, record)

ON_FILE(ssize_t, write, "write", (int fd, const void *data, size_t n), (fd, data, n), -1,
        record_write(fd, data, result, -1))
ON_FILE(ssize_t, pwrite, "write", (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), -1,
        record_write(fd, data, result, at))
ON_FILE(ssize_t, pwrite64, "write", (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at), -1,
        record_write(fd, data, result, at))

/* The parts that were written, one after the other. */
static void record_parts(int fd, const struct iovec *parts, int n, ssize_t bytes) {
    off_t at = lseek(fd, 0, SEEK_CUR) - bytes;
    for (int i = 0; i < n && bytes > 0; i++) {
        const ssize_t length = bytes < (ssize_t)parts[i].iov_len ? bytes : (ssize_t)parts[i].iov_len;
        record_write(fd, parts[i].iov_base, length, at);
        at += length;
        bytes -= length;
    }
}

ON_FILE(ssize_t, writev, "write", (int fd, const struct iovec *parts, int n), (fd, parts, n), -1,
        record_parts(fd, parts, n, result))
ON_FILE(int, ftruncate, "truncate", (int fd, off_t n), (fd, n), -1, record_size(fd, n, true))
ON_FILE(int, ftruncate64, "truncate", (int fd, off64_t n), (fd, n), -1, record_size(fd, n, true))
ON_FILE(int, fallocate, "allocate", (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), -1,
        record_size(fd, at + n, false))
ON_FILE(int, posix_fallocate, "allocate", (int fd, off_t at, off_t n), (fd, at, n), errno,
        record_size(fd, at + n, false))
ON_FILE(int, posix_fallocate64, "allocate", (int fd, off64_t at, off64_t n), (fd, at, n), errno,
        record_size(fd, at + n, false))
ON_FILE(int, fsync, "sync", (int fd), (fd), -1, record_sync(fd))
ON_FILE(int, fdatasync, "sync", (int fd), (fd), -1, record_sync(fd))

CALL(int, mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), fault_fails("mkdir", path), -1,
     record_name("mkdir", AT_FDCWD, path))
CALL(int, mkdirat, "mkdir", (int folder, const char *path, mode_t mode), (folder, path, mode),
     fault_fails("mkdir", path), -1, record_name("mkdir", folder, path))
CALL(int, unlink, "unlink", (const char *path), (path), fault_fails("unlink", path), -1,
     record_name("unlink", AT_FDCWD, path))
CALL(int, rmdir, "unlink", (const char *path), (path), fault_fails("unlink", path), -1,
     record_name("unlink", AT_FDCWD, path))
CALL(int, unlinkat, "unlink", (int folder, const char *path, int flags), (folder, path, flags),
     fault_fails("unlink", path), -1, record_name("unlink", folder, path))
CALL(int, rename, "rename", (const char *from, const char *to), (from, to), fault_fails_pair("rename", from, to), -1,
     record_names("rename", AT_FDCWD, from, AT_FDCWD, to))
CALL(int, renameat, "rename", (int a, const char *from, int b, const char *to), (a, from, b, to),
     fault_fails_pair("rename", from, to), -1, record_names("rename", a, from, b, to))
CALL(int, renameat2, "rename", (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags), fault_fails_pair("rename", from, to), -1,
     record_names((flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename", a, from, b, to))
CALL(int, link, "link", (const char *from, const char *to), (from, to), fault_fails_pair("link", from, to), -1,
     record_names("link", AT_FDCWD, from, AT_FDCWD, to))
CALL(int, linkat, "link", (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags),
     fault_fails_pair("link", from, to), -1, record_names("link", a, from, b, to))
CALL(int, symlink, "link", (const char *from, const char *to), (from, to), fault_fails("link", to), -1,
     record_names("symlink", -1, from, AT_FDCWD, to))
