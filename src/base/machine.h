/*
 * What this machine is: cores, caches, memory and the instruction set that kernels are chosen by.
 */
#ifndef LS_BASE_MACHINE_H
#define LS_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/isa.h"

typedef struct ls_machine {
    ls_isa isa; /* the best that kernels may use: ls_isa_limit */
    int cores;  /* cores that this process may use, after its affinity and the quota of its cgroup */
    size_t l1_bytes, l2_bytes, l3_bytes; /* 0 when unknown */
    size_t memory_bytes;                 /* physical memory, or the cgroup's limit if that is lower; 0 when unknown */
    char name[64];                       /* of the processor, as the system reports it */
} ls_machine;

void ls_machine_detect(ls_machine *out);

/* Bytes of memory that can be allocated now, including what the system would free (caches); 0 when unknown. */
size_t ls_machine_available(void);

/*
 * The number of processes that the system has killed because memory ran out: in this process's control group, or on the
 * whole machine when there is no group; -1 when unknown. If the number rises while a process dies by SIGKILL, lack of
 * memory is the likely cause.
 */
int64_t ls_machine_memory_kills(void);

#endif
