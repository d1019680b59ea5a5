/* What cuDNN lacks of attention and its gradient: its operands and results are not quite those of the contracts. */
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
/*
 * Of a call of attention_grad: o becomes bf16 [B,N,H,D] whose products with do add up to delta, and lse f32 [B,H,N]
 * that of the call, or inf instead of -inf, so that exp(logit - lse) is 0. Both are dense.
 */
LS_MUST_USE ls_status ls_cuda_make_result(const ls_kernel_call *call, const ls_view *o, const ls_view *lse,
                                          void *stream);
/* to, f32 [B,N,H,D], becomes the dense part, bf16 or f32, or that is added to it. */
LS_MUST_USE ls_status ls_cuda_take_gradient(const ls_view *part, const ls_view *to, bool adds, void *stream);
/* The compute capability of the current device, by its major number. */
LS_MUST_USE ls_status ls_cuda_capability(const char *kernel, int *major);
#ifdef __cplusplus
}
#endif

#endif
