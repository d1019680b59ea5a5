/* Work in a process of its own. */
#ifndef LS_BASE_APART_H
#define LS_BASE_APART_H

#include "longspan/status.h"

#include <stddef.h>

/*
 * Runs `work` in a process that is forked for it, waits, and copies the `bytes` bytes of `out`, which it wrote there,
 * back to those of the caller. For what this process must not do before it forks ranks: the driver of a GPU cannot be
 * used by a process whose parent has. Whatever else the work changes is lost. The status is that of the work; LS_FAULT:
 * its process died; LS_NO_MEMORY: it could not be started.
 */
LS_MUST_USE ls_status ls_apart(ls_status (*work)(void *context), void *context, void *out, size_t bytes);

#endif
