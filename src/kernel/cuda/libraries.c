/* The list of the plug-in's libraries, for ls_cuda_library_describe. */
#include "kernel/cuda/library.h"

bool ls_cuda_library_describe(int i, ls_library_facts *out) {
    static const ls_cuda_library *const all[] = {&ls_cuda_library_cublaslt, &ls_cuda_library_cudnn};
    enum { MOST_FUNCTIONS = 32 };
    void *pointers[MOST_FUNCTIONS];
    int n = 0;
    if (i >= (int)LS_COUNT(all)) return false;
    while (all[i]->functions[n] != NULL) n++;
    LS_ASSERT(n <= MOST_FUNCTIONS);
    out->status = ls_cuda_library_find(all[i], pointers, out);
    return true;
}
