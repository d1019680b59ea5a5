/*
 * The cpu kernels of every instruction set of this machine, for f32 and bf16, against the reference in f64 on the
 * same inputs (rounded to the type first). Outputs and workspaces start as NaN. Each call runs twice and must give
 * the same bits.
 */
#include "support/kernel_call.h"
#include "support/kernel_examples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Runs twice from the outputs' first contents and compares with their exact values, and with each other. */
static void run_example(const example *e, ls_dtype T, ls_isa isa, int threads, const array *in, const array *out) {
    array got[2][LS_KERNEL_OUTPUTS];
    for (int twice = 0; twice < 2; twice++) {
        for (int i = 0; i < e->n_out; i++) got[twice][i] = copy_array(&out[i]);
        run_kernel(e->name, T, isa, threads, make_call(e, in, got[twice], false));
    }
    for (int i = 0; i < e->n_out; i++) {
        const double error = norm_error(&got[0][i], out[i].exact);
        if (!(error <= tolerance(out[i].dtype)))
            fail_msg("%s %s %s, %d threads, output %d of %lld: error %g", e->name, ls_dtype_name(T), ls_isa_name(isa),
                     threads, i, (long long)out[i].n, error);
        if (memcmp(got[0][i].typed, got[1][i].typed, ls_dtype_bytes(out[i].dtype) * (size_t)out[i].n) != 0)
            fail_msg("%s %s %s, %d threads, output %d: other bits the second time", e->name, ls_dtype_name(T),
                     ls_isa_name(isa), threads, i);
        free_array(&got[0][i]);
        free_array(&got[1][i]);
    }
}

static void run_type(const example *e, ls_dtype T) {
    array in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
    for (int i = 0; i < e->n_in; i++) in[i] = make_array(&e->in[i], T, (uint64_t)i);
    for (int i = 0; i < e->n_out; i++) out[i] = make_array(&e->out[i], T, (uint64_t)(100 + i));
    run_kernel(e->name, LS_F64, LS_ISA_REF, 1, make_call(e, in, out, true));
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        for (int threads = 1; threads <= 3; threads++) run_example(e, T, isa, threads, in, out);
    }
    for (int i = 0; i < e->n_in; i++) free_array(&in[i]);
    for (int i = 0; i < e->n_out; i++) free_array(&out[i]);
}

static void run_f32(const example *e) { run_type(e, LS_F32); }

static void run_everywhere(const example *e) {
    run_f32(e);
    run_type(e, LS_BF16);
}

static void all_examples(void **unused) {
    (void)unused;
    for (int g = 0; g < n_example_groups; g++)
        example_groups[g].visit(example_groups[g].f32_only ? run_f32 : run_everywhere);
}

/* Elements from..from + n - 1 of the operands of a call of adamw, whose units have the groups given. */
static ls_kernel_call update_call(const array *arrays, int64_t from, int64_t n, int32_t *groups, double *control,
                                  double *settings, int64_t rows) {
    ls_kernel_call call = {.n_in = 4, .n_out = 4, .params = &example_adamw};
    ls_view view[5];
    for (int i = 0; i < 5; i++)
        view[i] = ls_view_dense((char *)arrays[i].typed + ls_dtype_bytes(arrays[i].dtype) * (size_t)from,
                                arrays[i].dtype, 1, &n);
    const int64_t controls = LS_CONTROLS, of_call = n / LS_FLAT_UNIT, table[] = {rows, 2};
    call.in[0] = view[0];
    call.in[1] = ls_view_dense(control, LS_F64, 1, &controls);
    call.in[2] = ls_view_dense(groups, LS_I32, 1, &of_call);
    call.in[3] = ls_view_dense(settings, LS_F64, 2, table);
    memcpy(call.out, &view[1], 4 * sizeof *view);
    return call;
}

/*
 * Where a parameter lies in a call, and what lies beside it, changes none of its bits; a unit without a group keeps its
 * own.
 */
