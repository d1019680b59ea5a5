#include "support/fake_cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void use_fake_cuda(const char *settings) {
    setenv("LONGSPAN_CUDA_DRIVER", LS_TEST_CUDA_DRIVER, 1);
    setenv("FAKE_CUDA", settings, 1);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    unsetenv("CUDA_DEVICE_MAX_COPY_CONNECTIONS");
    unsetenv("CUDA_MODULE_LOADING");
}

void have_kernels_loaded(void) { setenv("CUDA_MODULE_LOADING", "EAGER", 1); }

void use_fake_routes(const char *nvshmem, const char *nccl) {
    setenv("LONGSPAN_NVSHMEM", LS_TEST_NVSHMEM, 1);
    setenv("LONGSPAN_NCCL", LS_TEST_NCCL, 1);
    setenv("FAKE_NVSHMEM", nvshmem, 1);
    setenv("FAKE_NCCL", nccl, 1);
}

void use_emulated_kernels(void) {
    setenv("LONGSPAN_CUDA_KERNELS", LS_TEST_CUDA_KERNELS, 1);
    setenv("LONGSPAN_CUDA_LIBRARIES", "none", 1);
}

bool gpu_is_real(void) { return getenv("LS_TEST_GPU") != NULL; }

void use_gpu(const char *settings) {
    if (gpu_is_real()) return;
    use_fake_cuda(settings);
    use_emulated_kernels();
}

static void *function_of_driver(const char *name) {
    void *library = dlopen(LS_TEST_CUDA_DRIVER, RTLD_NOW);
    void *function = library != NULL ? dlsym(library, name) : NULL;
    LS_ASSERT(function != NULL);
    return function;
}

int fake_cuda_left(void) {
    int (*left)(void);
    void *const found = function_of_driver("fake_left");
    memcpy(&left, &found, sizeof left);
    return left();
}

static void run_work(void *context) {
    const fake_cuda_work *work = context;
    work->run(work->context, NULL);
}

/* With a copy, so that what it is called with may lie on the launcher's stack. */
ls_status submit_fake_work(void *context, void *stream) {
    void (*run_on_stream)(void *, void (*)(void *), void (*)(void *), void *);
    void *const found = function_of_driver("fake_stream_run");
    fake_cuda_work *copied = malloc(sizeof *copied);
    LS_ASSERT(copied != NULL);
    memcpy(copied, context, sizeof *copied);
    memcpy(&run_on_stream, &found, sizeof run_on_stream);
    if (copied->call_first != NULL) copied->call_first(stream);
    run_on_stream(stream, run_work, free, copied);
    return ls_ok();
}

void ask_stream(void *stream) {
    unsigned (*query)(void *);
    void *const found = function_of_driver("cuStreamQuery");
    memcpy(&query, &found, sizeof query);
    (void)query(stream);
}

void allocate_once(void *stream) {
    (void)stream;
    unsigned (*allocate)(unsigned long long *, size_t), (*release)(unsigned long long);
    unsigned long long address;
    void *const found = function_of_driver("cuMemAlloc_v2"), *const other = function_of_driver("cuMemFree_v2");
    memcpy(&allocate, &found, sizeof allocate);
    memcpy(&release, &other, sizeof release);
    if (allocate(&address, 64) == 0) (void)release(address);
}

ls_status launch_anywhere(ls_device *device, const ls_device_work *work) {
    if (!ls_device_traits_of(device)->submits || work->run == NULL) return ls_device_launch(device, work);
    fake_cuda_work launched = {.run = work->run, .context = work->context};
    ls_device_work submitted = *work;
    submitted.run = NULL;
    submitted.submit = submit_fake_work;
    submitted.context = &launched;
    return ls_device_launch(device, &submitted);
}
