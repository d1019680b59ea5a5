/*
 * An arena is a list of chunks, the newest first. Small requests are served from the newest chunk. A request larger
 * than a quarter of the first chunk gets a chunk of its own after the newest in the list, so that the space left in the
 * newest stays in use. The first chunk is small, and each later one is twice as large, up to one huge page where the
 * system has huge pages. Large programs need huge pages: passes read a program in no fixed order, and with small pages
 * much of the time goes to page table walks (docs/performance.md has the figures). For a small program, clearing a huge
 * page would be wasted time.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, FIRST_BYTES = 256 * 1024, HUGE_PAGE = 2 * 1024 * 1024 };

typedef struct chunk {
    struct chunk *next;
    size_t used, capacity; /* of data */
    _Alignas(ALIGNMENT) unsigned char data[];
} chunk;

struct ls_arena {
    chunk *newest;
    size_t bytes;
};

_Noreturn static void out_of_memory(size_t bytes) {
    fprintf(stderr, "longspan: out of memory: %zu bytes for the objects of compilation\n", bytes);
    _Exit(1);
}

static chunk *new_chunk(size_t capacity) {
    if (capacity > SIZE_MAX / 2) out_of_memory(capacity);
    const size_t bytes = ls_round_up(sizeof(chunk) + capacity, ALIGNMENT);
    const bool huge = bytes % HUGE_PAGE == 0;
    chunk *c = aligned_alloc(huge ? HUGE_PAGE : ALIGNMENT, bytes);
    if (!c) out_of_memory(capacity);
    if (huge) (void)madvise(c, bytes, MADV_HUGEPAGE); /* failure is ignored: without huge pages access is only slower */
    c->next = NULL;
    c->used = 0;
    c->capacity = capacity;
    return c;
}

ls_arena *ls_arena_create(void) {
    ls_arena *arena = malloc(sizeof *arena);
    if (!arena) out_of_memory(sizeof *arena);
    arena->newest = new_chunk(FIRST_BYTES - sizeof(chunk));
    arena->bytes = 0;
    return arena;
}

void ls_arena_destroy(ls_arena *arena) {
    if (!arena) return;
    for (chunk *c = arena->newest; c;) {
        chunk *next = c->next;
        free(c);
        c = next;
    }
    free(arena);
}

/* Memory that is not initialised. */
static void *allocate(ls_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
    const size_t rounded = ls_round_up(bytes ? bytes : 1, ALIGNMENT);
    chunk *c = arena->newest;
    if (c->capacity - c->used < rounded) {
        if (rounded > FIRST_BYTES / 4) {
            c = new_chunk(rounded);
            c->next = arena->newest->next;
            arena->newest->next = c;
        } else {
            c = new_chunk(ls_min(2 * (sizeof(chunk) + c->capacity), HUGE_PAGE) - sizeof(chunk));
            c->next = arena->newest;
            arena->newest = c;
        }
    }
    void *p = c->data + c->used;
    c->used += rounded;
    arena->bytes += rounded;
    return p;
}

void *ls_arena_alloc(ls_arena *arena, size_t bytes) { return memset(allocate(arena, bytes), 0, bytes); }

void *ls_arena_copy(ls_arena *arena, const void *data, size_t bytes) {
    void *p = allocate(arena, bytes);
    if (bytes) memcpy(p, data, bytes);
    return p;
}

char *ls_arena_strdup(ls_arena *arena, const char *text) { return ls_arena_copy(arena, text, strlen(text) + 1); }

char *ls_arena_printf(ls_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = ls_vprint(NULL, 0, format, args);
    va_end(args);
    LS_ASSERT(length >= 0);
    char *text = ls_arena_alloc(arena, (size_t)length + 1);
    ls_vprint(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

size_t ls_arena_bytes(const ls_arena *arena) { return arena->bytes; }

void *ls_arena_grow(ls_arena *arena, void *items, size_t count, size_t *capacity, size_t size) {
    if (count == *capacity) {
        const size_t larger = count ? 2 * count : 8;
        if (larger > SIZE_MAX / 2 / size) out_of_memory(SIZE_MAX);
        void *moved = allocate(arena, larger * size); /* the part after the last item stays untouched */
        if (count) memcpy(moved, items, count * size);
        items = moved;
        *capacity = larger;
    }
    memset((unsigned char *)items + count * size, 0, size);
    return items;
}
