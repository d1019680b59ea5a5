/*
 * A rank's memory in words: what it maps, by kind of buffer, and whether that is allowed.
 */
#ifndef LS_PLAN_MEMORY_H
#define LS_PLAN_MEMORY_H

#include "compile/compile.h"
#include "program/peak.h"

typedef struct ls_memory_account {
    size_t mapped;                      /* both arenas, in bytes like all here */
    size_t kind_bytes[LS_BUFFER_KINDS]; /* live at the peak of each arena */
    size_t unused; /* of the mapped bytes: in no buffer that is live at its arena's peak */
    ls_peak peak[LS_SPACES];
} ls_memory_account;

ls_memory_account ls_memory_account_of(const ls_image *image);

/*
 * LS_NO_MEMORY when the rank maps more than `allowed` bytes: says how much it needs, where the peak is, and what lives there. who: that
 * allows no more ("--memory").
 */
LS_MUST_USE ls_status ls_memory_check(const ls_image *image, int64_t allowed, const char *who);

/* The job as one rank alone would run it, with everything else as in `target`. */
LS_MUST_USE ls_status ls_compile_alone(const ls_job *job, const ls_target *target, ls_image **out);

#endif
