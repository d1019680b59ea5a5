/* Limits of control groups, apart from the places where this machine keeps them, so that they can be tested. */
#ifndef LS_BASE_MACHINE_IMPL_H
#define LS_BASE_MACHINE_IMPL_H

#include <stddef.h>
#include <stdint.h>

/*
 * Narrows *cores and *memory_bytes to what version 2 control groups allow. membership is a file like /proc/self/cgroup,
 * root the folder where groups are mounted; the limits of the group and of every group above it count. What cannot be
 * read limits nothing.
 */
/* The field oom_kill of the group's memory.events, or of a file like /proc/vmstat where it has none; -1 without either. */
int64_t ls_cgroup_memory_kills(const char *membership, const char *root, const char *vmstat);
void ls_cgroup_limits(const char *membership, const char *root, int *cores, size_t *memory_bytes);

#endif
