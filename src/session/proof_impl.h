/* The programs of a session's ranks, compiled and proved; for session.c. */
#ifndef LS_SESSION_PROOF_IMPL_H
#define LS_SESSION_PROOF_IMPL_H

#include "session/session.h"

typedef struct ls_proved {
    ls_classes classes;
    ls_rank_bytes *bytes; /* by class; in the arena */
    ls_image *image;      /* the image of one class, for the caller to destroy; NULL: none, after a failure */
    int class;            /* that class: 0, or, if the ranks were launched, the class of this process's rank */
} ls_proved;

/*
 * If this process starts the ranks, it compiles and proves all classes (ls_compile_proved). If the ranks were launched,
 * the call is collective and the processes share the work: each compiles its own class, the first rank of each class
 * proves it, and all get the same status. Errors are those of ls_compile_proved.
 */
LS_MUST_USE ls_status ls_prove_programs(const ls_job *job, const ls_target *target, ls_arena *arena, ls_proved *out);

#endif
