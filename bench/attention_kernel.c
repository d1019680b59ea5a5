/*
 * Speed of causal attention and attention_grad, compared with the processor's peak. One JSON object per line. GFLOP/s
 * count visible pairs only: 2*(D + E) forward, 6*D + 4*E backward, for each query head; D: elements of a head of
 * queries and keys, E: of values.
 *
 *   attention_kernel [ISA] [THREADS]     default: the best isa, 1 and 2 threads
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

typedef struct shape {
    int64_t S, Hq, Hkv, D, E;
} shape;

static const shape shapes[] = {{4096, 4, 2, 64, 64},   {4096, 4, 2, 96, 96},  {4096, 4, 2, 128, 128},
                               {4096, 4, 2, 256, 256}, {16384, 4, 2, 64, 64}, {4096, 16, 4, 128, 128},
                               {4096, 4, 4, 192, 128}};

typedef float vector __attribute__((vector_size(64)));

/* Multiplies and adds 16 independent vectors a million times; returns seconds. */
#if defined __x86_64__
__attribute__((target("avx512f")))
#endif
static double
peak_seconds(float *sink) {
    vector sum[16];
#pragma GCC unroll 16 /* all three loops, because otherwise the sums would be kept in memory */
    for (int i = 0; i < 16; i++) sum[i] = (float)i - (vector){0};
    vector factor = 0.999f - (vector){0}, term = 1e-9f - (vector){0};
    const double start = ls_seconds();
    for (int n = 0; n < 1000000; n++) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) sum[i] = sum[i] * factor + term;
        __asm__ volatile("" : "+m"(*sink));
    }
    const double seconds = ls_seconds() - start;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) *sink += sum[i][0];
    return seconds;
}

static void peak_task(void *context, int i, int thread) {
    (void)thread;
    double *seconds = context;
    float sink = 0;
    for (int repeat = 0; repeat < 5; repeat++) {
        const double now = peak_seconds(&sink);
        if (repeat == 0 || now < seconds[i]) seconds[i] = now;
    }
}

static double peak_gflops(ls_pool *pool, int threads) {
    double seconds[64] = {0}, rate = 0;
    ls_pool_run(pool, threads, peak_task, seconds);
    for (int i = 0; i < threads; i++) rate += 16e6 * 16 * 2 / seconds[i] / 1e9;
    return rate;
}

static void *must(void *p) {
    if (!p) abort();
    return p;
}

static ls_view random_view(ls_dtype dtype, int64_t B, int64_t n, int64_t H, int64_t D) {
    const int64_t size[] = {B, n, H, D}, count = B * n * H * D;
    ls_view view = ls_view_dense(must(aligned_alloc(64, ls_round_up((size_t)count * 4, 64))), dtype, 4, size);
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(int32_t)state * 0x1p-31f;
        if (dtype == LS_BF16)
            ((ls_bf16 *)view.data)[i] = ls_bf16_from_f32(x);
        else
            ((float *)view.data)[i] = x;
    }
    return view;
}

static double time_kernel(const ls_kernel *kernel, ls_kernel_call *call, ls_pool *pool, double *bytes) {
    const size_t size = kernel->workspace(call);
    *bytes = (double)size;
    call->workspace = must(aligned_alloc(64, ls_round_up(size, 64) + 64));
    double best = INFINITY;
    const double start = ls_seconds();
    for (int i = 0; i < 2 || (i < 10 && ls_seconds() - start < 2); i++) {
        const double before = ls_seconds();
        kernel->run(call, NULL, pool);
        const double seconds = ls_seconds() - before;
        best = seconds < best ? seconds : best;
    }
    free(call->workspace);
    return best;
}

