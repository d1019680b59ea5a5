/*
 * Which bytes of an instruction's operands come from memory, and which are in a cache because a recent instruction
 * touched them. The model of a cache: it keeps what was touched last, wherever the bytes lie, in blocks of LS_FAR_BLOCK
 * bytes. Blocks are larger if an arena would have more than LS_FAR_MOST_BLOCKS of them, so that time and memory stay
 * bounded for terabytes.
 */
#ifndef LS_PROGRAM_FAR_H
#define LS_PROGRAM_FAR_H

#include "program/image.h"

enum { LS_FAR_BLOCK = 1 << 16, LS_FAR_MOST_BLOCKS = 1 << 20 };

/*
 * By instruction of the program, in the arena: bytes of operands (as ls_instr_touched counts them) that are not in a
 * cache of `cache` bytes when the instruction begins, in a run that follows another run of the same program.
 */
double *ls_program_far(const ls_image *image, int program, double cache, ls_arena *arena);

/*
 * Bytes of an operand that a kernel reads or writes: for the table of an embedding, at most the rows for its ids; 0 if
 * an earlier operand is the same bytes.
 */
double ls_instr_touched(const ls_instr *instr, const ls_operand *operand);

#endif
