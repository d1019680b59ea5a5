/*
 * Which implementation of a kernel is chosen: the rule on made-up kernels, and what each instruction set gets of those
 * that are registered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel_impl.h"
#include "support/kernel_call.h"

/* --- the rule ----------------------------------------------------------------------------------------------------- */

static bool one_output(const ls_kernel_call *call) { return call->n_out == 1; }

#define MADE_UP(features) \
    { .id = LS_KERNEL_ADD, .dtype = LS_F32, .device = LS_DEVICE_CPU, .needs = (features) }

static const ls_kernel plain = MADE_UP(0), base = MADE_UP(LS_FEATURE_BASELINE),
                       avx2 = MADE_UP(LS_FEATURE_BASELINE | LS_FEATURE_AVX2),
                       avx2_again = MADE_UP(LS_FEATURE_BASELINE | LS_FEATURE_AVX2),
                       other_type = {.id = LS_KERNEL_ADD, .dtype = LS_F64, .needs = LS_FEATURE_BASELINE},
                       other_contract = {.id = LS_KERNEL_MUL, .needs = LS_FEATURE_BASELINE},
                       choosy = {.id = LS_KERNEL_ADD,
                                 .needs = LS_FEATURE_BASELINE | LS_FEATURE_AVX2 | LS_FEATURE_AVX512,
                                 .supports = one_output};

static const ls_kernel *choose(ls_isa isa, const ls_kernel_call *call, const ls_kernel *const *list) {
    const ls_kernel_request request = {.id = LS_KERNEL_ADD, .dtype = LS_F32, .isa = isa, .call = call};
    return ls_kernel_choose(&list, 1, &request);
}

/*
 * What includes the features of another is preferred, wherever they stand; what needs more than is allowed does not
 * fit.
 */
static void test_features(void **state) {
    (void)state;
    const ls_kernel *const rising[] = {&plain, &base, &avx2, NULL}, *const falling[] = {&avx2, &base, &plain, NULL};
    for (int turn = 0; turn < 2; turn++) {
        const ls_kernel *const *list = turn == 0 ? rising : falling;
        assert_ptr_equal(choose(LS_ISA_REF, NULL, list), &plain);
        assert_ptr_equal(choose(LS_ISA_BASE, NULL, list), &base);
        assert_ptr_equal(choose(LS_ISA_AVX2, NULL, list), &avx2);
        assert_ptr_equal(choose(LS_ISA_AMX, NULL, list), &avx2);
    }
    assert_null(choose(LS_ISA_REF, NULL, (const ls_kernel *const[]){&base, &avx2, NULL}));
    assert_null(choose(LS_ISA_AMX, NULL, (const ls_kernel *const[]){NULL}));
}

static void test_the_last_of_equals(void **state) {
    (void)state;
    assert_ptr_equal(choose(LS_ISA_AVX2, NULL, (const ls_kernel *const[]){&avx2, &avx2_again, &base, NULL}),
                     &avx2_again);
    assert_ptr_equal(choose(LS_ISA_AVX2, NULL, (const ls_kernel *const[]){&avx2_again, &avx2, &base, NULL}), &avx2);
}

static void test_type_and_contract(void **state) {
    (void)state;
    assert_ptr_equal(choose(LS_ISA_BASE, NULL, (const ls_kernel *const[]){&plain, &other_type, &other_contract, NULL}),
                     &plain);
}

