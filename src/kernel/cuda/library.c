#include "kernel/cuda/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* What is loaded and by whom is known to the dynamic linker, and not kept here. */
static void *load(const ls_cuda_library *library) {
    const char *setting = getenv("LONGSPAN_CUDA_LIBRARIES");
    void *found = NULL;
    if (setting != NULL && strcmp(setting, "none") == 0) return NULL;
    for (const char *const *file = library->files; found == NULL && *file != NULL; file++)
        found = dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return found;
}

bool ls_cuda_library_find(const ls_cuda_library *library, void *pointers) {
    void *const loaded = load(library);
    bool complete = loaded != NULL;
    for (int i = 0; complete && library->functions[i] != NULL; i++) {
        void *const address = dlsym(loaded, library->functions[i]);
        memcpy((char *)pointers + sizeof address * (size_t)i, &address, sizeof address);
        complete = address != NULL;
    }
    if (loaded != NULL) dlclose(loaded);
    return complete;
}
