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
    size_t kernel, call, view, status, facts, contracts;
} ls_cuda_layout;

#define LS_CUDA_LAYOUT                                                                                           \
    {                                                                                                            \
        sizeof(ls_kernel), sizeof(ls_kernel_call), sizeof(ls_view), sizeof(ls_status), sizeof(ls_library_facts), \
            LS_KERNEL_IDS                                                                                        \
    }

/* A library of NVIDIA that rows are computed by (library.h). */
typedef struct ls_library_facts {
    char name[16];
    ls_status status; /* LS_OK: it is used; else why not */
    size_t version;
    char path[LS_PATH_ROOM];
} ls_library_facts;

/* The symbol that the plug-in exports, of type ls_cuda_plugin. */
#define LS_CUDA_SYMBOL "ls_cuda_plugin_1"

typedef struct ls_cuda_plugin {
    ls_cuda_layout layout;                         /* first, in every version */
    const ls_kernel *const *kernels;               /* ends with NULL */
    bool (*library)(int i, ls_library_facts *out); /* of the i-th library; false past the last one */
} ls_cuda_plugin;

/*
 * Loads the plug-in, once for the process, and says once which libraries it uses; *out: its kernels. LS_UNSUPPORTED
 * says why there are none. The setting LONGSPAN_CUDA_KERNELS of the environment names another file than
 * lib/longspan/cuda.so. LONGSPAN_CUDA_LIBRARIES=required: without one of the libraries there are none, either; =none:
 * no library is used.
 */
LS_MUST_USE ls_status ls_cuda_kernels_load(const ls_kernel *const **out);

#endif
