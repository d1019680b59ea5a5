/*
 * Measures the kernels of linear recurrences: a gated delta rule, which uses all parts of the kernels, and its
 * gradient.
 */
#include "plan/plan_impl.h"

enum { D = 128 };

/* The views of a call on N tokens of H heads, without data. */
typedef struct shapes {
    ls_view rows, gates, state, none; /* T[1,N,H,D], G[1,N,H,1], G[1,H,D,D] */
} shapes;

/* At least a head for each multiprocessor of a GPU; fewer tokens on a small GPU. */
static shapes make_shapes(const ls_timed_place *place, ls_dtype T) {
    enum { TOKENS = 512, REFERENCE_TOKENS = 32, EACH = 8, HEADS_OF_CORE = 4 };
    const ls_dtype G = ls_dtype_accumulator(T);
    const int64_t width = ls_timed_place_width(place), H = width > 0 ? width : HEADS_OF_CORE;
    const int64_t of_core = T == LS_F64 ? REFERENCE_TOKENS : TOKENS,
                  N = width > 0 ? ls_min(TOKENS, EACH * width) : of_core;
    return (shapes){.rows = ls_view_dense(NULL, T, 4, (int64_t[]){1, N, H, D}),
                    .gates = ls_view_dense(NULL, G, 4, (int64_t[]){1, N, H, 1}),
                    .state = ls_view_dense(NULL, G, 4, (int64_t[]){1, H, D, D}),
                    .none = ls_view_dense(NULL, LS_I32, 3, (int64_t[]){1, N, 0})};
}

static ls_kernel_call forward_call(const shapes *s) {
    return (ls_kernel_call){.n_in = 6,
                            .in = {s->rows, s->rows, s->rows, s->gates, s->gates, s->none},
                            .n_out = 2,
                            .out = {s->rows, s->state}};
}

static ls_kernel_call gradient_call(const shapes *s) {
    return (ls_kernel_call){.n_in = 8,
                            .in = {s->rows, s->rows, s->rows, s->gates, s->gates, s->none, s->rows, s->state},
                            .n_out = 6,
                            .out = {s->rows, s->rows, s->rows, s->gates, s->gates, s->state}};
}

ls_status ls_measure_recurrence(ls_timed_place *place, ls_dtype T, double out[LS_DIRECTIONS]) {
    static const ls_linear_recurrence_params delta = {.delta = true};
    static const double times[LS_DIRECTIONS] = {1, 3}; /* in units of the operations of a forward call */
    static const ls_kernel_id kernels[LS_DIRECTIONS] = {
        [LS_FORWARD] = LS_KERNEL_LINEAR_RECURRENCE, [LS_BACKWARD] = LS_KERNEL_LINEAR_RECURRENCE_GRAD};
    const shapes s = make_shapes(place, T);
    const double rows = (double)ls_view_elements(&s.gates), flops = rows * ls_linear_recurrence_flops(&delta, D, D);
    for (int direction = 0; direction < LS_DIRECTIONS; direction++) {
        ls_kernel_call call = direction == LS_FORWARD ? forward_call(&s) : gradient_call(&s);
        double seconds;
        call.params = &delta;
        LS_TRY(ls_measure_call(place, kernels[direction], T, &call, &seconds));
        out[direction] = times[direction] * flops / seconds;
    }
    return ls_ok();
}
