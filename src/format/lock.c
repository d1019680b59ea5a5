/* A lock on a folder: the file that names its holder, and a lock of the kernel on that file. */
#include "format/lock.h"
#include "format/file.h"
#include "format/format_impl.h"
#include "format/json.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define NAME "longspan.lock"
/* For how long ranks may still run after their launcher was killed. */
#define REMAIN_SECONDS 10.0
#define RETRY_MICROSECONDS 20000

enum { MOST_RECORD = 1024, BOOT_ROOM = 40, HOST_ROOM = 65, TIME_ROOM = 32 };

struct ls_lock {
    int fd;
    char *path;
};

/* ---- the holder ---- */

typedef struct holder {
    int64_t process; /* process number; 0: there is no holder */
    int64_t started; /* when the process started, in clock ticks since the boot */
    char host[HOST_ROOM], boot[BOOT_ROOM], since[TIME_ROOM];
} holder;

/* The first line of a file of /proc; empty if it cannot be read. */
static void read_line(const char *path, char *out, size_t room) {
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(out, (int)room, file) == NULL) out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    if (file != NULL) fclose(file);
}

/* When a process started, in clock ticks since the boot; -1: there is no such process, or it is a zombie. */
static int64_t start_time(int64_t process) {
    char file[64], line[1024];
    snprintf(file, sizeof file, "/proc/%lld/stat", (long long)process);
    read_line(file, line, sizeof line);
    const char *at = strrchr(line, ')'); /* the end of the program's name, which may contain any character */
    if (at != NULL && strncmp(at, ") Z", 3) == 0) return -1;
    for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
    return at == NULL ? -1 : strtoll(at + 1, NULL, 10);
}

static holder this_process(void) {
    holder h = {.process = getpid(), .started = start_time(getpid())};
    (void)gethostname(h.host, sizeof h.host - 1);
    read_line("/proc/sys/kernel/random/boot_id", h.boot, sizeof h.boot);
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL) strftime(h.since, sizeof h.since, "%Y-%m-%d %H:%M:%S UTC", &utc);
    return h;
}

static void read_text(ls_json_value root, const char *key, char *out, size_t room) {
    const char *text = "";
    if (ls_json_text(root, key, &text).code == LS_OK) snprintf(out, room, "%s", text);
}

/*
 * The holder that the file names; none if the file is incomplete, because it is being written, or because the machine
 * lost power meanwhile.
 */
static holder read_holder(int fd) {
    char text[MOST_RECORD];
    holder h = {0};
    ls_json *document;
    const ssize_t bytes = pread(fd, text, sizeof text, 0);
    if (bytes <= 0 || ls_json_parse(NAME, text, (size_t)bytes, &document).code != LS_OK) return h;
    const ls_json_value root = ls_json_root(document);
    if (ls_json_int(root, "process", 1, INT32_MAX, &h.process).code == LS_OK) {
        if (ls_json_int(root, "started", -1, INT64_MAX, &h.started).code != LS_OK) h.started = -1;
        read_text(root, "host", h.host, sizeof h.host);
        read_text(root, "boot", h.boot, sizeof h.boot);
        read_text(root, "since", h.since, sizeof h.since);
    }
    ls_json_free(document);
    return h;
}

static ls_status write_holder(const ls_lock *lock) {
    const holder h = this_process();
    size_t bytes;
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "process", h.process);
    ls_json_put_text(w, "host", h.host);
    ls_json_put_text(w, "since", h.since);
    ls_json_put_int(w, "started", h.started);
    ls_json_put_text(w, "boot", h.boot);
    ls_json_close(w);
    const char *text = ls_json_written(w, &bytes);
    ls_status status = ftruncate(lock->fd, 0) == 0 ? ls_ok() : ls_file_error("write", lock->path, errno);
    if (status.code == LS_OK) status = ls_file_write_at(lock->fd, lock->path, text, bytes, 0);
    ls_json_writer_destroy(w);
    return status;
}

typedef enum holder_state { GONE, ALIVE, ON_OTHER_HOST } holder_state;

static holder_state state_of(const holder *h) {
    const holder me = this_process();
    if (h->process == 0) return GONE;
    if (strcmp(h->boot, me.boot) != 0) return strcmp(h->host, me.host) == 0 ? GONE : ON_OTHER_HOST;
    return start_time(h->process) == h->started ? ALIVE : GONE;
}

/* The error for a lock that is held. */
static ls_status held_by(const ls_lock *lock, const holder *h, const char *advice) {
    if (h->process == 0) return ls_error(LS_USAGE, "another process is using this folder%s: %s", advice, lock->path);
    return ls_error(LS_USAGE, "process %lld on %s has been using this folder since %s%s: %s", (long long)h->process,
                    h->host, h->since, advice, lock->path);
}

