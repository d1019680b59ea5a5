/* Random numbers against the published vectors of Random123 and their statistics; bf16 against every bit pattern. */
#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_philox(const uint32_t key[2], const uint32_t counter[4], const uint32_t expected[4]) {
    uint32_t out[4];
    ls_philox(key, counter, out);
    for (int i = 0; i < 4; i++) assert_int_equal(out[i], expected[i]);
}

static void test_philox_known_answers(void **state) {
    (void)state;
    const uint32_t ones = 0xffffffffu;
    check_philox((uint32_t[2]){0}, (uint32_t[4]){0}, (uint32_t[4]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check_philox((uint32_t[2]){ones, ones}, (uint32_t[4]){ones, ones, ones, ones},
                 (uint32_t[4]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check_philox((uint32_t[2]){0xa4093822, 0x299f31d0}, (uint32_t[4]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 (uint32_t[4]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static void test_draws_depend_on_every_key(void **state) {
    (void)state;
    const uint64_t draw = ls_rng_bits(1, 2, 3);
    assert_true(draw == ls_rng_bits(1, 2, 3));
    for (int bit = 0; bit < 64; bit++) {
        const uint64_t flip = (uint64_t)1 << bit;
        assert_true(draw != ls_rng_bits(1 ^ flip, 2, 3));
        assert_true(draw != ls_rng_bits(1, 2 ^ flip, 3));
        assert_true(draw != ls_rng_bits(1, 2, 3 ^ flip));
    }
}

/* Means and variances within five standard errors. */
static void test_moments(void **state) {
    (void)state;
    enum { N = 100000 };
    double u = 0, u2 = 0, z = 0, z2 = 0, z4 = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double uniform = ls_rng_uniform(7, 1, i), normal = ls_rng_normal(7, 2, i);
        assert_true(uniform >= 0 && uniform < 1 && isfinite(normal));
        u += uniform, u2 += uniform * uniform;
        z += normal, z2 += normal * normal, z4 += normal * normal * normal * normal;
    }
    const double error = 5 / sqrt(N);
    assert_true(fabs(u / N - 0.5) < error * sqrt(1.0 / 12));
    assert_true(fabs(u2 / N - 1.0 / 3) < error * sqrt(4.0 / 45));
    assert_true(fabs(z / N) < error);
    assert_true(fabs(z2 / N - 1) < error * sqrt(2));
    assert_true(fabs(z4 / N - 3) < error * sqrt(96));
}

static void test_below_is_even(void **state) {
    (void)state;
    enum { N = 60000, SIDES = 6 };
    int counts[SIDES] = {0};
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t value = ls_rng_below(3, 9, i, SIDES);
        assert_true(value < SIDES);
        counts[value]++;
    }
    const double expected = (double)N / SIDES;
    double chi2 = 0;
    for (int i = 0; i < SIDES; i++) chi2 += pow(counts[i] - expected, 2) / expected;
    assert_true(chi2 < 25); /* five degrees of freedom: 1.4e-4 */

    /* At three quarters of 2^64 a quarter of all draws is refused: without that, the lowest third would come twice
     * as often as the others. */
    const uint64_t n = (uint64_t)3 << 62;
    int low = 0;
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t value = ls_rng_below(3, 10, i, n);
        assert_true(value < n);
        low += value < n / 2;
    }
    assert_true(abs(low - N / 2) < 5 * sqrt(N) / 2);
    assert_true(ls_rng_below(1, 1, 1, 1) == 0);
}

static void test_stream_is_fnv1a(void **state) {
    (void)state;
    assert_true(ls_rng_stream("") == 0xcbf29ce484222325u);
    assert_true(ls_rng_stream("a") == 0xaf63dc4c8601ec8cu);
    assert_true(ls_rng_stream("foobar") == 0x85944171f73967e8u);
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void test_bf16_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h <= 0xffff; h++) {
        const float f = ls_bf16_to_f32((ls_bf16)h);
        const ls_bf16 back = ls_bf16_from_f32(f);
        if (isnan(f))
            assert_true(isnan(ls_bf16_to_f32(back)));
        else
            assert_int_equal(back, h);
    }
}

/* Between each finite value and the next: below the middle down, above it up, and on it to the even one. */
static void test_bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        const uint32_t low = h << 16;
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            assert_int_equal(ls_bf16_from_f32(float_of(low | 0x7fff | sign << 16)), h | sign);
            assert_int_equal(ls_bf16_from_f32(float_of(low | 0x8001 | sign << 16)), (h + 1) | sign);
            assert_int_equal(ls_bf16_from_f32(float_of(low | 0x8000 | sign << 16)), (h + (h & 1)) | sign);
        }
    }
    assert_int_equal(ls_bf16_from_f32(float_of(0x7f7fffff)), 0x7f80); /* the largest float goes to infinity */
    for (uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + 1) {
        assert_true(isnan(ls_bf16_to_f32(ls_bf16_from_f32(float_of(0x7f800000 | payload)))));
        assert_true(isnan(ls_bf16_to_f32(ls_bf16_from_f32(float_of(0xff800000 | payload)))));
    }
    assert_true(isnan(ls_bf16_to_f32(ls_bf16_from_f32(float_of(0x7f800001))))); /* payload only in the lost bits */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_draws_depend_on_every_key),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_below_is_even),
        cmocka_unit_test(test_stream_is_fnv1a),
        cmocka_unit_test(test_bf16_round_trip),
        cmocka_unit_test(test_bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
