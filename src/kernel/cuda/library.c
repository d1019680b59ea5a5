#include "kernel/cuda/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_status open_library(const ls_cuda_library *library, void **out, char path[LS_PATH_ROOM]) {
    const char *setting = getenv("LONGSPAN_CUDA_LIBRARIES");
    if (setting != NULL && strcmp(setting, "none") == 0)
        return ls_error(LS_UNSUPPORTED, "LONGSPAN_CUDA_LIBRARIES=none leaves it out");
    return ls_library_open_newest(library->files, library->version, out, path);
}

static ls_status find_function(void *handle, const char *path, const char *name, void *out) {
    void *const address = dlsym(handle, name);
    if (address == NULL) return ls_error(LS_UNSUPPORTED, "%s has no %s", path, name);
    memcpy(out, &address, sizeof address);
    return ls_ok();
}

static ls_status check_version(const ls_cuda_library *library, void *handle, ls_library_facts *facts) {
    size_t (*version)(void) = NULL;
    LS_TRY(find_function(handle, facts->path, library->version, &version));
    facts->version = version();
    if (facts->version >= library->oldest) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s is version %zu; expected %zu or later", facts->path, facts->version,
                    library->oldest);
}

static ls_status find(const ls_cuda_library *library, void *pointers, ls_library_facts *facts) {
    void *handle = NULL;
    LS_TRY(open_library(library, &handle, facts->path));
    LS_TRY(check_version(library, handle, facts));
    for (size_t i = 0; library->functions[i] != NULL; i++)
        LS_TRY(find_function(handle, facts->path, library->functions[i], (char *)pointers + sizeof(void *) * i));
    return ls_ok();
}

ls_status ls_cuda_library_find(const ls_cuda_library *library, void *pointers, ls_library_facts *out) {
    ls_library_facts facts = {.version = 0};
    snprintf(facts.name, sizeof facts.name, "%s", library->name);
    facts.status = find(library, pointers, &facts);
    if (out != NULL) *out = facts;
    return facts.status;
}
