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

/* Names of one kind of rows are one text, or NULL. */
static bool is_among(const ls_kernel *kernel, const ls_kernel *const *others, int n) {
    for (int i = 0; i < n; i++)
        if (others[i]->row == kernel->row) return true;
    return false;
}

/* The choice among those that have another name than the `n_others` others. */
static const ls_kernel *choose_but(const ls_kernel *const *const *from, size_t n, const ls_kernel_request *request,
                                   const ls_kernel *const *others, int n_others) {
    const ls_kernel *best = NULL;
    for (size_t t = 0; t < n; t++) {
        for (const ls_kernel *const *row = from[t]; *row != NULL; row++) {
            if (fits(*row, request) && !is_among(*row, others, n_others) &&
                (best == NULL || __builtin_popcount((*row)->needs) >= __builtin_popcount(best->needs)))
                best = *row;
        }
    }
    return best;
}

const ls_kernel *ls_kernel_choose(const ls_kernel *const *const *from, size_t n, const ls_kernel_request *request) {
    return choose_but(from, n, request, NULL, 0);
}

static ls_status none_fits(const ls_kernel_request *r, const char *of, const char *name) {
    return ls_error(LS_UNSUPPORTED, "no kernel %s for %s on %s %s%s", ls_contracts[r->id].name, ls_dtype_name(r->dtype),
                    of, name, r->call != NULL ? " that supports the call" : "");
}

/* The tables of a device. LS_USAGE, LS_UNSUPPORTED: they cannot be used. */
static ls_status find_tables(const ls_kernel_request *r, const ls_kernel *const **of_plugin,
                             const ls_kernel *const *const **out, size_t *n) {
    *out = tables;
    *n = LS_COUNT(tables);
    /* Even a kernel's workspace function may use the instruction set. */
    if (r->device == LS_DEVICE_CPU) return ls_isa_check(r->isa);
    *out = of_plugin;
    *n = 1;
    return ls_cuda_kernels_load(of_plugin);
}

/* The first `most` of them. */
static ls_status find(const ls_kernel_request *request, int most, const ls_kernel **out, int *n) {
    const ls_kernel *const *of_plugin, *const *const *from;
    size_t n_tables;
    int found = 0;
    LS_TRY(find_tables(request, &of_plugin, &from, &n_tables));
    for (const ls_kernel *next; found < most; out[found++] = next) {
        next = choose_but(from, n_tables, request, out, found);
        if (next == NULL) break;
    }
    const bool on_cpu = request->device == LS_DEVICE_CPU;
    *n = found;
    return found > 0 ? ls_ok()
                     : none_fits(request, on_cpu ? "isa" : "device", on_cpu ? ls_isa_name(request->isa) : "cuda");
}

ls_status ls_kernel_find_rows(const ls_kernel_request *request, const ls_kernel *out[LS_KERNEL_ROWS], int *n) {
    return find(request, LS_KERNEL_ROWS, out, n);
}

ls_status ls_kernel_find(const ls_kernel_request *request, const ls_kernel **out) {
    const ls_kernel *found = NULL;
    int n;
    LS_TRY(find(request, 1, &found, &n));
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
