#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first release of the driver that has all functions. */
#define OLDEST_VERSION 12030

/* The same as in the toolkit's own declarations (tests/cuda/check_driver.c). */
_Static_assert(offsetof(struct CUDA_MEMCPY2D_st, dstPitch) == 104, "dstPitch");
_Static_assert(sizeof(struct CUDA_MEMCPY2D_st) == 128, "a copy of rows");
_Static_assert(offsetof(ls_cuda_word_op, writeValue.flags) == 24, "flags");
_Static_assert(sizeof(ls_cuda_word_op) == 48, "what is done with a word");
_Static_assert(offsetof(ls_cuda_word_ops, paramArray) == 16, "paramArray");
_Static_assert(sizeof(ls_cuda_word_ops) == 32, "words of a graph");

typedef struct function {
    const char *name;
    size_t offset; /* of its pointer in ls_cuda_driver */
} function;
#define FUNCTION(name, arguments) {#name, offsetof(ls_cuda_driver, name)},
static const function functions[] = {LS_CUDA_FUNCTIONS(FUNCTION)};

/* LS_UNSUPPORTED names a function that is missing. */
static ls_status find_functions(void *library, const char *file, ls_cuda_driver *out) {
    for (size_t i = 0; i < LS_COUNT(functions); i++) {
        void *const found = dlsym(library, functions[i].name);
        if (found == NULL)
            return ls_error(LS_UNSUPPORTED, "the CUDA driver %s has no %s; expected that of CUDA %d.%d or later", file,
                            functions[i].name, OLDEST_VERSION / 1000, OLDEST_VERSION % 1000 / 10);
        memcpy((char *)out + functions[i].offset, &found, sizeof found);
    }
    return ls_ok();
}

/* Called first: a driver that is too old may lack functions, and its version explains this best. */
static ls_status check_version(void *library, const char *file) {
    unsigned (*get_version)(int *);
    void *const found = dlsym(library, "cuDriverGetVersion");
    int version;
    memcpy(&get_version, &found, sizeof found);
    if (found == NULL || get_version(&version) != LS_CUDA_SUCCESS)
        return ls_error(LS_UNSUPPORTED, "%s does not say its version by cuDriverGetVersion; expected a CUDA driver",
                        file);
    if (version >= OLDEST_VERSION) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "the CUDA driver %s is that of CUDA %d.%d; expected %d.%d or later", file,
                    version / 1000, version % 1000 / 10, OLDEST_VERSION / 1000, OLDEST_VERSION % 1000 / 10);
}

static const char *file_of_driver(void) {
    const char *file = getenv("LONGSPAN_CUDA_DRIVER");
    return file != NULL ? file : "libcuda.so.1";
}

/* Before it is initialised, functions of the driver return LS_CUDA_NOT_INITIALIZED. */
bool ls_cuda_driver_is_used(void) {
    void *library = dlopen(file_of_driver(), RTLD_NOW | RTLD_NOLOAD);
    void *const found = library != NULL ? dlsym(library, "cuDeviceGetCount") : NULL;
    unsigned (*count)(int *);
    int devices;
    memcpy(&count, &found, sizeof found);
    return found != NULL && count(&devices) != LS_CUDA_NOT_INITIALIZED;
}

ls_status ls_cuda_driver_load(ls_cuda_driver *out) {
    const char *file = file_of_driver();
    void *library = dlopen(file, RTLD_NOW);
    if (library == NULL) return ls_error(LS_UNSUPPORTED, "no CUDA driver can be loaded: %s", dlerror());
    LS_TRY(check_version(library, file));
    LS_TRY(find_functions(library, file, out));
    const unsigned result = out->cuInit(0);
    if (result == LS_CUDA_NO_DEVICE) return ls_error(LS_UNSUPPORTED, "the CUDA driver %s finds no device", file);
    return ls_cuda_check(out, result, "cuInit", "the CUDA driver %s", file);
}

ls_status ls_cuda_check(const ls_cuda_driver *driver, unsigned result, const char *call, const char *format, ...) {
    if (result == LS_CUDA_SUCCESS) return ls_ok();
    const char *name, *text;
    char asked[256];
    if (driver->cuGetErrorName(result, &name) != LS_CUDA_SUCCESS) name = "an error without a name";
    if (driver->cuGetErrorString(result, &text) != LS_CUDA_SUCCESS) text = "no text";
    va_list arguments;
    va_start(arguments, format);
    ls_vprint(asked, sizeof asked, format, arguments);
    va_end(arguments);
    return ls_error(result == LS_CUDA_OUT_OF_MEMORY ? LS_NO_MEMORY : LS_FAULT, "%s: %s (%u, %s): %s", call, name,
                    result, text, asked);
}
