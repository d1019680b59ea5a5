/*
 * The kernels of the device cuda as it executes them: operands in its memory, launches on a queue; every row that takes
 * a call, attention and its gradient too, against a reference in f64, twice with the same bits. By the driver for tests
 * and kernels that were compiled for the host; with LS_TEST_GPU=1 on this machine's GPU, by the plug-in of `make cuda`
 * and NVIDIA's libraries.
 */
#include "support/attention_check.h"
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
    int passed_on; /* calls of attention that another row than the wanted one has taken */
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

/* With scratch behind the operands. */
static ls_status prepare(prepared *p) {
    const size_t workspace = p->kernel->workspace != NULL ? p->kernel->workspace(&p->call) : 0;
    assert_true(on.used + workspace <= ARENA_BYTES);
    p->call.workspace = on.own->base + on.used;
    p->state = NULL;
    return p->kernel->prepare(&p->call, &p->state);
}

static bool refuses(const ls_kernel *kernel, ls_status status) {
    const bool is = kernel->refuses && (status.code == LS_UNSUPPORTED || status.code == LS_FAULT);
    if (is) print_message("%s\n", status.text);
    return is;
}

static void execute(prepared *p) {
    const ls_device_work work = {
        .name = ls_kernel_name(p->kernel), .event = {0, ++on.launched}, .submit = submit, .context = p};
    must("launching", p->kernel, ls_device_launch(on.device, &work));
    must("executing", p->kernel, ls_device_join(on.device));
}

