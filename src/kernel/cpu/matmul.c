/* matmul: all on aarch64, f32 on AVX-512, and on AVX2 where tokens are few, in vectors of our own, else one tile per thread by oneDNN. */
#include "kernel/cpu/matmul_impl.h"

#include "kernel/cpu/cpu_impl.h"

#if defined __aarch64__ || (!LS_CPU_ELEMENT_BF16 && V_LANES >= 8)
#include "kernel/cpu/matmul_vectors.h"

const ls_kernel LS_CPU_NAME(matmul) = {"matmul", LS_CPU_DTYPE, LS_CPU_LEVEL, workspace,
                                       prepare,  release,      run};
#else
static ls_status prepare(const ls_kernel_call *call, void **state) {
    return ls_cpu_matmul_prepare(LS_CPU_DTYPE, call, state);
}

const ls_kernel LS_CPU_NAME(matmul) = {
    "matmul", LS_CPU_DTYPE,          LS_CPU_LEVEL,     ls_cpu_matmul_workspace,
    prepare,  ls_cpu_matmul_release, ls_cpu_matmul_run};
#endif