static void measure(const shape *s, const ls_kernel *forward, const ls_kernel *backward, int threads, ls_pool *pool,
                    double peak) {
    const ls_dtype T = forward->dtype;
    int32_t *positions = must(malloc(sizeof *positions * (size_t)s->S));
    ls_span *spans = must(malloc(sizeof *spans * (size_t)s->S));
    for (int64_t i = 0; i < s->S; i++) positions[i] = (int32_t)i;
    const ls_mask mask = ls_mask_causal();
    ls_mask_table(&mask, s->S, positions, s->S, spans);
    const int64_t span_size[] = {1, s->S, 2}, position_size[] = {s->S}, lse_size[] = {1, s->Hq, s->S};
    const ls_view span_view = ls_view_dense(spans, LS_I32, 3, span_size);
    const ls_view position_view = ls_view_dense(positions, LS_I32, 1, position_size);
    const ls_view q = random_view(T, 1, s->S, s->Hq, s->D), k = random_view(T, 1, s->S, s->Hkv, s->D);
    const ls_view v = random_view(T, 1, s->S, s->Hkv, s->E), dout = random_view(T, 1, s->S, s->Hq, s->E);
    const ls_view o = random_view(LS_F32, 1, s->S, s->Hq, s->E), dq = random_view(LS_F32, 1, s->S, s->Hq, s->D);
    const ls_view dk = random_view(LS_F32, 1, s->S, s->Hkv, s->D), dv = random_view(LS_F32, 1, s->S, s->Hkv, s->E);
    ls_view lse = random_view(LS_F32, 1, s->Hq, s->S, 1), delta = random_view(LS_F32, 1, s->Hq, s->S, 1);
    lse = ls_view_dense(lse.data, LS_F32, 3, lse_size);
    delta = ls_view_dense(delta.data, LS_F32, 3, lse_size);
    const ls_attention_params params = {.scale = 1 / sqrt((double)s->D), .group = (int)(s->Hq / s->Hkv)};
    ls_kernel_call call = {5, 2, {q, k, v, span_view, position_view}, {o, lse}, &params, NULL, threads};
    ls_kernel_call grad = {8,    3,      {q, k, v, span_view, position_view, dout, lse, delta}, {dq, dk, dv}, &params,
                           NULL, threads};
    double forward_bytes, backward_bytes;
    const double forward_seconds = time_kernel(forward, &call, pool, &forward_bytes);
    const double backward_seconds = time_kernel(backward, &grad, pool, &backward_bytes);
    const double pairs = (double)s->S * ((double)s->S + 1) / 2 * (double)s->Hq;
    const double forward_rate = (double)(2 * s->D + 2 * s->E) * pairs / forward_seconds / 1e9;
    const double backward_rate = (double)(6 * s->D + 4 * s->E) * pairs / backward_seconds / 1e9;
    printf(
        "{\"bench\":\"attention_kernel\",\"isa\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,\"S\":%lld,\"Hq\":%lld,"
        "\"Hkv\":%lld,\"D\":%lld,\"E\":%lld,\"forward_seconds\":%.4f,\"backward_seconds\":%.4f,\"forward_gflops\":%.1f,"
        "\"backward_gflops\":%.1f,\"peak_f32_gflops\":%.1f,\"forward_share\":%.3f,\"backward_share\":%.3f,"
        "\"forward_workspace\":%.0f,\"backward_workspace\":%.0f}\n",
        ls_isa_name(ls_isa_within(forward->needs)), ls_dtype_name(T), threads, (long long)s->S, (long long)s->Hq,
        (long long)s->Hkv, (long long)s->D, (long long)s->E, forward_seconds, backward_seconds, forward_rate,
        backward_rate, peak, forward_rate / peak, backward_rate / peak, forward_bytes, backward_bytes);
    fflush(stdout);
    void *all[] = {positions, spans,   q.data,  k.data,  v.data,   dout.data,
                   o.data,    dq.data, dk.data, dv.data, lse.data, delta.data};
    for (size_t i = 0; i < LS_COUNT(all); i++) free(all[i]);
}

static ls_status bench(int argc, char **argv) {
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_isa isa = machine.isa;
    if (argc > 1) LS_TRY(ls_isa_parse(argv[1], &isa));
    LS_TRY(ls_isa_check(isa));
    const int only = argc > 2 ? atoi(argv[2]) : 0;
    for (int threads = only > 0 ? only : 1; threads <= (only > 0 ? only : 2); threads++) {
        ls_pool *pool;
        LS_TRY(ls_pool_create(threads, true, &pool));
        const double peak =
            ls_isa_allows(machine.isa, LS_FEATURE_AVX512) && threads <= 64 ? peak_gflops(pool, threads) : NAN;
        for (int element = 0; element < 2; element++) {
            const ls_dtype T = element ? LS_BF16 : LS_F32;
            const ls_kernel *forward, *backward;
            LS_TRY(ls_kernel_find(&(ls_kernel_request){.id = LS_KERNEL_ATTENTION, .dtype = T, .isa = isa}, &forward));
            LS_TRY(ls_kernel_find(&(ls_kernel_request){.id = LS_KERNEL_ATTENTION_GRAD, .dtype = T, .isa = isa},
                                  &backward));
            for (size_t i = 0; i < LS_COUNT(shapes); i++) measure(&shapes[i], forward, backward, threads, pool, peak);
        }
        ls_pool_destroy(pool);
    }
    return ls_ok();
}

int main(int argc, char **argv) {
    const ls_status status = bench(argc, argv);
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    return status.code == LS_OK ? 0 : 1;
}
