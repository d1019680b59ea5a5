/*
 * A lock on a folder: the file longspan.lock in it says who holds it, and a lock of the kernel on that file decides. The kernel's ends with
 * the last process that has it, however that process ends, so a file that is left behind holds nobody up.
 */
#ifndef LS_FORMAT_LOCK_H
#define LS_FORMAT_LOCK_H

#include <stdbool.h>

#include "longspan/status.h"

typedef struct ls_lock ls_lock;

/*
 * Takes the lock of a folder that is there, for this process and those that it forks. Does not wait, but for processes that a holder
 * who has died leaves behind for a moment. LS_USAGE when it is held: the message has the holder's process, host and time. LS_IO when the
 * file cannot be made or written. A lock whose holder is gone (its process ended, its machine was started again) is taken over, and that is said.
 *
 * Network folders: NFS, SMB, Lustre and the like hand the kernel's lock to the server, so it holds between hosts. Where the kernel locks nothing,
 * or for one host alone (FUSE, 9P), a file that names another host is believed until somebody removes it, and two starts at the very same moment
 * may both get a lock that the kernel refuses.
 */
LS_MUST_USE ls_status ls_lock_take(const char *folder, ls_lock **out);
/* Removes the file, unless another one stands in its place, and lets the lock go. NULL is allowed. Only the process that took it calls this. */
void ls_lock_release(ls_lock *lock);
/* Whether the folder still has this lock's file: false when the folder was removed, or another one stands in its place. */
bool ls_lock_stands(const ls_lock *lock);
/* Where the folder is by now; *out becomes NULL when it was removed. */
LS_MUST_USE ls_status ls_lock_whereabouts(const ls_lock *lock, char **out);

#endif
