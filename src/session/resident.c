/*
 * The resident memory of a rank, as the operating system counts it. ls_resident_bytes is called after every step, so it
 * allocates nothing.
 */
#include "session/resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Resident bytes of [start, start + bytes); 0 if the system does not say. */
static int64_t resident_in(const void *start, size_t bytes) {
    enum { PAGES = 4096 }; /* per call of mincore */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)start / page * page, end = (uintptr_t)start + bytes;
    unsigned char seen[PAGES];
    int64_t resident = 0;
    if (start == NULL || bytes == 0) return 0;
    for (uintptr_t at = first; at < end; at += PAGES * page) {
        const size_t pages = (size_t)ls_min(PAGES, (int64_t)((end - at + page - 1) / page));
        if (mincore((void *)at, pages * page, seen) != 0) return 0;
        for (size_t i = 0; i < pages; i++) resident += (seen[i] & 1) ? (int64_t)page : 0;
    }
    return resident;
}

/* A line "Name:  123 kB" of /proc/self/status; -1 if there is no such line. */
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

/* The start of the private arena, found from any private buffer's address and offset. */
static const void *private_base(const ls_rank *rank) {
    for (int i = 0; i < rank->image->n_buffers; i++) {
        const ls_buffer *buffer = &rank->image->buffers[i];
        if (buffer->space != LS_PRIVATE || buffer->bytes == 0) continue;
        const ls_operand start = {.buffer = i};
        return (const char *)ls_executor_address(rank->executor, &start) - buffer->offset;
    }
    return NULL;
}

ls_resident ls_resident_bytes(const ls_rank *rank) {
    const int64_t private = resident_in(private_base(rank), rank->image->bytes[LS_PRIVATE]);
    const int64_t heap = resident_in(ls_comm_heap(rank->comm), rank->image->bytes[LS_SYMMETRIC]);
    const bool own_process = gettid() == getpid(); /* not a thread among other ranks */
    const int64_t anonymous = own_process ? status_bytes("RssAnon") : -1;
    return (ls_resident){.bytes = anonymous < 0 ? private + heap : anonymous + heap, .arenas = private + heap};
}

/* --- huge pages --------------------------------------------------------------------------------------------------- */

/* Bytes in the intersection of two address ranges. */
static int64_t overlap(uintptr_t a, uintptr_t a_end, uintptr_t b, uintptr_t b_end) {
    const int64_t first = ls_max((int64_t)a, (int64_t)b), end = ls_min((int64_t)a_end, (int64_t)b_end);
    return ls_max(0, end - first);
}

/* Whether the line of smaps counts huge pages; *kilobytes is its number. */
static bool parse_huge(const char *line, long long *kilobytes) {
    static const char *const keys[] = {"AnonHugePages:", "ShmemPmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"};
    for (size_t i = 0; i < LS_COUNT(keys); i++) {
        const size_t length = strlen(keys[i]);
        if (strncmp(line, keys[i], length) != 0) continue;
        *kilobytes = strtoll(line + length, NULL, 10);
        return true;
    }
    return false;
}

int64_t ls_resident_huge(const ls_rank *rank) {
    const uintptr_t arena[LS_SPACES] = {(uintptr_t)private_base(rank), (uintptr_t)ls_comm_heap(rank->comm)};
    FILE *file = fopen("/proc/self/smaps", "re");
    if (file == NULL) return 0;
    char line[512];
    unsigned long start, end;
    long long kilobytes;
    int64_t huge = 0, arena_bytes = 0; /* arena_bytes: those of the current mapping, not yet counted as huge */
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            arena_bytes = 0;
            for (int s = 0; s < LS_SPACES; s++)
                arena_bytes += overlap(start, end, arena[s], arena[s] + rank->image->bytes[s]);
        } else if (parse_huge(line, &kilobytes)) {
            const int64_t more = ls_min(arena_bytes, kilobytes * 1024);
            huge += more;
            arena_bytes -= more;
        }
    }
    fclose(file);
    return huge;
}
