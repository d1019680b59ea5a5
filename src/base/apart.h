/* Runs work in a separate process. */
#ifndef LS_BASE_APART_H
#define LS_BASE_APART_H

#include "longspan/status.h"

#include <stddef.h>

/*
 * Runs `work` in a child process that is forked for it, waits for the child, and copies the `bytes` bytes that `work`
 * wrote to `out` in the child to `out` of the caller. Everything else that `work` changes is lost. For work that this
 * process must not do itself before it forks ranks: a process cannot use the driver of a GPU if its parent has used it.
 * Returns the status of the work; LS_FAULT: the child died; LS_NO_MEMORY: it could not be started.
 */
LS_MUST_USE ls_status ls_apart(ls_status (*work)(void *context), void *context, void *out, size_t bytes);

#endif
