/* The form of a range that the algorithms of this folder work on. */
#ifndef LS_BASE_RANGE_IMPL_H
#define LS_BASE_RANGE_IMPL_H

#include "base/base.h"

/* The pieces of a range, in the same order, with as few pairs as that takes; length 0 when it covers nothing. */
typedef struct ls_pieces {
    int64_t offset, length;
    int dims; /* pairs in use, each with count > 1 */
    int64_t count[LS_RANGE_DIMS], stride[LS_RANGE_DIMS];
} ls_pieces;

ls_pieces ls_range_pieces(const ls_range *range);

#endif
