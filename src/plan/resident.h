/* How much memory a rank keeps. */
#ifndef LS_PLAN_RESIDENT_H
#define LS_PLAN_RESIDENT_H

#include "plan/session.h"

/*
 * What the operating system says this rank keeps in memory: all (bytes) and of the two arenas that programs use (arenas).
 * The heap counts with the rank's own part. With ranks as threads of one process, `bytes` is that of the arenas.
 */
typedef struct ls_resident {
    int64_t bytes, arenas;
} ls_resident;
ls_resident ls_resident_bytes(const ls_rank *rank);

/*
 * Bytes of the arenas that lie in huge pages; 0 where the system does not tell. A mapping that also holds other ranks' arenas counts
 * with what its huge pages can be of this rank's.
 */
int64_t ls_resident_huge(const ls_rank *rank);

#endif
