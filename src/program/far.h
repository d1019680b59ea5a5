/*
 * Which bytes of an instruction's operands come from memory, and which lie in a cache since an instruction shortly
 * before: a cache is taken for one that keeps what was touched last, however its bytes are spread, in blocks of
 * LS_FAR_BLOCK, or larger ones where an arena has more than LS_FAR_MOST_BLOCKS of those: time and memory do not grow
 * with terabytes.
 */
#ifndef LS_PROGRAM_FAR_H
#define LS_PROGRAM_FAR_H

#include "program/image.h"

enum { LS_FAR_BLOCK = 1 << 16, LS_FAR_MOST_BLOCKS = 1 << 20 };

/*
 * By instruction of the program, in the arena: bytes of operands (as ls_instr_touched counts them) that a cache of
 * `cache` bytes does not hold any more when the instruction begins, in a run that follows another one.
 */
double *ls_program_far(const ls_image *image, int program, double cache, ls_arena *arena);

/*
 * Bytes of an operand that a kernel reads or writes: of the table of an embedding the rows that its ids name, at most;
 * 0 of what is another name for an earlier operand.
 */
double ls_instr_touched(const ls_instr *instr, const ls_operand *operand);

#endif
