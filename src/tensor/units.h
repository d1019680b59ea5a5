/*
 * How ranks share a dimension of heads, features or words: it is segments, one after the other (the rows of q, k and v
 * in one matrix), and a segment is units (of a head all its elements). Of each segment a rank has units that follow
 * each other, dealt evenly: no rank has two more than another.
 */
#ifndef LS_TENSOR_UNITS_H
#define LS_TENSOR_UNITS_H

#include <stdint.h>

#include "longspan/tensor.h"

enum { LS_DIM_SEGMENTS = 8 }; /* at most, of one dimension */

typedef struct ls_dim_units {
    int n; /* segments */
    struct {
        int64_t units, elements; /* so many, of so many elements each */
    } segment[LS_DIM_SEGMENTS];
} ls_dim_units;

/* The fewest units of a segment: so many ranks can share the dimension. */
int64_t ls_units_fewest(const ls_dim_units *dim);
/* Elements that one of `parts` ranks has, and that the rank with most of them has. */
int64_t ls_units_count(const ls_dim_units *dim, int parts, int part);
int64_t ls_units_most(const ls_dim_units *dim, int parts);
/*
 * Where element `at` of a part lies in the whole dimension. *follow: so many elements, with this one, follow each other
 * in both.
 */
int64_t ls_units_place(const ls_dim_units *dim, int parts, int part, int64_t at, int64_t *follow);

#endif
