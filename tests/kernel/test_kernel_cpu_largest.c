/*
 * reduce_max, its gradient and topk of src/kernel/cpu on numbers of which many are equal, NaN or infinite, for each
 * instruction set: exactly what the reference kernels make of them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/kernel_call.h"

enum { O = 3, MOST = 131, MOST_COLUMNS = 37, ROOM = O * MOST * MOST_COLUMNS };

/* Small integers, and of each `rare` numbers one that is NaN or infinite; the same in f64 and f32. */
static void make(double *x, float *narrow, int64_t n, uint64_t stream, double rare) {
    fill_normal(x, n, stream);
    for (int64_t i = 0; i < n; i++) {
        const double odd = fmod(fabs(x[i]) * 1000, rare);
        x[i] = odd < 1 ? NAN : odd < 2 ? INFINITY : odd < 3 ? -INFINITY : floor(3 * x[i]);
        narrow[i] = (float)x[i];
    }
}

static void assert_same(const float *found, const double *expected, int64_t n, const char *what) {
    for (int64_t i = 0; i < n; i++) {
        const bool same = isnan(expected[i]) ? isnan(found[i]) : found[i] == (float)expected[i];
        if (!same) fail_msg("%s: element %d is %g, not %g", what, (int)i, (double)found[i], expected[i]);
    }
}

typedef struct buffers {
    double x[ROOM], y[ROOM], own[ROOM];
    float narrow_x[ROOM], narrow_y[ROOM], narrow_own[ROOM];
    int32_t ids[ROOM], narrow_ids[ROOM];
} buffers;
static buffers b;

static void check_max(ls_isa isa, int64_t R, int64_t I, const char *what) {
    static const ls_reduce_max_params params[] = {{false}, {true}};
    const ls_view x[] = {VIEW(b.x, LS_F64, O, R, I), VIEW(b.narrow_x, LS_F32, O, R, I)};
    const ls_view y[] = {VIEW(b.y, LS_F64, O, I), VIEW(b.narrow_y, LS_F32, O, I)};
    run_kernel("reduce_max", LS_F64, LS_ISA_REF, 1,
               (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {x[0]}, .out = {y[0]}});
    run_kernel("reduce_max", LS_F32, isa, 2, (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {x[1]}, .out = {y[1]}});
    assert_same(b.narrow_y, b.y, O * I, what);
    for (int64_t i = 0; i < O * I; i++) b.own[i] = b.narrow_own[i] = (float)(60 + i);
    for (int shared = 0; shared < 2; shared++) {
        const ls_view own[] = {VIEW(b.own, LS_F64, O, I), VIEW(b.narrow_own, LS_F32, O, I)};
        const ls_view dx[] = {VIEW(b.y, LS_F64, O, R, I), VIEW(b.narrow_y, LS_F32, O, R, I)};
        for (int f32 = 0; f32 < 2; f32++)
            run_kernel(
                "reduce_max_grad", f32 ? LS_F32 : LS_F64, f32 ? isa : LS_ISA_REF, 1,
                (ls_kernel_call){
                    .n_in = 2, .n_out = 1, .in = {x[f32], own[f32]}, .out = {dx[f32]}, .params = &params[shared]});
        assert_same(b.narrow_y, b.y, O * R * I, what);
    }
}

static void check_topk(ls_isa isa, int64_t K, int64_t J, const char *what) {
    const ls_view x[] = {VIEW(b.x, LS_F64, O, K), VIEW(b.narrow_x, LS_F32, O, K)};
    const ls_view y[] = {VIEW(b.y, LS_F64, O, J), VIEW(b.narrow_y, LS_F32, O, J)};
    const ls_view ids[] = {VIEW(b.ids, LS_I32, O, J), VIEW(b.narrow_ids, LS_I32, O, J)};
    for (int f32 = 0; f32 < 2; f32++)
        run_kernel("topk", f32 ? LS_F32 : LS_F64, f32 ? isa : LS_ISA_REF, 1,
                   (ls_kernel_call){.n_in = 1, .n_out = 2, .in = {x[f32]}, .out = {y[f32], ids[f32]}});
    assert_same(b.narrow_y, b.y, O * J, what);
    for (int64_t i = 0; i < O * J; i++) assert_int_equal(b.narrow_ids[i], b.ids[i]);
}

static void test_equal_and_infinite_numbers(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 8, 15, 16, 17, 64, MOST}, columns[] = {1, 2, 16, MOST_COLUMNS};
    static const double rares[] = {8, 500, 1e9};
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        for (size_t s = 0; s < LS_COUNT(sizes); s++) {
            for (size_t r = 0; r < LS_COUNT(rares); r++) {
                char what[80];
                snprintf(what, sizeof what, "%s, %d, 1 of %g", ls_isa_name(isa), (int)sizes[s], rares[r]);
                make(b.x, b.narrow_x, ROOM, 10 * s + r, rares[r]);
                for (size_t c = 0; c < LS_COUNT(columns); c++) check_max(isa, sizes[s], columns[c], what);
                for (int64_t J = 1; J <= sizes[s]; J = 2 * J + 1) check_topk(isa, sizes[s], J, what);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_and_infinite_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
