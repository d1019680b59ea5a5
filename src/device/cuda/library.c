/* Loads the library of a route. */
#include "device/cuda/route.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_cuda_library_load(const char *variable, const char *file, const ls_cuda_function *functions, size_t n,
                               void *pointers) {
    const char *other = getenv(variable);
    if (other != NULL) file = other;
    void *library;
    LS_TRY(ls_library_open(file, &library, NULL));
    for (size_t i = 0; i < n; i++) {
        void *const found = dlsym(library, functions[i].name);
        if (found == NULL) return ls_error(LS_UNSUPPORTED, "%s has no %s", file, functions[i].name);
        memcpy((char *)pointers + functions[i].offset, &found, sizeof found);
    }
    return ls_ok();
}
