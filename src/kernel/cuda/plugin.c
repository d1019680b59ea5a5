/* The symbol of the plug-in. */
#include "kernel/cuda/plugin.h"

#include "kernel/cuda/library.h"
#include "kernel/cuda/table.h"

extern const ls_cuda_plugin ls_cuda_plugin_1;
__attribute__((visibility("default"))) const ls_cuda_plugin ls_cuda_plugin_1 = {
    .layout = LS_CUDA_LAYOUT, .kernels = ls_cuda_kernels, .library = ls_cuda_library_describe};
