/*
 * attention by cuDNN, over a library that stands in for it and executes its graphs (cuda/fake): each band that the row
 * supports against a plain f64 computation, what it refuses, and every call of the library failing once. The gradient
 * is that of the kernel of our own.
 */
#include "support/attention_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/fake/load.h"
#include "kernel/cuda/table.h"

extern const ls_kernel ls_cuda_bf16_attention_cudnn, ls_cuda_bf16_attention_grad;

static fake_library *fake;

static int load(void **state) {
    (void)state;
    fake = fake_load(LS_TEST_FAKES "libcudnn.so.9", "fake_cudnn");
    return fake == NULL;
}

/* All keys, merged or not; diagonals from the first key and to the last; windows; shared heads; stripes. */
static const test_case cases[] = {
    {.B = 1, .D = 64, .Hq = 4, .Hkv = 2, .group = 2, .S = 40, .P = 1, .mask = "full"},
    {.B = 2, .D = 64, .Hq = 4, .Hkv = 2, .group = 2, .S = 40, .queries = 2, .P = 1, .mask = "causal"},
    {.B = 1, .D = 16, .Hq = 2, .Hkv = 2, .group = 1, .S = 61, .P = 3, .mask = "full"},
    {.B = 1, .D = 128, .Hq = 3, .Hkv = 1, .group = 3, .S = 37, .P = 1, .mask = "causal"},
    {.B = 1, .D = 32, .Hq = 2, .Hkv = 1, .group = 2, .S = 70, .P = 2, .rank = 1, .mask = "causal"},
    {.B = 1,
     .D = 16,
     .Hq = 2,
     .Hkv = 1,
     .group = 2,
     .S = 60,
     .P = 2,
     .rank = 1,
     .layout = LS_LAYOUT_STRIPED,
     .mask = "causal"},
    {.B = 1, .D = 24, .Hq = 2, .Hkv = 2, .group = 1, .S = 70, .queries = 23, .P = 1, .mask = "causal"},
    {.B = 1, .D = 16, .Hq = 1, .Hkv = 1, .group = 1, .S = 65, .P = 1, .mask = "window:11"},
    {.B = 1, .D = 16, .Hq = 2, .Hkv = 1, .group = 2, .S = 65, .queries = 20, .P = 1, .mask = "window:9"},
    {.B = 1, .D = 8, .Hq = 2, .Hkv = 1, .group = 4, .first_q = 6, .first_kv = 1, .S = 30, .P = 1, .mask = "causal"},
    {.B = 1, .D = 8, .Hq = 4, .Hkv = 3, .group = 2, .first_q = 2, .S = 30, .P = 1, .mask = "causal"},
    {.B = 1, .D = 64, .Hq = 1, .Hkv = 1, .group = 1, .S = 1, .P = 1, .mask = "causal"},
};

static void test_against_f64(void **unused) {
    (void)unused;
    const attention_variant cudnn = {&ls_cuda_bf16_attention_cudnn, &ls_cuda_bf16_attention_grad, "cuda, by cuDNN", 8};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        test_case c = cases[i];
        c.threads = 1;
        problem p = problem_make(&c, LS_BF16);
        check_attention(&p, &cudnn);
        problem_free(&p);
        fake_expect_clean(fake);
    }
}

/* A call of 6 queries and 6 keys, 4 heads on 2, of size 16, and what a test changes of it. */
typedef struct setting {
    ls_attention_params params;
    int64_t queries, keys, heads, D, gap;
} setting;

static setting plain(void) {
    return (setting){
        .params = {.scale = 0.25, .group = 2, .band = {true, -5, 0}}, .queries = 6, .keys = 6, .heads = 4, .D = 16};
}

static ls_kernel_call call_of(const setting *s, void *data) {
    const int64_t q[] = {1, s->queries, s->heads, s->D}, k[] = {1, s->keys, 2, s->D}, lse[] = {1, s->heads, s->queries};
    const int64_t spans[] = {1, s->queries, 2}, kpos[] = {s->keys};
    ls_kernel_call call = {.n_in = 5,
                           .n_out = 2,
                           .in = {ls_view_dense(data, LS_BF16, 4, q), ls_view_dense(data, LS_BF16, 4, k),
                                  ls_view_dense(data, LS_BF16, 4, k), ls_view_dense(data, LS_I32, 3, spans),
                                  ls_view_dense(data, LS_I32, 1, kpos)},
                           .out = {ls_view_dense(data, LS_F32, 4, q), ls_view_dense(data, LS_F32, 3, lse)},
                           .params = &s->params};
    call.in[0].stride[1] += s->gap;
    return call;
}

static bool is_supported(const setting *s) {
    const ls_kernel_call call = call_of(s, NULL);
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel_request request = {
        .id = LS_KERNEL_ATTENTION, .dtype = LS_BF16, .device = LS_DEVICE_CUDA, .call = &call};
    return ls_kernel_choose(tables, 1, &request) == &ls_cuda_bf16_attention_cudnn;
}

static bool supports_band(int64_t queries, int64_t keys, bool known, int64_t low, int64_t high) {
    setting s = plain();
    s.queries = queries;
    s.keys = keys;
    s.params.band = (ls_attention_band){known, low, high};
    return is_supported(&s);
}

