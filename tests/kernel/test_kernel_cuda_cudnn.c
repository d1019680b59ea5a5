/*
 * attention and its gradient by cuDNN, over a library that stands in for it and executes its graphs (cuda/fake): each
 * band that the rows support against a plain f64 computation, by both engines of the gradient, what they refuse, and
 * every call of the library failing once.
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

extern const ls_kernel ls_cuda_bf16_attention_cudnn, ls_cuda_bf16_attention_grad, ls_cuda_bf16_attention_grad_cudnn,
    ls_cuda_bf16_attention_grad_sm90;

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
};

/* Of these the row of the gradient supports none: a head of keys that no query head reads, one query and one key. */
static const test_case forward_cases[] = {
    {.B = 1, .D = 8, .Hq = 4, .Hkv = 3, .group = 2, .first_q = 2, .S = 30, .P = 1, .mask = "causal"},
    {.B = 1, .D = 64, .Hq = 1, .Hkv = 1, .group = 1, .S = 1, .P = 1, .mask = "causal"},
};

static void check_cases(const test_case *all, size_t n, const ls_kernel *gradient) {
    const attention_variant cudnn = {&ls_cuda_bf16_attention_cudnn, gradient, "cuda, by cuDNN", 8};
    for (size_t i = 0; i < n; i++) {
        test_case c = all[i];
        c.threads = 1;
        problem p = problem_make(&c, LS_BF16);
        check_attention(&p, &cudnn);
        problem_free(&p);
        fake_expect_clean(fake);
    }
}

