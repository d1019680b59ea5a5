/*
 * Memory that ranks of a host have in common: values of parameters that no program changes are the same on all ranks
 * that have the same parts, so those of a host have them once. They lie in the segment of the first of them, the
 * holder.
 */
#ifndef LS_PROGRAM_COMMON_H
#define LS_PROGRAM_COMMON_H

#include "program/image.h"

/* The ranks of a host that have the same parts as one of them. */
typedef struct ls_sharers {
    int holder;   /* the first of them */
    int n, place; /* how many they are, and which of them that one is, from 0 */
} ls_sharers;
ls_sharers ls_image_sharers(const ls_image *image, int rank);
/*
 * The smallest number of such ranks on any host of `host_ranks` ranks, one after the other. owners: as in ls_image.
 */
int ls_least_sharers(const ls_mesh *mesh, const ls_team *owners, int host_ranks);

#endif
