#include "kernel/cpu/runs.h"

#include "base/base.h"

ls_cpu_runs ls_cpu_runs_of(const ls_view *a, const ls_view *b) {
    ls_cpu_runs runs = {.length = 1};
    int dims = a->ndim;
    while (dims > 0 && (a->size[dims - 1] == 1 ||
                        (a->stride[dims - 1] == runs.length && b->stride[dims - 1] == runs.length))) {
        runs.length *= a->size[--dims];
    }
    runs.ndim = dims;
    for (int d = 0; d < dims; d++) {
        runs.size[d] = a->size[d];
        runs.stride_a[d] = a->stride[d];
        runs.stride_b[d] = b->stride[d];
    }
    return runs;
}

void ls_cpu_runs_visit(const ls_cpu_runs *runs, int64_t start, int64_t end, ls_cpu_visit visit,
                       const void *context) {
    while (start < end) {
        int64_t run = start / runs->length;
        const int64_t inside = start % runs->length, count = ls_min(runs->length - inside, end - start);
        int64_t at_a = inside, at_b = inside;
        for (int d = runs->ndim - 1; d >= 0; d--) {
            at_a += run % runs->size[d] * runs->stride_a[d];
            at_b += run % runs->size[d] * runs->stride_b[d];
            run /= runs->size[d];
        }
        visit(context, at_a, at_b, count);
        start += count;
    }
}