static void test_against_f64(void **unused) {
    (void)unused;
    check_cases(cases, LS_COUNT(cases), &ls_cuda_bf16_attention_grad_cudnn);
    check_cases(forward_cases, LS_COUNT(forward_cases), &ls_cuda_bf16_attention_grad);
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

/* The gradient's; the operands of each are apart. */
enum { GRAD_BYTES = 1 << 15, OPERAND_BYTES = 2048 };
static ls_kernel_call grad_call_of(const setting *s, char *data) {
    const int64_t q[] = {1, s->queries, s->heads, s->D}, k[] = {1, s->keys, 2, s->D}, lse[] = {1, s->heads, s->queries};
    const int64_t spans[] = {1, s->queries, 2}, kpos[] = {s->keys};
    ls_kernel_call call = {.n_in = 8,
                           .n_out = 3,
                           .in = {ls_view_dense(NULL, LS_BF16, 4, q), ls_view_dense(NULL, LS_BF16, 4, k),
                                  ls_view_dense(NULL, LS_BF16, 4, k), ls_view_dense(NULL, LS_I32, 3, spans),
                                  ls_view_dense(NULL, LS_I32, 1, kpos), ls_view_dense(NULL, LS_BF16, 4, q),
                                  ls_view_dense(NULL, LS_F32, 3, lse), ls_view_dense(NULL, LS_F32, 3, lse)},
                           .out = {ls_view_dense(NULL, LS_F32, 4, q), ls_view_dense(NULL, LS_F32, 4, k),
                                   ls_view_dense(NULL, LS_F32, 4, k)},
                           .params = &s->params};
    for (int i = 0; i < call.n_in; i++) call.in[i].data = data == NULL ? NULL : data + i * OPERAND_BYTES;
    for (int i = 0; i < call.n_out; i++) call.out[i].data = data == NULL ? NULL : data + (8 + i) * OPERAND_BYTES;
    call.in[5].stride[1] += s->gap;
    return call;
}

static bool is_gradient_supported(const setting *s) {
    const ls_kernel_call call = grad_call_of(s, NULL);
    return ls_cuda_bf16_attention_grad_cudnn.supports(&call);
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

static void test_gradient_refusals(void **unused) {
    (void)unused;
    setting s = plain();
    assert_true(is_gradient_supported(&s));
    s.params.softcap = 1;
    assert_false(is_gradient_supported(&s));
    s = plain();
    s.gap = 4; /* of do */
    assert_false(is_gradient_supported(&s));
    s = plain();
    s.heads = 2; /* nobody reads the second KV head */
    assert_false(is_gradient_supported(&s));
    s = plain();
    s.queries = s.keys = 1;
    assert_false(is_gradient_supported(&s));
}

/* The library's row is taken where it is chosen. */
static void test_gradient_is_chosen(void **unused) {
    (void)unused;
    const setting s = plain();
    const ls_kernel_call call = grad_call_of(&s, NULL);
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel_choices choices = {.n = 1, .of = {{LS_KERNEL_ATTENTION_GRAD, LS_BF16, "cudnn"}}};
    ls_kernel_request request = {
        .id = LS_KERNEL_ATTENTION_GRAD, .dtype = LS_BF16, .device = LS_DEVICE_CUDA, .call = &call};
    assert_ptr_equal(ls_kernel_choose(tables, 1, &request), &ls_cuda_bf16_attention_grad_sm90);
    request.choices = &choices;
    assert_ptr_equal(ls_kernel_choose(tables, 1, &request), &ls_cuda_bf16_attention_grad_cudnn);
}

/* --- gradients of small numbers, and of none ---------------------------------------------------------------------- */

/* The operands of a call, of which do and delta are multiplied by `factor`; results are 1 before. */
static ls_kernel_call small_call(const setting *s, float factor) {
    char *const data = aligned_alloc(64, GRAD_BYTES);
    ls_kernel_call call = grad_call_of(s, data);
    for (int i = 0; i < call.n_in; i++) {
        if (call.in[i].dtype == LS_I32) continue;
        const bool scaled = i == 5 || i == 7;
        for (int64_t x = 0; x < ls_view_elements(&call.in[i]); x++)
            put_float(&call.in[i], x, (float)((x + 3 * i) % 7 - 3) / 4 * (scaled ? factor : 1));
    }
    for (int64_t x = 0; x < ls_view_elements(&call.in[6]); x++) put_float(&call.in[6], x, 2);
    for (int i = 0; i < call.n_out; i++)
        for (int64_t x = 0; x < ls_view_elements(&call.out[i]); x++) put_float(&call.out[i], x, 1);
    call.workspace = aligned_alloc(64, ls_round_up(ls_cuda_bf16_attention_grad_cudnn.workspace(&call), 64));
    return call;
}

static void run_small(ls_kernel_call *call) {
    const ls_status status = fake_run(&ls_cuda_bf16_attention_grad_cudnn, call);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    fake_expect_clean(fake);
}

static void small_free(ls_kernel_call *call) {
    free(call->in[0].data);
    free(call->workspace);
}

/* By version and GPU: where no engine adds in a fixed order Longspan's own row takes the call. */
static void test_gradient_by_version_and_gpu(void **unused) {
    (void)unused;
    static const struct {
        const char *capability, *version;
        bool is;
    } are[] = {{"8", "92800", false},  {"9", "92800", false},  {"10", "92300", true},
               {"10", "92200", false}, {"12", "92800", false}, {"9", "91400", false}};
    const setting s = plain();
    const ls_kernel *row = &ls_cuda_bf16_attention_grad_cudnn;
    ls_kernel_call call = small_call(&s, 1);
    assert_true(row->refuses);
    for (size_t i = 0; i < LS_COUNT(are); i++) {
        setenv("EMULATED_CAPABILITY", are[i].capability, 1);
        setenv("FAKE_CUDNN_VERSION", are[i].version, 1);
        const ls_status status = row->supports(&call) ? fake_run(row, &call) : ls_error(LS_UNSUPPORTED, "too old");
        setenv("EMULATED_CAPABILITY", "10", 1);
        unsetenv("FAKE_CUDNN_VERSION");
        if (status.code != (are[i].is ? LS_OK : LS_UNSUPPORTED))
            fail_msg("capability %s, version %s: %s", are[i].capability, are[i].version, status.text);
    }
    small_free(&call);
}

static float number(const ls_view *view, int64_t at) { return ((const float *)view->data)[at]; }

static void test_adding_to_gradients(void **unused) {
    (void)unused;
    setting s = plain(), adds = plain();
    adds.params.accumulate_dq = adds.params.accumulate_dkv = true;
    ls_kernel_call call = small_call(&s, 1), added = small_call(&adds, 1);
    run_small(&call);
    run_small(&added);
    for (int i = 0; i < call.n_out; i++)
        for (int64_t x = 0; x < ls_view_elements(&call.out[i]); x++)
            assert_true(number(&added.out[i], x) == 1 + number(&call.out[i], x));
    small_free(&call);
    small_free(&added);
}

/* A power of two changes no bits but exponents, also where the squares of do are too small for f32. */
static void test_small_gradients(void **unused) {
    (void)unused;
    const setting s = plain();
    ls_kernel_call call = small_call(&s, 1), small = small_call(&s, 0x1p-100f);
    run_small(&call);
    run_small(&small);
    for (int i = 0; i < call.n_out; i++)
        for (int64_t x = 0; x < ls_view_elements(&call.out[i]); x++)
            assert_true(number(&small.out[i], x) * 0x1p100f == number(&call.out[i], x));
    small_free(&call);
    small_free(&small);
}

/* A query whose result has no gradient, and one whose lse is -inf, as one that no key has a weight for: dq is 0. */
static void test_queries_without_gradients(void **unused) {
    (void)unused;
    enum { NO_GRADIENT = 2, NO_WEIGHT = 4 };
    const setting s = plain();
    ls_kernel_call call = small_call(&s, 1);
    for (int64_t h = 0; h < s.heads; h++) {
        for (int64_t d = 0; d < s.D; d++) put_float(&call.in[5], (NO_GRADIENT * s.heads + h) * s.D + d, 0);
        put_float(&call.in[7], h * s.queries + NO_GRADIENT, 0);
        put_float(&call.in[6], h * s.queries + NO_WEIGHT, -INFINITY);
    }
    run_small(&call);
    for (int64_t x = 0; x < ls_view_elements(&call.out[0]); x++) {
        const int64_t query = x / (s.heads * s.D);
        assert_true(isfinite(number(&call.out[0], x)));
        if (query == NO_GRADIENT || query == NO_WEIGHT) assert_true(number(&call.out[0], x) == 0);
    }
    for (int64_t x = 0; x < ls_view_elements(&call.out[1]); x++)
        assert_true(isfinite(number(&call.out[1], x)) && isfinite(number(&call.out[2], x)));
    small_free(&call);
}

/* --- states, failures --------------------------------------------------------------------------------------------- */

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

static void test_every_call_of_the_gradient_fails(void **unused) {
    (void)unused;
    static const char *const functions[] = {"cudnnCreate", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                                            "cudnnBackendFinalize", "cudnnBackendGetAttribute"},
                             *const of_launches[] = {"cudnnSetStream", "cudnnBackendExecute"};
    const setting s = plain();
    const ls_kernel *row = &ls_cuda_bf16_attention_grad_cudnn;
    ls_kernel_call call = small_call(&s, 1);
    for (size_t i = 0; i < LS_COUNT(functions); i++)
        assert_true(fake_fail_each(fake, functions[i], "CUDNN_STATUS_NOT_SUPPORTED", "no plan", row, &call) > 0);
    for (size_t i = 0; i < LS_COUNT(of_launches); i++)
        assert_int_equal(fake_fail_each(fake, of_launches[i], "CUDNN_STATUS_NOT_SUPPORTED", NULL, row, &call), 1);
    fake->failing = "engine";
    const ls_status status = fake_run(row, &call);
    fake->failing = NULL;
    assert_int_equal(status.code, LS_FAULT);
    fake_expect_clean(fake);
    small_free(&call);
}

int main(void) {
    setenv("EMULATED_CAPABILITY", "10", 1); /* which has the gradient */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_f64),
                                       cmocka_unit_test(test_bands),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_gradient_refusals),
                                       cmocka_unit_test(test_gradient_is_chosen),
                                       cmocka_unit_test(test_gradient_by_version_and_gpu),
                                       cmocka_unit_test(test_adding_to_gradients),
                                       cmocka_unit_test(test_small_gradients),
                                       cmocka_unit_test(test_queries_without_gradients),
                                       cmocka_unit_test(test_states_are_shared),
                                       cmocka_unit_test(test_every_call_fails),
                                       cmocka_unit_test(test_every_call_of_the_gradient_fails)};
    return cmocka_run_group_tests(tests, load, NULL);
}
