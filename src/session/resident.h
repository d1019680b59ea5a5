/* How much memory a rank keeps resident. */
#ifndef LS_SESSION_RESIDENT_H
#define LS_SESSION_RESIDENT_H

#include "session/step.h"

/*
 * A rank's resident memory as the operating system counts it: all of it (bytes), and that of the arenas of its programs
 * (arenas). Of the shared heap, the rank's own part counts; of memory that the ranks of a host have in common, its
 * share. If ranks are threads of one process, `bytes` equals `arenas`.
 */
typedef struct ls_resident {
    int64_t bytes, arenas;
} ls_resident;
ls_resident ls_resident_bytes(const ls_rank *rank);

#endif
