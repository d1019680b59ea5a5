/*
 * A set of intervals on a line, ordered by where they begin. Finds those that meet a given one in time O(log n + found): a treap
 * (Seidel and Aragon, "Randomized search trees", Algorithmica 16, 1996) whose nodes know how far the intervals below
 * them reach.
 */
#ifndef LS_BASE_INTERVALS_H
#define LS_BASE_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* A member: part of an object of its owner, who keeps it where it is. */
typedef struct ls_interval {
    size_t from, past; /* [from, past), not empty; fixed while it is in a set */
    size_t reach;      /* the rest is the set's own: largest `past` from here down */
    uint32_t serial, priority;
    struct ls_interval *left, *right;
} ls_interval;

/* Empty when zero. */
typedef struct ls_intervals {
    ls_interval *root;
    uint32_t drawn; /* priorities */
} ls_intervals;

void ls_intervals_add(ls_intervals *set, ls_interval *interval);
/* One that is in the set. */
void ls_intervals_remove(ls_intervals *set, const ls_interval *interval);

/* What was found; arena is set by the owner, who may use the list again and again. */
typedef struct ls_interval_list {
    ls_arena *arena;
    ls_interval **item;
    int n;
    size_t capacity;
} ls_interval_list;

/* Replaces the list by the members that share a point with [from, past), in the order in which they begin. */
void ls_intervals_find(const ls_intervals *set, size_t from, size_t past, ls_interval_list *out);

#endif
