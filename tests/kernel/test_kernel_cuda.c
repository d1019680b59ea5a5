/*
 * The kernels of src/kernel/cuda, compiled for this host (tests/cuda), for f32 and bf16, against the reference in f64
 * on the same inputs (rounded to the type first). Outputs and workspaces start as NaN. Each call runs twice, with the
 * threads of a block in another order, and must give the same bits.
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

/* More takes long on a host. */
enum { MOST_ELEMENTS = 20000 };

static int tried[LS_KERNEL_IDS];

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

static void launch_kernel(const ls_kernel *kernel, ls_kernel_call call) {
    void *state = NULL;
    const size_t bytes = kernel->workspace != NULL ? kernel->workspace(&call) : 0;
    call.workspace = bytes > 0 ? aligned_alloc(256, ls_round_up(bytes, 256)) : NULL;
    if (bytes > 0) memset(call.workspace, 0xff, bytes);
    must(kernel->prepare(&call, &state));
    must(kernel->launch(&call, state, NULL));
    if (kernel->release != NULL) kernel->release(state);
    free(call.workspace);
}

static void run_example(const example *e, const ls_kernel *kernel, const array *in, const array *out) {
    array got[2][LS_KERNEL_OUTPUTS];
    for (int twice = 0; twice < 2; twice++) {
        for (int i = 0; i < e->n_out; i++) got[twice][i] = copy_array(&out[i]);
        launch_kernel(kernel, make_call(e, in, got[twice], false));
    }
    for (int i = 0; i < e->n_out; i++) {
        const double error = norm_error(&got[0][i], out[i].exact);
        if (!(error <= tolerance(out[i].dtype)))
            fail_msg("%s %s, output %d of %lld: error %g", e->name, ls_dtype_name(kernel->dtype), i,
                     (long long)out[i].n, error);
        if (memcmp(got[0][i].typed, got[1][i].typed, ls_dtype_bytes(out[i].dtype) * (size_t)out[i].n) != 0)
            fail_msg("%s %s, output %d: other bits the second time", e->name, ls_dtype_name(kernel->dtype), i);
        free_array(&got[0][i]);
        free_array(&got[1][i]);
    }
}

static void run_type(const example *e, ls_dtype T) {
    array in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
    int64_t elements = 0;
    for (int i = 0; i < e->n_in; i++) in[i] = make_array(&e->in[i], T, (uint64_t)i);
    for (int i = 0; i < e->n_out; i++) out[i] = make_array(&e->out[i], T, (uint64_t)(100 + i));
    for (int i = 0; i < e->n_in; i++) elements = ls_max(elements, in[i].n);
    const ls_kernel_call call = make_call(e, in, out, false);
    const ls_kernel_request request = {
        .id = ls_kernel_named(e->name), .dtype = T, .device = LS_DEVICE_CUDA, .isa = LS_ISA_REF, .call = &call};
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel *kernel = ls_kernel_choose(tables, 1, &request);
    if (kernel != NULL && elements <= MOST_ELEMENTS) {
        run_kernel(e->name, LS_F64, LS_ISA_REF, 1, make_call(e, in, out, true));
        run_example(e, kernel, in, out);
        tried[kernel->id]++;
    }
    for (int i = 0; i < e->n_in; i++) free_array(&in[i]);
    for (int i = 0; i < e->n_out; i++) free_array(&out[i]);
}

static void run_types(const example *e) {
    run_type(e, LS_F32);
    run_type(e, LS_BF16);
}

static void all_examples(void **unused) {
    (void)unused;
    for (int g = 0; g < n_example_groups; g++) example_groups[g].visit(run_types);
    tried[LS_KERNEL_ATTENTION] = tried[LS_KERNEL_ATTENTION_GRAD] = 1; /* test_kernel_cuda_attention.c */
    for (const ls_kernel *const *row = ls_cuda_kernels; *row != NULL; row++)
        if (tried[(*row)->id] == 0) fail_msg("no example of %s", ls_kernel_name(*row));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
