/*
 * Parts of parameters: where axes of heads and features cut a parameter, each rank along them has a part of one of its
 * dimensions (tensor/units.h), of which the elements lie in its flat space in the order of memory. Files and the host
 * have whole parameters; these functions say what is where.
 */
#ifndef LS_PROGRAM_PARTS_H
#define LS_PROGRAM_PARTS_H

#include "program/image.h"

/* Elements of the parameter that a rank has a part of. */
int64_t ls_flat_part(const ls_image *image, const ls_flat *flat, int rank);
/*
 * The element of the whole parameter that is element `at` of a rank's part, both in the order of memory. *follow: so
 * many elements, with this one, follow each other in both.
 */
int64_t ls_flat_whole(const ls_image *image, const ls_flat *flat, int rank, int64_t at, int64_t *follow);
/* Elements that follow each other in a parameter, in a rank's flat space and in a bound tensor of it. */
typedef struct ls_flat_run {
    int64_t whole;      /* the first of them in the whole parameter */
    ls_flat_piece part; /* `at`: in the tensor */
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
    int64_t skip, done; /* elements: to be left out; of the bucket's part, given */
    ls_flat_run run;
} ls_flat_runs;

/* binding NULL: in the rank's shard. The first `skip` elements of what it has are left out. */
ls_flat_runs ls_flat_runs_of(const ls_image *image, const ls_binding *binding, const ls_flat *flat, int rank,
                             int64_t skip);
/* Goes on to the next run; false: there is none. */
bool ls_flat_next(ls_flat_runs *r);
/*
 * The same of runs in the rank's part of the parameter, instead of the whole one, of which `whole` is then an element.
 * Ranks of other stages of a pipeline, which do not know the rank's flat space, find with ls_flat_run_of what of the
 * whole parameter these are.
 */
bool ls_flat_next_part(ls_flat_runs *r);
/* Of `count` elements from element `at` of a rank's part on: the first ones that follow each other in the parameter. */
ls_flat_run ls_flat_run_of(const ls_image *image, const ls_flat *flat, int rank, int64_t at, int64_t count);
/* The element of a whole parameter in an array of the host that has all of them. */
static inline int64_t ls_flat_on_host(const ls_flat *flat, int64_t whole) { return flat->whole_start + whole; }
/*
 * Whether the rank is the one of those with the same part that saves it: the first along the axes of heads and features
 * that do not cut the parameter.
 */
bool ls_flat_is_saved(const ls_image *image, const ls_flat *flat, int rank);

#endif
