/* A view [B,N,E] as an argument of kernels: channels are dense; tokens and sequences have strides. */
#ifndef LS_KERNEL_CUDA_TOKENS_H
#define LS_KERNEL_CUDA_TOKENS_H

#include "kernel/cuda/pack.h"

template <typename T> struct tokens {
    T *data;
    int64_t sequence_stride, token_stride;
    /* The channels of token i of sequence b. */
    __device__ T *at(int64_t b, int64_t i) const { return data + b * sequence_stride + i * token_stride; }
};

template <typename T> static tokens<T> tokens_of(const ls_view *v) {
    return {(T *)v->data, v->stride[0], v->stride[1]};
}

/* Whether all tokens consist of whole, aligned packs of N elements. */
template <typename T> static bool in_packs(const ls_view *v, int N) {
    return is_aligned(v->data) && v->size[2] % N == 0 && v->stride[0] % N == 0 && v->stride[1] % N == 0;
}

#endif
