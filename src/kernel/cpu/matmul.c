#include "kernel/cpu/matmul_impl.h"

#include "kernel/cpu/cpu_impl.h"

static ls_status prepare(const ls_kernel_call *call, void **state) {
    return ls_cpu_matmul_prepare(LS_CPU_DTYPE, call, state);
}

const ls_kernel LS_CPU_NAME(matmul) = {
    "matmul", LS_CPU_DTYPE,          LS_CPU_LEVEL,     ls_cpu_matmul_workspace,
    prepare,  ls_cpu_matmul_release, ls_cpu_matmul_run};
