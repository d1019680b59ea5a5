/* For tests of the device "cuda" by itself: it is opened on the driver for tests (fake_cuda.h), and leaves nothing. */
#ifndef TESTS_CUDA_DEVICE_H
#define TESTS_CUDA_DEVICE_H

#include "support/fake_cuda.h"
#include "support/world.h"

#include <sys/mman.h>

enum { QUEUES = 4 };

static inline ls_status open_on(const char *name, const char *settings, ls_device **out) {
    use_fake_cuda(settings);
    have_kernels_loaded();
    return ls_device_open(name, &(ls_device_options){.queues = QUEUES}, out);
}

static inline ls_device *open_cuda(const char *settings) {
    ls_device *device;
    assert_ok(open_on("cuda", settings, &device));
    return device;
}

static inline void close_cuda(ls_device *device) {
    ls_device_close(device);
    assert_int_equal(fake_cuda_left(), 0);
}

static inline void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/*
 * What `use` returns, soon, when the N-th call of the function fails: LS_OK where there is no such call, else the
 * driver's error, which names the call unless the device is lost with it.
 */
static inline ls_status use_failing(ls_status (*use)(const char *settings), const char *function, int n, bool lost) {
    char settings[100];
    snprintf(settings, sizeof settings, "seed=%d,%s=%d:719%s", n, function, n, lost ? ":lost" : "");
    const double start = ls_seconds();
    const ls_status status = use(settings);
    assert_true(ls_seconds() - start < 10);
    assert_int_equal(fake_cuda_left(), 0);
    if (status.code == LS_OK) return status;
    assert_fails(status, LS_FAULT, "CUDA_ERROR_LAUNCH_FAILED (719, unspecified launch failure)");
    if (!lost) assert_fails(status, LS_FAULT, function);
    return status;
}

#endif
