/* Loads the plug-in of kernels for CUDA, when the first of them is asked for. */
#include "kernel/cuda/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What loading came to. Written once, under `once`. */
static struct {
    ls_status status;
    const ls_kernel *const *kernels;
} loaded;

static ls_status load(const ls_kernel *const **out) {
    char found[LS_PATH_ROOM];
    const char *path = getenv("LONGSPAN_CUDA_KERNELS");
    if (path == NULL) path = ls_plugin_find("cuda.so", found) ? found : NULL;
    if (path == NULL)
        return ls_error(LS_UNSUPPORTED, "the kernels for CUDA, cuda.so, are not there; expected them in lib/longspan "
                                        "(`make cuda` builds them where nvcc is)");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return ls_error(LS_UNSUPPORTED, "cannot load the kernels for CUDA: %s", dlerror());
    const ls_cuda_plugin *plugin = dlsym(library, LS_CUDA_SYMBOL);
    const ls_cuda_layout expected = LS_CUDA_LAYOUT;
    if (plugin == NULL || memcmp(&plugin->layout, &expected, sizeof expected) != 0)
        return ls_error(LS_UNSUPPORTED, "%s belongs to another version of Longspan; expected one of the same build",
                        path);
    *out = plugin->kernels;
    return ls_ok();
}

static void load_once(void) { loaded.status = load(&loaded.kernels); }

ls_status ls_cuda_kernels_load(const ls_kernel *const **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (loaded.status.code == LS_OK) *out = loaded.kernels;
    return loaded.status;
}
