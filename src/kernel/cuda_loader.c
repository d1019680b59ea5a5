/* Loads the plug-in of kernels for CUDA, when the first of them is needed. */
#include "kernel/cuda/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The result of loading. Written once, under `once`. */
static struct {
    ls_status status;
    const ls_cuda_plugin *plugin;
} loaded;

static ls_status load(const ls_cuda_plugin **out) {
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
    *out = plugin;
    return ls_ok();
}

static void load_once(void) { loaded.status = load(&loaded.plugin); }

static ls_status load_plugin(const ls_cuda_plugin **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (loaded.status.code == LS_OK) *out = loaded.plugin;
    return loaded.status;
}

/* --- libraries ---------------------------------------------------------------------------------------------------- */

static const char libraries_name[] = "LONGSPAN_CUDA_LIBRARIES";

ls_status ls_kernel_libraries_text(char out[LS_KERNEL_LIBRARIES_ROOM]) {
    const ls_cuda_plugin *plugin;
    ls_library_facts facts;
    size_t used = 0;
    LS_TRY(load_plugin(&plugin));
    out[0] = 0;
    for (int i = 0; plugin->library(i, &facts) && used < LS_KERNEL_LIBRARIES_ROOM; i++) {
        const char *const comma = i > 0 ? ", " : "";
        char *const at = out + used;
        const size_t room = LS_KERNEL_LIBRARIES_ROOM - used;
        used += (size_t)(facts.status.code == LS_OK
                             ? snprintf(at, room, "%s%s %zu (%s)", comma, facts.name, facts.version, facts.path)
                             : snprintf(at, room, "%sno %s (%s)", comma, facts.name, facts.status.text));
    }
    return ls_ok();
}

/* Checks what the environment demands of the libraries. */
static ls_status check_libraries(const ls_cuda_plugin *plugin) {
    const char *const setting = getenv(libraries_name);
    ls_library_facts facts;
    if (setting == NULL || strcmp(setting, "none") == 0) return ls_ok();
    if (strcmp(setting, "required") != 0)
        return ls_error(LS_USAGE, "%s=%s: expected none or required", libraries_name, setting);
    for (int i = 0; plugin->library(i, &facts); i++)
        if (facts.status.code != LS_OK)
            return ls_error(LS_UNSUPPORTED, "%s=required, and there is no %s: %s", libraries_name, facts.name,
                            facts.status.text);
    return ls_ok();
}

static void say_once(void) {
    char text[LS_KERNEL_LIBRARIES_ROOM];
    if (ls_kernel_libraries_text(text).code == LS_OK) ls_log("libraries of the kernels for CUDA: %s", text);
}

ls_status ls_cuda_kernels_load(const ls_kernel *const **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const ls_cuda_plugin *plugin;
    LS_TRY(load_plugin(&plugin));
    LS_TRY(check_libraries(plugin));
    pthread_once(&once, say_once);
    *out = plugin->kernels;
    return ls_ok();
}
