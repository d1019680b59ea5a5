/*
 * The registry: the tables of kernels, and the choice among them. With LS_HAVE_CPU_KERNELS 0 (a build of the core only)
 * there are only the reference kernels.
 */
#include "kernel/cuda/plugin.h"
#include "kernel/kernel_impl.h"

#include <string.h>

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

/* By text: equal names in different files may be different pointers. */
static bool has_row(const ls_kernel *kernel, const char *row) { return strcmp(ls_kernel_row(kernel), row) == 0; }

static bool is_chosen(const ls_kernel *kernel, const ls_kernel_choices *choices) {
    for (int i = 0; choices != NULL && i < choices->n; i++) {
        const ls_kernel_choice *c = &choices->of[i];
        if (c->id == kernel->id && c->dtype == kernel->dtype && has_row(kernel, c->row)) return true;
    }
    return false;
}

/* Whether a kernel is preferred to one that stands before it. */
static bool is_better(const ls_kernel *kernel, const ls_kernel *other, const ls_kernel_choices *choices) {
    const bool chosen = is_chosen(kernel, choices), other_chosen = is_chosen(other, choices);
    if (chosen != other_chosen) return chosen;
    return __builtin_popcount(kernel->needs) >= __builtin_popcount(other->needs);
}

/* named: a kernel with the same name counts too. */
static bool is_among(const ls_kernel *kernel, const ls_kernel *const *rows, int n, bool named) {
    for (int i = 0; i < n; i++)
        if (kernel == rows[i] || (named && has_row(kernel, ls_kernel_row(rows[i])))) return true;
    return false;
}

/* named: of several kernels with one name only the first. */
static int rank(const ls_kernel *const *const *from, size_t n, const ls_kernel_request *request, bool named, int most,
                const ls_kernel **out) {
    int found = 0;
    for (; found < most; found++) {
        const ls_kernel *best = NULL;
        for (size_t t = 0; t < n; t++) {
            for (const ls_kernel *const *row = from[t]; *row != NULL; row++) {
                if (fits(*row, request) && !is_among(*row, out, found, named) &&
                    (best == NULL || is_better(*row, best, request->choices)))
                    best = *row;
            }
        }
        if (best == NULL) break;
        out[found] = best;
    }
    return found;
}

int ls_kernel_rank(const ls_kernel *const *const *from, size_t n, const ls_kernel_request *request, int most,
                   const ls_kernel **out) {
    return rank(from, n, request, true, most, out);
}

static ls_status none_fits(const ls_kernel_request *r, const char *of, const char *name) {
    return ls_error(LS_UNSUPPORTED, "no kernel %s for %s on %s %s%s", ls_contracts[r->id].name, ls_dtype_name(r->dtype),
                    of, name, r->call != NULL ? " that supports the call" : "");
}

static ls_status find_on_cuda(const ls_kernel_request *request, bool named, int most, const ls_kernel **out, int *n) {
    const ls_kernel *const *table;
    LS_TRY(ls_cuda_kernels_load(&table));
    *n = rank(&table, 1, request, named, most, out);
    return *n > 0 ? ls_ok() : none_fits(request, "device", "cuda");
}

static ls_status find_on_cpu(const ls_kernel_request *request, bool named, int most, const ls_kernel **out, int *n) {
    LS_TRY(ls_isa_check(request->isa)); /* even a kernel's workspace function may use the instruction set */
    *n = rank(tables, LS_COUNT(tables), request, named, most, out);
    return *n > 0 ? ls_ok() : none_fits(request, "isa", ls_isa_name(request->isa));
}

static ls_status find(const ls_kernel_request *request, bool named, int most, const ls_kernel **out, int *n) {
    return request->device == LS_DEVICE_CUDA ? find_on_cuda(request, named, most, out, n)
                                             : find_on_cpu(request, named, most, out, n);
}

ls_status ls_kernel_find(const ls_kernel_request *request, const ls_kernel **out) {
    const ls_kernel *found;
    int n;
    LS_TRY(find(request, true, 1, &found, &n));
    *out = found;
    return ls_ok();
}

ls_status ls_kernel_find_rows(const ls_kernel_request *request, const ls_kernel *out[LS_KERNEL_ROWS], int *n) {
    return find(request, true, LS_KERNEL_ROWS, out, n);
}

const ls_kernel *ls_kernel_next(const ls_kernel_request *request, const ls_kernel *kernel) {
    enum { MOST = 16 }; /* for one contract and type */
    const ls_kernel *rows[MOST];
    int n = 0, at = 0;
    if (find(request, false, MOST, rows, &n).code != LS_OK) return NULL;
    while (at < n && rows[at] != kernel) at++;
    return at == n ? rows[0] : at + 1 < n ? rows[at + 1] : NULL;
}

const ls_kernel *ls_kernel_at(int index) {
    int before = 0;
    for (size_t t = 0; t < LS_COUNT(tables); t++)
        for (const ls_kernel *const *row = tables[t]; *row != NULL; row++)
            if (before++ == index) return *row;
    return NULL;
}

/* Sizes and strides of dimensions that a view does not have count as 0. */
static uint64_t add_form(uint64_t hash, const ls_view *v) {
    int64_t form[3 + 2 * LS_MAX_DIMS] = {(int64_t)hash, v->dtype, v->ndim};
    memcpy(form + 3, v->size, sizeof *form * (size_t)v->ndim);
    memcpy(form + 3 + LS_MAX_DIMS, v->stride, sizeof *form * (size_t)v->ndim);
    return ls_hash_bytes(form, sizeof form);
}

uint64_t ls_kernel_forms_hash(const ls_kernel_call *call) {
    uint64_t hash = (uint64_t)call->n_in * (LS_KERNEL_OUTPUTS + 1) + (uint64_t)call->n_out;
    for (int i = 0; i < call->n_in; i++) hash = add_form(hash, &call->in[i]);
    for (int i = 0; i < call->n_out; i++) hash = add_form(hash, &call->out[i]);
    return hash;
}
