/*
 * kernel, for itself (src/kernel, ref/, cpu/): the tables that make up the registry, and the check of a call
 * against the contract in kernel.h, for use in prepare.
 */
#ifndef LS_KERNEL_IMPL_H
#define LS_KERNEL_IMPL_H

#include "kernel/kernel.h"

/*
 * Checks a call of kernel `name` with element type T: the number of operands, their types, sizes and strides,
 * that params are there, and what else the contract says of shapes. Data pointers are not read. LS_INVALID
 * error naming the kernel, the operand, what it is and what was expected.
 */
LS_MUST_USE ls_status ls_kernel_check(const char *name, ls_dtype T, const ls_kernel_call *call);

/* What registry.c lists. Each table ends with NULL. */
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
