/*
 * A bump arena for the small objects of compilation: graphs, programs, names. All are freed at once.
 *
 * When memory for these objects (kilobytes to a few megabytes) runs out, the process ends with a message:
 * a status from every list push would hide the algorithms. Memory for tensors never comes from here;
 * it is mapped once per rank, and its failure is an ls_status (ls_memory_map).
 * Not thread-safe: an arena belongs to one thread at a time.
 */
#ifndef LS_BASE_ARENA_H
#define LS_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

typedef struct ls_arena ls_arena;

ls_arena *ls_arena_create(void);
void ls_arena_destroy(ls_arena *arena); /* NULL is allowed */

/* Zeroed memory, aligned to 64 bytes. bytes may be 0. */
void *ls_arena_alloc(ls_arena *arena, size_t bytes);
#define LS_NEW(arena, type) ((type *)ls_arena_alloc((arena), sizeof(type)))
#define LS_NEW_ARRAY(arena, type, n) ((type *)ls_arena_alloc((arena), sizeof(type) * (size_t)(n)))

char *ls_arena_strdup(ls_arena *arena, const char *text);
char *ls_arena_printf(ls_arena *arena, const char *format, ...) LS_PRINTF(2, 3);
void *ls_arena_copy(ls_arena *arena, const void *data, size_t bytes);

/* Bytes allocated so far, with the padding to 64 of each allocation. */
size_t ls_arena_bytes(const ls_arena *arena);

/*
 * Appends a zeroed element to a growing array in the arena and returns its address. `items`, `count` and `capacity`
 * are three variables of the caller; count is incremented.
 * The array may move: keep indices, not pointers.
 *
 *     ls_node *node = LS_PUSH(arena, g->nodes, g->n_nodes, g->node_capacity);
 */
#define LS_PUSH(arena, items, count, capacity) \
    ((items) = ls_arena_grow((arena), (items), (size_t)(count), &(capacity), sizeof *(items)), &(items)[(count)++])
void *ls_arena_grow(ls_arena *arena, void *items, size_t count, size_t *capacity, size_t size);

#endif
