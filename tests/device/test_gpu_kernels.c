/*
 * The kernels of the device cuda as it executes them: operands in its memory, launches on a queue; every row that takes
 * a call, against the reference in f64, twice with the same bits. By the driver for tests and kernels that were
 * compiled for the host; with LS_TEST_GPU=1 on this machine's GPU, by the plug-in of `make cuda` and NVIDIA's
 * libraries.
 */
#include "support/fake_cuda.h"
#include "support/kernel_call.h"
#include "support/kernel_examples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* MOST_EMULATED: elements of an operand where kernels are emulated; more takes long. */
enum { ARENA_BYTES = 64 << 20, MOST_EMULATED = 5000, ALIGN = 256, RUNS = 2 };

typedef struct bench {
    ls_device *device;
    const ls_device_arena *own, *host;
    size_t used; /* of both */
    uint64_t launched;
    int calls, wrong;
} bench;
static bench on;

static void must(const char *what, const ls_kernel *kernel, ls_status status) {
    if (status.code != LS_OK)
        fail_msg("%s of %s %s by %s: %s", what, ls_kernel_name(kernel), ls_dtype_name(kernel->dtype),
                 ls_kernel_row(kernel), status.text);
}

/* An array's place in an arena, with its contents. */
static array place(const ls_kernel *kernel, const ls_device_arena *arena, const array *a) {
    const size_t bytes = ls_dtype_bytes(a->dtype) * (size_t)a->n;
    const ls_range range = ls_range_flat(on.used, bytes);
    array placed = *a;
    assert_true(on.used + bytes <= ARENA_BYTES);
    must("writing an operand", kernel, ls_device_write(on.device, arena, &range, a->typed));
    placed.typed = arena->base + on.used;
    on.used = ls_round_up(on.used + bytes, ALIGN);
    return placed;
}

typedef struct prepared {
    const ls_kernel *kernel;
    ls_kernel_call call;
    void *state;
} prepared;

static ls_status submit(void *context, void *stream) {
    const prepared *p = context;
    return p->kernel->launch(&p->call, p->state, stream);
}

/* Runs the row once; got: results. False: a library refuses the call. */
static bool run_row(const example *e, const ls_kernel *kernel, const array *in, const array *out, array *got) {
    array in_place[LS_KERNEL_INPUTS], out_place[LS_KERNEL_OUTPUTS];
    on.used = 0;
    const ls_device_arena *from = kernel->id == LS_KERNEL_FETCH ? on.host : on.own,
                          *to = kernel->id == LS_KERNEL_OFFLOAD ? on.host : on.own;
    for (int i = 0; i < e->n_in; i++) in_place[i] = place(kernel, from, &in[i]);
    for (int i = 0; i < e->n_out; i++) out_place[i] = place(kernel, to, &out[i]);
    prepared p = {.kernel = kernel, .call = make_call(e, in_place, out_place, false)};
    p.call.threads = 1;
    const size_t workspace = kernel->workspace != NULL ? kernel->workspace(&p.call) : 0;
    assert_true(on.used + workspace <= ARENA_BYTES);
    p.call.workspace = on.own->base + on.used;
    const ls_status status = kernel->prepare(&p.call, &p.state);
    if (kernel->refuses && (status.code == LS_UNSUPPORTED || status.code == LS_FAULT)) {
        print_message("%s\n", status.text);
        return false;
    }
    must("preparing", kernel, status);
    const ls_device_work work = {
        .name = ls_kernel_name(kernel), .event = {0, ++on.launched}, .submit = submit, .context = &p};
    must("launching", kernel, ls_device_launch(on.device, &work));
    must("executing", kernel, ls_device_join(on.device));
    for (int i = 0; i < e->n_out; i++) {
        const size_t bytes = ls_dtype_bytes(out[i].dtype) * (size_t)out[i].n;
        const ls_range range = ls_range_flat((size_t)((char *)out_place[i].typed - to->base), bytes);
        got[i] = copy_array(&out[i]);
        must("reading a result", kernel, ls_device_read(on.device, to, &range, got[i].typed));
    }
    if (p.state != NULL && kernel->release != NULL) kernel->release(p.state);
    return true;
}

/*
 * Tensor cores align 16 products and their sum to the largest of these, and cut off what is below: at most 2^-23 of it,
 * always in the same direction (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021). So
 * the error of a sum of K products grows with K / 16, where that of f32's additions grows with its root.
 */
static double allowed(const ls_kernel *kernel, const array *in, const array *out) {
    if (kernel->id != LS_KERNEL_MATMUL || kernel->dtype != LS_BF16 || out->dtype != LS_F32)
        return tolerance(out->dtype);
    const double K = sqrt((double)in[0].n * (double)in[1].n / (double)out->n);
    return tolerance(LS_F32) + K / 16 * 0x1p-23;
}

static void say_wrong(const example *e, const ls_kernel *kernel, int output, const char *what, double error) {
    print_error("%s %s by %s, output %d: %s %g\n", e->name, ls_dtype_name(kernel->dtype), ls_kernel_row(kernel), output,
                what, error);
    on.wrong++;
}

static void check_row(const example *e, const ls_kernel *kernel, const array *in, const array *out) {
    array got[RUNS][LS_KERNEL_OUTPUTS];
    for (int r = 0; r < RUNS; r++)
        if (!run_row(e, kernel, in, out, got[r])) return;
    for (int i = 0; i < e->n_out; i++) {
        const double error = norm_error(&got[0][i], out[i].exact);
        if (!(error <= allowed(kernel, in, &out[i]))) say_wrong(e, kernel, i, "an error of", error);
        if (memcmp(got[0][i].typed, got[1][i].typed, ls_dtype_bytes(out[i].dtype) * (size_t)out[i].n) != 0)
            say_wrong(e, kernel, i, "other bits the second time, both with an error of", error);
        for (int r = 0; r < RUNS; r++) free_array(&got[r][i]);
    }
    on.calls++;
}

static void run_rows(const example *e, const ls_kernel_request *request, const array *in, const array *out) {
    const ls_kernel *rows[LS_KERNEL_ROWS];
    int n;
    if (ls_kernel_find_rows(request, rows, &n).code != LS_OK) return;
    run_kernel(e->name, LS_F64, LS_ISA_REF, 1, make_call(e, in, out, true));
    for (int r = 0; r < n; r++) check_row(e, rows[r], in, out);
}

static void run_type(const example *e, ls_dtype T) {
    make_cuda_call(e, T, gpu_is_real() ? INT64_MAX : MOST_EMULATED, run_rows);
}

static void run_f32(const example *e) { run_type(e, LS_F32); }

static void run_types(const example *e) {
    run_f32(e);
    run_type(e, LS_BF16);
    run_type(e, LS_F64); /* of totals */
}

static void test_every_row(void **state) {
    (void)state;
    for (int g = 0; g < n_example_groups; g++)
        example_groups[g].visit(example_groups[g].f32_only ? run_f32 : run_types);
    print_message("%d calls on the device\n", on.calls);
    assert_true(on.calls > 200);
    assert_int_equal(on.wrong, 0);
}

static int open_device(void **state) {
    (void)state;
    use_gpu("seed=1");
    const ls_status opened = ls_device_open("cuda", &(ls_device_options){.queues = 1}, &on.device);
    if (opened.code != LS_OK) fail_msg("%s", opened.text);
    const ls_status own = ls_device_allocate(on.device, ARENA_BYTES, &on.own),
                    host = ls_device_allocate_host(on.device, ARENA_BYTES, &on.host);
    return own.code == LS_OK && host.code == LS_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    ls_device_close(on.device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_row)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
