/* The kernels of this variant, as the registry lists them. */
#include "kernel/cpu/cpu_impl.h"
#include "kernel/kernel_impl.h"

#ifdef __AMX_BF16__
#define ROWS(ROW) ROW(attention), ROW(attention_grad), ROW(matmul), ROW(matmul_blocks)
#else
#define ROWS(ROW)                                                                                                     \
    ROW(embedding), ROW(embedding_grad), ROW(scale_rows), ROW(matmul), ROW(matmul_blocks), ROW(decode),               \
        ROW(column_sum), ROW(add_rows), ROW(rmsnorm), ROW(rmsnorm_grad), ROW(gated_norm), ROW(gated_norm_grad),       \
        ROW(layernorm), ROW(layernorm_grad), ROW(activation), ROW(activation_grad), ROW(conv), ROW(conv_silu_grad),   \
        ROW(conv_dw), ROW(recurrence), ROW(recurrence_map), ROW(recurrence_follow), ROW(rotate), ROW(swiglu),         \
        ROW(swiglu_grad), ROW(add), ROW(mul), ROW(scale), ROW(scale_by), ROW(cast), ROW(cross_entropy),               \
        ROW(cross_entropy_grad), ROW(sum), ROW(attention), ROW(attention_merge), ROW(attention_delta),                \
        ROW(attention_grad), ROW(attention_sink), ROW(attention_sink_grad), ROW(accumulate), ROW(copy), ROW(fill),    \
        ROW(sum_squares), ROW(adamw), ROW(sgd), ROW(lion), ROW(momentum), ROW(descend), ROW(normalize), ROW(combine), \
        ROW(map), ROW(reduce), ROW(reduce_max), ROW(reduce_max_grad), ROW(softmax), ROW(softmax_grad),                \
        ROW(take_along), ROW(take_along_grad), ROW(topk), ROW(contract), ROW(linear_recurrence),                      \
        ROW(linear_recurrence_grad), ROW(linear_recurrence_map), ROW(linear_recurrence_back),                         \
        ROW(linear_recurrence_follow), ROW(rnn), ROW(rnn_grad), ROW(noise)
#endif

extern const ls_kernel ROWS(LS_CPU_NAME);

/* rope_table and step_control compute in f64 for every type, so the reference kernels are used. */
#define ADDRESS(name) &LS_CPU_NAME(name)
const ls_kernel *const LS_CPU_NAME(kernels)[] = {ROWS(ADDRESS), NULL};
