/* Whole files: reading, mapping, writing and appending. */
#include "format/file.h"
#include "format/format_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14; older headers lack it */
#endif

ls_status ls_file_open_regular(const char *path, int *out, size_t *bytes) {
    /* O_NONBLOCK: opening a pipe must not wait for a writer. It has no effect on a regular file. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ls_file_error("open", path, errno);
    struct stat info;
    ls_status status = ls_ok();
    if (fstat(fd, &info) != 0)
        status = ls_file_error("stat", path, errno);
    else if (S_ISDIR(info.st_mode))
        status = ls_error(LS_IO, "cannot read %s: it is a folder, expected a file", path);
    else if (!S_ISREG(info.st_mode))
        status = ls_error(LS_IO, "cannot read %s: it is not a regular file", path);
    if (status.code != LS_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    *bytes = (size_t)info.st_size;
    return ls_ok();
}

static ls_status read_all(int fd, const char *path, char *buffer, size_t bytes, size_t *got) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, buffer + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ls_file_error("read", path, errno);
        if (n == 0) break; /* the file has become shorter since fstat */
        done += (size_t)n;
    }
    *got = done;
    return ls_ok();
}

ls_status ls_file_read(const char *path, size_t most, char **out, size_t *bytes) {
    int fd = -1;
    size_t size = 0, got = 0;
    LS_TRY(ls_file_open_regular(path, &fd, &size));
    if (size > most) {
        close(fd);
        return ls_error(LS_INVALID, "%s is %zu bytes long, expected at most %zu", path, size, most);
    }
    char *buffer = malloc(size + 1);
    if (!buffer) {
        close(fd);
        return ls_error(LS_NO_MEMORY, "no memory for the %zu bytes of %s", size, path);
    }
    ls_status status = read_all(fd, path, buffer, size, &got);
    close(fd);
    if (status.code != LS_OK) {
        free(buffer);
        return status;
    }
    buffer[got] = 0;
    *out = buffer;
    *bytes = got;
    return status;
}

static const uint8_t empty_file[1];

/* Reads a piece of the file and updates *hash to the hash of the old *hash and the piece. */
static ls_status add_piece(int fd, const char *path, int64_t at, char *piece, size_t bytes, uint64_t *hash) {
    size_t got = 0;
    if (lseek(fd, at, SEEK_SET) < 0) return ls_file_error("seek in", path, errno);
    LS_TRY(read_all(fd, path, piece, bytes, &got));
    const uint64_t both[] = {*hash, ls_hash_bytes(piece, got)};
    *hash = ls_hash_bytes(both, sizeof both);
    return ls_ok();
}

ls_status ls_file_identify(const char *path, int64_t *bytes, uint64_t *hash) {
    enum { PIECE = 1 << 16, PIECES = 64, WHOLE = 1 << 24 };
    int fd = -1;
    size_t size = 0;
    LS_TRY(ls_file_open_regular(path, &fd, &size));
    char *piece = malloc(PIECE);
    ls_status status = piece != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory to read a piece of %s", path);
    const int64_t n = size > WHOLE ? PIECES : ls_ceil_div((int64_t)size, PIECE);
    uint64_t made = 0;
    for (int64_t i = 0; i < n && status.code == LS_OK; i++) {
        const int64_t at = size > WHOLE ? ls_part_start((int64_t)size - PIECE, PIECES - 1, i) : i * PIECE;
        status = add_piece(fd, path, at, piece, PIECE, &made);
    }
    free(piece);
    close(fd);
    LS_TRY(status);
    *bytes = (int64_t)size;
    *hash = made;
    return ls_ok();
}

ls_status ls_file_map_open(const char *path, ls_file_map *out) {
    int fd = -1;
    size_t bytes = 0;
    LS_TRY(ls_file_open_regular(path, &fd, &bytes));
    const void *data = empty_file;
    if (bytes > 0) data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    int error_number = errno;
    close(fd);
    if (data == MAP_FAILED) return ls_file_error("map", path, error_number);
    if (bytes > 0 && !ls_mapped_add(data, bytes, path)) {
        munmap((void *)(uintptr_t)data, bytes);
        return ls_error(LS_NO_MEMORY, "no memory to map %s", path);
    }
    *out = (ls_file_map){data, bytes};
    return ls_ok();
}

