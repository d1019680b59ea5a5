/* The device "cuda" on a machine without a GPU: by the driver for tests, cuda/driver/fake.h, which has its settings. */
#ifndef TESTS_FAKE_CUDA_DEVICE_H
#define TESTS_FAKE_CUDA_DEVICE_H

#include "device/device.h"

/* "cuda" is opened by that driver from now on. settings: those of the next device, when none is open; may be "". */
void use_fake_cuda(const char *settings);
/* Libraries that stand in for NVSHMEM and NCCL (cuda/routes/remote.h, which has their settings) from now on. */
void use_fake_routes(const char *nvshmem, const char *nccl);
/* The kernels of src/kernel/cuda are those that were compiled for the host, and NVIDIA's libraries are left out. */
void use_emulated_kernels(void);
/* Streams, contexts and memory of that driver that are there. */
int fake_cuda_left(void);
/* Launches a work that has `run`; a device that submits gets it as something that its stream executes, without a pool.
 */
LS_MUST_USE ls_status launch_anywhere(ls_device *device, const ls_device_work *work);

#endif
