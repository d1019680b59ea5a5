/*
 * Kernels that do wrongly what lanes of a warp do together, and each one's twin that does it rightly, for the emulation
 * of CUDA: on a GPU what the wrong ones do is undefined.
 */
#ifndef LS_TESTS_CUDA_WARP_FAULTS_H
#define LS_TESTS_CUDA_WARP_FAULTS_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * kernel: its name, which the process says as it ends, and the call before the line of its place and why after it; sum:
 * of the first warp's results in the right twin.
 */
typedef struct warp_fault {
    const char *kernel, *call, *why;
    int sum;
} warp_fault;
int warp_faults(void);
warp_fault warp_fault_of(int i);

/* Launches one block of 64 threads; results [64]. Returns 0, or an error of CUDA. */
int warp_fault_launch(int i, int wrong, int *results);
/* The same of a right one with so much shared memory; allowed: which its launches may ask for; 0: nothing was said. */
int warp_launch_with_shared(int i, int bytes, int allowed, int *results);

#ifdef __cplusplus
}
#endif

#endif
