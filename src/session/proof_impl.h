/* The programs of a session's ranks, compiled and proved; for session.c. */
#ifndef LS_SESSION_PROOF_IMPL_H
#define LS_SESSION_PROOF_IMPL_H

#include "session/session.h"

typedef struct ls_proved {
    ls_classes classes;
    ls_rank_bytes *bytes; /* by class; in the arena */
    ls_image *image;      /* of one class, for the caller to destroy; NULL: none, after a failure */
    int class;            /* that one: 0, or where others launched the ranks that of this process's rank */
} ls_proved;

/*
 * Where this process starts the ranks, it compiles and proves all classes (ls_compile_proved). Where others launched
 * them, that is shared by all processes, and collective: each compiles its own class, the first rank of each class
 * proves it, and all get the same status. Errors are those of ls_compile_proved.
 */
LS_MUST_USE ls_status ls_prove_programs(const ls_job *job, const ls_target *target, ls_arena *arena, ls_proved *out);

#endif
