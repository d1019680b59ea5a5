/*
 * kernel, for the files of this folder, ref/ and cpu/: the tables of the registry, and the check of a call against its
 * contract.
 */
#ifndef LS_KERNEL_IMPL_H
#define LS_KERNEL_IMPL_H

#include "kernel/kernel.h"

/*
 * For prepare: checks a call with element type T against its contract: number, types, sizes and strides of the
 * operands, and that params are present. Data pointers are not read. LS_INVALID names the kernel, the operand, its type
 * and shape, and what was expected.
 */
LS_MUST_USE ls_status ls_kernel_check(ls_kernel_id id, ls_dtype T, const ls_kernel_call *call);

/*
 * The kernels that fit from n tables (each ends with NULL), whatever this processor has, in the order of
 * ls_kernel_find_rows; at most `most` of them. Returns how many there are.
 */
int ls_kernel_rank(const ls_kernel *const *const *from, size_t n, const ls_kernel_request *request, int most,
                   const ls_kernel **out);

/* The first one. NULL: no kernel fits. */
static inline const ls_kernel *ls_kernel_choose(const ls_kernel *const *const *tables, size_t n,
                                                const ls_kernel_request *request) {
    const ls_kernel *found = NULL;
    return ls_kernel_rank(tables, n, request, 1, &found) > 0 ? found : NULL;
}

/* The functions for `check` in the rows of contracts.c (contract_checks.c). */
ls_status ls_check_activation(const ls_kernel_call *call);
ls_status ls_check_conv(const ls_kernel_call *call);
ls_status ls_check_conv_silu_grad(const ls_kernel_call *call);
ls_status ls_check_conv_dw(const ls_kernel_call *call);
ls_status ls_check_gated_norm(const ls_kernel_call *call);
ls_status ls_check_deal_rows(const ls_kernel_call *call);
ls_status ls_check_matmul(const ls_kernel_call *call);
ls_status ls_check_matmul_blocks(const ls_kernel_call *call);
ls_status ls_check_decode(const ls_kernel_call *call);
ls_status ls_check_attention(const ls_kernel_call *call);
ls_status ls_check_attention_products(const ls_kernel_call *call);
ls_status ls_check_attention_weighted(const ls_kernel_call *call);
ls_status ls_check_attention_weighted_back(const ls_kernel_call *call);
ls_status ls_check_even_head(const ls_kernel_call *call);
ls_status ls_check_update(const ls_kernel_call *call);
ls_status ls_check_map(const ls_kernel_call *call);
ls_status ls_check_topk(const ls_kernel_call *call);
ls_status ls_check_reduce_max_grad(const ls_kernel_call *call);
ls_status ls_check_take_along(const ls_kernel_call *call);
ls_status ls_check_recurrence(const ls_kernel_call *call);
ls_status ls_check_recurrence_map(const ls_kernel_call *call);
ls_status ls_check_recurrence_follow(const ls_kernel_call *call);
ls_status ls_check_linear_recurrence_forward(const ls_kernel_call *call);
ls_status ls_check_linear_recurrence_grad(const ls_kernel_call *call);
ls_status ls_check_linear_recurrence_map(const ls_kernel_call *call);
ls_status ls_check_linear_recurrence_back(const ls_kernel_call *call);
ls_status ls_check_linear_recurrence_follow(const ls_kernel_call *call);
ls_status ls_check_rnn(const ls_kernel_call *call);
ls_status ls_check_rnn_grad(const ls_kernel_call *call);

/* Those for `reads_too`. */
unsigned ls_reads_of_matmul(const void *params);
unsigned ls_reads_of_contract(const void *params);
unsigned ls_reads_of_attention(const void *params);
unsigned ls_reads_of_weighted(const void *params);
unsigned ls_reads_of_attention_grad(const void *params);

/* A view as text for errors: "f32[2,3]". */
typedef struct ls_view_text {
    char text[96];
} ls_view_text;
ls_view_text ls_kernel_view_text(const ls_view *view);

/*
 * A step whose operands and result are slots: numbered memory that is reused as soon as nothing reads its value any
 * more.
 */
typedef struct ls_map_slot_step {
    ls_map_code code;
    int16_t to, a, b, c;
    double number;
} ls_map_slot_step;

/*
 * An expression as a kernel executes it. Slots below the number of inputs are the inputs themselves, which are never
 * written.
 */
typedef struct ls_map_program {
    int n_in, n_steps, n_results, n_slots;
    int16_t result[LS_MAP_RESULTS]; /* slots */
    ls_map_slot_step step[LS_MAP_STEPS];
} ls_map_program;

void ls_map_assign_slots(const ls_map_params *params, ls_map_program *out);

/*
 * The elements of a map's results, in their order, as runs along the last of `ndim` dimensions. Each other dimension
 * has one stride for every operand (inputs, then results), where 0 repeats elements. Neighbouring dimensions are merged
 * if all operands allow it.
 */
typedef struct ls_map_shape {
    int ndim;
    int64_t size[LS_MAX_DIMS];
    int64_t stride[LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS][LS_MAX_DIMS];
} ls_map_shape;

void ls_map_shape_of(const ls_kernel_call *call, ls_map_shape *out);

/* The tables that registry.c lists. Each ends with NULL. */
extern const ls_kernel *const ls_ref_f32_kernels[];
extern const ls_kernel *const ls_ref_f64_kernels[];
extern const ls_kernel *const ls_cpu_base_f32_kernels[];
extern const ls_kernel *const ls_cpu_base_bf16_kernels[];
extern const ls_kernel *const ls_cpu_avx2_f32_kernels[];
extern const ls_kernel *const ls_cpu_avx2_bf16_kernels[];
extern const ls_kernel *const ls_cpu_avx512_f32_kernels[];
extern const ls_kernel *const ls_cpu_avx512_bf16_kernels[];
extern const ls_kernel *const ls_cpu_avx512bf16_f32_kernels[];
extern const ls_kernel *const ls_cpu_avx512bf16_bf16_kernels[];
extern const ls_kernel *const ls_cpu_amx_bf16_kernels[];

#endif
