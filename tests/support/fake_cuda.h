/* The device "cuda" on a machine without a GPU: by the driver for tests, cuda/driver/fake.h, which has its settings. */
#ifndef TESTS_FAKE_CUDA_DEVICE_H
#define TESTS_FAKE_CUDA_DEVICE_H

#include "device/device.h"

/* "cuda" is opened by that driver from now on. settings: those of the next device, when none is open; may be "". */
void use_fake_cuda(const char *settings);
/* For works that are launched without a program that was recorded, which loads its kernels: all are loaded at the
 * start. */
void have_kernels_loaded(void);
/* Libraries that stand in for NVSHMEM and NCCL (cuda/routes/remote.h, which has their settings) from now on. */
void use_fake_routes(const char *nvshmem, const char *nccl);
/* The kernels of src/kernel/cuda are those that were compiled for the host, and NVIDIA's libraries are left out. */
void use_emulated_kernels(void);
/*
 * Both of these; or, where LS_TEST_GPU is set, neither: "cuda" is then this machine's GPU, with the plug-in of
 * `make cuda` and NVIDIA's libraries. gpu_is_real: whether it is set.
 */
void use_gpu(const char *settings);
bool gpu_is_real(void);
/* Streams, contexts and memory of that driver that are there. */
int fake_cuda_left(void);
/*
 * What a work of that device may submit: something that its stream executes, without a pool; the context is this
 * structure. call_first, if it is set, makes a call that acts at once, whose result is of no interest.
 */
typedef struct fake_cuda_work {
    void (*run)(void *context, ls_pool *pool);
    void *context;
    void (*call_first)(void *stream);
} fake_cuda_work;
ls_status submit_fake_work(void *context, void *stream);
/* To be called first: it asks whether the stream is idle; it allocates and frees memory. */
void ask_stream(void *stream);
void allocate_once(void *stream);
/* Launches a work that has `run`; a device that submits gets it as something that its stream executes, without a pool.
 */
LS_MUST_USE ls_status launch_anywhere(ls_device *device, const ls_device_work *work);

#endif
