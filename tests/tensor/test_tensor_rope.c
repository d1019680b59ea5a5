/*
 * Frequencies of rotary positions beside those of the Hugging Face library (transformers 5.24, torch 2.15): of each
 * kind of scaling for 10 rotated elements, theta 5000 and 97 tokens. They are equal bit for bit, except where torch's
 * power is not the nearest number: then they are neighbours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "tensor/tensor.h"

#include <math.h>

enum { D = 10, PAIRS = D / 2 };

#define COMMON .theta = 5000, .original_length = 16, .length = 97

static const struct {
    ls_rope_params rope;
    float of_library[PAIRS];
} rows[] = {
    {{COMMON, .scaling = LS_ROPE_PLAIN}, {1, 0.182056427F, 0.0331445374F, 0.00603417540F, 0.00109856052F}},
    {{COMMON, .scaling = LS_ROPE_LINEAR, .factor = 2.5},
     {0.400000006F, 0.0728225708F, 0.0132578146F, 0.00241367007F, 0.000439424213F}},
    {{COMMON, .scaling = LS_ROPE_LLAMA3, .factor = 4, .low_factor = 1, .high_factor = 4},
     {0.636619747F, 0.0455141068F, 0.00828613434F, 0.00150854385F, 0.00027464013F}},
    {{COMMON, .scaling = LS_ROPE_YARN, .factor = 4, .beta_fast = 4, .beta_slow = 0.5},
     {1, 0.0455141068F, 0.00828613434F, 0.00150854385F, 0.00027464013F}},
    {{.theta = 5000, .original_length = 64, .length = 97, .scaling = LS_ROPE_DYNAMIC, .factor = 3},
     {1, 0.144113302F, 0.0207686462F, 0.00299303769F, 0.000431336608F}},
    {{COMMON, .scaling = LS_ROPE_LONGROPE, .factor = 4, .long_factor = {1.2F, 1.9F, 2.6F, 3.3F, 4}},
     {0.833333313F, 0.0958191678F, 0.0127479006F, 0.0018285379F, 0.00027464013F}},
};

static void test_frequencies(void **state) {
    (void)state;
    for (size_t r = 0; r < LS_COUNT(rows); r++) {
        for (int64_t i = 0; i < PAIRS; i++) {
            const float found = ls_rope_frequency(&rows[r].rope, i, D), right = rows[r].of_library[i];
            if (!(found >= nextafterf(right, 0) && found <= nextafterf(right, 1e9F)))
                fail_msg("row %zu, pair %lld: %.9g, expected %.9g", r, (long long)i, (double)found, (double)right);
        }
    }
}

/* Of 128 elements and theta 500000, where a power that is rounded once is another number: 0.00261609931. */
static void test_rounded_as_the_library_does(void **state) {
    (void)state;
    assert_true(ls_rope_frequency(&(ls_rope_params){.theta = 500000}, 29, 128) == 0.0026160990819334984F);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_rounded_as_the_library_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
