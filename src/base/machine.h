/* A description of this machine: cores, caches, memory, and the instruction set by which kernels are chosen. */
#ifndef LS_BASE_MACHINE_H
#define LS_BASE_MACHINE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/isa.h"

typedef struct ls_machine {
    ls_isa isa; /* the best that kernels may use: ls_isa_limit */
    int cores;  /* cores that this process and the ranks launched beside it may use, by affinity and the cgroup's quota
                 */
    size_t l1_bytes, l2_bytes, l3_bytes; /* 0 when unknown */
    size_t memory_bytes;                 /* physical memory, or the cgroup's limit if that is lower; 0 when unknown */
    char name[64];                       /* of the processor, as the system reports it */
} ls_machine;

void ls_machine_detect(ls_machine *out);

/*
 * The processors that this process may run on, as bits. A launcher may bind each rank to some of a machine's
 * processors. The ranks on one machine tell each other their processors, and ls_machine_add_processors adds those of
 * the other ranks to what ls_machine counts, so that all ranks see one machine, however they are bound. Processors
 * after the first 4,096 are left out.
 */
typedef struct ls_processors {
    uint64_t bits[64];
} ls_processors;
void ls_machine_processors(ls_processors *out);
int ls_processors_count(const ls_processors *processors);
void ls_processors_remove(ls_processors *processors, int processor);
/* Sets the processors that a thread may run on. If the system refuses, nothing changes. */
void ls_thread_place(pthread_t thread, const ls_processors *where);
void ls_machine_add_processors(const ls_processors *processors);
/*
 * For a process that will run `threads` threads. If the process is bound to fewer processors (by default Open MPI binds
 * a rank to one), the process and the threads that it starts may from now on run on all processors counted above. If
 * the system refuses, nothing changes.
 */
void ls_machine_unbind(int threads);

/* Bytes of memory that can be allocated now, including what the system would free (caches); 0 when unknown. */
size_t ls_machine_available(void);

/*
 * The number of processes that the system has killed because memory ran out: in this process's control group, or on the
 * whole machine when there is no group; -1 when unknown. If the number rises while a process dies by SIGKILL, lack of
 * memory is the likely cause.
 */
int64_t ls_machine_memory_kills(void);

#endif
