/* The time of one call of a kernel by one thread, for the benchmarks of single kernels. */
#ifndef BENCH_KERNEL_TIME_H
#define BENCH_KERNEL_TIME_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernel/kernel.h"

enum { REPETITIONS = 7 };

static void stop_unless(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A dense view of f32 or bf16 in memory of its own, with numbers in [-0.3, 0.5). */
static ls_view filled(ls_dtype dtype, int ndim, const int64_t *size) {
    const ls_view view = ls_view_dense(NULL, dtype, ndim, size);
    const int64_t n = ls_view_elements(&view);
    void *data = aligned_alloc(64, ls_round_up(ls_dtype_bytes(dtype) * (size_t)n, 64));
    for (int64_t i = 0; data != NULL && i < n; i++) {
        const float value = (float)((i * 7 + 3) % 101) / 128.0f - 0.3f;
        if (dtype == LS_BF16)
            ((ls_bf16 *)data)[i] = ls_bf16_from_f32(value);
        else
            ((float *)data)[i] = value;
    }
    return ls_view_dense(data, dtype, ndim, size);
}

/* Processor time in ms, the best of REPETITIONS calls; *kernel: the kernel of that name that `of` asks for. */
static double best_ms(const char *name, const ls_kernel_request *of, const ls_kernel_call *given, ls_pool *pool,
                      const ls_kernel **kernel) {
    ls_kernel_request request = *of;
    ls_kernel_call call = *given;
    void *state = NULL;
    double best = INFINITY;
    call.threads = 1;
    request.id = ls_kernel_named(name);
    stop_unless(ls_kernel_find(&request, kernel));
    const ls_kernel *found = *kernel;
    if (found->workspace) call.workspace = aligned_alloc(64, ls_round_up(found->workspace(&call), 64));
    if (found->prepare) stop_unless(found->prepare(&call, &state));
    for (int i = 0; i < REPETITIONS; i++) {
        const double start = now();
        found->run(&call, state, pool);
        best = fmin(best, now() - start);
    }
    if (found->release) found->release(state);
    free(call.workspace);
    return best * 1e3;
}

#endif
