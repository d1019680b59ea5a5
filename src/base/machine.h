/*
 * What this machine is: cores, caches, memory and the instruction sets that kernels are chosen by.
 */
#ifndef LS_BASE_MACHINE_H
#define LS_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

/* Instruction sets, in the order of preference; each includes those below it. */
typedef enum ls_isa {
    LS_ISA_REF,        /* plain C: the reference that the others are tested against */
    LS_ISA_BASE,       /* the compiler's baseline: SSE2 on x86-64, NEON and FMA on aarch64 */
    LS_ISA_AVX2,       /* x86-64-v3: AVX2, FMA */
    LS_ISA_AVX512,     /* x86-64-v4 */
    LS_ISA_AVX512BF16, /* with vdpbf16ps */
    LS_ISA_AMX,        /* with tiles of bf16, where the system permits this process to use them */
    LS_ISA_COUNT
} ls_isa;

typedef struct ls_machine {
    ls_isa isa; /* the best that kernels may use: ls_isa_limit */
    int cores;  /* cores that this process may use, after its affinity and the quota of its cgroup */
    size_t l1_bytes, l2_bytes, l3_bytes; /* 0 when unknown */
    size_t memory_bytes; /* physical memory, or the cgroup's limit if that is lower; 0 when unknown */
    char name[64];       /* of the processor, as the system reports it */
} ls_machine;

void ls_machine_detect(ls_machine *out);

/* Bytes of memory that can be allocated now, including what the system would free (caches); 0 when unknown. */
size_t ls_machine_available(void);

/*
 * The number of processes that the system has killed because memory ran out: in this process's control group, or on the whole machine when
 * there is no group; -1 when unknown. If the number rises while a process dies by SIGKILL, lack of memory is the likely cause.
 */
int64_t ls_machine_memory_kills(void);

/* The environment variable that limits the instruction set of a process, for tests of lesser processors. */
#define LS_ISA_VARIABLE "LONGSPAN_ISA"

/*
 * The best instruction set that kernels may use: what the processor and the operating system support, or less if LONGSPAN_ISA is set in
 * the environment. A value of LONGSPAN_ISA that is no name, or exceeds the processor, is an LS_USAGE error. *out is set even then: to
 * what the processor supports.
 */
LS_MUST_USE ls_status ls_isa_limit(ls_isa *out);
/* LS_USAGE error when isa is above ls_isa_limit. */
LS_MUST_USE ls_status ls_isa_check(ls_isa isa);

const char *ls_isa_name(ls_isa isa); /* "ref", "base", "avx2", "avx512", "avx512bf16", "amx" */
/* Any other text is an LS_USAGE error that lists the names. */
LS_MUST_USE ls_status ls_isa_parse(const char *text, ls_isa *out);

#endif