/* ---- the kernel's lock ---- */

typedef enum kernel_lock { GRANTED, HELD, UNKNOWN } kernel_lock;

/*
 * Sets or releases a lock that belongs to the open file description, not to the process: forked ranks share the lock,
 * and it lasts until all of them end.
 */
static kernel_lock lock_in_kernel(int fd, short type) {
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) return GRANTED;
    return errno == EAGAIN || errno == EACCES ? HELD : UNKNOWN;
}

/* Whether a lock that the kernel grants also excludes other hosts. */
static bool excludes_other_hosts(int fd) {
    static const long one_host[] = {0x65735546 /* FUSE */, 0x01021997 /* 9P */};
    struct statfs info;
    if (fstatfs(fd, &info) != 0) return false;
    for (size_t i = 0; i < LS_COUNT(one_host); i++)
        if ((long)info.f_type == one_host[i]) return false;
    return true;
}

bool ls_lock_is_valid(const ls_lock *lock) {
    struct stat mine, there;
    return fstat(lock->fd, &mine) == 0 && stat(lock->path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

ls_status ls_lock_folder(const ls_lock *lock, char **out) {
    char link[64];
    struct stat info;
    ls_path_free(out);
    snprintf(link, sizeof link, "/proc/self/fd/%d", lock->fd);
    if (fstat(lock->fd, &info) != 0 || info.st_nlink == 0) return ls_ok();
    char *now = realpath(link, NULL);
    if (now == NULL) return ls_ok();
    const ls_status status = ls_path_parent(now, out);
    free(now);
    return status;
}

/* ---- taking and releasing ---- */

static ls_status open_file(ls_lock *lock) {
    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    return lock->fd >= 0 ? ls_ok() : ls_file_error("open", lock->path, errno);
}

static void close_file(ls_lock *lock) {
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
}

/*
 * Makes this process the holder, unless the file names another holder that counts. kernel: GRANTED, or UNKNOWN if the
 * kernel cannot lock.
 */
static ls_status take_over(const ls_lock *lock, kernel_lock kernel) {
    const holder before = read_holder(lock->fd);
    const holder_state state = state_of(&before);
    const bool decided = kernel == GRANTED && (state != ON_OTHER_HOST || excludes_other_hosts(lock->fd));
    if (!decided && state == ALIVE) return held_by(lock, &before, "");
    if (!decided && state == ON_OTHER_HOST)
        return held_by(lock, &before,
                       "; locks of this file system reach no other host: remove the file if that run has ended");
    if (before.process != 0)
        ls_log("%s: process %lld on %s (since %s) ended without releasing its lock; the lock is taken over", lock->path,
               (long long)before.process, before.host, before.since);
    return write_holder(lock);
}

/*
 * *again: trying again may succeed, because the lock was released, or its holder has died but other processes of that
 * run have not.
 */
static ls_status try_once(ls_lock *lock, bool *again) {
    *again = false;
    LS_TRY(open_file(lock));
    const kernel_lock kernel = lock_in_kernel(lock->fd, F_WRLCK);
    if (kernel == HELD) {
        const holder h = read_holder(lock->fd);
        *again = state_of(&h) == GONE;
        return held_by(lock, &h, "");
    }
    *again = !ls_lock_is_valid(lock); /* the holder removed the file after it was opened here */
    return *again ? held_by(lock, &(holder){0}, "") : take_over(lock, kernel);
}

ls_status ls_lock_take(const char *folder, ls_lock **out) {
    ls_lock *lock = calloc(1, sizeof *lock);
    if (lock == NULL) return ls_error(LS_NO_MEMORY, "no memory for the lock of %s", folder);
    lock->fd = -1;
    ls_status status = ls_path_join(folder, NAME, &lock->path);
    const double deadline = ls_seconds() + REMAIN_SECONDS;
    for (bool again = status.code == LS_OK; again;) {
        status = try_once(lock, &again);
        if (status.code == LS_OK) {
            *out = lock;
            return status;
        }
        close_file(lock);
        again = again && ls_seconds() < deadline;
        if (again) usleep(RETRY_MICROSECONDS);
    }
    free(lock->path);
    free(lock);
    return status;
}

void ls_lock_release(ls_lock *lock) {
    if (lock == NULL) return;
    if (ls_lock_is_valid(lock)) (void)unlink(lock->path);
    (void)lock_in_kernel(lock->fd, F_UNLCK); /* closing is not enough: forked processes have the file open too */
    close_file(lock);
    free(lock->path);
    free(lock);
}
