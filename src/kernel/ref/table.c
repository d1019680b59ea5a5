/* The reference kernels of one precision. */
#include "kernel/ref/ref_impl.h"

const ls_kernel *const REF(kernels)[] = {
    &REF(embedding), &REF(embedding_grad), &REF(matmul), &REF(column_sum), &REF(rmsnorm), &REF(rmsnorm_grad),
    &REF(layernorm), &REF(layernorm_grad), &REF(activation), &REF(activation_grad), &REF(conv), &REF(conv_dw),
    &REF(rope_table), &REF(rotate), &REF(swiglu), &REF(swiglu_grad), &REF(add), &REF(mul), &REF(scale),
    &REF(scale_by), &REF(cast), &REF(cross_entropy), &REF(cross_entropy_grad), &REF(sum), &REF(broadcast),
    &REF(attention), &REF(attention_merge), &REF(attention_delta), &REF(attention_grad), &REF(attention_sink),
    &REF(attention_sink_grad), &REF(cache_write), &REF(accumulate), &REF(copy), &REF(fill), &REF(sum_squares),
    &REF(step_control), &REF(adamw),
#if !LS_REAL_IS_F64
    /* Kernels without arithmetic in their element type are registered for the other types too. */
    &REF(copy_bf16), &REF(copy_i32), &REF(fill_bf16), &REF(fill_i32), &REF(cast_bf16), &REF(sum_bf16),
    &REF(broadcast_bf16), &REF(rope_table_bf16), &REF(step_control_bf16), &REF(cache_write_bf16),
#endif
    NULL};
