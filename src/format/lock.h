/*
 * A lock on a folder, so that one run at a time uses it. It consists of the file longspan.lock in the folder, which
 * names the holder, and a lock of the kernel on that file, which decides. The kernel releases its lock when the last
 * process that has it ends, in whatever way; so a file that is left behind does not block a later run.
 */
#ifndef LS_FORMAT_LOCK_H
#define LS_FORMAT_LOCK_H

#include <stdbool.h>

#include "longspan/status.h"

typedef struct ls_lock ls_lock;

/*
 * Takes the lock of an existing folder for this process and the processes that it forks. Does not wait for a holder,
 * except a few seconds for the remaining processes of a holder that has died. LS_USAGE when the lock is held: the
 * message names process, host and time. LS_IO when the file cannot be made or written. A lock whose holder is gone (the
 * process has ended, or its machine was restarted) is taken over, with a message on standard error.
 *
 * Network file systems: NFS, SMB, Lustre and similar ones pass the kernel's lock to the server, so it works between
 * hosts. Where the kernel does not lock, or only within one host (FUSE, 9P), a file that names another host blocks the
 * folder until somebody removes it, and two processes that start at the same moment may both get the lock.
 */
LS_MUST_USE ls_status ls_lock_take(const char *folder, ls_lock **out);
/*
 * Releases the lock and removes its file, unless the file was replaced by another one. NULL is allowed. Only for the
 * process that took the lock.
 */
void ls_lock_release(ls_lock *lock);
/* Whether the file of this lock is still in the folder: false when it or the folder was removed or replaced. */
bool ls_lock_is_valid(const ls_lock *lock);
/* The current path of the folder, which may have been renamed; *out becomes NULL when it was removed. */
LS_MUST_USE ls_status ls_lock_folder(const ls_lock *lock, char **out);

#endif