static void one_update_of_many(ls_dtype T, ls_isa isa) {
    enum { UNITS = 700, N = UNITS * LS_FLAT_UNIT };
    static const contents of[] = {NORMAL, NORMAL, NORMAL, POSITIVE, NORMAL}; /* gradient, master, m, v, param */
    double control[LS_CONTROLS], settings[3][2];
    int32_t groups[UNITS], zeros[UNITS] = {0};
    array first[5], together[5], apart[5];
    for (int i = 0; i < LS_CONTROLS; i++) control[i] = value_of(&(operand){.contents = CONTROL}, 0, i);
    for (int i = 0; i < 6; i++) settings[i / 2][i % 2] = value_of(&(operand){.contents = SETTINGS}, 0, i);
    for (int i = 0; i < UNITS; i++) groups[i] = (int32_t)value_of(&(operand){.contents = GROUPS, .limit = 3}, 0, i);
    for (int i = 0; i < 5; i++) {
        first[i] = make_array(&(operand){i < 4 ? 'G' : 'T', of[i], 1, {N}, 0}, T, (uint64_t)i);
        together[i] = copy_array(&first[i]);
        apart[i] = copy_array(&first[i]);
    }
    run_kernel("adamw", T, isa, 3, update_call(together, 0, N, groups, control, settings[0], 3));
    for (int u = 0, end; u < UNITS; u = end) {
        for (end = u + 1; end < UNITS && groups[end] == groups[u];) end++;
        if (groups[u] < 0) continue;
        run_kernel(
            "adamw", T, isa, 1,
            update_call(apart, u * LS_FLAT_UNIT, (end - u) * LS_FLAT_UNIT, zeros, control, settings[groups[u]], 1));
    }
    for (int i = 0; i < 5; i++) {
        if (memcmp(together[i].typed, apart[i].typed, ls_dtype_bytes(apart[i].dtype) * N) != 0)
            fail_msg("adamw %s %s: operand %d differs from that of one call for each parameter", ls_dtype_name(T),
                     ls_isa_name(isa), i);
        free_array(&first[i]);
        free_array(&together[i]);
        free_array(&apart[i]);
    }
}

static void updates_of_many(void **unused) {
    (void)unused;
    ls_machine machine;
    ls_machine_detect(&machine);
    for (ls_isa isa = LS_ISA_REF; isa <= machine.isa; isa++) {
        one_update_of_many(LS_F32, isa);
        if (isa > LS_ISA_REF) one_update_of_many(LS_BF16, isa);
    }
}

/*
 * silu over its whole range, and beyond, in units in the last place: the exponential's 2, a quotient's 1 and two
 * roundings.
 */
static void sigmoids(void **unused) {
    (void)unused;
    enum { n = 40000 };
    float *x = malloc(sizeof(float) * n), *y = malloc(sizeof(float) * n);
    for (int i = 0; i < n; i++) x[i] = -86.0f + 186.0f * (float)i / n;
    static const ls_activation_params silu = {LS_ACTIVATION_SILU, 0};
    static const float ends[] = {-1000.0f, -88.0f, 88.0f, 1000.0f, INFINITY, NAN};
    const int64_t size = n;
    memcpy(x, ends, sizeof ends);
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        const ls_kernel_call call = {.n_in = 1,
                                     .n_out = 1,
                                     .params = &silu,
                                     .in = {ls_view_dense(x, LS_F32, 1, &size)},
                                     .out = {ls_view_dense(y, LS_F32, 1, &size)}};
        run_kernel("activation", LS_F32, isa, 1, call);
        double worst = 0;
        for (int i = LS_COUNT(ends); i < n; i++) {
            const double exact = (double)x[i] / (1 + exp(-(double)x[i]));
            int exponent;
            frexp(exact, &exponent);
            worst = fmax(worst, fabs((double)y[i] - exact) / ldexp(1, exponent - 24));
        }
        print_message("silu, %s: %.2f ulp\n", ls_isa_name(isa), worst);
        assert_true(worst <= 4);
        assert_true(fabsf(y[0]) < 1e-34f && fabsf(y[1]) < 1e-35f);
        assert_true(y[2] == 88.0f && y[3] == 1000.0f && y[4] == INFINITY && isnan(y[5]));
    }
    free(x);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_examples),
        cmocka_unit_test(updates_of_many),
        cmocka_unit_test(sigmoids),
    };
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
