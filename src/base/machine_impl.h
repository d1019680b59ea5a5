/* The limits of control groups, with the files to read as arguments so that tests can supply their own. */
#ifndef LS_BASE_MACHINE_IMPL_H
#define LS_BASE_MACHINE_IMPL_H

#include <stddef.h>
#include <stdint.h>

/*
 * Lowers *cores and *memory_bytes (0: unknown) to what version 2 control groups allow. membership is a file like
 * /proc/self/cgroup; root is the folder where the groups are mounted. The limits of the group and of every group above
 * it apply. A file that cannot be read sets no limit.
 */
void ls_cgroup_limits(const char *membership, const char *root, int *cores, size_t *memory_bytes);

/*
 * The field oom_kill of the group's memory.events; if there is none, the same field of vmstat, a file like
 * /proc/vmstat; if there is neither, -1.
 */
int64_t ls_cgroup_memory_kills(const char *membership, const char *root, const char *vmstat);

#endif
