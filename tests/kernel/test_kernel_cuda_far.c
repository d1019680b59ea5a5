/*
 * Attention of src/kernel/cuda with operands whose tokens lie further apart than 32 bits count elements, as those of a
 * sequence of a million do: the same bits as where they lie side by side. The memory between them is never touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "support/attention_check.h"

extern const ls_kernel ls_cuda_bf16_attention, ls_cuda_bf16_attention_grad, ls_cuda_bf16_attention_plain,
    ls_cuda_bf16_attention_grad_plain, ls_cuda_bf16_attention_sm90, ls_cuda_bf16_attention_grad_sm90;

enum { TOKENS = 3, HEAD = 64, OPERANDS = 8 };

/* Of a million tokens the last is 32 heads of 128 elements times as far from the first: 2^32 elements. */
#define FAR (((int64_t)1 << 31) + 64)

/* [1,TOKENS,1,HEAD], tokens `apart` elements apart, of zeros. data NULL: the system has no such range of addresses. */
static ls_view operand(ls_dtype dtype, int64_t apart) {
    const size_t bytes = ls_dtype_bytes(dtype) * (size_t)(apart * (TOKENS - 1) + HEAD);
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return (ls_view){.data = memory == MAP_FAILED ? NULL : memory,
                     .dtype = dtype,
                     .ndim = 4,
                     .size = {1, TOKENS, 1, HEAD},
                     .stride = {apart * TOKENS, apart, HEAD, 1}};
}

static void release(const ls_view *v) {
    munmap(v->data, ls_dtype_bytes(v->dtype) * (size_t)(v->stride[1] * (TOKENS - 1) + HEAD));
}

static void fill(const ls_view *v, int seed) {
    for (int64_t i = 0; i < TOKENS; i++)
        for (int64_t d = 0; d < HEAD; d++)
            put_float(v, i * v->stride[1] + d, (float)((i * 31 + d * 7 + seed) % 17 - 8) / 8);
}

static void expect_same(const ls_view *a, const ls_view *b) {
    for (int64_t i = 0; i < TOKENS; i++)
        assert_memory_equal((float *)a->data + i * a->stride[1], (float *)b->data + i * b->stride[1],
                            HEAD * sizeof(float));
}

/* Q, K, V, the gradient of the result; the result; gradients. */
enum { Q, K, V, DO, O, DQ, DK, DV };

/* Both kernels on operands whose tokens are so far apart; false: there are no such addresses. */
static bool run(const ls_kernel *forward, const ls_kernel *backward, int64_t apart, ls_view of[OPERANDS]) {
    static int32_t spans[TOKENS * 2] = {0, 1, 0, 2, 0, 3}, positions[TOKENS] = {0, 1, 2};
    static float lse[TOKENS], delta[TOKENS] = {0.1f, -0.2f, 0.3f};
    const ls_attention_params params = {.scale = 0.125, .group = 1};
    bool is = true;
    for (int i = 0; i < OPERANDS; i++) {
        of[i] = operand(i < O ? LS_BF16 : LS_F32, apart);
        is &= of[i].data != NULL;
    }
    if (!is) return false;
    for (int i = 0; i < O; i++) fill(&of[i], 5 * i);
    const ls_view seen = VIEW(spans, LS_I32, 1, TOKENS, 2), at = VIEW(positions, LS_I32, TOKENS),
                  sums = VIEW(lse, LS_F32, 1, 1, TOKENS), deltas = VIEW(delta, LS_F32, 1, 1, TOKENS);
    ls_kernel_call attend = {.n_in = 5,
                             .in = {of[Q], of[K], of[V], seen, at},
                             .n_out = 2,
                             .out = {of[O], sums},
                             .params = &params},
                   grad = {.n_in = 8,
                           .in = {of[Q], of[K], of[V], seen, at, of[DO], sums, deltas},
                           .n_out = 3,
                           .out = {of[DQ], of[DK], of[DV]},
                           .params = &params};
    call_kernel(forward, &attend, NULL);
    call_kernel(backward, &grad, NULL);
    return true;
}

static void check(const ls_kernel *forward, const ls_kernel *backward) {
    ls_view near[OPERANDS], far[OPERANDS];
    assert_true(run(forward, backward, HEAD, near));
    if (!run(forward, backward, FAR, far)) {
        print_message("skipped: no addresses for operands of %lld elements\n", (long long)FAR * TOKENS);
        return;
    }
    const float *last = (const float *)far[O].data + (TOKENS - 1) * FAR;
    assert_true(last[0] != 0);
    for (int i = O; i < OPERANDS; i++) expect_same(&near[i], &far[i]);
    for (int i = 0; i < OPERANDS; i++) {
        release(&near[i]);
        release(&far[i]);
    }
}

static void test_of_tensor_cores(void **state) {
    (void)state;
    check(&ls_cuda_bf16_attention, &ls_cuda_bf16_attention_grad);
}

static void test_of_warp_groups(void **state) {
    (void)state;
    check(&ls_cuda_bf16_attention_sm90, &ls_cuda_bf16_attention_grad_sm90);
}

static void test_plain(void **state) {
    (void)state;
    check(&ls_cuda_bf16_attention_plain, &ls_cuda_bf16_attention_grad_plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_tensor_cores), cmocka_unit_test(test_of_warp_groups),
                                       cmocka_unit_test(test_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
