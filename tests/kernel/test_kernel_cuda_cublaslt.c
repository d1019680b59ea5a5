/*
 * The rows of matmul by cuBLASLt, over a library that stands in for it (cuda/fake): every form of the contract against
 * the reference in f64, what the rows refuse, and every call of the library failing once. Also how libraries are found.
 */
#include "kernel/cuda/cublaslt.h"
#include "kernel/cuda/library.h"
#include "support/attention_check.h"
#include "support/kernel_call.h"
#include "support/kernel_examples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/fake/load.h"
#include "kernel/cuda/table.h"

static fake_library *fake;

static int load(void **state) {
    (void)state;
    fake = fake_load(LS_TEST_FAKES "libcublasLt.so.13", "fake_cublaslt");
    return fake == NULL;
}

static const ls_kernel *row_for(ls_dtype T, const ls_kernel_call *call) {
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    return ls_kernel_choose(
        tables, 1, &(ls_kernel_request){.id = LS_KERNEL_MATMUL, .dtype = T, .device = LS_DEVICE_CUDA, .call = call});
}

/* --- products ----------------------------------------------------------------------------------------------------- */

typedef struct product {
    int64_t M, N, K;
    bool bias;
    ls_matmul_params params;
    char out; /* type of the result: T or G */
} product;

static example example_of(const product *p) {
    const bool ta = p->params.transpose_a, tb = p->params.transpose_b;
    return (example){.name = "matmul",
                     .params = &p->params,
                     .n_in = p->bias ? 3 : 2,
                     .n_out = 1,
                     .in = {{'T', NORMAL, 2, {ta ? p->K : p->M, ta ? p->M : p->K}, 0},
                            {'T', NORMAL, 2, {tb ? p->N : p->K, tb ? p->K : p->N}, 0},
                            {'T', NORMAL, 1, {p->N}, 0}},
                     .out = {{p->out, p->params.accumulate ? NORMAL : POISON, 2, {p->M, p->N}, 0}}};
}

/* The operands a second time, each at an odd element. */
static void shift(ls_kernel_call *call) {
    ls_view *const views[] = {&call->in[0], &call->in[1], &call->in[2], &call->out[0]};
    for (int i = 0; i < 4; i++) {
        if (views[i]->data == NULL) continue;
        const size_t bytes = ls_view_bytes(views[i]), element = ls_dtype_bytes(views[i]->dtype);
        char *room = aligned_alloc(64, ls_round_up(bytes + element, 64));
        views[i]->data = memcpy(room + element, views[i]->data, bytes);
    }
}

static void free_shifted(const ls_kernel_call *call) {
    const ls_view *const views[] = {&call->in[0], &call->in[1], &call->in[2], &call->out[0]};
    for (int i = 0; i < 4; i++)
        if (views[i]->data != NULL) free((char *)views[i]->data - ls_dtype_bytes(views[i]->dtype));
}

static void check(const product *p, ls_dtype T) {
    const example e = example_of(p);
    array in[LS_KERNEL_INPUTS], out = make_array(&e.out[0], T, 100);
    for (int i = 0; i < e.n_in; i++) in[i] = make_array(&e.in[i], T, (uint64_t)i);
    array got = copy_array(&out);
    const ls_kernel_call before = make_call(&e, in, &out, false);
    ls_kernel_call call = make_call(&e, in, &got, false), shifted = before;
    shift(&shifted);
    const ls_kernel *row = row_for(T, &call);
    assert_non_null(row);
    call_kernel(row, &call, NULL);
    call_kernel(row, &shifted, NULL);
    run_kernel("matmul", LS_F64, LS_ISA_REF, 1, make_call(&e, in, &out, true));
    const double error = norm_error(&got, out.exact);
    if (!(error <= tolerance(out.dtype)))
        fail_msg("%s to %s, M %lld N %lld K %lld, transposed %d %d, bias %d, accumulate %d: error %g", ls_dtype_name(T),
                 ls_dtype_name(out.dtype), (long long)p->M, (long long)p->N, (long long)p->K, p->params.transpose_a,
                 p->params.transpose_b, p->bias, p->params.accumulate, error);
    assert_memory_equal(got.typed, shifted.out[0].data, ls_view_bytes(&call.out[0]));
    fake_expect_clean(fake);
    free_shifted(&shifted);
    for (int i = 0; i < e.n_in; i++) free_array(&in[i]);
    free_array(&out);
    free_array(&got);
}

