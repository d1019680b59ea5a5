/*
 * Memory that ranks of a host have in common: values of parameters that no program changes are the same on all ranks
 * that have the same parts, so such ranks of a host share one copy. It lies in the segment of the first of these ranks,
 * the holder.
 */
#ifndef LS_PROGRAM_COMMON_H
#define LS_PROGRAM_COMMON_H

#include "program/image.h"

/* The ranks of a host that have the same parts as a given rank. */
typedef struct ls_sharers {
    int holder;   /* the first of these ranks */
    int n, place; /* their number; the place of the given rank among them, from 0 */
} ls_sharers;
ls_sharers ls_image_sharers(const ls_image *image, int rank);
/*
 * The smallest number of such ranks on any host, where each host has `host_ranks` consecutive ranks. owners: as in
 * ls_image.
 */
int ls_least_sharers(const ls_mesh *mesh, const ls_team *owners, int host_ranks);

#endif
