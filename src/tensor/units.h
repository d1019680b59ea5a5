/*
 * How ranks share a dimension of heads, features or words of the vocabulary. The dimension consists of segments, one
 * after the other (the rows of q, k and v in one matrix), and each segment of units (a unit of heads is all elements of
 * one head). Of each segment, a rank has consecutive units; the numbers of units of two ranks differ by at most one.
 */
#ifndef LS_TENSOR_UNITS_H
#define LS_TENSOR_UNITS_H

#include <stdint.h>

#include "longspan/tensor.h"

enum { LS_DIM_SEGMENTS = 8 }; /* at most, of one dimension */

typedef struct ls_dim_units {
    int n; /* segments */
    struct {
        int64_t units, elements; /* the number of units, and the elements of each */
    } segment[LS_DIM_SEGMENTS];
} ls_dim_units;

/* The units of the segment with the fewest: at most this many ranks can share the dimension. */
int64_t ls_units_fewest(const ls_dim_units *dim);
/* The elements of rank `part` of `parts` ranks; the elements of the rank that has the most. */
int64_t ls_units_count(const ls_dim_units *dim, int parts, int part);
int64_t ls_units_most(const ls_dim_units *dim, int parts);
/*
 * The index in the whole dimension of element `at` of a part. *follow: how many elements, including this one, are
 * consecutive both in the part and in the whole dimension.
 */
int64_t ls_units_place(const ls_dim_units *dim, int parts, int part, int64_t at, int64_t *follow);

#endif
