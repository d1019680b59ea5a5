/*
 * The key of a launched job: made of a secret that its ranks know and strangers do not, if there is one. The key is
 * never sent; the ranks prove to each other that they have it (greeting_impl.h).
 */
#include "comm/rendezvous_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST = 16, MOST = 4096, DRAWN = 32 }; /* bytes of a secret: limits; those of one that is made here */
#define RETRY_MICROSECONDS 50000

/* The job's name enters the key, so another job with the same secret has another key. */
static void set_key(const void *secret, size_t bytes, const char *job, ls_rendezvous_point *point) {
    static const char purpose[] = "longspan job ";
    ls_hmac mac;
    ls_hmac_begin(&mac, secret, bytes);
    ls_hmac_add(&mac, purpose, sizeof purpose - 1);
    ls_hmac_add(&mac, job, strlen(job));
    ls_hmac_end(&mac, point->key.bytes);
    point->has_secret = bytes > 0;
}

/* ---- a file that only its owner reads ---- */

/* Reads a secret; *there: the file exists. Owner and mode are checked on the open file. */
static ls_status read_secret(const char *path, uint8_t out[MOST], size_t *bytes, bool *there) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *there = fd >= 0 || errno != ENOENT;
    if (fd < 0) return *there ? ls_error(LS_INVALID, "the secret %s: open: %s", path, strerror(errno)) : ls_ok();
    struct stat found;
    ls_status status = ls_ok();
    ssize_t n = 0;
    if (fstat(fd, &found) != 0)
        status = ls_error(LS_INVALID, "the secret %s: fstat: %s", path, strerror(errno));
    else if (!S_ISREG(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 077) != 0)
        status = ls_error(LS_INVALID,
                          "the secret %s has owner %u and mode %o; expected a file of user %u that only he can read: "
                          "chmod 600",
                          path, (unsigned)found.st_uid, (unsigned)found.st_mode & 07777, (unsigned)geteuid());
    else if ((n = read(fd, out, MOST)) < LEAST || found.st_size > MOST)
        status = ls_error(LS_INVALID, "the secret %s has %lld bytes; expected %d to %d", path, (long long)found.st_size,
                          LEAST, MOST);
    (void)close(fd);
    *bytes = n > 0 ? (size_t)n : 0;
    return status;
}

/*
 * Makes the file with random bytes, unless another process has made it meanwhile. The file appears complete or not at
 * all.
 */
static ls_status make_secret(const char *path) {
    char draft[4200];
    uint8_t drawn[DRAWN];
    const int length = snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    if (length < 0 || length >= (int)sizeof draft) return ls_error(LS_INVALID, "the path of the secret is too long");
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
        return ls_error(LS_IO, "cannot draw a secret: getrandom: %s", strerror(errno));
    const int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool written = fd >= 0 && write(fd, drawn, sizeof drawn) == (ssize_t)sizeof drawn && fsync(fd) == 0;
    ls_status status = written ? ls_ok() : ls_error(LS_IO, "the secret %s: %s", draft, strerror(errno));
    if (written && link(draft, path) != 0 && errno != EEXIST)
        status = ls_error(LS_IO, "the secret %s: link: %s", path, strerror(errno));
    if (fd >= 0) (void)close(fd);
    if (fd >= 0) (void)unlink(draft);
    return status;
}

/*
 * Sets the key by the secret of a file. If the file does not exist, this rank makes it if `makes`, else waits for it.
 */
static ls_status take_file(const char *path, bool makes, const char *job, ls_rendezvous_point *point) {
    uint8_t secret[MOST];
    size_t bytes = 0;
    bool there;
    const double began = ls_seconds();
    for (;;) {
        LS_TRY(read_secret(path, secret, &bytes, &there));
        if (there) break;
        if (makes) LS_TRY(make_secret(path));
        if (ls_seconds() - began > point->seconds)
            return ls_error(LS_INVALID, "the secret %s is not there after %.3g s; expected rank 0 to make it", path,
                            point->seconds);
        if (!makes) usleep(RETRY_MICROSECONDS);
    }
    set_key(secret, bytes, job, point);
    return ls_ok();
}

/* ---- where the secret is ---- */

/* The path of the user's file for jobs on one host; false: there is no folder for it. */
static bool find_own_file(char *path, size_t room) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache != NULL && *cache == '/')
        n = snprintf(path, room, "%s", cache);
    else if (home != NULL && *home == '/')
        n = snprintf(path, room, "%s/.cache", home);
    if (n < 0 || n + 32 > (int)room) return false;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    snprintf(path + n, room - (size_t)n, "/longspan");
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    snprintf(path + n, room - (size_t)n, "/longspan/secret");
    return true;
}

static void warn(const ls_rendezvous_point *point, const char *why) {
    if (point->rank == 0)
        ls_log("warning: %sno secret keeps strangers out of this job: whoever reaches %s from port %d on can be one of "
               "its ranks; set %s to the same random text for all ranks",
               why, point->host, point->port, LS_SECRET_VARIABLE);
}

ls_status ls_secret_find(const char *job, ls_rendezvous_point *point) {
    const char *text = getenv(LS_SECRET_VARIABLE), *file = getenv(LS_SECRET_FILE_VARIABLE);
    const bool has_text = text != NULL && *text != 0, has_file = file != NULL && *file != 0;
    if (has_text && has_file)
        return ls_error(LS_USAGE, "%s and %s are set; expected one of them", LS_SECRET_VARIABLE,
                        LS_SECRET_FILE_VARIABLE);
    if (has_text && strlen(text) < LEAST)
        return ls_error(LS_USAGE, "%s has %zu characters; expected %d or more, at random", LS_SECRET_VARIABLE,
                        strlen(text), LEAST);
    if (has_text) {
        set_key(text, strlen(text), job, point);
        return ls_ok();
    }
    if (has_file) return take_file(file, point->rank == 0, job, point);
    char path[4096];
    char why[600] = "";
    if (point->all_here && find_own_file(path, sizeof path)) {
        const ls_status status = take_file(path, true, job, point);
        if (status.code != LS_IO) return status;
        snprintf(why, sizeof why, "%s; ", status.text); /* such as a read-only folder */
    }
    set_key("", 0, job, point);
    warn(point, why);
    return ls_ok();
}
