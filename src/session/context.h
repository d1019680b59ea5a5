/* The context of a user's function: bytes of the caller that every rank may write, one rank each. */
#ifndef LS_SESSION_CONTEXT_H
#define LS_SESSION_CONTEXT_H

#include "run/run.h"

typedef struct ls_context {
    void *data;   /* of the caller; in a rank that is another process, a copy at the same address */
    void *before; /* its bytes before the ranks ran; NULL: all ranks write the caller's own memory */
    size_t bytes;
} ls_context;

/* before the ranks run. as_threads: they have the caller's memory, unless they were launched. */
LS_MUST_USE ls_status ls_context_open(void *data, size_t bytes, bool as_threads, ls_context *out);
void ls_context_close(ls_context *context); /* a zeroed one is allowed */

/*
 * On each rank when the user's function has returned `status`: brings home what the ranks have changed, and returns the
 * first failure. Collective, unless the function failed.
 */
LS_MUST_USE ls_status ls_context_return(const ls_context *context, ls_comm *comm, ls_status status);

#endif
