/*
 * Libraries of NVIDIA that are loaded while the program runs. Nothing is linked against them: where one is missing, the
 * rows that need it support no call.
 */
#ifndef LS_KERNEL_CUDA_LIBRARY_H
#define LS_KERNEL_CUDA_LIBRARY_H

#include "kernel/cuda/plugin.h"

/* Both lists end with NULL. */
typedef struct ls_cuda_library {
    const char *name;             /* for messages */
    const char *const *files;     /* that ls_library_open_newest looks for */
    const char *const *functions; /* that are needed */
    const char *version;          /* the function that says the library's number: size_t f(void) */
    size_t oldest;                /* number that will do */
} ls_cuda_library;

extern const ls_cuda_library ls_cuda_library_cublaslt, ls_cuda_library_cudnn;

/*
 * Fills a struct of pointers with the addresses of the functions, in the order of the list; *out, unless it is NULL:
 * which library it is, also where it will not do. LS_UNSUPPORTED: no such library is there, it lacks one of them or is
 * too old, or LONGSPAN_CUDA_LIBRARIES=none in the environment leaves all out. A library that has been loaded stays
 * loaded, so that a second call costs little.
 */
LS_MUST_USE ls_status ls_cuda_library_find(const ls_cuda_library *library, void *pointers, ls_library_facts *out);

/* libraries.c: what the plug-in says of its libraries (plugin.h). */
bool ls_cuda_library_describe(int i, ls_library_facts *out);

/* For lists of functions X(name) of a library: the members of the struct, and the names. */
#define LS_LIBRARY_MEMBER(name) __typeof__(name) *name;
#define LS_LIBRARY_NAME(name) #name,

#endif
