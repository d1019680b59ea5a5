/*
 * NVIDIA's libraries, which are loaded while the program runs. Nothing is linked against them: if one is missing, the
 * rows that need it support no call.
 */
#ifndef LS_KERNEL_CUDA_LIBRARY_H
#define LS_KERNEL_CUDA_LIBRARY_H

#include "kernel/cuda/plugin.h"

/* Both lists end with NULL. */
typedef struct ls_cuda_library {
    const char *name;             /* for messages */
    const char *const *files;     /* names that ls_library_open_newest looks for */
    const char *const *functions; /* the functions that are needed */
    const char *version;          /* the function that returns the library's version: size_t f(void) */
    size_t oldest;                /* the oldest version that can be used */
} ls_cuda_library;

extern const ls_cuda_library ls_cuda_library_cublaslt, ls_cuda_library_cudnn;

/*
 * Fills a struct of pointers with the addresses of the functions, in the order of the list. *out, unless out is NULL:
 * which library was found, even if it cannot be used. LS_UNSUPPORTED: there is no such library, it lacks one of the
 * functions or is too old, or LONGSPAN_CUDA_LIBRARIES=none in the environment excludes all libraries. A library stays
 * loaded, so that a second call costs little.
 */
LS_MUST_USE ls_status ls_cuda_library_find(const ls_cuda_library *library, void *pointers, ls_library_facts *out);

/* libraries.c: the facts that the plug-in reports about its i-th library (plugin.h). */
bool ls_cuda_library_describe(int i, ls_library_facts *out);

/* For lists of functions X(name) of a library: the members of the struct, and the names. */
#define LS_LIBRARY_MEMBER(name) __typeof__(name) *name;
#define LS_LIBRARY_NAME(name) #name,

#endif
