/*
 * Names of values. Every operand that is read carries the name of the value that it must find: which instructions (in
 * emission order) wrote its bytes last, and where in their results the bytes lie. A name is a number. It is given
 * before placement, from the list alone (compile/name.c); the verifier computes it again from what lies at the final
 * addresses.
 *
 * The writes that make up a value are those to the same buffer in the same run that share bytes with the value and that
 * no later write covers; what a persistent buffer held when the program began counts as one more write.
 */
#ifndef LS_PROGRAM_NAME_H
#define LS_PROGRAM_NAME_H

#include "program/image.h"

/* A write in emission order: output `output` of instruction `number`. */
int ls_write_key(int number, int output);

/* Begins a name with the shape that is read; the caller then adds parts, in any order. Never 0. */
uint64_t ls_name_begin(const ls_view *read);

/* The part of a name for one write: which write, its bytes, and how many bytes after its first byte the read begins. */
uint64_t ls_name_part(int key, const ls_range *written, const ls_range *read);

/* The part for what a persistent buffer held before. behind: offset in the buffer of the first byte that is read. */
uint64_t ls_name_entry(size_t behind);

/* The name of what a transfer carries: the same for the wait and for the put or the owner's signal. */
uint64_t ls_name_transfer(const char *channel, uint64_t generation, size_t bytes);

/* The name of a read in place: of what the transfer carries, `behind` bytes after its first byte. Never 0. */
uint64_t ls_name_in_place(const ls_view *read, uint64_t transfer, size_t behind);

/* Whether every byte of `part` is in `whole`; known only for equal ranges and for a contiguous `whole`, else false. */
bool ls_range_covers(const ls_range *whole, const ls_range *part);

#endif
