/*
 * The registry: a list of tables in the order of their isa. All kernels of a table have one isa. With LS_HAVE_CPU_KERNELS 0 (a build of
 * the core only) there are only the reference kernels.
 */
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

/* The last kernel with that contract and type, or NULL. */
static const ls_kernel *find_in(const ls_kernel *const *table, ls_kernel_id id, ls_dtype dtype) {
    const ls_kernel *found = NULL;
    for (; *table != NULL; table++) {
        const ls_kernel *kernel = *table;
        if (kernel->dtype == dtype && kernel->id == id) found = kernel;
    }
    return found;
}

ls_status ls_kernel_find(ls_kernel_id id, ls_dtype dtype, ls_isa isa, const ls_kernel **out) {
    LS_TRY(ls_isa_check(isa)); /* even a kernel's workspace function may use the instruction set */
    for (size_t t = LS_COUNT(tables); t-- > 0;) {
        if (tables[t][0] == NULL || tables[t][0]->isa > isa) continue;
        const ls_kernel *found = find_in(tables[t], id, dtype);
        if (found == NULL) continue;
        *out = found;
        return ls_ok();
    }
    return ls_error(LS_UNSUPPORTED, "no kernel %s for %s on isa %s", ls_contracts[id].name,
                    ls_dtype_name(dtype), ls_isa_name(isa));
}

const ls_kernel *ls_kernel_at(int index) {
    int before = 0;
    for (size_t t = 0; t < LS_COUNT(tables); t++)
        for (const ls_kernel *const *row = tables[t]; *row != NULL; row++)
            if (before++ == index) return *row;
    return NULL;
}
