/*
 * Opening the device "cuda" on the driver for tests: which GPU it is, what is refused by name, and how many streams the
 * ranks of a process may have on a GPU.
 */
#include "device/device.h"
#include "support/cuda_device.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/step_digest.h"

#include <stdlib.h>

static void refused(const char *name, const char *settings, ls_code code, const char *text) {
    ls_device *device;
    assert_fails(open_on(name, settings, &device), code, text);
    assert_int_equal(fake_cuda_left(), 0);
}

static void refused_with(const char *variable, const char *value, ls_code code, const char *text) {
    ls_device *device;
    use_fake_cuda("");
    setenv(variable, value, 1);
    assert_fails(ls_device_open("cuda", &(ls_device_options){.queues = QUEUES}, &device), code, text);
}

static void test_what_cannot_be_is_refused_by_name(void **state) {
    (void)state;
    refused("cuda:2", "", LS_INVALID, "device 'cuda:2': the driver finds 2, numbered from 0");
    static const char *const wrong[] = {"cuda:x",
                                        "cuda:0:",
                                        "cuda:0:x",
                                        "cuda:0x",
                                        "cuda:launched:0",
                                        "cuda:1launched",
                                        "cuda:driver:0",
                                        "cuda:0:nccl:nvshmem",
                                        "cuda:launched:nccl"};
    for (size_t i = 0; i < LS_COUNT(wrong); i++) refused(wrong[i], "", LS_INVALID, "': expected cuda[:N][:ROUTE]");
    refused("cuda", "devices=0", LS_UNSUPPORTED, "finds no device");
    refused("cuda", "words=0", LS_UNSUPPORTED, "cuda:0 (Fake 0): its streams cannot wait for words of 64 bits");
    refused("cuda", "version=11040", LS_UNSUPPORTED, "is that of CUDA 11.4; expected 12.3 or later");
    refused_with("LONGSPAN_CUDA_DRIVER", "libnosuchdriver.so", LS_UNSUPPORTED, "libnosuchdriver.so");
    refused_with("LONGSPAN_CUDA_DRIVER", "libm.so.6", LS_UNSUPPORTED, "cuDriverGetVersion");
    refused_with("CUDA_DEVICE_MAX_CONNECTIONS", "4", LS_INVALID, "CUDA_DEVICE_MAX_CONNECTIONS=4: expected 5 to 32");
    refused_with("CUDA_DEVICE_MAX_COPY_CONNECTIONS", "4", LS_INVALID,
                 "CUDA_DEVICE_MAX_COPY_CONNECTIONS=4: expected 5 to 32");
    refused_with("CUDA_DEVICE_MAX_CONNECTIONS", "many", LS_INVALID, "CUDA_DEVICE_MAX_CONNECTIONS=many");
    ls_device *device;
    use_fake_cuda("");
    assert_fails(ls_device_open("cuda", &(ls_device_options){.queues = 32}, &device), LS_UNSUPPORTED, "33 streams");
}

/* Ranks that are threads: a GPU has 32 ways for all of them. */
static void test_ways_of_a_gpu_are_counted(void **state) {
    (void)state;
    enum { MOST = 8 }; /* of 4 streams */
    const ls_device_options options = {.queues = 3};
    ls_device *device[MOST], *other;
    use_fake_cuda("");
    for (int i = 0; i < MOST; i++) assert_ok(ls_device_open("cuda:0", &options, &device[i]));
    assert_fails(ls_device_open("cuda:0", &options, &other), LS_UNSUPPORTED,
                 "cuda:0: 4 streams beside 32 of other ranks in this process");
    assert_ok(ls_device_open("cuda:1", &options, &other));
    ls_device_close(other);
    ls_device_close(device[0]);
    assert_ok(ls_device_open("cuda:0", &options, &device[0]));
    for (int i = 0; i < MOST; i++) ls_device_close(device[i]);
    assert_int_equal(fake_cuda_left(), 0);
}

/* Ranks of a machine take its devices in turn. */
static void test_ranks_take_devices_in_turn(void **state) {
    (void)state;
    for (int rank = 0; rank < 5; rank++) {
        ls_device *device;
        const ls_device_arena *arena;
        char expected[32];
        use_fake_cuda("devices=3,memory=1");
        snprintf(expected, sizeof expected, "cuda:%d (Fake %d)", rank % 3, rank % 3);
        const ls_device_options options = {.rank = 9, .machine_rank = rank, .queues = 1};
        assert_ok(ls_device_open("cuda", &options, &device));
        assert_fails(ls_device_allocate(device, 2, &arena), LS_NO_MEMORY, expected);
        close_cuda(device);
    }
}

/* A program whose kernels are the host's. */
static void test_kernels_of_the_host_are_refused(void **state) {
    (void)state;
    uint64_t digest;
    image_set set = images_of_step(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 1);
    use_fake_cuda("");
    setenv("LONGSPAN_DEVICE", "cuda", 1);
    assert_fails(step_digest(&set, NULL, &digest), LS_UNSUPPORTED, "its kernel is one for the host");
    unsetenv("LONGSPAN_DEVICE");
    assert_int_equal(fake_cuda_left(), 0);
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_cannot_be_is_refused_by_name),
        cmocka_unit_test(test_ways_of_a_gpu_are_counted),
        cmocka_unit_test(test_ranks_take_devices_in_turn),
        cmocka_unit_test(test_kernels_of_the_host_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