void ls_file_map_close(ls_file_map *map) {
    if (!map) return;
    if (map->bytes > 0) {
        ls_mapped_remove(map->data); /* before munmap, because afterwards another mapping may get these addresses */
        munmap((void *)(uintptr_t)map->data, map->bytes);
    }
    *map = (ls_file_map){0};
}

void ls_file_populate(const void *data, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data, begin = from / page * page;
    (void)madvise((void *)begin, from + bytes - begin, MADV_POPULATE_READ);
}

void ls_file_forget(const void *data, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data;
    const uintptr_t begin = (from + page - 1) / page * page, end = (from + bytes) / page * page;
    /* An error is ignored: then the memory just stays in use. */
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

ls_status ls_file_write_at(int fd, const char *path, const void *data, size_t bytes, int64_t offset) {
    const char *from = data;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, from + done, bytes - done, (off_t)(offset + (int64_t)done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return ls_error(LS_IO, "cannot write %zu bytes at offset %lld of %s: %s", bytes - done,
                            (long long)offset + (long long)done, path, strerror(errno));
        done += (size_t)n;
    }
    return ls_ok();
}

/*
 * Refuses a target that is not a regular file: a rename onto a device would replace the device, and a rename onto a
 * folder would fail only after everything is written.
 */
static ls_status check_target(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return ls_error(LS_IO, "cannot write %s: it exists and is not a regular file", path);
    return ls_ok();
}

static ls_status fill(int fd, const char *path, const ls_file_piece *pieces, int n) {
    int64_t offset = 0;
    for (int i = 0; i < n; i++) {
        LS_TRY(ls_file_write_at(fd, path, pieces[i].data, pieces[i].bytes, offset));
        offset += (int64_t)pieces[i].bytes;
    }
    if (fsync(fd) != 0) return ls_file_error("write", path, errno);
    return ls_ok();
}

ls_status ls_file_write_pieces(const char *path, const ls_file_piece *pieces, int n) {
    LS_PATH temporary = NULL;
    LS_TRY(ls_path_print(&temporary, "%s.tmp-%d", path, (int)getpid()));
    LS_TRY(check_target(path));
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return ls_file_error("create", path, errno);
    ls_status status = fill(fd, path, pieces, n);
    if (close(fd) != 0 && status.code == LS_OK) status = ls_file_error("write", path, errno);
    if (status.code == LS_OK) status = ls_file_rename(temporary, path);
    if (status.code != LS_OK) unlink(temporary);
    return status;
}

ls_status ls_file_write(const char *path, const void *data, size_t bytes) {
    return ls_file_write_pieces(path, &(ls_file_piece){data, bytes}, 1);
}

ls_status ls_file_try(const char *path) {
    LS_PATH beside = NULL;
    LS_TRY(ls_path_print(&beside, "%s.tried-%ld", path, (long)getpid()));
    LS_TRY(ls_file_write(beside, "", 0));
    return ls_file_remove_tree(beside);
}

ls_status ls_file_append(const char *path, const ls_file_piece *pieces, int n) {
    struct iovec parts[2];
    ssize_t wanted = 0;
    LS_ASSERT(n <= (int)LS_COUNT(parts));
    for (int i = 0; i < n; i++) {
        parts[i] = (struct iovec){(void *)(uintptr_t)pieces[i].data, pieces[i].bytes};
        wanted += (ssize_t)pieces[i].bytes;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return ls_file_error("open", path, errno);
    struct stat before;
    ls_status status = ls_ok();
    if (fstat(fd, &before) != 0) {
        status = ls_file_error("stat", path, errno);
    } else {
        const ssize_t written = writev(fd, parts, n);
        if (written != wanted) {
            status = ls_file_error("append to", path, written < 0 ? errno : ENOSPC);
            if (written > 0 && ftruncate(fd, before.st_size) != 0) status = ls_file_error("append to", path, errno);
        }
    }
    if (close(fd) != 0 && status.code == LS_OK) status = ls_file_error("append to", path, errno);
    return status;
}
