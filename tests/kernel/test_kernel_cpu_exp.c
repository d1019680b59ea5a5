/*
 * The vector exp of src/kernel/cpu/vmath.h against libm in f64: at most 2 units in the last place over its range, and
 * its ends; erf and tanh at most 8 from 1e-4 on; bf16 rounding of the vectors against base/float16.h. For the vectors
 * that this file is compiled for; the wider ones are covered by the kernels that use them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "kernel/cpu/vmath.h"

static double ulps(float got, double exact) {
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)got - exact) / ldexp(1, exponent - 24);
}

/* Every 97th float from 0 to 88.37 and to -87. */
static void within_two_ulp(void **unused) {
    (void)unused;
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x42b10000u; bits += 97 * V_LANES) {
        v_f32 x;
        for (int i = 0; i < V_LANES; i++) {
            const uint32_t b = bits + 97 * (uint32_t)i;
            float value;
            memcpy(&value, &b, sizeof value);
            x[i] = value;
        }
        const v_f32 up = v_exp(x), down = v_exp(-x);
        for (int i = 0; i < V_LANES; i++) {
            if (x[i] <= 88.37f) worst = fmax(worst, ulps(up[i], exp((double)x[i])));
            if (x[i] <= 87.0f) worst = fmax(worst, ulps(down[i], exp(-(double)x[i])));
        }
    }
    if (worst > 2) fail_msg("worst error %g ulp", worst);
}

/* From 1e-4 to 20 and the other way, 50,000 steps of equal ratio. */
static double worst_of(v_f32 (*f)(v_f32), double (*exact)(double)) {
    double worst = 0;
    for (int i = 0; i < 50000; i++) {
        const float x = (float)(1e-4 * pow(2e5, i / 50000.0));
        const v_f32 up = f(v_set(x)), down = f(v_set(-x));
        worst = fmax(worst, ulps(up[0], exact((double)x)));
        worst = fmax(worst, ulps(down[V_LANES - 1], -exact((double)x)));
    }
    return worst;
}

static v_f32 vector_erf(v_f32 x) { return v_erf(x); }
static v_f32 vector_tanh(v_f32 x) { return v_tanh(x); }

static void erf_and_tanh(void **unused) {
    (void)unused;
    const double of_erf = worst_of(vector_erf, erf), of_tanh = worst_of(vector_tanh, tanh);
    print_message("erf %.2f ulp, tanh %.2f ulp\n", of_erf, of_tanh);
    assert_true(of_erf <= 8);
    assert_true(of_tanh <= 8);
    assert_true(v_erf(v_set(0.0f))[0] == 0.0f && v_tanh(v_set(0.0f))[0] == 0.0f);
    assert_true(v_tanh(v_set(INFINITY))[0] == 1.0f && v_tanh(v_set(-INFINITY))[0] == -1.0f);
    assert_true(isnan(v_erf(v_set(NAN))[0]) && isnan(v_tanh(v_set(NAN))[0]));
}

static void ends(void **unused) {
    (void)unused;
    assert_true(v_exp(v_set(0.0f))[0] == 1.0f);
    assert_true(v_exp(v_set(-87.5f))[0] == 0.0f);
    assert_true(v_exp(v_set(-1e30f))[0] == 0.0f);
    assert_true(v_exp(v_set(-INFINITY))[0] == 0.0f);
    assert_true(isinf(v_exp(v_set(89.0f))[0]));
    assert_true(isinf(v_exp(v_set(INFINITY))[0]));
    assert_true(isnan(v_exp(v_set(NAN))[0]));
}

/* All upper halves with lower halves around the ties. */
static void bf16_rounding(void **unused) {
    (void)unused;
    const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (uint32_t upper = 0; upper < 0x10000u; upper++) {
        for (size_t i = 0; i < sizeof lower / sizeof *lower; i++) {
            const uint32_t bits = upper << 16 | lower[i];
            float value;
            ls_bf16 got;
            memcpy(&value, &bits, sizeof value);
            v_store_bf16(&got, (v_f32)((v_u32){0} + bits), 1);
            if (got != ls_bf16_from_f32(value))
                fail_msg("%08x: %04x, expected %04x", bits, got, ls_bf16_from_f32(value));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(within_two_ulp), cmocka_unit_test(erf_and_tanh),
                                       cmocka_unit_test(ends), cmocka_unit_test(bf16_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
