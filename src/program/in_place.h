/*
 * Whether two operands of one kernel call share bytes, and whether the kernel is still correct if they do. (Reading a
 * peer's block in place is a different subject: leases.)
 */
#ifndef LS_PROGRAM_IN_PLACE_H
#define LS_PROGRAM_IN_PLACE_H

#include "program/image.h"

typedef enum ls_sharing {
    LS_APART,    /* no byte in common */
    LS_IN_PLACE, /* they begin at the same byte, and the kernel may write the output there (kernel/kernel.h) */
    LS_CLASH     /* anything else */
} ls_sharing;

/*
 * Compares output `output` of a kernel call with its operand `other` (i: input i; LS_KERNEL_INPUTS + i: output i), at
 * the offsets that their buffers have after placement.
 */
ls_sharing ls_instr_sharing(const ls_image *image, const ls_instr *instr, int output, int other);

/* Whether the kernel may write the output over the other operand if both began at the same offset. For placement. */
bool ls_instr_could_share(const ls_instr *instr, int output, int other);

#endif
