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

#endif
