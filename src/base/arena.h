/*
 * A bump arena for the small objects of compilation: graphs, programs, names. Freed all at once.
 *
 * Running out of memory for these (kilobytes to a few megabytes) ends the process with a message:
 * carrying a status through every list push would hide the algorithms. Memory for tensors never
 * comes from here; it is mapped once per rank and its failure is an ls_status (run/memory.h).
 * Not thread-safe: one arena has one owner.
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

/* Bytes handed out so far. */
size_t ls_arena_bytes(const ls_arena *arena);

/*
 * Room for one more element in a growing array held in the arena. `items`, `count`, `capacity` are the
 * caller's three variables; returns the address of the new, zeroed element and raises count.
 * The array may move: keep indices, not pointers.
 *
 *     ls_node *node = LS_PUSH(arena, g->nodes, g->n_nodes, g->node_capacity);
 */
#define LS_PUSH(arena, items, count, capacity)                                                 \
    ((items) = ls_arena_grow((arena), (items), (size_t)(count), &(capacity), sizeof *(items)), \
     &(items)[(count)++])
void *ls_arena_grow(ls_arena *arena, void *items, size_t count, size_t *capacity, size_t size);

#endif