/* A kernel that does not support the call leaves it to the next. */
static void test_support(void **state) {
    (void)state;
    const ls_kernel *const list[] = {&base, &choosy, NULL};
    assert_ptr_equal(choose(LS_ISA_AVX512, NULL, list), &choosy);
    assert_ptr_equal(choose(LS_ISA_AVX512, &(ls_kernel_call){.n_out = 1}, list), &choosy);
    assert_ptr_equal(choose(LS_ISA_AVX512, &(ls_kernel_call){.n_out = 2}, list), &base);
    assert_null(choose(LS_ISA_AVX512, &(ls_kernel_call){.n_out = 2}, list + 1));
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static const ls_kernel library = {.id = LS_KERNEL_ADD, .row = "library", .supports = one_output},
                       other_library = {.id = LS_KERNEL_ADD, .row = "other", .refuses = true};
static const ls_kernel *const with_libraries[] = {&plain, &base, &library, &other_library, NULL};

static void expect_order(const ls_kernel_call *call, const ls_kernel_choices *choices, const ls_kernel *const *expected,
                         int n) {
    const ls_kernel *const *const list = with_libraries, *rows[LS_KERNEL_ROWS];
    const ls_kernel_request request = {
        .id = LS_KERNEL_ADD, .dtype = LS_F32, .isa = LS_ISA_REF, .call = call, .choices = choices};
    assert_int_equal(ls_kernel_rank(&list, 1, &request, LS_KERNEL_ROWS, rows), n);
    for (int i = 0; i < n; i++) assert_ptr_equal(rows[i], expected[i]);
}

/* The best of each name; a choice of a contract and type comes first where it fits. */
static void test_rows(void **state) {
    (void)state;
    const ls_kernel_call one = {.n_out = 1}, two = {.n_out = 2};
    ls_kernel_choices choices = {.n = 2, .of = {{LS_KERNEL_ADD, LS_F64, "own"}, {LS_KERNEL_MUL, LS_F32, "own"}}};
    expect_order(&one, NULL, (const ls_kernel *const[]){&other_library, &library, &plain}, 3);
    expect_order(&two, NULL, (const ls_kernel *const[]){&other_library, &plain}, 2);
    expect_order(&one, &choices, (const ls_kernel *const[]){&other_library, &library, &plain}, 3);
    choices.of[choices.n++] = (ls_kernel_choice){LS_KERNEL_ADD, LS_F32, "library"};
    expect_order(&one, &choices, (const ls_kernel *const[]){&library, &other_library, &plain}, 3);
    expect_order(&two, &choices, (const ls_kernel *const[]){&other_library, &plain}, 2);
    snprintf(choices.of[2].row, sizeof choices.of[2].row, "own");
    expect_order(&one, &choices, (const ls_kernel *const[]){&plain, &other_library, &library}, 3);
}

/* Of the registered kernels, where the host has one row for each contract and type. */
static void test_next_row(void **state) {
    (void)state;
    const ls_kernel *own;
    const ls_kernel_request request = {.id = LS_KERNEL_ADD, .dtype = LS_F32, .isa = LS_ISA_REF};
    assert_int_equal(ls_kernel_find(&request, &own).code, LS_OK);
    assert_ptr_equal(ls_kernel_next(&request, &library), own);
    assert_null(ls_kernel_next(&request, own));
}

static void expect_choices(const char *text, const char *as) {
    ls_kernel_choices choices;
    char again[LS_KERNEL_CHOICES_ROOM];
    const ls_status status = ls_kernel_choices_parse(text, LS_DEVICE_CPU, LS_ISA_REF, &choices);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    ls_kernel_choices_text(&choices, again);
    assert_string_equal(again, as);
}

static void expect_no_choices(const char *text, const char *says) {
    ls_kernel_choices choices;
    const ls_status status = ls_kernel_choices_parse(text, LS_DEVICE_CPU, LS_ISA_REF, &choices);
    assert_int_equal(status.code, LS_USAGE);
    if (strstr(status.text, says) == NULL) fail_msg("'%s' does not say '%s'", status.text, says);
}

static void test_choices_as_text(void **state) {
    (void)state;
    expect_choices("table", "table");
    expect_choices("", "table");
    expect_choices("  attention/f32=own  matmul/f64=own ", "attention/f32=own matmul/f64=own");
    expect_no_choices("attention=own", "'attention=own' is no choice; expected a text like attention/bf16=own");
    expect_no_choices("add/f32=own attend/f32=own", "'attend/f32=own'");
    expect_no_choices("add/f31=own", "'add/f31=own'");
    expect_no_choices("add/f32=own!", "'add/f32=own!'");
    expect_no_choices("matmul/f32=cudnn", "no row 'cudnn' of matmul for f32; expected one of: own");
    expect_no_choices("add/f32=own add/f32=own add/f32=own add/f32=own add/f32=own add/f32=own add/f32=own",
                      "more than 6 choices");
}

/* --- the registered kernels --------------------------------------------------------------------------------------- */

enum { MOST_KERNELS = 1024, MOST_ALIKE = 60 };

/* All registered kernels as one table. */
static const ls_kernel *const *registered(void) {
    static const ls_kernel *all[MOST_KERNELS + 1];
    int n = 0;
    while (n < MOST_KERNELS && (all[n] = ls_kernel_at(n)) != NULL) n++;
    assert_true(n < MOST_KERNELS);
    return all;
}

/*
 * What each instruction set gets, in the order of ls_isas: r a kernel of ref, b of base, 2 of avx2, 5 of avx512, f of
 * avx512bf16, a of amx,
 * - none, as of types that are not there. By element type in the order of ls_dtype; then the contracts for which that
 * is so.
 */
static const struct {
    const char *by_type[LS_DTYPES];
    ls_kernel_id id[MOST_ALIKE];
} chosen[] = {
    {{"rb25ff", "rrrrrr", "-b25ff", "------"},
     {LS_KERNEL_EMBEDDING,
      LS_KERNEL_EMBEDDING_GRAD,
      LS_KERNEL_SCALE_ROWS,
      LS_KERNEL_COLUMN_SUM,
      LS_KERNEL_ADD_ROWS,
      LS_KERNEL_RMSNORM,
      LS_KERNEL_RMSNORM_GRAD,
      LS_KERNEL_GATED_NORM,
      LS_KERNEL_GATED_NORM_GRAD,
      LS_KERNEL_LAYERNORM,
      LS_KERNEL_LAYERNORM_GRAD,
      LS_KERNEL_ROTATE,
      LS_KERNEL_SWIGLU,
      LS_KERNEL_SWIGLU_GRAD,
      LS_KERNEL_ACTIVATION,
      LS_KERNEL_ACTIVATION_GRAD,
      LS_KERNEL_CONV,
      LS_KERNEL_CONV_SILU_GRAD,
      LS_KERNEL_CONV_DW,
      LS_KERNEL_RECURRENCE,
      LS_KERNEL_RECURRENCE_MAP,
      LS_KERNEL_RECURRENCE_FOLLOW,
      LS_KERNEL_LINEAR_RECURRENCE,
      LS_KERNEL_LINEAR_RECURRENCE_GRAD,
      LS_KERNEL_LINEAR_RECURRENCE_MAP,
      LS_KERNEL_LINEAR_RECURRENCE_BACK,
      LS_KERNEL_LINEAR_RECURRENCE_FOLLOW,
      LS_KERNEL_RNN,
      LS_KERNEL_RNN_GRAD,
      LS_KERNEL_ADD,
      LS_KERNEL_MUL,
      LS_KERNEL_SCALE,
      LS_KERNEL_SCALE_BY,
      LS_KERNEL_CROSS_ENTROPY,
      LS_KERNEL_CROSS_ENTROPY_GRAD,
      LS_KERNEL_ATTENTION_SINK,
      LS_KERNEL_ATTENTION_SINK_GRAD,
      LS_KERNEL_ATTENTION_MERGE,
      LS_KERNEL_ATTENTION_DELTA,
      LS_KERNEL_ACCUMULATE,
      LS_KERNEL_SUM_SQUARES,
      LS_KERNEL_ADAMW,
      LS_KERNEL_SGD,
      LS_KERNEL_LION,
      LS_KERNEL_MOMENTUM,
      LS_KERNEL_DESCEND,
      LS_KERNEL_NORMALIZE,
      LS_KERNEL_COMBINE,
      LS_KERNEL_MAP,
      LS_KERNEL_REDUCE,
      LS_KERNEL_REDUCE_MAX,
      LS_KERNEL_REDUCE_MAX_GRAD,
      LS_KERNEL_SOFTMAX,
      LS_KERNEL_SOFTMAX_GRAD,
      LS_KERNEL_TAKE_ALONG,
      LS_KERNEL_TAKE_ALONG_GRAD,
      LS_KERNEL_TOPK,
      LS_KERNEL_CONTRACT,
      LS_KERNEL_NOISE}},
    {{"rb25ff", "rrrrrr", "-b25ff", "------"}, {LS_KERNEL_DECODE}},
    {{"rb25ff", "rrrrrr", "-b25fa", "------"},
     {LS_KERNEL_MATMUL, LS_KERNEL_MATMUL_BLOCKS, LS_KERNEL_ATTENTION, LS_KERNEL_ATTENTION_GRAD}},
    {{"rb25ff", "rrrrrr", "rb25ff", "------"}, {LS_KERNEL_CAST, LS_KERNEL_SUM}},
    {{"rb25ff", "rrrrrr", "rb25ff", "rrrrrr", "rrrrrr", "rrrrrr", "rrrrrr", "rrrrrr"}, {LS_KERNEL_COPY}},
    {{"rb25ff", "rrrrrr", "rb25ff", "rrrrrr"}, {LS_KERNEL_FILL}},
    {{"rrrrrr", "rrrrrr", "rrrrrr", "------"},
     {LS_KERNEL_ROPE_TABLE, LS_KERNEL_CACHE_WRITE, LS_KERNEL_STEP_CONTROL, LS_KERNEL_LOCAL_IDS,
      LS_KERNEL_CROSS_ENTROPY_MERGE, LS_KERNEL_DEAL_ROWS, LS_KERNEL_COLLECT_ROWS}},
    {{"rrrrrr", "rrrrrr", "rrrrrr", "rrrrrr", "rrrrrr", "rrrrrr", "rrrrrr", "rrrrrr"},
     {LS_KERNEL_OFFLOAD, LS_KERNEL_FETCH}},
    {{"rrrrrr", "rrrrrr", "------", "------"},
     {LS_KERNEL_EXACT_SUM, LS_KERNEL_EXACT_VALUE, LS_KERNEL_ATTENTION_PRODUCTS, LS_KERNEL_ATTENTION_SOFTMAX,
      LS_KERNEL_ATTENTION_SOFTMAX_GRAD, LS_KERNEL_ATTENTION_WEIGHTED, LS_KERNEL_ATTENTION_WEIGHTED_BACK}},
};

static const char letters[LS_ISA_COUNT + 1] = "rb25fa";

/* The letter that is expected here: a build for another architecture has no kernels above base. */
static char expected_here(char letter) {
#ifndef __x86_64__
    if (letter != 'r' && letter != '-') return 'b';
#endif
    return letter;
}

static void check_choice(ls_kernel_id id, ls_dtype dtype, ls_isa isa, char expected) {
    const ls_kernel *const *all = registered();
    const ls_kernel_request request = {.id = id, .dtype = dtype, .isa = isa};
    const ls_kernel *kernel = ls_kernel_choose(&all, 1, &request), *found = NULL;
    const char is = kernel == NULL ? '-' : letters[ls_isa_within(kernel->needs)];
    if (is != expected)
        fail_msg("%s for %s on %s: %c is chosen, expected %c", ls_contracts[id].name, ls_dtype_name(dtype),
                 ls_isa_name(isa), is, expected);
    const ls_status allowed = ls_isa_check(isa), status = ls_kernel_find(&request, &found);
    assert_int_equal(status.code, allowed.code != LS_OK ? LS_USAGE : kernel == NULL ? LS_UNSUPPORTED : LS_OK);
    if (status.code == LS_OK) assert_ptr_equal(found, kernel);
}

/* Also for instruction sets that this machine lacks: their kernels are chosen here and not run. */
static void test_every_choice(void **state) {
    (void)state;
    int contracts = 0;
    for (size_t g = 0; g < LS_COUNT(chosen); g++) {
        for (int i = 0; i < MOST_ALIKE && chosen[g].id[i] != LS_KERNEL_NONE; i++, contracts++) {
            for (int t = 0; t < LS_DTYPES; t++) {
                for (int isa = 0; isa < LS_ISA_COUNT; isa++)
                    check_choice(chosen[g].id[i], (ls_dtype)t, (ls_isa)isa,
                                 expected_here(chosen[g].by_type[t] != NULL ? chosen[g].by_type[t][isa] : '-'));
            }
        }
    }
    assert_int_equal(contracts, LS_KERNEL_IDS - 1);
}

static void test_registered_kernels(void **state) {
    (void)state;
    for (const ls_kernel *const *row = registered(); *row != NULL; row++) {
        assert_non_null((*row)->run);
        assert_int_equal((*row)->device, LS_DEVICE_CPU);
        /* A name that users can ask for. */
        assert_int_equal((*row)->needs, ls_isas[ls_isa_within((*row)->needs)].features);
    }
    assert_null(ls_kernel_at(MOST_KERNELS));
    const ls_kernel *kernel = NULL;
    ls_status status = find_kernel("matmul", LS_I32, LS_ISA_BASE, NULL, &kernel);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_string_equal(status.text, "no kernel matmul for i32 on isa base");
    assert_null(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_the_last_of_equals),
        cmocka_unit_test(test_type_and_contract),
        cmocka_unit_test(test_support),
        cmocka_unit_test(test_every_choice),
        cmocka_unit_test(test_registered_kernels),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_next_row),
        cmocka_unit_test(test_choices_as_text),
    };
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
