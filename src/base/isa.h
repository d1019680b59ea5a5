/*
 * Instruction sets. A feature is something that a processor can do and that kernels need. An instruction set is a name
 * for some features: users limit kernels to it (--isa, LONGSPAN_ISA). Instruction sets are ordered only by inclusion of
 * their features.
 */
#ifndef LS_BASE_ISA_H
#define LS_BASE_ISA_H

#include <stdbool.h>

#include "longspan/status.h"

/* A set of features: the sum of some LS_FEATURE_... */
typedef unsigned ls_features;

enum {
    LS_FEATURE_BASELINE = 1 << 0,    /* the baseline of the architecture: SSE2 on x86-64, NEON and FMA on aarch64 */
    LS_FEATURE_AVX2 = 1 << 1,        /* with the rest of x86-64-v3: FMA, F16C, BMI, LZCNT, MOVBE */
    LS_FEATURE_AVX512 = 1 << 2,      /* AVX-512 as in x86-64-v4: F, BW, CD, DQ, VL */
    LS_FEATURE_AVX512_BF16 = 1 << 3, /* vdpbf16ps and conversions */
    LS_FEATURE_AMX_BF16 =
        1 << 4, /* AMX tiles and their bf16 products, where the system permits this process to use them */
};

/* The rows of ls_isas. */
typedef enum ls_isa {
    LS_ISA_REF, /* plain C: the reference that the others are tested against */
    LS_ISA_BASE,
    LS_ISA_AVX2,
    LS_ISA_AVX512,
    LS_ISA_AVX512BF16,
    LS_ISA_AMX,
    LS_ISA_COUNT
} ls_isa;

typedef struct ls_isa_row {
    const char *name;
    ls_features features;     /* the features that kernels limited to this instruction set may need */
    const char *architecture; /* the only architecture with this instruction set; NULL: every one has it */
} ls_isa_row;

extern const ls_isa_row ls_isas[LS_ISA_COUNT];

/* The features of this processor that the operating system lets this process use. */
ls_features ls_features_present(void);

/* Whether a kernel that is limited to the instruction set may need these features. */
static inline bool ls_isa_allows(ls_isa isa, ls_features needs) { return (needs & ~ls_isas[isa].features) == 0; }

/* The instruction set that needs no other features than these and has the most of them; of several, the last row. */
ls_isa ls_isa_within(ls_features features);

/* The environment variable that limits the instruction set of a process, for tests of older processors. */
#define LS_ISA_VARIABLE "LONGSPAN_ISA"

/*
 * The best instruction set that kernels may use: what the processor and the operating system support, or less if
 * LONGSPAN_ISA is set in the environment. If LONGSPAN_ISA is not the name of an instruction set, or names one with
 * features that the processor lacks, that is an LS_USAGE error. *out is set even then: to what the processor supports.
 */
LS_MUST_USE ls_status ls_isa_limit(ls_isa *out);
/* LS_USAGE error when isa has features that ls_isa_limit lacks. */
LS_MUST_USE ls_status ls_isa_check(ls_isa isa);

const char *ls_isa_name(ls_isa isa);
/* A text that is not the name of an instruction set is an LS_USAGE error that lists the names. */
LS_MUST_USE ls_status ls_isa_parse(const char *text, ls_isa *out);

#endif