static void test_bands(void **unused) {
    (void)unused;
    assert_true(supports_band(6, 6, true, -5, 5));
    assert_false(supports_band(6, 6, false, -5, 5));
    assert_true(supports_band(6, 6, true, -5, 0));
    assert_true(supports_band(6, 6, true, -2, 0));
    assert_true(supports_band(6, 9, true, -5, 3));
    assert_true(supports_band(6, 9, true, 1, 3));
    assert_true(supports_band(9, 6, true, -8, 0));
    assert_false(supports_band(6, 9, true, -5, 2));  /* neither from the first key nor to the last */
    assert_false(supports_band(6, 6, true, -5, -1)); /* the first query sees nothing */
    assert_false(supports_band(9, 6, true, -2, 0));  /* the last ones see nothing */
    assert_false(supports_band(6, 6, true, -2, 5));  /* a window alone */
    assert_false(supports_band(6, 6, true, 1, 0));
}

static void test_refusals(void **unused) {
    (void)unused;
    setting s = plain();
    assert_true(is_supported(&s));
    s.params.softcap = 1;
    assert_false(is_supported(&s));
    s = plain();
    s.params.scale = -1;
    assert_false(is_supported(&s));
    s = plain();
    s.D = 136;
    assert_false(is_supported(&s));
    s.D = 20;
    assert_false(is_supported(&s));
    s = plain();
    s.gap = 4;
    assert_false(is_supported(&s));
    s = plain();
    s.heads = 3; /* the second KV head has one query head, the first two */
    assert_false(is_supported(&s));
    s = plain();
    s.queries = 0;
    assert_false(is_supported(&s));
    s = plain();
    fake->failing = "an older version";
    fake->fails_at = 1;
    assert_false(is_supported(&s));
    assert_true(is_supported(&s));
    fake->failing = NULL;
}

/* A state serves a call of the same form elsewhere. */
static void test_states_are_shared(void **unused) {
    (void)unused;
    enum { BYTES = 8192 };
    char *data[2];
    for (int i = 0; i < 2; i++) {
        data[i] = aligned_alloc(64, BYTES);
        for (int k = 0; k < BYTES / 2; k++) ((ls_bf16 *)(void *)data[i])[k] = ls_bf16_from_f32((float)(k % 13 - 6));
    }
    setting s = plain(), merges = plain(), window = plain();
    merges.params.merge = true;
    window.params.band.low = -2;
    ls_kernel_call one = call_of(&s, data[0]), other = call_of(&s, data[1]);
    const ls_kernel_call merged = call_of(&merges, data[0]), narrower = call_of(&window, data[0]);
    one.out[0].data = data[0] + BYTES / 2;
    other.out[0].data = data[1] + BYTES / 2;
    one.out[1].data = data[0] + 3 * BYTES / 4;
    other.out[1].data = data[1] + 3 * BYTES / 4;
    const ls_kernel *row = &ls_cuda_bf16_attention_cudnn;
    assert_true(row->shares(&one, &other));
    assert_true(row->shares(&one, &merged));
    assert_false(row->shares(&one, &narrower));
    void *state = NULL;
    one.workspace = other.workspace = aligned_alloc(64, ls_round_up(row->workspace(&one), 64));
    assert_int_equal(row->prepare(&one, &state).code, LS_OK);
    assert_int_equal(row->launch(&one, state, NULL).code, LS_OK);
    assert_int_equal(row->launch(&other, state, NULL).code, LS_OK);
    row->release(state);
    fake_expect_clean(fake);
    assert_memory_equal(one.out[0].data, other.out[0].data, ls_view_bytes(&one.out[0]));
    assert_true(((float *)one.out[0].data)[0] == -6); /* the first query sees the first key alone */
    free(one.workspace);
    free(data[0]);
    free(data[1]);
}

static void test_every_call_fails(void **unused) {
    (void)unused;
    static const char *const functions[] = {
        "cudnnCreate",          "cudnnSetStream",           "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
        "cudnnBackendFinalize", "cudnnBackendGetAttribute", "cudnnBackendExecute"};
    void *data = aligned_alloc(64, 4096);
    memset(data, 0, 4096);
    setting s = plain();
    s.params.band.low = -2; /* a window, for more operations */
    ls_kernel_call call = call_of(&s, data);
    const ls_kernel *row = &ls_cuda_bf16_attention_cudnn;
    call.workspace = aligned_alloc(64, ls_round_up(row->workspace(&call), 64));
    for (size_t i = 0; i < LS_COUNT(functions); i++) {
        const char *without = strcmp(functions[i], "cudnnBackendFinalize") == 0 ? "no plan" : NULL;
        assert_true(fake_fail_each(fake, functions[i], "CUDNN_STATUS_NOT_SUPPORTED", without, row, &call) > 0);
    }
    assert_int_equal(fake_fail_each(fake, "no plan", "65536 bytes", NULL, row, &call), 1);
    free(call.workspace);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_f64), cmocka_unit_test(test_bands),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(test_states_are_shared),
                                       cmocka_unit_test(test_every_call_fails)};
    return cmocka_run_group_tests(tests, load, NULL);
}
