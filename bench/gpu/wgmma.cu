/*
 * Whether the products of warp groups are what src/kernel/cuda/ptx_sm90.h says of them, on the GPU itself: each form
 * of tests/cuda/wgmma_forms.h on random matrices, against plain loops. A line for each form; ends with 1 if one is
 * wrong. It is no part of the build:
 *     nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a -diag-suppress 177 -Iinclude -Isrc -Itests \
 *         bench/gpu/wgmma.cu tests/cuda/wgmma_forms.cu -o wgmma
 */
#include "cuda/wgmma_forms.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

static void check(int error, const char *what) {
    if (error == 0) return;
    printf("%s: %s\n", what, cudaGetErrorString((cudaError_t)error));
    exit(1);
}

/* How many of its results are wrong. Sums of few small integers are exact. */
static int run(int i, const wgmma_form &form) {
    const int M = WGMMA_ROWS, K = WGMMA_SUMMED, N = form.columns;
    std::vector<__nv_bfloat16> a(M * K), b(N * K);
    std::vector<float> d(M * N);
    for (auto &x : a) x = __float2bfloat16((float)(rand() % 17 - 8));
    for (auto &x : b) x = __float2bfloat16((float)(rand() % 17 - 8));
    void *on_gpu[3];
    const size_t bytes[3] = {2 * a.size(), 2 * b.size(), 4 * d.size()};
    for (int o = 0; o < 3; o++) check(cudaMalloc(&on_gpu[o], bytes[o]), "cudaMalloc");
    check(cudaMemcpy(on_gpu[0], a.data(), bytes[0], cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemcpy(on_gpu[1], b.data(), bytes[1], cudaMemcpyHostToDevice), "cudaMemcpy");
    check(wgmma_launch(i, WGMMA_RIGHT, on_gpu[0], on_gpu[1], (float *)on_gpu[2]), form.name);
    check(cudaDeviceSynchronize(), form.name);
    check(cudaMemcpy(d.data(), on_gpu[2], bytes[2], cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (void *p : on_gpu) check(cudaFree(p), "cudaFree");
    int wrong = 0;
    for (int r = 0; r < M; r++) {
        for (int c = 0; c < N; c++) {
            float sum = 0.5F;
            for (int k = 0; k < K; k++)
                sum += __bfloat162float(a[form.a_by_summed ? k * M + r : r * K + k]) *
                       __bfloat162float(b[form.b_by_summed ? k * N + c : c * K + k]);
            wrong += d[r * N + c] != sum;
        }
    }
    return wrong;
}

int main() {
    cudaDeviceProp is;
    check(cudaGetDeviceProperties(&is, 0), "cudaGetDeviceProperties");
    printf("%s, compute capability %d.%d, %zu bytes of shared memory\n", is.name, is.major, is.minor,
           is.sharedMemPerBlockOptin);
    int all = 0;
    for (int i = 0; i < WGMMA_FORMS; i++) {
        const wgmma_form form = wgmma_form_of(i);
        const int wrong = run(i, form);
        printf("%s: %d of %d wrong\n", form.name, wrong, WGMMA_ROWS * form.columns);
        all += wrong;
    }
    printf("%s\n", all == 0 ? "all right" : "WRONG");
    return all != 0;
}
