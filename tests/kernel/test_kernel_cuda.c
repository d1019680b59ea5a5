/*
 * The kernels of src/kernel/cuda, compiled for this host (tests/cuda), for f32 and bf16, against the reference in f64
 * on the same inputs (rounded to the type first). Outputs and workspaces start as NaN. Each call runs twice, with the
 * threads of a block in another order and operands at addresses that are no multiples of more than an element, and must
 * give the same bits.
 */
#include "support/kernel_call.h"
#include "support/kernel_examples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/cuda/table.h"

/* Of an operand: more takes long on a host. LS_TEST_MOST_ELEMENTS in the environment says otherwise (tools/check.sh). */
static int64_t most_elements(void) {
    const char *const most = getenv("LS_TEST_MOST_ELEMENTS");
    return most != NULL ? atoll(most) : 12000;
}

static int tried[LS_KERNEL_IDS];

/* One element further than a multiple of 16 bytes. free_array frees `room`. */
static array move_array(const array *a, array *room) {
    const size_t each = ls_dtype_bytes(a->dtype), bytes = each * (size_t)a->n;
    array moved = *a;
    *room = (array){.typed = malloc(bytes + each)};
    moved.typed = (char *)room->typed + each;
    memcpy(moved.typed, a->typed, bytes);
    return moved;
}

static void run_example(const example *e, const ls_kernel *kernel, const array *in, const array *out) {
    array got[2][LS_KERNEL_OUTPUTS], moved[LS_KERNEL_INPUTS], room_in[LS_KERNEL_INPUTS], room_out[LS_KERNEL_OUTPUTS];
    for (int i = 0; i < e->n_out; i++) {
        got[0][i] = copy_array(&out[i]);
        got[1][i] = move_array(&out[i], &room_out[i]);
    }
    for (int i = 0; i < e->n_in; i++) moved[i] = move_array(&in[i], &room_in[i]);
    call_kernel_on(kernel, 1, make_call(e, in, got[0], false));
    call_kernel_on(kernel, 1, make_call(e, moved, got[1], false));
    for (int i = 0; i < e->n_in; i++) free_array(&room_in[i]);
    for (int i = 0; i < e->n_out; i++) {
        const double error = norm_error(&got[0][i], out[i].exact);
        if (!(error <= tolerance(out[i].dtype)))
            fail_msg("%s %s, output %d of %lld: error %g", e->name, ls_dtype_name(kernel->dtype), i,
                     (long long)out[i].n, error);
        if (memcmp(got[0][i].typed, got[1][i].typed, ls_dtype_bytes(out[i].dtype) * (size_t)out[i].n) != 0)
            fail_msg("%s %s, output %d: other bits the second time", e->name, ls_dtype_name(kernel->dtype), i);
        free_array(&got[0][i]);
        free_array(&room_out[i]);
    }
}

static void run_call(const example *e, const ls_kernel_request *request, const array *in, const array *out) {
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel *kernel = ls_kernel_choose(tables, 1, request);
    if (kernel == NULL) return;
    run_kernel(e->name, LS_F64, LS_ISA_REF, 1, make_call(e, in, out, true));
    run_example(e, kernel, in, out);
    tried[kernel->id]++;
}

static void run_type(const example *e, ls_dtype T) { make_cuda_call(e, T, most_elements(), run_call); }

static void run_f32(const example *e) { run_type(e, LS_F32); }

static void run_types(const example *e) {
    run_f32(e);
    run_type(e, LS_BF16);
    run_type(e, LS_F64); /* of totals */
}

static void all_examples(void **unused) {
    (void)unused;
    for (int g = 0; g < n_example_groups; g++)
        example_groups[g].visit(example_groups[g].f32_only ? run_f32 : run_types);
    tried[LS_KERNEL_ATTENTION] = tried[LS_KERNEL_ATTENTION_GRAD] = 1; /* test_kernel_cuda_attention.c */
    tried[LS_KERNEL_MATMUL] = 1;                                      /* test_kernel_cuda_cublaslt.c */
    tried[LS_KERNEL_MATMUL_BLOCKS] = tried[LS_KERNEL_DECODE] = 1;     /* test_kernel_blocks.c */
    for (const ls_kernel *const *row = ls_cuda_kernels; *row != NULL; row++)
        if (tried[(*row)->id] == 0) fail_msg("no example of %s", ls_kernel_name(*row));
}

/* Of no terms a product is its bias, or what was there; of no elements a sum is 0. */
static void no_terms(void **unused) {
    (void)unused;
    const int64_t M = 5, N = 7;
    const operand A = {'T', NORMAL, 2, {M, 0}, 0}, B = {'T', NORMAL, 2, {0, N}, 0}, bias = {'T', NORMAL, 1, {N}, 0};
    const operand set = {'T', POISON, 2, {M, N}, 0}, kept = {'G', NORMAL, 2, {M, N}, 0};
    const operand none = {'G', NORMAL, 1, {0}, 0}, one = {'G', NORMAL, 1, {1}, 0}, f64 = {'D', NORMAL, 1, {1}, 0};
    const operand nothing = {'T', NORMAL, 1, {0}, 0}, rows = {'T', NORMAL, 2, {0, N}, 0},
                  labels = {'I', LABELS, 1, {0}, 1};
    const operand no_rows = {'G', POISON, 1, {0}, 0};
    const ls_matmul_params plain = {false, false, false}, adds = {false, false, true};
    const example examples[] = {
        {"matmul", &plain, 3, 1, {A, B, bias}, {set}},
        {"matmul", &adds, 2, 1, {A, B}, {kept}},
        {"sum", NULL, 1, 1, {none}, {one}},
        {"sum_squares", NULL, 1, 1, {none}, {f64}},
        {"normalize", NULL, 1, 1, {nothing}, {nothing}},
        {"cross_entropy", NULL, 2, 2, {rows, labels}, {no_rows, no_rows}},
    };
    for (size_t i = 0; i < LS_COUNT(examples); i++) run_types(&examples[i]);
}

int main(void) {
    setenv("LONGSPAN_CUDA_LIBRARIES", "none", 1); /* they have tests of their own */
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_examples), cmocka_unit_test(no_terms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
