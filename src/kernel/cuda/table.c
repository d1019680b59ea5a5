/* The kernels of the device cuda. */
#include "kernel/cuda/table.h"

#define NAMES(X) \
    X(add), X(mul), X(scale), X(scale_by), X(combine), X(swiglu), X(swiglu_grad), X(rmsnorm), X(rmsnorm_grad)

#define F32(name) ls_cuda_f32_##name
#define BF16(name) ls_cuda_bf16_##name
extern const ls_kernel NAMES(F32), NAMES(BF16);
/* Of several rows for a contract and a type the last that supports a call is taken. */
extern const ls_kernel ls_cuda_f32_attention, ls_cuda_f32_attention_grad, ls_cuda_bf16_attention_plain,
    ls_cuda_bf16_attention_grad_plain, ls_cuda_bf16_attention, ls_cuda_bf16_attention_grad;

#define F32_ADDRESS(name) &F32(name)
#define BF16_ADDRESS(name) &BF16(name)
const ls_kernel *const ls_cuda_kernels[] = {
    NAMES(F32_ADDRESS),          NAMES(BF16_ADDRESS),           &ls_cuda_f32_attention,
    &ls_cuda_f32_attention_grad, &ls_cuda_bf16_attention_plain, &ls_cuda_bf16_attention_grad_plain,
    &ls_cuda_bf16_attention,     &ls_cuda_bf16_attention_grad,  NULL};
