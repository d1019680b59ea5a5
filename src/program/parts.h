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
/*
 * Whether the rank is the one of those with the same part that saves it: the first along the axes of heads and features
 * that do not cut the parameter.
 */
bool ls_flat_is_saved(const ls_image *image, const ls_flat *flat, int rank);

#endif
