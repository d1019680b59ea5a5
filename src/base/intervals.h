/*
 * A set of intervals of integers, ordered by their starts. A search for the members that overlap an interval takes time
 * O(log n + found). The set is a treap (Seidel and Aragon, "Randomized search trees", Algorithmica 16, 1996) in which
 * each node holds the largest end of the intervals in its subtree.
 */
#ifndef LS_BASE_INTERVALS_H
#define LS_BASE_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* A member. It is a part of an object of the caller, which must not move while the member is in a set. */
typedef struct ls_interval {
    size_t from, past; /* [from, past), not empty; must not change while it is in a set */

    /* The fields below belong to the set. */
    size_t reach;    /* the largest `past` in the subtree of this node */
    uint32_t serial; /* 1, 2, ... in the order of addition */
    uint32_t priority;
    struct ls_interval *left, *right;
} ls_interval;

/* A zeroed set is empty. */
typedef struct ls_intervals {
    ls_interval *root;
    uint32_t added; /* members added so far, including those removed since */
} ls_intervals;

void ls_intervals_add(ls_intervals *set, ls_interval *interval);
/* The interval must be in the set. */
void ls_intervals_remove(ls_intervals *set, const ls_interval *interval);

/* The result of a search. The caller sets arena; a list may be used for many searches. */
typedef struct ls_interval_list {
    ls_arena *arena;
    ls_interval **item;
    int n;
    size_t capacity;
} ls_interval_list;

/* Replaces the contents of the list by the members that overlap [from, past), in ascending order of their starts. */
void ls_intervals_find(const ls_intervals *set, size_t from, size_t past, ls_interval_list *out);

#endif