static void release(const prepared *p) {
    if (p->state != NULL && p->kernel->release != NULL) p->kernel->release(p->state);
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
    const ls_status status = prepare(&p);
    if (refuses(kernel, status)) return false;
    must("preparing", kernel, status);
    execute(&p);
    for (int i = 0; i < e->n_out; i++) {
        const size_t bytes = ls_dtype_bytes(out[i].dtype) * (size_t)out[i].n;
        const ls_range range = ls_range_flat((size_t)((char *)out_place[i].typed - to->base), bytes);
        got[i] = copy_array(&out[i]);
        must("reading a result", kernel, ls_device_read(on.device, to, &range, got[i].typed));
    }
    release(&p);
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

/* Without a GPU every third call: test_kernel_cuda makes the same calls of the same kernels, but for the device. */
static void run_rows(const example *e, const ls_kernel_request *request, const array *in, const array *out) {
    static int turn;
    const ls_kernel *rows[LS_KERNEL_ROWS];
    int n;
    if (!gpu_is_real() && turn++ % 3 > 0) return;
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

/* --- attention ---------------------------------------------------------------------------------------------------- */

/* Of a view at strides: from its first element to its last one. */
static ls_range place_view(const ls_kernel *kernel, ls_view *v) {
    int64_t last = 0;
    for (int d = 0; d < v->ndim; d++) last += (v->size[d] - 1) * v->stride[d];
    const ls_range range = ls_range_flat(on.used, ls_dtype_bytes(v->dtype) * (size_t)(last + 1));
    on.used = ls_round_up(on.used + ls_range_bytes(&range), ALIGN);
    assert_true(on.used <= ARENA_BYTES);
    must("writing an operand", kernel, ls_device_write(on.device, on.own, &range, v->data));
    v->data = on.own->base + range.offset;
    return range;
}

/* By the kernel, or where it does not support the call or refuses it by the one that takes it then, as in a program. */
static void prepare_first(prepared *p) {
    const ls_kernel_request request = {
        .id = p->kernel->id, .dtype = p->kernel->dtype, .device = LS_DEVICE_CUDA, .call = &p->call};
    for (;;) {
        ls_status status = ls_error(LS_UNSUPPORTED, "it does not support the call");
        if (p->kernel->supports == NULL || p->kernel->supports(&p->call)) {
            status = prepare(p);
            if (!refuses(p->kernel, status)) {
                must("preparing", p->kernel, status);
                return;
            }
        }
        const ls_kernel *next = ls_kernel_next(&request, p->kernel);
        if (next == NULL) must("preparing", p->kernel, status);
        p->kernel = next;
        on.passed_on++;
    }
}

static void call_on_device(const ls_kernel *kernel, ls_kernel_call *call, ls_pool *pool) {
    (void)pool;
    prepared p = {.kernel = kernel, .call = *call};
    ls_range results[LS_KERNEL_OUTPUTS];
    on.used = 0;
    p.call.threads = 1;
    for (int i = 0; i < call->n_in; i++) (void)place_view(kernel, &p.call.in[i]);
    for (int i = 0; i < call->n_out; i++) results[i] = place_view(kernel, &p.call.out[i]);
    prepare_first(&p);
    execute(&p);
    for (int i = 0; i < call->n_out; i++)
        must("reading a result", kernel, ls_device_read(on.device, on.own, &results[i], call->out[i].data));
    release(&p);
    on.calls++;
}

/*
 * With tiles of 64 and 128 queries and keys: ragged, seen in part, left out. A GPU gets all, LONGER times as many
 * tokens; kernels that were compiled for the host the first EMULATED of them, since test_kernel_cuda_attention.c holds
 * these to as many.
 */
enum { LONGER = 5, EMULATED = 2 };
static const test_case cases[] = {
    {.B = 2, .D = 64, .Hq = 3, .Hkv = 1, .group = 3, .S = 80, .P = 2, .rank = 1, .mask = "full"},
    {.B = 1, .D = 64, .Hq = 2, .Hkv = 1, .group = 2, .S = 140, .P = 1, .mask = "causal"},
    {.B = 1, .D = 128, .Hq = 4, .Hkv = 4, .group = 1, .S = 131, .P = 1, .mask = "causal"},
    {.B = 1, .D = 128, .Hq = 6, .Hkv = 2, .group = 3, .S = 90, .P = 1, .mask = "window:40"},
    {.B = 1, .D = 64, .Hq = 2, .Hkv = 1, .group = 2, .S = 150, .P = 1, .mask = "window:60+documents"},
    {.B = 1, .D = 256, .Hq = 2, .Hkv = 1, .group = 2, .S = 70, .P = 1, .mask = "causal"},
    {.B = 1, .D = 128, .Hq = 2, .Hkv = 2, .group = 1, .S = 70, .P = 1, .mask = "causal", .softcap = 1.5},
};

/* All rows of the device for a contract and a type, also several of one name, in the order in which they are taken. */
static int list_rows(ls_kernel_id id, ls_dtype T, const ls_kernel *out[2 * LS_KERNEL_ROWS]) {
    const ls_kernel_request request = {.id = id, .dtype = T, .device = LS_DEVICE_CUDA};
    int n = 0;
    assert_int_equal(ls_kernel_find(&request, &out[n++]).code, LS_OK);
    for (const ls_kernel *next; n < 2 * LS_KERNEL_ROWS && (next = ls_kernel_next(&request, out[n - 1])) != NULL;)
        out[n++] = next;
    return n;
}

/* A row of attention and one of its gradient: number i of each, and the last one where there are fewer. */
typedef struct pair_of_rows {
    ls_dtype T;
    int number;
} pair_of_rows;

static void test_attention(void **state) {
    const pair_of_rows *which = *state;
    const ls_kernel *forward[2 * LS_KERNEL_ROWS], *backward[2 * LS_KERNEL_ROWS];
    const int n_forward = list_rows(LS_KERNEL_ATTENTION, which->T, forward),
              n_backward = list_rows(LS_KERNEL_ATTENTION_GRAD, which->T, backward);
    assert_true(which->number < n_forward || which->number < n_backward);
    const attention_variant variant = {forward[ls_min(which->number, n_forward - 1)],
                                       backward[ls_min(which->number, n_backward - 1)], "the device",
                                       which->T == LS_BF16 ? 8 : 3};
    const int calls = on.calls, passed_on = on.passed_on;
    const size_t n = gpu_is_real() ? LS_COUNT(cases) : EMULATED;
    for (size_t i = 0; i < n; i++) {
        test_case c = cases[i];
        c.threads = 1;
        if (gpu_is_real()) c.S *= LONGER;
        problem p = problem_make(&c, which->T);
        check_attention_by(&p, &variant, call_on_device);
        problem_free(&p);
    }
    print_message("%s, number %d: attention by %s, its gradient by %s: %zu of %zu cases, %d calls, %d of "
                  "them passed on\n",
                  ls_dtype_name(which->T), which->number, ls_kernel_row(variant.forward),
                  ls_kernel_row(variant.backward), n, LS_COUNT(cases), on.calls - calls, on.passed_on - passed_on);
}

/* Each row has a number: there is none beyond. */
static void test_attention_has_no_more_rows(void **state) {
    const pair_of_rows *past = *state;
    const ls_kernel *rows[2 * LS_KERNEL_ROWS];
    assert_true(list_rows(LS_KERNEL_ATTENTION, past->T, rows) <= past->number);
    assert_true(list_rows(LS_KERNEL_ATTENTION_GRAD, past->T, rows) <= past->number);
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
    static pair_of_rows f32[] = {{LS_F32, 0}, {LS_F32, 1}},
                        bf16[] = {{LS_BF16, 0}, {LS_BF16, 1}, {LS_BF16, 2}, {LS_BF16, 3}, {LS_BF16, 4}};
#define ATTENTION(pair) cmocka_unit_test_prestate(test_attention, &(pair))
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_row),
                                       ATTENTION(f32[0]),
                                       cmocka_unit_test_prestate(test_attention_has_no_more_rows, &f32[1]),
                                       ATTENTION(bf16[0]),
                                       ATTENTION(bf16[1]),
                                       ATTENTION(bf16[2]),
                                       ATTENTION(bf16[3]),
                                       cmocka_unit_test_prestate(test_attention_has_no_more_rows, &bf16[4])};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
