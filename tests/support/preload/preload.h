/*
 * A library to preload (build/tests/libfaults.so), which stands between a program and its calls that change files. calls.c takes them, asks
 * faults.c whether they are to fail, and tells record.c what they did.
 */
#ifndef LS_TEST_PRELOAD_H
#define LS_TEST_PRELOAD_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether this call is to fail now. errno is the error then. */
bool fault_fails(const char *call, const char *path);
/* The same for an open file; what is no file of a file system (a pipe, a socket) never counts. */
bool fault_fails_open(const char *call, int fd);
/* Of a call with two paths: it counts once, by the first that is among those that count. */
bool fault_fails_pair(const char *call, const char *from, const char *to);

/* Around each call: what all processes do is recorded in the order in which it happened. errno stays. */
void record_begin(void);
void record_end(void);
/* Between them, what succeeded. folder: that a relative path begins at, AT_FDCWD or open. */
void record_open(int fd, int flags);
void record_write(int fd, const void *data, ssize_t bytes,
                  off_t at); /* at -1: where the file's position was */
void record_size(int fd, off_t bytes, bool may_shrink);
void record_sync(int fd);
void record_name(const char *what, int folder, const char *path);
void record_names(const char *what, int folder, const char *from, int to_folder, const char *to);

#endif
