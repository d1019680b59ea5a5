/*
 * What a kernel does with the bytes of its operands beyond reading inputs and writing outputs: outputs that it reads first
 * ("adds", "in-out" and "merge" of the contract in kernel.h), and outputs that may lie in the place of another operand.
 */
#ifndef LS_KERNEL_EFFECTS_H
#define LS_KERNEL_EFFECTS_H

#include <stdbool.h>

/* params: of the call, as the kernel's name asks for. A kernel that has no row here is taken to read all of them. */
bool ls_kernel_reads_output(const char *kernel, const void *params, int output);

/*
 * Whether output `output` may begin where operand `other` begins (input i is i, output i is LS_KERNEL_INPUTS + i): both dense, of as
 * many elements and of one type; or of a smaller one, where `narrows` asks for that. The results have the same bits as when
 * they lie apart.
 */
bool ls_kernel_works_in_place(const char *kernel, int output, int other, bool narrows);

#endif
