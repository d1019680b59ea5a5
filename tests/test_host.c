/* A host's rates: what attention takes by the size of its heads, and the file that keeps them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plan/host_file.h"
#include "test_format_scratch.h"

static const ls_core_rates core = {
    .attention = 4e11, .attention_grad = 5e11, .pairs = 1e9, .pairs_grad = 2e9, .matmul = 9e11};

/* Seconds of a pair of a head of D: 4 D or 10 D flops, and its own. */
static void test_attention_rate(void **state) {
    (void)state;
    for (int D = 16; D <= 256; D *= 2) {
        assert_float_equal(4.0 * D / ls_attention_rate(&core, false, D) * 1e9, (4.0 * D / 4e11 + 1e-9) * 1e9,
                           1e-6);
        assert_float_equal(10.0 * D / ls_attention_rate(&core, true, D) * 1e9,
                           (10.0 * D / 5e11 + 0.5e-9) * 1e9, 1e-6);
    }
    const ls_core_rates two = ls_core_rates_of(&core, 2);
    for (int gradient = 0; gradient < 2; gradient++)
        assert_float_equal(ls_attention_rate(&two, gradient, 64) / ls_attention_rate(&core, gradient, 64), 2,
                           1e-6);
    const ls_host nominal = ls_host_nominal(LS_ISA_AVX512);
    const ls_core_rates *flat = &nominal.type[LS_F32];
    assert_true(ls_attention_rate(flat, false, 16) == flat->attention);
    assert_true(ls_attention_rate(flat, true, 256) == flat->attention_grad);
}

static void test_file(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    ls_host host = ls_host_nominal(LS_ISA_REF), found;
    assert_false(ls_host_load(LS_ISA_REF, &found));
    assert_memory_equal(&found, &host, sizeof host);
    for (int t = 0; t < 3; t++) host.type[(ls_dtype[]){LS_F32, LS_F64, LS_BF16}[t]] = core;
    host.overhead = 1e-7;
    assert_ok(ls_host_save(LS_ISA_REF, &host));
    assert_true(ls_host_load(LS_ISA_REF, &found));
    assert_memory_equal(&found, &host, sizeof host);
}

/* One of an older kind, or one that somebody wrote: nominal rates instead. */
static void test_wrong_file(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    char path[LS_HOST_PATH];
    assert_ok(ls_host_path(LS_ISA_REF, path));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"f32\": {\"attention\": 1e9, \"attention_grad\": 1e9, \"matmul\": 1e9}}", file);
    assert_int_equal(fclose(file), 0);
    ls_host found;
    const ls_host nominal = ls_host_nominal(LS_ISA_REF);
    assert_false(ls_host_load(LS_ISA_REF, &found));
    assert_memory_equal(&found, &nominal, sizeof nominal);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_rate),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_wrong_file),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