static void all_forms(void **unused) {
    (void)unused;
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {33, 16, 40}, {8, 70, 24}};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        for (int form = 0; form < 16; form++) {
            product p = {.M = shapes[s][0],
                         .N = shapes[s][1],
                         .K = shapes[s][2],
                         .bias = (form & 1) != 0,
                         .params = {(form & 2) != 0, (form & 4) != 0, (form & 8) != 0},
                         .out = 'T'};
            check(&p, LS_F32);
            check(&p, LS_BF16);
            p.out = 'G';
            if (!p.bias) check(&p, LS_BF16);
        }
    }
}

/* Leading dimensions of A and C are merged, as the contract has them. */
static void tokens_of_batches(void **unused) {
    (void)unused;
    float a[24], b[12], c[32], expected[32];
    for (int i = 0; i < 24; i++) a[i] = (float)(i % 5 - 2);
    for (int i = 0; i < 12; i++) b[i] = (float)(i % 7 - 3);
    const ls_matmul_params params = {.transpose_b = true};
    const int64_t of_a[] = {2, 4, 3}, of_b[] = {4, 3}, of_c[] = {2, 4, 4};
    ls_kernel_call call = {.n_in = 2,
                           .n_out = 1,
                           .in = {ls_view_dense(a, LS_F32, 3, of_a), ls_view_dense(b, LS_F32, 2, of_b)},
                           .out = {ls_view_dense(c, LS_F32, 3, of_c)},
                           .params = &params};
    for (int i = 0; i < 32; i++) {
        expected[i] = 0;
        for (int k = 0; k < 3; k++) expected[i] += a[i / 4 * 3 + k] * b[i % 4 * 3 + k];
    }
    call_kernel(row_for(LS_F32, &call), &call, NULL);
    assert_memory_equal(c, expected, sizeof c);
    fake_expect_clean(fake);
}

extern const ls_kernel ls_cuda_f32_matmul_cublaslt, ls_cuda_bf16_matmul_cublaslt;

static bool is_supported(const product *p, ls_dtype T) {
    const example e = example_of(p);
    ls_kernel_call call = {.n_in = e.n_in, .n_out = 1, .params = e.params};
    const ls_dtype out = p->out == 'G' ? ls_dtype_accumulator(T) : T;
    for (int i = 0; i < e.n_in; i++) call.in[i] = ls_view_dense(NULL, T, e.in[i].ndim, e.in[i].size);
    call.out[0] = ls_view_dense(NULL, out, 2, e.out[0].size);
    const ls_kernel *row = T == LS_BF16 ? &ls_cuda_bf16_matmul_cublaslt : &ls_cuda_f32_matmul_cublaslt;
    return row_for(T, &call) == row;
}

