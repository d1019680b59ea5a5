/*
 * How a kernel uses the bytes of its operands, besides reading inputs and writing outputs: which outputs it reads first ("adds",
 * "in-out" and "merge" of the contract in kernel.h), and which outputs may take the place of another operand.
 */
#ifndef LS_KERNEL_EFFECTS_H
#define LS_KERNEL_EFFECTS_H

#include <stdbool.h>

/* Whether the kernel reads the output before it writes it. params: those of the call. A kernel without a row is assumed to read all. */
bool ls_kernel_reads_output(const char *kernel, const void *params, int output);

/*
 * Whether output `output` may begin where operand `other` begins (input i is i, output i is LS_KERNEL_INPUTS + i). Both are dense and
 * have the same number of elements; they have one type, or with `narrows` the output has a smaller one. The results have the same bits
 * as with separate places.
 */
bool ls_kernel_works_in_place(const char *kernel, int output, int other, bool narrows);

#endif
