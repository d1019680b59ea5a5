/*
 * Names of values. Every operand that is read carries the name of what it must find: which instructions (in emission
 * order) wrote its bytes last, and where in their results it lies. A name is a number; it is given before placement,
 * from the list alone (compile/name.c), and found again by the verifier from what lies at the final addresses.
 *
 * The writes that make up a value are those to the same buffer in the same run that share bytes with it and that no
 * later write covers; what was in a persistent buffer when the program began counts as one more.
 */
#ifndef LS_PROGRAM_NAME_H
#define LS_PROGRAM_NAME_H

#include "program/image.h"

/* A write in emission order: output `output` of instruction `number`. */
int ls_write_key(int number, int output);

/* The name begins with the shape that is read; parts are added to it, in any order. Never 0. */
uint64_t ls_name_begin(const ls_view *read);

/* One write of the value: which, its bytes, and how many bytes after its first one the read begins. */
uint64_t ls_name_part(int key, const ls_range *written, const ls_range *read);

/* What a persistent buffer held before; behind: of the read's first byte into the buffer. */
uint64_t ls_name_entry(size_t behind);

/* What a transfer carries: the same for the put, or the owner's signal, and the wait. */
uint64_t ls_name_transfer(const char *channel, uint64_t generation, size_t bytes);

/* A read in place, of what that transfer has handed over, so many bytes after its first. Never 0. */
uint64_t ls_name_in_place(const ls_view *read, uint64_t transfer, size_t behind);

/* Whether every byte of part is one of whole; known only for equal ranges and for a contiguous whole, else false. */
bool ls_range_covers(const ls_range *whole, const ls_range *part);

#endif
