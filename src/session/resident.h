/* How much memory a rank keeps resident. */
#ifndef LS_SESSION_RESIDENT_H
#define LS_SESSION_RESIDENT_H

#include "session/step.h"

/*
 * A rank's resident memory as the operating system counts it: in all (bytes), and of the two arenas of its programs
 * (arenas). Of the shared heap only the rank's own part counts. With ranks as threads of one process, `bytes` equals
 * `arenas`.
 */
typedef struct ls_resident {
    int64_t bytes, arenas;
} ls_resident;
ls_resident ls_resident_bytes(const ls_rank *rank);

/*
 * Bytes of the arenas in huge pages; 0 if the system does not say. In a mapping that other ranks' arenas share, all its
 * huge pages are taken to be this rank's, as far as they fit in its arenas: an upper bound.
 */
int64_t ls_resident_huge(const ls_rank *rank);

#endif
