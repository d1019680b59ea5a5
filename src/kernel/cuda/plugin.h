/*
 * The interface of the plug-in of CUDA kernels (lib/longspan/cuda.so) to the program that loads it. Only the plug-in is
 * compiled by nvcc and needs a CUDA runtime, which is linked into it, so that the same program runs on machines with
 * and without a GPU. The plug-in has its own copy of the few files that it needs of base/, tensor/ and kernel/, and
 * calls no function of the program.
 */
#ifndef LS_KERNEL_CUDA_PLUGIN_H
#define LS_KERNEL_CUDA_PLUGIN_H

#include "kernel/kernel_impl.h"

/* The sizes of structs that program and plug-in share; if they differ, the plug-in is of another version. */
typedef struct ls_cuda_layout {
    size_t kernel, call, view, status, facts, contracts;
} ls_cuda_layout;

#define LS_CUDA_LAYOUT                                                                                           \
    {                                                                                                            \
        sizeof(ls_kernel), sizeof(ls_kernel_call), sizeof(ls_view), sizeof(ls_status), sizeof(ls_library_facts), \
            LS_KERNEL_IDS                                                                                        \
    }

/* One of NVIDIA's libraries that rows use (library.h). */
typedef struct ls_library_facts {
    char name[16];
    ls_status status; /* LS_OK: the library is used; else why not */
    size_t version;
    char path[LS_PATH_ROOM];
} ls_library_facts;

/* The symbol that the plug-in exports, of type ls_cuda_plugin. */
#define LS_CUDA_SYMBOL "ls_cuda_plugin_1"

typedef struct ls_cuda_plugin {
    ls_cuda_layout layout;                         /* the first member in every version */
    const ls_kernel *const *kernels;               /* ends with NULL */
    bool (*library)(int i, ls_library_facts *out); /* facts of the i-th library; false past the last one */
} ls_cuda_plugin;

/*
 * Loads the plug-in once for the process, and reports once which libraries it uses; *out = its kernels. LS_UNSUPPORTED:
 * there are no kernels; the message says why. In the environment, LONGSPAN_CUDA_KERNELS names a file to load instead of
 * lib/longspan/cuda.so. LONGSPAN_CUDA_LIBRARIES=required: there are no kernels either if one of the libraries is
 * missing; =none: no library is used.
 */
LS_MUST_USE ls_status ls_cuda_kernels_load(const ls_kernel *const **out);

#endif
