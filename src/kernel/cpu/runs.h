/* Two strided views of one shape, seen as runs that are contiguous in both. */
#ifndef LS_KERNEL_CPU_RUNS_H
#define LS_KERNEL_CPU_RUNS_H

#include "tensor/tensor.h"

typedef struct ls_cpu_runs {
    int64_t length; /* elements of a run */
    int ndim;       /* of the dimensions around it, outermost first */
    int64_t size[LS_MAX_DIMS], stride_a[LS_MAX_DIMS], stride_b[LS_MAX_DIMS];
} ls_cpu_runs;

ls_cpu_runs ls_cpu_runs_of(const ls_view *a, const ls_view *b);

/*
 * Visits elements [start, end) of the common order of elements: visit(context, at_a, at_b, count) for contiguous
 * pieces, with the offsets of their first element from either view's data.
 */
typedef void (*ls_cpu_visit)(const void *context, int64_t at_a, int64_t at_b, int64_t count);
void ls_cpu_runs_visit(const ls_cpu_runs *runs, int64_t start, int64_t end, ls_cpu_visit visit,
                       const void *context);

#endif
