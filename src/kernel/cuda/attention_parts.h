/* What cuDNN lacks for the contracts of attention and its gradient: conversions of operands and results. */
#ifndef LS_KERNEL_CUDA_ATTENTION_PARTS_H
#define LS_KERNEL_CUDA_ATTENTION_PARTS_H

#include "kernel/kernel_impl.h"

#ifdef __cplusplus
extern "C" {
#endif
/*
 * Sets the results of a call of attention to part bf16 [B,N,H,D] and part_lse f32 [B,H,N], or merges these into the
 * results if params.merge; the elements of a head are dense.
 */
LS_MUST_USE ls_status ls_cuda_take_part(const ls_kernel_call *call, const ls_view *part, const ls_view *part_lse,
                                        void *stream);
/*
 * For a call of attention_grad: o, bf16 [B,N,H,D], becomes rows whose products with those of do are delta; lse, f32
 * [B,H,N], becomes that of the call, with inf in place of -inf, so that exp(logit - lse) is 0. Both are dense.
 */
LS_MUST_USE ls_status ls_cuda_make_result(const ls_kernel_call *call, const ls_view *o, const ls_view *lse,
                                          void *stream);
/* to, f32 [B,N,H,D], = the dense `part`, bf16 or f32; or += if `adds`. */
LS_MUST_USE ls_status ls_cuda_take_gradient(const ls_view *part, const ls_view *to, bool adds, void *stream);
/* The major number of the current device's compute capability. */
LS_MUST_USE ls_status ls_cuda_capability(const char *kernel, int *major);
#ifdef __cplusplus
}
#endif

#endif
