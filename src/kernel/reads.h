/* Which outputs a kernel reads before it writes them: "adds", "in-out" and "merge" of the contract in kernel.h. */
#ifndef LS_KERNEL_READS_H
#define LS_KERNEL_READS_H

#include <stdbool.h>

/* params: of the call, as the kernel's name asks for. A kernel that has no row here is taken to read all of them. */
bool ls_kernel_reads_output(const char *kernel, const void *params, int output);

#endif
