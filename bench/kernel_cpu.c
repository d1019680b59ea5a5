/*
 * Speed of the cpu kernels that the registry chooses: GB/s for memory-bound kernels (the bytes that must move; each
 * read and each write counts once), GFLOP/s for matmul. One JSON object per line; the best of several runs, with
 * buffers in the caches.
 *
 *   gcc -std=gnu11 -D_GNU_SOURCE -O2 -Iinclude -Isrc bench/kernel_cpu.c -o build/bench-kernel-cpu \
 *       build/liblongspan.a -ldnnl -lpthread -lm
 *   build/bench-kernel-cpu [threads, 2]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

enum { REPETITIONS = 7 };

typedef struct operand {
    char type; /* T, G (f32), D (f64), I (i32), Z (i32, zeros) */
    int64_t rows, columns;
} operand;

typedef struct work {
    const char *name;
    const void *params;
    int n_in, n_out;
    operand in[5], out[4];
    double flops; /* 0: memory-bound */
} work;

static void stop_unless(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

/* Allocates and touches the memory of an operand, and adds its bytes to *bytes. */
static ls_view make_view(const operand *o, ls_dtype T, double *bytes) {
    const ls_dtype dtype = o->type == 'T' ? T : o->type == 'D' ? LS_F64 : strchr("IZ", o->type) ? LS_I32 : LS_F32;
    const int64_t n = o->rows * o->columns;
    const size_t size = ls_round_up(ls_dtype_bytes(dtype) * (size_t)n, 64);
    void *data = aligned_alloc(64, size);
    memset(data, 0, size);
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)((i * 7 + 3) % 101) / 128.0f;
        if (dtype == LS_F32) ((float *)data)[i] = value;
        if (dtype == LS_BF16) ((ls_bf16 *)data)[i] = ls_bf16_from_f32(value);
        if (dtype == LS_F64) ((double *)data)[i] = 1;
        if (dtype == LS_I32) ((int32_t *)data)[i] = o->type == 'Z' ? 0 : (int32_t)(i % 251);
    }
    *bytes += (double)size;
    return o->rows > 1 ? ls_view_dense(data, dtype, 2, (int64_t[]){o->rows, o->columns})
                       : ls_view_dense(data, dtype, 1, (int64_t[]){o->columns});
}

static void measure(const work *w, ls_dtype T, ls_isa isa, ls_pool *pool) {
    const ls_kernel *kernel = NULL;
    void *state = NULL;
    double bytes = 0, best = INFINITY;
    ls_kernel_call call = {.n_in = w->n_in, .n_out = w->n_out, .params = w->params, .threads = ls_pool_threads(pool)};
    for (int i = 0; i < w->n_in; i++) call.in[i] = make_view(&w->in[i], T, &bytes);
    for (int i = 0; i < w->n_out; i++) call.out[i] = make_view(&w->out[i], T, &bytes);
    const ls_kernel_request request = {.id = ls_kernel_named(w->name), .dtype = T, .isa = isa};
    stop_unless(ls_kernel_find(&request, &kernel));
    const double before = ls_seconds();
    const size_t workspace = kernel->workspace ? kernel->workspace(&call) : 0;
    call.workspace = aligned_alloc(64, ls_round_up(workspace + 1, 64));
    if (kernel->prepare) stop_unless(kernel->prepare(&call, &state));
    const double prepared = ls_seconds() - before;
    for (int i = 0; i < REPETITIONS; i++) {
        const double start = ls_seconds();
        kernel->run(&call, state, pool);
        best = fmin(best, ls_seconds() - start);
    }
    printf("{\"kernel\":\"%s\",\"dtype\":\"%s\",\"isa\":\"%s\",\"threads\":%d,\"rows\":%lld,\"columns\":%lld,"
           "\"ms\":%.3f,\"prepare_ms\":%.3f,\"workspace\":%zu,\"%s\":%.1f}\n",
           w->name, ls_dtype_name(T), ls_isa_name(ls_isa_within(kernel->needs)), call.threads,
           (long long)w->out[0].rows, (long long)w->out[0].columns, best * 1e3, prepared * 1e3, workspace,
           w->flops > 0 ? "gflops" : "gb_per_s", (w->flops > 0 ? w->flops : bytes) / best * 1e-9);
    if (kernel->release) kernel->release(state);
    for (int i = 0; i < w->n_in; i++) free(call.in[i].data);
    for (int i = 0; i < w->n_out; i++) free(call.out[i].data);
    free(call.workspace);
}