static void what_is_refused(void **unused) {
    (void)unused;
    assert_true(is_supported(&(product){2, 2, 2, true, {false}, 'T'}, LS_BF16));
    assert_false(is_supported(&(product){2, 2, 2, true, {false}, 'G'}, LS_BF16));
    assert_false(is_supported(&(product){0, 2, 2, false, {false}, 'T'}, LS_F32));
    assert_false(is_supported(&(product){2, 0, 2, false, {false}, 'T'}, LS_F32));
    assert_false(is_supported(&(product){2, 2, 0, false, {false}, 'T'}, LS_F32));
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static void every_call_fails(void **unused) {
    (void)unused;
    static const struct {
        const char *function;
        int calls;
    } of[] = {{"cublasLtMatmulDescCreate", 1},
              {"cublasLtMatmulDescSetAttribute", 5},
              {"cublasLtMatrixLayoutCreate", 3},
              {"cublasLtMatmulPreferenceCreate", 1},
              {"cublasLtMatmulPreferenceSetAttribute", 6},
              {"cublasLtCreate", 1},
              {"cublasLtMatmulAlgoGetHeuristic", 1},
              {"cublasLtMatmul", 1}};
    static float a[6], b[6], bias[2], c[4];
    const ls_matmul_params params = {false, false, false};
    ls_kernel_call call = {.n_in = 3,
                           .n_out = 1,
                           .in = {VIEW(a, LS_F32, 2, 3), VIEW(b, LS_F32, 3, 2), VIEW(bias, LS_F32, 2)},
                           .out = {VIEW(c, LS_F32, 2, 2)},
                           .params = &params};
    const ls_kernel *row = row_for(LS_F32, &call);
    call.workspace = aligned_alloc(64, row->workspace(&call));
    for (size_t i = 0; i < LS_COUNT(of); i++)
        assert_int_equal(fake_fail_each(fake, of[i].function, "CUBLAS_STATUS_NOT_SUPPORTED", NULL, row, &call),
                         of[i].calls);
    assert_int_equal(fake_fail_each(fake, "no algorithm", "A f32[2,3]", NULL, row, &call), 1);
    free(call.workspace);
}

/* A state serves a call of the same form elsewhere, which may add to C; not one of another form. */
static void states_are_shared(void **unused) {
    (void)unused;
    _Alignas(16) static float a[12], b[12], bias[8], c[8], expected[8];
    const ls_matmul_params plain = {false, false, false}, adds = {false, false, true}, turned = {false, true, false};
    for (int i = 0; i < 12; i++) a[i] = b[i] = (float)(i - 5);
    for (int i = 0; i < 8; i++) bias[i] = c[i] = expected[i] = (float)i;
    ls_kernel_call one = {.n_in = 3,
                          .n_out = 1,
                          .in = {VIEW(a, LS_F32, 2, 2), VIEW(b, LS_F32, 2, 2), VIEW(bias, LS_F32, 2)},
                          .out = {VIEW(c, LS_F32, 2, 2)},
                          .params = &plain};
    ls_kernel_call other = one, misplaced = one, transposed = one;
    other.in[0].data = a + 4;
    other.in[1].data = b + 8;
    other.in[2].data = bias + 4;
    other.out[0].data = c + 4;
    other.params = &adds;
    misplaced.in[2].data = bias + 1;
    transposed.params = &turned;
    const ls_kernel *row = row_for(LS_F32, &one);
    assert_true(row->shares(&one, &other));
    assert_false(row->shares(&one, &misplaced));
    assert_false(row->shares(&one, &transposed));
    for (int i = 0; i < 4; i++)
        expected[4 + i] += bias[4 + i % 2] + a[4 + i / 2 * 2] * b[8 + i % 2] + a[5 + i / 2 * 2] * b[10 + i % 2];
    void *state = NULL;
    other.workspace = aligned_alloc(64, row->workspace(&other));
    assert_int_equal(row->prepare(&one, &state).code, LS_OK);
    assert_int_equal(row->launch(&other, state, NULL).code, LS_OK);
    row->release(state);
    free(other.workspace);
    assert_memory_equal(c, expected, sizeof c);
    fake_expect_clean(fake);
}

static void a_wrong_call_is_refused(void **unused) {
    (void)unused;
    static float a[6];
    const ls_matmul_params params = {false, false, false};
    const ls_kernel_call call = {.n_in = 2,
                                 .n_out = 1,
                                 .in = {VIEW(a, LS_F32, 2, 3), VIEW(a, LS_F32, 2, 3)},
                                 .out = {VIEW(a, LS_F32, 2, 3)},
                                 .params = &params};
    void *state = NULL;
    assert_int_equal(row_for(LS_F32, &call)->prepare(&call, &state).code, LS_INVALID);
    fake_expect_clean(fake);
}

/* --- finding a library -------------------------------------------------------------------------------------------- */

static void libraries_are_found(void **unused) {
    (void)unused;
    static const char *const none[] = {"libno-such-library.so.1", NULL};
    static const char *const some[] = {"libno-such-library.so.1", "libcublasLt.so.13", NULL};
    static const char *const has[] = {"fake_version", "cublasLtGetVersion", NULL}, *const lacks[] = {"fake_version",
                                                                                                     "no_such_function",
                                                                                                     NULL};
    struct {
        size_t (*one)(void), (*other)(void);
    } of;
    const ls_cuda_library missing = {.name = "a", .files = none, .functions = has, .version = "fake_version"},
                          without = {.name = "m", .files = some, .functions = lacks, .version = "fake_version"},
                          whole = {.name = "m", .files = some, .functions = has, .version = "fake_version"};
    ls_library_facts facts;
    assert_non_null(strstr(ls_cuda_library_find(&missing, &of, NULL).text, "libno-such-library.so.1"));
    assert_non_null(
        strstr(ls_cuda_library_find(&without, &of, NULL).text, "libcublasLt.so.13 has no no_such_function"));
    assert_int_equal(ls_cuda_library_find(&whole, &of, &facts).code, LS_OK);
    assert_string_equal(facts.path, LS_TEST_FAKES "libcublasLt.so.13");
    assert_true(facts.version == 130100 && of.one() == 130100 && of.other() == 130100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_forms),
                                       cmocka_unit_test(tokens_of_batches),
                                       cmocka_unit_test(what_is_refused),
                                       cmocka_unit_test(every_call_fails),
                                       cmocka_unit_test(a_wrong_call_is_refused),
                                       cmocka_unit_test(states_are_shared),
                                       cmocka_unit_test(libraries_are_found)};
    return cmocka_run_group_tests(tests, load, NULL);
}
