/*
 * attention and attention_grad of src/kernel/cuda, compiled for this host (tests/cuda), against a plain f64 computation
 * (support/attention_oracle.h).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel/cuda/table.h"
#include "support/attention_check.h"

extern const ls_kernel ls_cuda_f32_attention, ls_cuda_f32_attention_grad, ls_cuda_bf16_attention,
    ls_cuda_bf16_attention_sm90, ls_cuda_bf16_attention_grad, ls_cuda_bf16_attention_grad_sm90,
    ls_cuda_bf16_attention_plain, ls_cuda_bf16_attention_grad_plain;

/* Tensor cores take rows at multiples of 16 bytes. */
enum { TILED_GAP = 8 };
/* The largest head of the kernel on warp groups; the one before it in the table takes larger ones. */
enum { WARP_GROUPS_D = 128 };

static const attention_variant variants[] = {
    {&ls_cuda_f32_attention, &ls_cuda_f32_attention_grad, "cuda", 3},
    {&ls_cuda_bf16_attention_plain, &ls_cuda_bf16_attention_grad_plain, "cuda, plain", 3},
    {&ls_cuda_bf16_attention, &ls_cuda_bf16_attention_grad, "cuda", TILED_GAP},
    {&ls_cuda_bf16_attention_sm90, &ls_cuda_bf16_attention_grad_sm90, "cuda, warp groups", TILED_GAP},
};

/* Tiles that are ragged, left out, whole, and seen in part; merges; heads on one; ends of the head sizes. */
static const test_case cases[] = {
    {.B = 1, .D = 64, .Hq = 4, .Hkv = 2, .group = 2, .S = 150, .P = 1, .mask = "causal"},
    {.B = 2,
     .D = 16,
     .Hq = 3,
     .Hkv = 1,
     .group = 3,
     .S = 141,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_ZIGZAG,
     .mask = "causal"},
    {.B = 1,
     .D = 128,
     .Hq = 1,
     .Hkv = 1,
     .group = 1,
     .S = 200,
     .P = 3,
     .rank = 2,
     .layout = LS_LAYOUT_STRIPED,
     .mask = "causal"},
    {.B = 1, .D = 40, .Hq = 2, .Hkv = 1, .group = 2, .S = 180, .P = 1, .mask = "window:50:7"},
    {.B = 1, .D = 80, .Hq = 1, .Hkv = 1, .group = 1, .S = 210, .P = 1, .mask = "window:60:5+documents"},
    {.B = 1, .D = 256, .Hq = 1, .Hkv = 1, .group = 1, .S = 131, .P = 1, .mask = "full"},
    {.B = 1, .D = 8, .Hq = 3, .Hkv = 2, .group = 3, .first_q = 2, .S = 97, .P = 1, .mask = "causal"},
    {.B = 1, .D = 24, .Hq = 2, .Hkv = 1, .group = 4, .first_q = 6, .first_kv = 1, .S = 70, .P = 1, .mask = "prefix:30"},
    {.B = 1, .D = 64, .Hq = 1, .Hkv = 1, .group = 1, .S = 1, .P = 1, .mask = "causal"},
    {.B = 1, .D = 32, .Hq = 1, .Hkv = 1, .group = 1, .S = 90, .P = 2, .mask = "full", .scale = -0.3},
    {.B = 1, .D = 64, .Hq = 1, .Hkv = 1, .group = 1, .S = 150, .P = 1, .mask = "window:70", .softcap = 1.5},
    /* Values of other sizes than keys: in tiles of one width, and of the wider one's. */
    {.B = 1, .D = 24, .E = 16, .Hq = 2, .Hkv = 1, .group = 2, .S = 70, .P = 1, .mask = "causal"},
    {.B = 1, .D = 64, .E = 128, .Hq = 1, .Hkv = 1, .group = 1, .S = 90, .P = 2, .rank = 1, .mask = "causal"},
    {.B = 1, .D = 192, .E = 128, .Hq = 1, .Hkv = 1, .group = 1, .S = 67, .P = 1, .mask = "causal"},
    {.B = 1, .D = 128, .E = 8, .Hq = 1, .Hkv = 1, .group = 1, .S = 140, .P = 1, .mask = "window:50:7", .softcap = 2},
};

static void test_against_f64(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        for (size_t v = 0; v < LS_COUNT(variants); v++) {
            test_case c = cases[i];
            c.threads = 1;
            if ((c.D > WARP_GROUPS_D || c.E > WARP_GROUPS_D) && variants[v].forward == &ls_cuda_bf16_attention_sm90)
                continue;
            if (variants[v].gap != TILED_GAP) c.S = c.S / 2 + 1; /* without tiles, more tokens show nothing new */
            problem p = problem_make(&c, variants[v].forward->dtype);
            check_attention(&p, &variants[v]);
            problem_free(&p);
        }
    }
}

