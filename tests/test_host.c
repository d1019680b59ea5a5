/* A host's rates: what attention takes by the size of its heads, and the file that keeps them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plan/host_file.h"
#include "plan/measure_impl.h"
#include "test_format_scratch.h"

static const ls_core_rates core = {.attention = {{2.5e-12, 1e-9, 3e-8, 1e-10}, {2e-12, 5e-10, 5e-8, 0}},
                                   .matmul = 9e11};

/* Seconds of a pair of a head of D: 4 D or 10 D flops, and its own. */
static void test_attention_rate(void **state) {
    (void)state;
    for (int D = 16; D <= 256; D *= 2) {
        assert_float_equal(4.0 * D / ls_attention_rate(&core, LS_FORWARD, D) * 1e9,
                           (4.0 * D * 2.5e-12 + 1e-9) * 1e9, 1e-6);
        assert_float_equal(10.0 * D / ls_attention_rate(&core, LS_BACKWARD, D) * 1e9,
                           (10.0 * D * 2e-12 + 0.5e-9) * 1e9, 1e-6);
    }
    const ls_core_rates two = ls_core_rates_of(&core, 2);
    for (int pass = 0; pass < LS_PASSES; pass++)
        assert_float_equal(ls_attention_rate(&two, pass, 64) / ls_attention_rate(&core, pass, 64), 2, 1e-6);
    const ls_host nominal = ls_host_nominal(LS_ISA_AVX512);
    for (int pass = 0; pass < LS_PASSES; pass++)
        assert_float_equal(ls_attention_rate(&nominal.type[LS_F32], pass, 16), 1.4e11, 1);
}

/* A call of n queries, Hq heads of D, half of which see all of t keys: the sum of what it has of each. */
static void test_attention_seconds(void **state) {
    (void)state;
    enum { N = 40, T = 70, HQ = 6, HKV = 3, D = 32 };
    const int64_t q[] = {1, N, HQ, D}, kv[] = {1, T, HKV, D};
    static const ls_kernel kernel = {.name = "attention"}, other = {.name = "copy"};
    const double flops = 4.0 * D * N * T * HQ / 2, bytes = 2.0 * (N * HQ * D + 2 * T * HKV * D);
    ls_operand in[] = {ls_operand_dense(0, 0, LS_BF16, 4, q), ls_operand_dense(0, 0, LS_BF16, 4, kv),
                       ls_operand_dense(0, 0, LS_BF16, 4, kv)};
    const ls_instr instr = {.kind = LS_INSTR_KERNEL,
                            .kernel = &kernel,
                            .flops = flops,
                            .rows = N * HQ / 2,
                            .n_in = LS_COUNT(in),
                            .in = in};
    const ls_rates rates = {.core = core, .memory = 1e10, .overhead = 1e-6};
    const double expected =
        1e-6 + flops * 2.5e-12 + N * T * HQ / 2 * 1e-9 + (N * HQ * 3e-8 + bytes * 1e-10) / 2;
    assert_float_equal(ls_kernel_seconds(&instr, &rates) / expected, 1, 1e-9);
    const int64_t none[] = {1, N, 0, D}; /* a rank without heads */
    ls_instr idle = instr;
    idle.flops = idle.rows = 0;
    in[0] = ls_operand_dense(0, 0, LS_BF16, 4, none);
    assert_float_equal(ls_kernel_seconds(&idle, &rates) * 1e6, 1, 1e-9);
    in[0] = ls_operand_dense(0, 0, LS_BF16, 4, q);
    ls_instr copy = instr;
    copy.kernel = &other;
    copy.flops = 0;
    assert_float_equal(ls_kernel_seconds(&copy, &rates) / (1e-6 + bytes / 1e10), 1, 1e-9);
}

/* What is measured is a cost that a machine can have. */
static void test_measured(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    ls_attention_cost cost[LS_PASSES];
    assert_ok(ls_measure_attention(arena, LS_F32, LS_ISA_BASE, 512, cost));
    for (int pass = 0; pass < LS_PASSES; pass++) {
        assert_true(cost[pass].flop > 1e-14 && cost[pass].flop < 1e-7);
        assert_true(cost[pass].pair >= 0 && cost[pass].pair < 1e-4);
        assert_true(cost[pass].row >= 0 && cost[pass].row < 1e-2);
        assert_true(cost[pass].byte >= 0 && cost[pass].byte < 1e-5);
    }
    ls_arena_destroy(arena);
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
        cmocka_unit_test(test_attention_rate), cmocka_unit_test(test_attention_seconds),
        cmocka_unit_test(test_measured),       cmocka_unit_test(test_file),
        cmocka_unit_test(test_wrong_file),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
