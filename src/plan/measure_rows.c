/*
 * Measures the rate of each row of the registry that supports a call: causal attention of long sequences, its gradient,
 * products. Also chooses rows by these rates.
 */
#include "plan/plan_impl.h"

#include <stdio.h>

/* A row that refuses the call on this device has no rate. */
static ls_status measure_row(ls_timed_place *place, const ls_kernel *kernel, const ls_kernel_call *call, double flops,
                             ls_row_rates *out) {
    double times[LS_MEASURED_RUNS], warm;
    ls_timed_call timed;
    ls_status status = ls_timed_kernel_open(place, kernel, call, &timed);
    if (ls_timed_kernel_refused(status)) { /* it has no rate, and will not be chosen */
        ls_log("%s; the row %s is not measured", status.text, ls_kernel_row(kernel));
        return ls_ok();
    }
    LS_TRY(status);
    status = ls_timed_call_run(&timed, &warm);
    for (int i = 0; i < LS_MEASURED_RUNS && status.code == LS_OK; i++) status = ls_timed_call_run(&timed, &times[i]);
    ls_timed_call_close(&timed);
    LS_TRY(status);
    ls_row_rate *rate = &out->rate[out->n++];
    *rate =
        (ls_row_rate){.id = kernel->id, .dtype = kernel->dtype, .flops = flops / ls_median(times, LS_MEASURED_RUNS)};
    snprintf(rate->row, sizeof rate->row, "%s", ls_kernel_row(kernel));
    return ls_ok();
}

static ls_status measure_all(ls_timed_place *place, ls_kernel_id id, ls_dtype T, const ls_kernel_call *call,
                             double flops, ls_row_rates *out) {
    const ls_kernel *kernels[LS_KERNEL_ROWS];
    int n;
    LS_TRY(ls_kernel_find_rows(
        &(ls_kernel_request){.id = id, .dtype = T, .device = place->of.device, .isa = place->of.isa, .call = call},
        kernels, &n));
    for (int i = 0; i < n; i++) LS_TRY(measure_row(place, kernels[i], call, flops, out));
    return ls_ok();
}

ls_status ls_measure_rows(ls_arena *arena, ls_timed_place *place, ls_row_rates *out) {
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    static const ls_kernel_id attention[LS_DIRECTIONS] = {LS_KERNEL_ATTENTION, LS_KERNEL_ATTENTION_GRAD};
    enum { HEAD = 128, CALLS = LS_COUNT(types) * (LS_DIRECTIONS + 1) }; /* and products */
    _Static_assert((int)CALLS <= LS_KERNEL_CHOICES, "each call has a choice");
    _Static_assert((int)CALLS * LS_KERNEL_ROWS <= LS_ROW_RATES, "each row of each call has a rate");
    const ls_mask causal = ls_mask_causal();
    out->n = 0;
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        const ls_attention_shape shape = ls_long_attention(place, types[t], HEAD);
        for (int direction = 0; direction < LS_DIRECTIONS; direction++) {
            const ls_kernel_call call = ls_attention_call_make(arena, types[t], direction, &shape, &causal);
            const double flops = ls_attention_flops(direction, HEAD, HEAD) * ls_attention_call_pairs(&call);
            LS_TRY(measure_all(place, attention[direction], types[t], &call, flops, out));
        }
        const int64_t n = ls_product_side(place, types[t]);
        const ls_kernel_call call = ls_product_call(types[t], 4 * n, n);
        LS_TRY(measure_all(place, LS_KERNEL_MATMUL, types[t], &call, 8 * (double)n * (double)n * (double)n, out));
    }
    return ls_ok();
}

/* --- the choice --------------------------------------------------------------------------------------------------- */

/* The fastest row of a contract and type; NULL: fewer than two were measured. */
static const ls_kernel *fastest_of(const ls_host_of *of, const ls_row_rates *rows, const ls_row_rate *like) {
    const ls_kernel_request request = {.id = like->id, .dtype = like->dtype, .device = of->device, .isa = of->isa};
    const ls_kernel *kernels[LS_KERNEL_ROWS], *best = NULL;
    int n, measured = 0;
    if (ls_kernel_find_rows(&request, kernels, &n).code != LS_OK) return NULL;
    for (int i = 0; i < n; i++) {
        const double rate = ls_row_rate_of(rows, kernels[i]);
        measured += rate > 0;
        if (rate > 0 && (best == NULL || rate > ls_row_rate_of(rows, best))) best = kernels[i];
    }
    return measured > 1 ? best : NULL;
}

ls_kernel_choices ls_row_choices(const ls_host_of *of, const ls_row_rates *rows) {
    ls_kernel_choices choices = {.n = 0};
    for (int i = 0; i < rows->n; i++) {
        const ls_row_rate *rate = &rows->rate[i];
        const bool again = i > 0 && rate[-1].id == rate->id && rate[-1].dtype == rate->dtype;
        const ls_kernel *fastest = again ? NULL : fastest_of(of, rows, rate);
        if (fastest == NULL) continue;
        LS_ASSERT(choices.n < LS_KERNEL_CHOICES);
        ls_kernel_choice *choice = &choices.of[choices.n++];
        *choice = (ls_kernel_choice){.id = rate->id, .dtype = rate->dtype};
        snprintf(choice->row, sizeof choice->row, "%s", ls_kernel_row(fastest));
    }
    return choices;
}