/* Tiles are looked for 32 at a time: more of them, of queries (of two heads) and of keys. */
static void test_many_tiles(void **state) {
    (void)state;
    static const test_case many[] = {
        {.B = 1, .D = 8, .Hq = 2, .Hkv = 1, .group = 2, .S = 2150, .P = 1, .threads = 1, .mask = "window:40"},
        {.B = 1,
         .D = 8,
         .Hq = 1,
         .Hkv = 1,
         .group = 1,
         .S = 4300,
         .P = 1,
         .threads = 1,
         .mask = "causal",
         .queries = 70},
    };
    const attention_variant variant = {&ls_cuda_bf16_attention_sm90, &ls_cuda_bf16_attention_grad_sm90,
                                       "cuda, warp groups", TILED_GAP};
    for (size_t i = 0; i < LS_COUNT(many); i++) {
        problem p = problem_make(&many[i], LS_BF16);
        check_attention(&p, &variant);
        problem_free(&p);
    }
}

/* Of no keys o is 0 and lse -inf; of no queries the gradients of keys are 0. */
static void test_empty(void **state) {
    (void)state;
    for (size_t v = 0; v < LS_COUNT(variants); v++) check_empty_attention(&variants[v]);
}

/*
 * A query whose logits of EQUAL_KEYS keys are the same: each weighs the same, however large the logit and in whichever
 * tile the key lies, but for the rounding of weights to bf16. Values are 1 for the first 128 keys, and 0.
 */
enum { EQUAL_KEYS = 1024, EQUAL_D = 64, EQUAL_ONES = 128 };
static void check_equal_logits(const attention_variant *v, float element, double scale) {
    const ls_dtype dtype = v->forward->dtype;
    const double logit = EQUAL_D * scale * (double)element * (double)element;
    const ls_attention_params params = {.scale = scale, .group = 1};
    const ls_view q = dense_view(dtype, 1, 1, 1, EQUAL_D), k = dense_view(dtype, 1, EQUAL_KEYS, 1, EQUAL_D),
                  values = dense_view(dtype, 1, EQUAL_KEYS, 1, EQUAL_D), o = dense_view(LS_F32, 1, 1, 1, EQUAL_D),
                  lse = dense_view(LS_F32, 1, 1, 1, 0);
    int32_t positions[EQUAL_KEYS], span[2] = {0, EQUAL_KEYS};
    for (int i = 0; i < EQUAL_KEYS; i++) positions[i] = i;
    for (int i = 0; i < EQUAL_D; i++) put_float(&q, i, element);
    for (int i = 0; i < EQUAL_KEYS * EQUAL_D; i++) {
        put_float(&k, i, element);
        put_float(&values, i, i < EQUAL_ONES * EQUAL_D);
    }
    const ls_kernel_call call = {
        .n_in = 5,
        .in = {q, k, values, VIEW(span, LS_I32, 1, 1, 2), VIEW(positions, LS_I32, EQUAL_KEYS)},
        .n_out = 2,
        .out = {o, lse},
        .params = &params,
    };
    call_kernel_on(v->forward, 1, call);
    const float *result = o.data, *sum = lse.data;
    const double share = (double)EQUAL_ONES / EQUAL_KEYS, expected = logit + log(EQUAL_KEYS);
    for (int i = 0; i < EQUAL_D; i++)
        if (!(fabs(result[i] - share) <= share / 256)) fail_msg("%s, logit %g: %.9g", v->name, logit, result[i]);
    if (!(fabs(*sum - expected) <= 1e-6 * expected)) fail_msg("%s, logit %g: lse %.9g", v->name, logit, *sum);
    const ls_view all[] = {q, k, values, o, lse};
    for (size_t i = 0; i < LS_COUNT(all); i++) free(all[i].data);
}

static void test_equal_logits(void **state) {
    (void)state;
    for (size_t v = 0; v < LS_COUNT(variants); v++) {
        check_equal_logits(&variants[v], 1.5F, 0.03);
        check_equal_logits(&variants[v], 129, 1.1);    /* 1.2e6: neighbours in f32 are 0.125 apart */
        check_equal_logits(&variants[v], 16512, 0.85); /* 1.5e10: 1,024; unit x is cut by 515 */
    }
}

static ls_view heads(ls_dtype dtype, int64_t D) { return VIEW(NULL, dtype, 1, 256, 2, D); }

