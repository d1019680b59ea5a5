/* What a rank keeps in memory, as the operating system counts it. */
#include "plan/resident.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Resident bytes of [start, start + bytes); 0 when the system does not tell. */
static int64_t resident_in(const void *start, size_t bytes) {
    if (start == NULL || bytes == 0) return 0;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)start / page * page;
    const size_t pages = ((uintptr_t)start + bytes - first + page - 1) / page;
    unsigned char *seen = malloc(pages);
    int64_t resident = 0;
    if (seen != NULL && mincore((void *)first, pages * page, seen) == 0)
        for (size_t i = 0; i < pages; i++) resident += (seen[i] & 1) ? (int64_t)page : 0;
    free(seen);
    return resident;
}

/* A line "Name:  123 kB" of /proc/self/status; -1 when it is not there. */
static int64_t status_bytes(const char *name) {
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL) return -1;
    char line[256], format[64];
    snprintf(format, sizeof format, "%s: %%lld kB", name);
    long long kilobytes = -1;
    while (kilobytes < 0 && fgets(line, sizeof line, file) != NULL) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)sscanf(line, format, &kilobytes);
#pragma GCC diagnostic pop
    }
    fclose(file);
    return kilobytes < 0 ? -1 : (int64_t)kilobytes * 1024;
}

/* Where the private arena begins: any private buffer tells. */
static const void *private_base(const ls_rank *rank) {
    for (int i = 0; i < rank->image->n_buffers; i++) {
        const ls_buffer *buffer = &rank->image->buffers[i];
        if (buffer->space != LS_PRIVATE || buffer->bytes == 0) continue;
        const ls_operand start = {.buffer = i, .peer = -1};
        return (const char *)ls_executor_address(rank->executor, &start) - buffer->offset;
    }
    return NULL;
}

ls_resident ls_resident_bytes(const ls_rank *rank) {
    const int64_t private = resident_in(private_base(rank), rank->image->bytes[LS_PRIVATE]);
    const int64_t heap = resident_in(ls_comm_heap(rank->comm), rank->image->bytes[LS_SYMMETRIC]);
    const bool own_process = gettid() == getpid();
    const int64_t anonymous = own_process ? status_bytes("RssAnon") : -1;
    return (ls_resident){.bytes = anonymous < 0 ? private + heap : anonymous + heap,
                         .arenas = private + heap};
}
