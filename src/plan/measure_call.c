/* Shared by the measurements: timing of a call, and products. */
#include "plan/plan_impl.h"

ls_status ls_measure_call(ls_timed_place *place, ls_kernel_id id, ls_dtype dtype, const ls_kernel_call *call,
                          double *seconds) {
    ls_timed_calls timed;
    double times[LS_MEASURED_RUNS], warm;
    LS_TRY(ls_timed_calls_open(place, id, dtype, call, &timed));
    ls_status status = ls_timed_calls_run(&timed, &warm);
    for (int i = 0; i < LS_MEASURED_RUNS && status.code == LS_OK; i++) status = ls_timed_calls_run(&timed, &times[i]);
    ls_timed_calls_close(&timed);
    LS_TRY(status);
    *seconds = ls_median(times, LS_MEASURED_RUNS);
    return ls_ok();
}

ls_kernel_call ls_product_call(ls_dtype T, int64_t m, int64_t n) {
    static const ls_matmul_params params = {.transpose_b = true};
    const int64_t x[] = {m, n}, w[] = {n, n};
    return (ls_kernel_call){.n_in = 2,
                            .in = {ls_view_dense(NULL, T, 2, x), ls_view_dense(NULL, T, 2, w)},
                            .n_out = 1,
                            .out = {ls_view_dense(NULL, T, 2, x)},
                            .params = &params};
}

int64_t ls_product_side(const ls_timed_place *place, ls_dtype T) {
    enum { REFERENCE = 128, CORE = 768, EACH = 64, MOST = 4096 }; /* EACH: per multiprocessor */
    const int width = ls_timed_place_width(place);
    if (width > 0) return ls_min(MOST, EACH * width);
    return T == LS_F64 ? REFERENCE : CORE; /* f64 has only the slow reference kernels */
}
