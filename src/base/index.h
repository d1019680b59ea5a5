/*
 * Finds the items of a list by a hash. Items are numbered from 0 in the order in which they are added. Several items
 * may have the same hash, so callers compare:
 *
 *     for (int i = ls_index_first(&index, hash); i >= 0; i = ls_index_next(&index, i))
 *         if (is_same(&list[i], wanted)) return i;
 *     ls_index_add(&index, hash);
 */
#ifndef LS_BASE_INDEX_H
#define LS_BASE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* The caller sets arena, in which the index grows; the rest is zero at first. */
typedef struct ls_index {
    ls_arena *arena;
    int n;
    int *head; /* by hash % heads: the last item added under this head; -1: none */
    int *next; /* by item: the item added before it under the same head; -1: none */
    uint64_t *hash;
    size_t heads, capacity, room;
} ls_index;

/* Adds the next item, whose number is index->n. */
void ls_index_add(ls_index *index, uint64_t hash);
/* An item with that hash; -1: there is none. */
int ls_index_first(const ls_index *index, uint64_t hash);
/* Another item with the same hash as `item`, added before it; -1: there is none. */
int ls_index_next(const ls_index *index, int item);

#endif
