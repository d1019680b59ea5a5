/*
 * Pairwise covering sets: few rows of values, one for each axis, in which every pair of values of two axes occurs that may. Greedy (Cohen
 * et al., "The AETG system", IEEE TSE 23(7), 1997): each row begins with a pair that is missing and takes from each further axis a value
 * that brings the most missing pairs.
 */
#ifndef TESTS_COVERING_H
#define TESTS_COVERING_H

#include <stdbool.h>
#include <stdint.h>

enum { COVERING_AXES = 10 };

typedef struct covering_row {
    int at[COVERING_AXES]; /* by axis, a value from 0 */
} covering_row;

typedef struct covering_axes {
    int n;
    int size[COVERING_AXES]; /* values of each axis */
    /* Whether value i of axis a and j of axis b may stand in one row; a < b. NULL: always. */
    bool (*allowed)(const void *context, int a, int i, int b, int j);
    const void *context;
    uint64_t seed; /* among values that bring as much, one is drawn */
} covering_axes;

/*
 * The rows, in an array that the caller frees. What is allowed must leave a value of every axis to every allowed pair of others. *pairs:
 * how many pairs there were to cover.
 */
covering_row *covering_make(const covering_axes *axes, int *rows, int *pairs);

#endif
