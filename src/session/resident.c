/*
 * The resident memory of a rank, as the operating system counts it. ls_resident_bytes is called after every step, so it
 * allocates nothing.
 */
#include "session/resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a line "Name:  123 kB" of /proc/self/status, in bytes; -1 if there is no such line. */
static int64_t status_bytes(const char *name) {
    char text[4096], key[64];
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return -1;
    text[length] = 0;
    snprintf(key, sizeof key, "\n%s:", name);
    const char *line = strstr(text, key);
    return line == NULL ? -1 : (int64_t)strtoll(line + strlen(key), NULL, 10) * 1024;
}

ls_resident ls_resident_bytes(const ls_rank *rank) {
    const int64_t private =
        ls_executor_resident(rank->executor, LS_PRIVATE) + ls_executor_resident(rank->executor, LS_HOST);
    const int64_t shared =
        ls_executor_resident(rank->executor, LS_SYMMETRIC) + ls_executor_resident(rank->executor, LS_COMMON);
    const bool own_process = gettid() == getpid(); /* this rank is a process, and not a thread among other ranks */
    const int64_t anonymous = own_process ? status_bytes("RssAnon") : -1;
    return (ls_resident){.bytes = anonymous < 0 ? private + shared : anonymous + shared, .arenas = private + shared};
}