/* What a kernel of each contract says of a call with heads of D elements. */
static void prepare_both(const ls_kernel *forward_row, const ls_kernel *backward_row, int64_t D, ls_status *forward,
                         ls_status *backward) {
    const ls_attention_params params = {.scale = 1, .group = 1};
    const ls_view q = heads(LS_BF16, D), o = heads(LS_F32, D), rows = VIEW(NULL, LS_F32, 1, 2, 256),
                  spans = VIEW(NULL, LS_I32, 1, 256, 2), positions = VIEW(NULL, LS_I32, 256);
    const ls_kernel_call attend = {.n_in = 5,
                                   .in = {q, q, q, spans, positions},
                                   .n_out = 2,
                                   .out = {o, rows},
                                   .params = &params},
                         grad = {.n_in = 8,
                                 .in = {q, q, q, spans, positions, q, rows, rows},
                                 .n_out = 3,
                                 .out = {o, o, o},
                                 .params = &params};
    void *state;
    *forward = forward_row->prepare(&attend, &state);
    *backward = backward_row->prepare(&grad, &state);
    assert_true(ls_cuda_bf16_attention_plain.prepare(&attend, &state).code == LS_OK &&
                ls_cuda_bf16_attention_grad_plain.prepare(&grad, &state).code == LS_OK);
}

/* An A100 has less shared memory than an H100: heads of more than 128 elements are the plain kernels' there. */
static void test_what_a_device_lacks_is_refused(void **state) {
    (void)state;
    ls_status forward, backward;
    assert_true(ls_cuda_bf16_attention.refuses && ls_cuda_bf16_attention_grad.refuses);
    for (int64_t D = 64; D <= 256; D *= 2) {
        prepare_both(&ls_cuda_bf16_attention, &ls_cuda_bf16_attention_grad, D, &forward, &backward);
        assert_true(forward.code == LS_OK && backward.code == LS_OK);
        setenv("EMULATED_SHARED", "166912", 1);
        prepare_both(&ls_cuda_bf16_attention, &ls_cuda_bf16_attention_grad, D, &forward, &backward);
        unsetenv("EMULATED_SHARED");
        assert_int_equal(forward.code, D <= 128 ? LS_OK : LS_UNSUPPORTED);
        assert_int_equal(backward.code, D <= 128 ? LS_OK : LS_UNSUPPORTED);
    }
    assert_non_null(strstr(forward.text, "bytes of shared memory; the device has 166912"));
    assert_true(ls_cuda_bf16_attention_grad_sm90.refuses);
    for (int major = 8; major <= 10; major++) {
        char text[12];
        snprintf(text, sizeof text, "%d", major);
        setenv("EMULATED_CAPABILITY", text, 1);
        prepare_both(&ls_cuda_bf16_attention, &ls_cuda_bf16_attention_grad_sm90, 128, &forward, &backward);
        unsetenv("EMULATED_CAPABILITY");
        assert_int_equal(backward.code, major == 9 ? LS_OK : LS_UNSUPPORTED);
    }
    assert_non_null(strstr(backward.text, "compute capability 10; expected 9"));
}

static ls_status prepare_groups(int64_t D, bool *supported) {
    const ls_attention_params params = {.scale = 1, .group = 1};
    const ls_view q = heads(LS_BF16, D);
    const ls_kernel_call call = {
        .n_in = 5,
        .in = {q, q, q, VIEW(NULL, LS_I32, 1, 256, 2), VIEW(NULL, LS_I32, 256)},
        .n_out = 2,
        .out = {heads(LS_F32, D), VIEW(NULL, LS_F32, 1, 2, 256)},
        .params = &params,
    };
    void *state;
    *supported = ls_cuda_bf16_attention_sm90.supports(&call);
    return ls_cuda_bf16_attention_sm90.prepare(&call, &state);
}

/* Products of warp groups are those of compute capability 9 alone: on other GPUs the portable kernel takes the call. */
static void test_warp_groups_are_asked_for(void **state) {
    (void)state;
    bool supported;
    assert_true(ls_cuda_bf16_attention_sm90.refuses);
    assert_int_equal(prepare_groups(WARP_GROUPS_D, &supported).code, LS_OK);
    assert_true(supported);
    (void)prepare_groups(WARP_GROUPS_D + 8, &supported);
    assert_false(supported);
    setenv("EMULATED_CAPABILITY", "10", 1);
    const ls_status status = prepare_groups(WARP_GROUPS_D, &supported);
    unsetenv("EMULATED_CAPABILITY");
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "the device has compute capability 10; expected 9"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_f64),
                                       cmocka_unit_test(test_many_tiles),
                                       cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_equal_logits),
                                       cmocka_unit_test(test_warp_groups_are_asked_for),
                                       cmocka_unit_test(test_what_a_device_lacks_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
