/*
 * A library to preload (build/tests/libfaults.so). It wraps the calls of a program that change files (calls.c), and
 * those that connect its ranks (network.c); faults.c decides which of them fail, record.c records the effect of the
 * former.
 */
#ifndef LS_TEST_PRELOAD_H
#define LS_TEST_PRELOAD_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether this call shall fail now. errno is the error then. */
bool fault_fails(const char *call, const char *path);
/* The same for an open file. Pipes and sockets never count. */
bool fault_fails_open(const char *call, int fd);
/* The same for a call with two paths: it counts once, by the first path that counts. */
bool fault_fails_pair(const char *call, const char *from, const char *to);

/* Called before and after each call, so that the calls of all processes are recorded in their order. errno is kept. */
void record_begin(void);
void record_end(void);
/* Called between these two for what succeeded. folder: where a relative path begins, AT_FDCWD or an open folder. */
void record_open(int fd, int flags);
void record_write(int fd, const void *data, ssize_t bytes, off_t at); /* at -1: where the file's position was */
void record_size(int fd, off_t bytes, bool may_shrink);
void record_sync(int fd);
void record_name(const char *what, int folder, const char *path);
void record_names(const char *what, int folder, const char *from, int to_folder, const char *to);

#endif
