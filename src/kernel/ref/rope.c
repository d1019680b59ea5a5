/* rope_table: cosines and sines of rotary positions. rotate: rotates heads by them. */
#include "kernel/ref/ref_impl.h"

static ls_status prepare_table(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ROPE_TABLE, LS_REAL, call);
}

static void table_columns(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const int32_t *positions = call->in[0].data;
    const int64_t n = ls_view_elements(&call->in[0]), D = ref_columns(&call->out[0]);
    const double magnitude = ls_rope_magnitude(call->params);
    for (int64_t i = first; i < last; i++) {
        const float base = ls_rope_frequency(call->params, i, D);
        real *table = (real *)call->out[0].data + i;
        for (int64_t row = 0; row < n; row++, table += D) {
            const float frequency = ls_rope_frequency_at(call->params, base, positions[row], i, D);
            const float angle = (float)positions[row] * frequency;
            table[0] = (real)(magnitude * cos((double)angle));
            table[D / 2] = (real)(magnitude * sin((double)angle));
        }
    }
}

static void run_table(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_columns(&call->out[0]) / 2, table_columns, call);
}

static ls_status prepare_rotate(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_ROTATE, LS_REAL, call);
}

/* Rotates the pairs (i, i + D/2) of a head. direction: 1, or -1 for the inverse. */
static void rotate_head(const real *x, const real *table, int64_t D, double direction, real *y) {
    for (int64_t i = 0; i < D / 2; i++) {
        const double c = (double)table[i], s = direction * (double)table[i + D / 2];
        const double a = (double)x[i], b = (double)x[i + D / 2];
        y[i] = (real)(a * c - b * s);
        y[i + D / 2] = (real)(b * c + a * s);
    }
}

static void rotate_rows(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_rotate_params *params = call->params;
    const ls_view *x = &call->in[0];
    const int64_t D = x->size[x->ndim - 1], H = x->size[x->ndim - 2];
    for (int64_t row = first; row < last; row++) {
        const real *table = (const real *)call->in[1].data + row * D;
        for (int64_t h = 0; h < H; h++) {
            const int64_t at = (row * H + h) * D;
            rotate_head((const real *)x->data + at, table, D, params->inverse ? -1.0 : 1.0,
                        (real *)call->out[0].data + at);
        }
    }
}

static void run_rotate(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ref_rows(&call->in[1]), rotate_rows, call);
}

const ls_kernel REF(rope_table) = {
    .id = LS_KERNEL_ROPE_TABLE, .dtype = LS_REAL, .prepare = prepare_table, .run = run_table};
const ls_kernel REF(rotate) = {.id = LS_KERNEL_ROTATE, .dtype = LS_REAL, .prepare = prepare_rotate, .run = run_rotate};
#if !LS_REAL_IS_F64 /* all operands are of type G or i32; G is f32 for bf16 too */
const ls_kernel REF(rope_table_bf16) = {
    .id = LS_KERNEL_ROPE_TABLE, .dtype = LS_BF16, .prepare = prepare_table, .run = run_table};
#endif
