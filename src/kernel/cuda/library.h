/*
 * Libraries of NVIDIA that are loaded while the program runs. Nothing is linked against them: where one is missing, the
 * rows that need it support no call.
 */
#ifndef LS_KERNEL_CUDA_LIBRARY_H
#define LS_KERNEL_CUDA_LIBRARY_H

#include "kernel/kernel_impl.h"

/* Both lists end with NULL. */
typedef struct ls_cuda_library {
    const char *const *files;     /* that the dynamic linker looks for, the newest version first */
    const char *const *functions; /* that are needed */
} ls_cuda_library;

/*
 * Fills a struct of pointers with the addresses of the functions, in the order of the list. false: no such library is
 * there, it lacks one of them, or LONGSPAN_CUDA_LIBRARIES=none in the environment leaves all out. A library that has been loaded stays loaded, so that a second call costs little.
 */
bool ls_cuda_library_find(const ls_cuda_library *library, void *pointers);

/* For lists of functions X(name) of a library: the members of the struct, and the names. */
#define LS_LIBRARY_MEMBER(name) __typeof__(name) *name;
#define LS_LIBRARY_NAME(name) #name,

#endif
