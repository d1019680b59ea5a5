/* Results of attention as cuDNN makes them, for a kernel that cannot do by itself what the contract says. */
#ifndef LS_KERNEL_CUDA_ATTENTION_PARTS_H
#define LS_KERNEL_CUDA_ATTENTION_PARTS_H

#include "kernel/kernel_impl.h"

#ifdef __cplusplus
extern "C" {
#endif
/*
 * The results of a call of attention become part bf16 [B,N,H,D] and part_lse f32 [B,H,N], or are merged with them if
 * its params say so; elements of a head are dense.
 */
LS_MUST_USE ls_status ls_cuda_take_part(const ls_kernel_call *call, const ls_view *part, const ls_view *part_lse,
                                        void *stream);
#ifdef __cplusplus
}
#endif

#endif
