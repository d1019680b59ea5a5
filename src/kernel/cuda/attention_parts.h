/* Results of attention over other keys, merged with what is there: for kernels that cannot merge by themselves. */
#ifndef LS_KERNEL_CUDA_ATTENTION_PARTS_H
#define LS_KERNEL_CUDA_ATTENTION_PARTS_H

#include "kernel/kernel_impl.h"

#ifdef __cplusplus
extern "C" {
#endif
/* o f32 [B,N,H,D] and lse f32 [B,H,N] are merged with part and part_lse of the same sizes; elements of a head are
 * dense.
 */
LS_MUST_USE ls_status ls_cuda_merge_part(const ls_view *part, const ls_view *part_lse, const ls_view *o,
                                         const ls_view *lse, void *stream);
#ifdef __cplusplus
}
#endif

#endif
