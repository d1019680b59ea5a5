/*
 * Parts of parameters: if axes of heads and features cut a parameter, each rank along them has a part of one of the
 * parameter's dimensions (tensor/units.h). The elements of the part lie in the rank's flat space in the order of
 * memory. Files and the host have whole parameters; these functions say which elements are where.
 */
#ifndef LS_PROGRAM_PARTS_H
#define LS_PROGRAM_PARTS_H

#include "program/image.h"

/* The number of elements of a rank's part of the parameter. */
int64_t ls_flat_part(const ls_image *image, const ls_flat *flat, int rank);
/*
 * The index in the whole parameter of element `at` of a rank's part, both in the order of memory. *follow: the number
 * of elements, from this one on, that are consecutive in both.
 */
int64_t ls_flat_whole(const ls_image *image, const ls_flat *flat, int rank, int64_t at, int64_t *follow);
/* Elements that are consecutive in a parameter, in a rank's flat space and in a bound tensor of the flat space. */
typedef struct ls_flat_run {
    int64_t whole;      /* index of the first of them in the whole parameter */
    ls_flat_piece part; /* `at`: index in the tensor */
} ls_flat_run;

/*
 * What a rank has of a parameter in a bound tensor of the flat space, run after run in the order of the tensor:
 *     for (ls_flat_runs r = ls_flat_runs_of(image, binding, flat, rank, 0); ls_flat_next(&r);) use(&r.run);
 */
typedef struct ls_flat_runs {
    const ls_image *image;
    const ls_binding *binding;
    const ls_flat *flat;
    int rank, bucket;
    int64_t skip, done; /* elements that are still to be skipped; elements of the bucket's part that have been given */
    ls_flat_run run;
} ls_flat_runs;

/* binding NULL: in the rank's shard. The first `skip` elements that the rank has are skipped. */
ls_flat_runs ls_flat_runs_of(const ls_image *image, const ls_binding *binding, const ls_flat *flat, int rank,
                             int64_t skip);
/* Moves to the next run; false: there is none. */
bool ls_flat_next(ls_flat_runs *r);
/*
 * The same for runs in the rank's part of the parameter: `whole` is then an index in the part. Ranks of other stages of
 * a pipeline do not know the rank's flat space; with ls_flat_run_of they find the elements of the whole parameter.
 */
bool ls_flat_next_part(ls_flat_runs *r);
/*
 * The first run among `count` elements from element `at` of a rank's part on: those that are consecutive in the
 * parameter.
 */
ls_flat_run ls_flat_run_of(const ls_image *image, const ls_flat *flat, int rank, int64_t at, int64_t count);
/* The index of an element of a whole parameter in an array of the host that has all parameters. */
static inline int64_t ls_flat_on_host(const ls_flat *flat, int64_t whole) { return flat->whole_start + whole; }
/*
 * Whether the rank saves its part of the parameter. Of the ranks with the same part only one does: the first along the
 * axes of heads and features that do not cut the parameter.
 */
bool ls_flat_is_saved(const ls_image *image, const ls_flat *flat, int rank);

#endif
