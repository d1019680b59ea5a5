#include "far_planted.h"

#include "kernel/cuda/cuda_impl.h"

/* y = x, in rows of a block each, whose number times its width is an OFFSET. */
template <typename OFFSET> static __global__ void copy_rows(const float *x, float *y, int64_t n, int width) {
    const OFFSET first = (OFFSET)blockIdx.x * (OFFSET)width;
    for (int e = threadIdx.x; e < width; e += CUDA_THREADS)
        if ((int64_t)blockIdx.x * width + e < n) y[first + e] = x[first + e];
}

template <typename OFFSET> static ls_status copy_all(const ls_kernel_call *call, void *, void *stream) {
    constexpr int WIDTH = 4096;
    const int64_t n = ls_view_elements(&call->in[0]);
    return launch("scale", stream, ls_ceil_div(n, (int64_t)WIDTH), 0, copy_rows<OFFSET>, input<float>(call, 0),
                  output<float>(call, 0), n, WIDTH);
}

CUDA_ROW(far_right, SCALE, LS_F32, copy_all<int64_t>, nullptr)
CUDA_ROW(far_signed, SCALE, LS_F32, copy_all<int32_t>, nullptr)
CUDA_ROW(far_unsigned, SCALE, LS_F32, copy_all<uint32_t>, nullptr)
