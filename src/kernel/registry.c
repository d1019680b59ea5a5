/*
 * The registry: the tables of kernels, and the choice among them. With LS_HAVE_CPU_KERNELS 0 (a build of the core only)
 * there are only the reference kernels.
 */
#include "kernel/cuda/plugin.h"
#include "kernel/kernel_impl.h"

#ifndef LS_HAVE_CPU_KERNELS
#ifdef LONGSPAN_CORE_ONLY
#define LS_HAVE_CPU_KERNELS 0
#else
#define LS_HAVE_CPU_KERNELS 1
#endif
#endif

static const ls_kernel *const *const tables[] = {
    ls_ref_f32_kernels,
    ls_ref_f64_kernels,
#if LS_HAVE_CPU_KERNELS
    ls_cpu_base_f32_kernels,
    ls_cpu_base_bf16_kernels,
#ifdef __x86_64__
    ls_cpu_avx2_f32_kernels,
    ls_cpu_avx2_bf16_kernels,
    ls_cpu_avx512_f32_kernels,
    ls_cpu_avx512_bf16_kernels,
    ls_cpu_avx512bf16_f32_kernels,
    ls_cpu_avx512bf16_bf16_kernels,
    ls_cpu_amx_bf16_kernels,
#endif
#endif
};

static bool fits(const ls_kernel *kernel, const ls_kernel_request *r) {
    return kernel->id == r->id && kernel->dtype == r->dtype && kernel->device == r->device &&
           ls_isa_allows(r->isa, kernel->needs) &&
           (kernel->supports == NULL || r->call == NULL || kernel->supports(r->call));
}

const ls_kernel *ls_kernel_choose(const ls_kernel *const *const *from, size_t n, const ls_kernel_request *request) {
    const ls_kernel *best = NULL;
    for (size_t t = 0; t < n; t++) {
        for (const ls_kernel *const *row = from[t]; *row != NULL; row++) {
            if (fits(*row, request) &&
                (best == NULL || __builtin_popcount((*row)->needs) >= __builtin_popcount(best->needs)))
                best = *row;
        }
    }
    return best;
}

static ls_status none_fits(const ls_kernel_request *r, const char *of, const char *name) {
    return ls_error(LS_UNSUPPORTED, "no kernel %s for %s on %s %s%s", ls_contracts[r->id].name, ls_dtype_name(r->dtype),
                    of, name, r->call != NULL ? " that supports the call" : "");
}

static ls_status find_on_cuda(const ls_kernel_request *request, const ls_kernel **out) {
    const ls_kernel *const *table;
    LS_TRY(ls_cuda_kernels_load(&table));
    *out = ls_kernel_choose(&table, 1, request);
    return *out != NULL ? ls_ok() : none_fits(request, "device", "cuda");
}

static ls_status find_on_cpu(const ls_kernel_request *request, const ls_kernel **out) {
    LS_TRY(ls_isa_check(request->isa)); /* even a kernel's workspace function may use the instruction set */
    *out = ls_kernel_choose(tables, LS_COUNT(tables), request);
    return *out != NULL ? ls_ok() : none_fits(request, "isa", ls_isa_name(request->isa));
}

ls_status ls_kernel_find(const ls_kernel_request *request, const ls_kernel **out) {
    const ls_kernel *found;
    LS_TRY(request->device == LS_DEVICE_CUDA ? find_on_cuda(request, &found) : find_on_cpu(request, &found));
    *out = found;
    return ls_ok();
}

const ls_kernel *ls_kernel_at(int index) {
    int before = 0;
    for (size_t t = 0; t < LS_COUNT(tables); t++)
        for (const ls_kernel *const *row = tables[t]; *row != NULL; row++)
            if (before++ == index) return *row;
    return NULL;
}
