#include "support/kernel_call.h"

#include "cuda/watch/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need_ok(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    abort();
}

ls_status find_kernel(const char *name, ls_dtype dtype, ls_isa isa, const ls_kernel_call *call, const ls_kernel **out) {
    return ls_kernel_find(&(ls_kernel_request){.id = ls_kernel_named(name), .dtype = dtype, .isa = isa, .call = call},
                          out);
}

void call_kernel(const ls_kernel *kernel, ls_kernel_call *call, ls_pool *pool) {
    enum { ALIGNMENT = 256, BEHIND = 256 };
    call->threads = ls_pool_threads(pool);
    LS_ASSERT(kernel->supports == NULL || kernel->supports(call));
    const size_t needed = kernel->workspace != NULL ? kernel->workspace(call) : 0;
    const size_t bytes = ls_round_up(needed, ALIGNMENT) + BEHIND;
    unsigned char *space = aligned_alloc(ALIGNMENT, bytes);
    LS_ASSERT(space != NULL);
    memset(space, 0xff, bytes);
    call->workspace = space;
    const bool watched = kernel->launch != NULL && watch_call_begins != NULL;
    if (watched) watch_call_begins(kernel, call, needed);
    void *state = NULL;
    if (kernel->prepare != NULL) need_ok(kernel->prepare(call, &state));
    if (kernel->launch != NULL)
        need_ok(kernel->launch(call, state, NULL));
    else
        kernel->run(call, state, pool);
    if (kernel->release != NULL) kernel->release(state);
    if (watched) watch_call_ends(call);
    for (size_t i = needed; i < bytes; i++) LS_ASSERT(space[i] == 0xff);
    free(space);
}

void call_kernel_on(const ls_kernel *kernel, int threads, ls_kernel_call call) {
    ls_pool *pool = NULL;
    need_ok(ls_pool_create(threads, false, &pool));
    call_kernel(kernel, &call, pool);
    ls_pool_destroy(pool);
}

void run_kernel(const char *name, ls_dtype dtype, ls_isa isa, int threads, ls_kernel_call call) {
    const ls_kernel *kernel = NULL;
    call.threads = threads;
    need_ok(find_kernel(name, dtype, isa, &call, &kernel));
    call_kernel_on(kernel, threads, call);
}

bool kernel_runs_here(const ls_kernel *kernel) {
    ls_isa limit = LS_ISA_REF;
    need_ok(ls_isa_limit(&limit));
    return ls_isa_allows(limit, kernel->needs);
}

const char *kernel_isa_name(const ls_kernel *kernel) { return ls_isa_name(ls_isa_within(kernel->needs)); }

int say_missing_isas(void **state) {
    (void)state;
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        const ls_status status = ls_isa_check((ls_isa)i);
        if (status.code != LS_OK) printf("isa %s NOT RUN: %s\n", ls_isa_name((ls_isa)i), status.text);
    }
    return 0;
}

ls_status prepare_kernel(const char *name, ls_dtype dtype, ls_isa isa, ls_kernel_call call) {
    const ls_kernel *kernel = NULL;
    void *state = NULL;
    if (call.threads == 0) call.threads = 1;
    LS_TRY(find_kernel(name, dtype, isa, &call, &kernel));
    LS_TRY(kernel->prepare(&call, &state));
    if (kernel->release != NULL) kernel->release(state);
    return ls_ok();
}

void fill_normal(double *x, int64_t n, uint64_t stream) {
    for (int64_t i = 0; i < n; i++) x[i] = ls_rng_normal(17, stream, (uint64_t)i);
}

void fill_nan(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = NAN;
}

double largest_error(const double *a, const double *b, int64_t n) {
    double error = 0, scale = 0;
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs(a[i] - b[i]);
        if (isnan(e)) return INFINITY;
        error = fmax(error, e);
        scale = fmax(scale, fabs(b[i]));
    }
    return error == 0 ? 0 : error / scale;
}
