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
    LS_ISA_REF,        /* plain C, the oracle */
    LS_ISA_BASE,       /* the compiler's baseline: SSE2 on x86-64, NEON and FMA on aarch64 */
    LS_ISA_AVX2,       /* x86-64-v3: AVX2, FMA */
    LS_ISA_AVX512,     /* x86-64-v4 */
    LS_ISA_AVX512BF16, /* and vdpbf16ps */
    LS_ISA_AMX,        /* and tiles of bf16, which the system lets this process use */
    LS_ISA_COUNT
} ls_isa;

typedef struct ls_machine {
    ls_isa isa; /* the best that kernels may use here: ls_isa_limit */
    int cores;  /* that this process may run on (affinity and cgroup quota counted in) */
    size_t l1_bytes, l2_bytes, l3_bytes; /* 0 when unknown */
    size_t memory_bytes;                 /* physical, or the cgroup's limit where that is lower */
    char name[64];                       /* the processor's own name */
} ls_machine;

void ls_machine_detect(ls_machine *out);

/* Bytes of memory that can be had now, those included that the system would free for them; 0 when it does not tell. */
size_t ls_machine_available(void);

/*
 * How many processes the system has killed because memory ran out: of this process's control group, or on the machine where there is none;
 * -1 when it does not tell. A death by SIGKILL between two looks with different numbers was one of them.
 */
int64_t ls_machine_memory_kills(void);

/* Names the best instruction set that this process may use; for tests of what other processors do. */
#define LS_ISA_VARIABLE "LONGSPAN_ISA"

/*
 * The best instruction set that kernels may use: what the processor and the operating system support, or less where the environment's
 * LONGSPAN_ISA says so. LS_USAGE error for a value of it that is no name, or more than the processor has; *out is then the processor's.
 */
LS_MUST_USE ls_status ls_isa_limit(ls_isa *out);
/* LS_USAGE error where isa is beyond ls_isa_limit. */
LS_MUST_USE ls_status ls_isa_check(ls_isa isa);

const char *ls_isa_name(ls_isa isa); /* "ref", "base", "avx2", "avx512", "avx512bf16", "amx" */
/* LS_USAGE error that lists the names when text is none of them. */
LS_MUST_USE ls_status ls_isa_parse(const char *text, ls_isa *out);

#endif
