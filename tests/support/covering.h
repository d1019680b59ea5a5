/*
 * Pairwise covering sets: few rows, with one value per axis, in which every allowed pair of values of two axes occurs.
 * Greedy (Cohen et al., "The AETG system", IEEE TSE 23(7), 1997): each row begins with a missing pair and takes from
 * each further axis the value that adds the most missing pairs.
 */
#ifndef TESTS_COVERING_H
#define TESTS_COVERING_H

#include <stdbool.h>
#include <stdint.h>

enum { COVERING_AXES = 13 }; /* at most */

typedef struct covering_row {
    int at[COVERING_AXES]; /* by axis, a value from 0 */
} covering_row;

typedef struct covering_axes {
    int n;
    int size[COVERING_AXES]; /* values of each axis */
    /* Whether value i of axis a and j of axis b may stand in one row; a < b. NULL: always. */
    bool (*allowed)(const void *context, int a, int i, int b, int j);
    const void *context;
    uint64_t seed; /* among equally good values one is drawn */
} covering_axes;

/*
 * The rows, in an array that the caller frees. Every allowed pair must leave an allowed value of every other axis.
 * *pairs: how many pairs had to be covered.
 */
covering_row *covering_make(const covering_axes *axes, int *rows, int *pairs);
/* The same for all rows that are allowed: the product. */
covering_row *covering_product(const covering_axes *axes, int *rows);
/* Whether all pairs of these values, one of each axis, are allowed. */
bool covering_allows(const covering_axes *axes, const int *at);
/*
 * Counts anew, apart from the search: the pairs that are allowed, or -1 where one of them does not occur in the rows,
 * or one that is not allowed does.
 */
int covering_count(const covering_axes *axes, const covering_row *rows, int n);

#endif
