/* The kernels of the device cuda: first those that exist for both f32 and bf16, then others. */
#include "kernel/cuda/table.h"

#define ELEMENTWISE(X) X(add), X(mul), X(scale), X(scale_by), X(combine)
#define GENERAL(X)                                                                                    \
    X(map), X(reduce), X(reduce_max), X(reduce_max_grad), X(softmax), X(softmax_grad), X(take_along), \
        X(take_along_grad), X(topk), X(contract)
#define ACTIVATION(X) X(activation), X(activation_grad), X(swiglu), X(swiglu_grad)
#define NORMS(X) X(rmsnorm), X(rmsnorm_grad), X(gated_norm), X(gated_norm_grad), X(layernorm), X(layernorm_grad)
#define ROTATE(X) X(rope_table), X(rotate)
#define CONV(X) X(conv), X(conv_silu_grad), X(conv_dw)
#define RECURRENCE(X)                                                                                        \
    X(recurrence), X(recurrence_map), X(recurrence_follow), X(linear_recurrence), X(linear_recurrence_grad), \
        X(linear_recurrence_map), X(linear_recurrence_back), X(linear_recurrence_follow), X(rnn), X(rnn_grad)
#define EMBEDDING(X)                                                                                        \
    X(local_ids), X(embedding), X(noise), X(embedding_grad), X(cache_write), X(deal_rows), X(collect_rows), \
        X(scale_rows)
#define COPY(X) X(copy), X(cast), X(accumulate), X(fill), X(offload), X(fetch)
#define COLUMN_SUM(X) X(column_sum), X(add_rows)
#define LOSSES(X) X(cross_entropy), X(cross_entropy_merge), X(cross_entropy_grad)
#define SUMS(X) X(sum), X(sum_squares), X(normalize)
#define UPDATES(X) X(step_control), X(adamw), X(sgd), X(lion), X(momentum), X(descend)
#define ATTENTION_ROWS(X) X(attention_merge), X(attention_sink), X(attention_sink_grad), X(attention_delta)
#define ATTENTION_SCORES(X)                                                                        \
    X(attention_products), X(attention_softmax), X(attention_softmax_grad), X(attention_weighted), \
        X(attention_weighted_back)
#define PRODUCTS(X) X(matmul), X(matmul_blocks), X(decode)
#define SUBJECTS(X)                                                                                                   \
    ELEMENTWISE(X), ACTIVATION(X), NORMS(X), ROTATE(X), CONV(X), RECURRENCE(X), EMBEDDING(X), COPY(X), COLUMN_SUM(X), \
        LOSSES(X), SUMS(X), UPDATES(X), ATTENTION_ROWS(X), PRODUCTS(X), GENERAL(X)

#define F32(name) ls_cuda_f32_##name
#define BF16(name) ls_cuda_bf16_##name
extern const ls_kernel SUBJECTS(F32), ATTENTION_SCORES(F32), SUBJECTS(BF16);
extern const ls_kernel ls_cuda_f64_copy, ls_cuda_i32_copy, ls_cuda_f64_fill, ls_cuda_i32_fill, ls_cuda_i32_offload,
    ls_cuda_i32_fetch;
extern const ls_kernel ls_cuda_nf4_copy, ls_cuda_int8_copy, ls_cuda_fp8_copy, ls_cuda_mxfp4_copy;
extern const ls_kernel ls_cuda_f64_accumulate, ls_cuda_f64_add_rows;
extern const ls_kernel ls_cuda_f32_exact_sum, ls_cuda_f32_exact_value;
extern const ls_kernel ls_cuda_f32_attention, ls_cuda_f32_attention_grad, ls_cuda_bf16_attention_plain,
    ls_cuda_bf16_attention_grad_plain, ls_cuda_bf16_attention, ls_cuda_bf16_attention_sm90, ls_cuda_bf16_attention_grad,
    ls_cuda_bf16_attention_grad_sm90, ls_cuda_bf16_attention_cudnn, ls_cuda_bf16_attention_grad_cudnn,
    ls_cuda_f32_matmul_cublaslt, ls_cuda_bf16_matmul_cublaslt;

#define F32_ADDRESS(name) &F32(name)
#define BF16_ADDRESS(name) &BF16(name)
/* If a contract and a type have several rows, the last one that supports the call is taken. */
const ls_kernel *const ls_cuda_kernels[] = {
    SUBJECTS(F32_ADDRESS),
    ATTENTION_SCORES(F32_ADDRESS),
    SUBJECTS(BF16_ADDRESS),
    &ls_cuda_f64_copy,
    &ls_cuda_i32_copy,
    &ls_cuda_nf4_copy,
    &ls_cuda_int8_copy,
    &ls_cuda_fp8_copy,
    &ls_cuda_mxfp4_copy,
    &ls_cuda_f64_fill,
    &ls_cuda_i32_fill,
    &ls_cuda_i32_offload,
    &ls_cuda_i32_fetch,
    &ls_cuda_f64_accumulate,
    &ls_cuda_f64_add_rows,
    &ls_cuda_f32_exact_sum,
    &ls_cuda_f32_exact_value,
    &ls_cuda_f32_attention,
    &ls_cuda_f32_attention_grad,
    &ls_cuda_bf16_attention_grad_cudnn, /* only if it is chosen, because no GPU has executed it yet */
    &ls_cuda_bf16_attention_plain,
    &ls_cuda_bf16_attention_grad_plain,
    &ls_cuda_bf16_attention,
    &ls_cuda_bf16_attention_sm90,
    &ls_cuda_bf16_attention_grad,
    &ls_cuda_bf16_attention_grad_sm90,
    &ls_cuda_bf16_attention_cudnn,
    &ls_cuda_f32_matmul_cublaslt,
    &ls_cuda_bf16_matmul_cublaslt,
    NULL,
};
