#include "base/base.h"

#include <stdbool.h>

/* The order of the tree. */
static bool before(const ls_interval *a, const ls_interval *b) {
    return a->from != b->from ? a->from < b->from : a->serial < b->serial;
}

static void update_reach(ls_interval *t) {
    t->reach = t->past;
    if (t->left != NULL && t->left->reach > t->reach) t->reach = t->left->reach;
    if (t->right != NULL && t->right->reach > t->reach) t->reach = t->right->reach;
}

/*
 * The priority of a serial number (the finaliser of MurmurHash3). It looks random but is fixed: the same additions
 * always make the same tree.
 */
static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Splits tree t into the members before `at` and the others. */
static void split(ls_interval *t, const ls_interval *at, ls_interval **left, ls_interval **right) {
    if (t == NULL) {
        *left = *right = NULL;
        return;
    }
    if (before(t, at)) {
        *left = t;
        split(t->right, at, &t->right, right);
    } else {
        *right = t;
        split(t->left, at, left, &t->left);
    }
    update_reach(t);
}

/* Joins two trees; every member of left is before every member of right. */
static ls_interval *merge(ls_interval *left, ls_interval *right) {
    if (left == NULL || right == NULL) return left != NULL ? left : right;
    if (left->priority > right->priority) {
        left->right = merge(left->right, right);
        update_reach(left);
        return left;
    }
    right->left = merge(left, right->left);
    update_reach(right);
    return right;
}

void ls_intervals_add(ls_intervals *set, ls_interval *interval) {
    interval->serial = ++set->added;
    interval->priority = mix(interval->serial);
    ls_interval **link = &set->root;
    while (*link != NULL && (*link)->priority >= interval->priority) {
        ls_interval *t = *link;
        if (interval->past > t->reach) t->reach = interval->past;
        link = before(interval, t) ? &t->left : &t->right;
    }
    split(*link, interval, &interval->left, &interval->right);
    update_reach(interval);
    *link = interval;
}

/* Removes the interval from the tree t and returns the new root. */
static ls_interval *subtree_without(ls_interval *t, const ls_interval *interval) {
    if (t == interval) return merge(t->left, t->right);
    if (before(interval, t))
        t->left = subtree_without(t->left, interval);
    else
        t->right = subtree_without(t->right, interval);
    update_reach(t);
    return t;
}

void ls_intervals_remove(ls_intervals *set, const ls_interval *interval) {
    set->root = subtree_without(set->root, interval);
}

static void append(ls_interval_list *list, ls_interval *t) {
    if ((size_t)list->n < list->capacity)
        list->item[list->n++] = t;
    else
        *LS_PUSH(list->arena, list->item, list->n, list->capacity) = t;
}

static void find(ls_interval *t, size_t from, size_t past, ls_interval_list *out) {
    for (; t != NULL && t->reach > from; t = t->right) {
        __builtin_prefetch(t->right); /* it arrives while the left subtree is searched */
        find(t->left, from, past, out);
        if (t->from >= past) return;
        if (t->past > from) append(out, t);
    }
}

void ls_intervals_find(const ls_intervals *set, size_t from, size_t past, ls_interval_list *out) {
    out->n = 0;
    find(set->root, from, past, out);
}