static void measure_all(ls_dtype T, ls_isa isa, ls_pool *pool) {
    static const ls_norm_params norm = {.epsilon = 1e-5};
    static const ls_activation_params gelu = {LS_ACTIVATION_GELU, 0};
    static const ls_adamw_params adamw = {0.9, 0.95, 1e-8};
    static const ls_embedding_params every = {-1};
    static const ls_matmul_params forward = {false, true, false}, input = {0}, weight = {true, false, true};
    enum { n = 8192, E = 768, F = 2048, V = 257 };
    const operand x = {'T', n, E}, h = {'T', n, F}, w = {'T', 1, E}, g = {'G', n, E};
    const operand rows = {'G', 1, n}, dw = {'G', 1, E}, control = {'D', 1, LS_CONTROLS}, ids = {'I', 1, n};
    const operand units = {'Z', 1, (int64_t)n * E / LS_FLAT_UNIT}, settings = {'D', 1, 2};
    const operand logits = {'T', n, V}, table = {'T', V, E}, dtable = {'G', V, E};
    const work all[] = {
        {"rmsnorm", &norm, 2, 2, {x, w}, {x, rows}, 0},
        {"rmsnorm_grad", &norm, 4, 2, {x, w, rows, x}, {x, dw}, 0},
        {"layernorm", &norm, 3, 3, {x, w, w}, {x, rows, rows}, 0},
        {"layernorm_grad", &norm, 5, 2, {x, w, rows, rows, x}, {x, dw}, 0},
        {"swiglu", NULL, 2, 1, {h, h}, {h}, 0},
        {"swiglu_grad", NULL, 3, 2, {h, h, h}, {h, h}, 0},
        {"activation", &gelu, 1, 1, {h}, {h}, 0},
        {"activation_grad", &gelu, 2, 1, {h, h}, {h}, 0},
        {"add", NULL, 2, 1, {x, x}, {x}, 0},
        {"accumulate", NULL, 1, 1, {x}, {g}, 0},
        {"copy", NULL, 1, 1, {x}, {x}, 0},
        {"cast", NULL, 1, 1, {x}, {g}, 0},
        {"column_sum", NULL, 1, 1, {x}, {dw}, 0},
        {"add_rows", NULL, 1, 1, {{'G', 8, n * E / 8}}, {{'G', 1, n * E / 8}}, 0},
        {"embedding", NULL, 2, 1, {ids, table}, {x}, 0},
        {"embedding_grad", &every, 2, 1, {ids, x}, {dtable}, 0},
        {"cross_entropy", NULL, 2, 2, {logits, ids}, {rows, rows}, 0},
        {"cross_entropy_grad", NULL, 4, 1, {logits, ids, rows, rows}, {logits}, 0},
        {"sum_squares", NULL, 1, 1, {g}, {{'D', 1, 1}}, 0},
        {"adamw", &adamw, 4, 4, {g, control, units, settings}, {g, g, g, x}, 0},
        {"matmul", &forward, 2, 1, {x, {'T', F, E}}, {h}, 2.0 * n * E * F},
        {"matmul", &input, 2, 1, {h, {'T', F, E}}, {x}, 2.0 * n * E * F},
        {"matmul", &weight, 2, 1, {h, x}, {{'G', F, E}}, 2.0 * n * E * F},
    };
    for (size_t i = 0; i < LS_COUNT(all); i++) measure(&all[i], T, isa, pool);
}

int main(int argc, char **argv) {
    ls_machine machine;
    ls_pool *pool = NULL;
    ls_machine_detect(&machine);
    stop_unless(ls_pool_create(argc > 1 ? atoi(argv[1]) : 2, true, &pool));
    measure_all(LS_F32, machine.isa, pool);
    measure_all(LS_BF16, machine.isa, pool);
    ls_pool_destroy(pool);
    return 0;
}
