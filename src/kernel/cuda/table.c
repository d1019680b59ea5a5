/* The kernels of the device cuda. */
#include "kernel/cuda/table.h"

/* A subject each. Of several rows for a contract and a type the last that supports a call is taken. */
#define ELEMENTWISE(X) X(add), X(mul), X(scale), X(scale_by), X(combine), X(swiglu), X(swiglu_grad)
#define NORMS(X) X(rmsnorm), X(rmsnorm_grad)
#define LOSSES(X) X(cross_entropy), X(cross_entropy_grad)
#define SUMS(X) X(sum), X(sum_squares), X(normalize)
#define UPDATES(X) X(step_control), X(adamw), X(sgd), X(lion), X(momentum), X(descend)
#define ATTENTION_ROWS(X) X(attention_merge), X(attention_sink), X(attention_sink_grad), X(attention_delta)
#define PRODUCTS(X) X(matmul)
/* Of f32 and bf16. */
#define NAMES(X) ELEMENTWISE(X), NORMS(X), LOSSES(X), SUMS(X), UPDATES(X), ATTENTION_ROWS(X), PRODUCTS(X)

#define F32(name) ls_cuda_f32_##name
#define BF16(name) ls_cuda_bf16_##name
extern const ls_kernel NAMES(F32), NAMES(BF16);
extern const ls_kernel ls_cuda_f32_exact_sum, ls_cuda_f32_exact_value;
extern const ls_kernel ls_cuda_f32_attention, ls_cuda_f32_attention_grad, ls_cuda_bf16_attention_plain,
    ls_cuda_bf16_attention_grad_plain, ls_cuda_bf16_attention, ls_cuda_bf16_attention_grad;

#define F32_ADDRESS(name) &F32(name)
#define BF16_ADDRESS(name) &BF16(name)
const ls_kernel *const ls_cuda_kernels[] = {NAMES(F32_ADDRESS),
                                            NAMES(BF16_ADDRESS),
                                            &ls_cuda_f32_exact_sum,
                                            &ls_cuda_f32_exact_value,
                                            &ls_cuda_f32_attention,
                                            &ls_cuda_f32_attention_grad,
                                            &ls_cuda_bf16_attention_plain,
                                            &ls_cuda_bf16_attention_grad_plain,
                                            &ls_cuda_bf16_attention,
                                            &ls_cuda_bf16_attention_grad,
                                            NULL};
