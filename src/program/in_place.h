/*
 * Whether two operands of one kernel call share bytes, and whether the kernel is still right then. (Reading a peer's
 * block in place is another matter: leases.)
 */
#ifndef LS_PROGRAM_IN_PLACE_H
#define LS_PROGRAM_IN_PLACE_H

#include "program/image.h"

typedef enum ls_sharing {
    LS_APART,    /* not a byte in common */
    LS_IN_PLACE, /* they begin at one byte, and the kernel may put the output there (kernel/kernel.h) */
    LS_CLASH     /* anything else */
} ls_sharing;

/*
 * Compares output `output` of a kernel call with its operand `other` (i: input i; LS_KERNEL_INPUTS + i: output i), at
 * the offsets that placement has given their buffers.
 */
ls_sharing ls_instr_sharing(const ls_image *image, const ls_instr *instr, int output, int other);

/* Whether the kernel may put the output on the other operand's bytes, if both began at one offset. For placement. */
bool ls_instr_could_share(const ls_instr *instr, int output, int other);

#endif
