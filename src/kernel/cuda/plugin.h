/*
 * What the plug-in of kernels for CUDA (lib/longspan/cuda.so) offers to the program that loads it. It is the only part
 * that is compiled by nvcc and that needs a CUDA runtime, which is linked into it, so that one program serves machines
 * with a GPU and without. It has its own copy of the few files that it needs of base/, tensor/ and kernel/, and calls
 * nothing of the program.
 */
#ifndef LS_KERNEL_CUDA_PLUGIN_H
#define LS_KERNEL_CUDA_PLUGIN_H

#include "kernel/kernel_impl.h"

/* Program and plug-in share these structures: a plug-in whose sizes differ comes from another version. */
typedef struct ls_cuda_layout {
    size_t kernel, call, view, status, contracts;
} ls_cuda_layout;

#define LS_CUDA_LAYOUT \
    { sizeof(ls_kernel), sizeof(ls_kernel_call), sizeof(ls_view), sizeof(ls_status), LS_KERNEL_IDS }

/* The symbol that the plug-in exports, of type ls_cuda_plugin. */
#define LS_CUDA_SYMBOL "ls_cuda_plugin_1"

typedef struct ls_cuda_plugin {
    ls_cuda_layout layout;           /* first, in every version */
    const ls_kernel *const *kernels; /* ends with NULL */
} ls_cuda_plugin;

/*
 * Loads the plug-in, once for the process; *out: its kernels. LS_UNSUPPORTED says why there are none. The setting
 * LONGSPAN_CUDA_KERNELS of the environment names another file than lib/longspan/cuda.so.
 */
LS_MUST_USE ls_status ls_cuda_kernels_load(const ls_kernel *const **out);

#endif
