/*
 * Time of the kernel rnn a token beside a plain loop over the same cell, f32: an sLSTM of 4 heads of 256 elements, with
 * 1 and 16 sequences, and ParaRNN's diagonal GRU of 256 elements over 16,384 tokens of one sequence. The plain loop is
 * C with expf, one token after the other, with R turned, so that the compiler makes vectors of its inner loop. One JSON
 * object per line; the best of several runs.
 *
 *   ninja -C build bench_rnn && build/bench/rnn [threads, 1]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

enum { REPETITIONS = 5, MOST_D = 256 };

typedef struct work {
    const char *name;
    ls_rnn_kind kind;
    int64_t B, N, H, D;
} work;

static void stop_unless(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

static float *numbers(int64_t n, float scale) {
    float *at = aligned_alloc(64, (size_t)ls_round_up((size_t)n * sizeof *at + 1, 64));
    for (int64_t i = 0; i < n; i++) at[i] = scale * ((float)((i * 7919 + 13) % 1009) / 504.5f - 1);
    return at;
}

typedef struct arrays {
    float *x, *weight, *turned, *y, *state;
} arrays;

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* w[row] = R y of a head. */
static void multiply(const float *turned, const float *y, int64_t rows, int64_t D, float *w) {
    memset(w, 0, (size_t)rows * sizeof *w);
    for (int64_t j = 0; j < D; j++)
        for (int64_t row = 0; row < rows; row++) w[row] += turned[j * rows + row] * y[j];
}

static void plain_slstm(const work *p, const arrays *a) {
    const int64_t D = p->D, rows = 4 * D;
    for (int64_t i = 0; i < p->B * p->H; i++) {
        const int64_t b = i / p->H, h = i % p->H;
        float *s = a->state + i * 4 * D, w[4 * MOST_D];
        for (int64_t t = 0; t < p->N; t++) {
            const float *x = a->x + ((b * p->N + t) * p->H + h) * rows;
            multiply(a->turned + h * rows * D, s, rows, D, w);
            for (int64_t d = 0; d < D; d++) {
                const float in = x[d] + w[d], forget = x[D + d] + w[D + d],
                            kept = fminf(forget, 0) - log1pf(expf(-fabsf(forget))) + s[3 * D + d],
                            m = s[2 * D + d] == 0 ? in : fmaxf(in, kept), write = expf(in - m),
                            keep = s[2 * D + d] == 0 ? 0 : expf(kept - m);
                s[D + d] = keep * s[D + d] + write * tanhf(x[2 * D + d] + w[2 * D + d]);
                s[2 * D + d] = keep * s[2 * D + d] + write;
                s[3 * D + d] = m;
            }
            for (int64_t d = 0; d < D; d++) {
                s[d] = sigmoid(x[3 * D + d] + w[3 * D + d]) * s[D + d] / s[2 * D + d];
                a->y[((b * p->N + t) * p->H + h) * D + d] = s[d];
            }
        }
    }
}

static void plain_gru(const work *p, const arrays *a) {
    const int64_t D = p->D;
    for (int64_t t = 0; t < p->N; t++) {
        const float *x = a->x + t * 3 * D, *w = a->weight;
        for (int64_t d = 0; d < D; d++) {
            const float y = a->state[d], z = sigmoid(x[d] + w[d] * y), r = sigmoid(x[D + d] + w[D + d] * y);
            a->y[t * D + d] = a->state[d] = y + z * (tanhf(x[2 * D + d] + w[2 * D + d] * y * r) - y);
        }
    }
}

static double time_kernel(const work *p, const arrays *a, ls_pool *pool) {
    const ls_rnn_params params = {.kind = p->kind};
    const ls_rnn_sizes s = ls_rnn_sizes_of(p->kind);
    const int64_t rows = s.numbers > 0 ? s.numbers : s.gates * p->D;
    ls_kernel_call call = {.n_in = 4, .n_out = 2, .params = &params, .threads = ls_pool_threads(pool)};
    call.in[0] = ls_view_dense(a->x, LS_F32, 4, (int64_t[]){p->B, p->N, p->H, s.gates * p->D});
    call.in[1] = ls_view_dense(a->weight, LS_F32, 3, (int64_t[]){p->H, rows, p->D});
    call.in[2] = ls_view_dense(a->weight, LS_F32, 2, (int64_t[]){p->H, 0});
    call.in[3] = ls_view_dense(a->weight, LS_I32, 3, (int64_t[]){p->B, p->N, 0});
    call.out[0] = ls_view_dense(a->y, LS_F32, 4, (int64_t[]){p->B, p->N, p->H, p->D});
    call.out[1] = ls_view_dense(a->state, LS_F32, 3, (int64_t[]){p->B, p->H, s.states * p->D});
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_kernel_request request = {.id = LS_KERNEL_RNN, .dtype = LS_F32, .isa = machine.isa, .call = &call};
    const ls_kernel *kernel = NULL;
    void *state = NULL;
    stop_unless(ls_kernel_find(&request, &kernel));
    call.workspace = aligned_alloc(64, ls_round_up(kernel->workspace(&call) + 1, 64));
    stop_unless(kernel->prepare(&call, &state));
    double best = INFINITY;
    for (int i = 0; i < REPETITIONS; i++) {
        memset(a->state, 0, (size_t)(p->B * p->H * s.states * p->D) * sizeof(float));
        const double start = ls_seconds();
        kernel->run(&call, state, pool);
        best = fmin(best, ls_seconds() - start);
    }
    free(call.workspace);
    return best;
}

static void measure(const work *p, void (*plain)(const work *, const arrays *), ls_pool *pool) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(p->kind);
    const int64_t rows = s.numbers > 0 ? s.numbers : s.gates * p->D, heads = p->B * p->N * p->H;
    arrays a = {numbers(heads * s.gates * p->D, 1), numbers(p->H * rows * p->D, 0.1f),
                numbers(p->H * rows * p->D, 0.1f), numbers(heads * p->D, 0), numbers(p->B * p->H * s.states * p->D, 0)};
    for (int64_t h = 0; h < p->H; h++)
        for (int64_t i = 0; i < rows * p->D; i++)
            a.turned[h * rows * p->D + i % p->D * rows + i / p->D] = a.weight[h * rows * p->D + i];
    const double kernel = time_kernel(p, &a, pool);
    const float last = a.y[heads * p->D - 1];
    double best = INFINITY;
    for (int i = 0; i < REPETITIONS; i++) {
        memset(a.state, 0, (size_t)(p->B * p->H * s.states * p->D) * sizeof(float));
        const double start = ls_seconds();
        plain(p, &a);
        best = fmin(best, ls_seconds() - start);
    }
    printf("{\"cell\":\"%s\",\"B\":%lld,\"tokens\":%lld,\"heads\":%lld,\"elements\":%lld,\"threads\":%d,"
           "\"kernel_us_a_token\":%.3f,\"plain_us_a_token\":%.3f,\"times\":%.1f,\"difference\":%.1e}\n",
           p->name, (long long)p->B, (long long)p->N, (long long)p->H, (long long)p->D, ls_pool_threads(pool),
           kernel / (double)p->N * 1e6, best / (double)p->N * 1e6, best / kernel,
           fabs((double)last - (double)a.y[heads * p->D - 1]));
    free(a.x);
    free(a.weight);
    free(a.turned);
    free(a.y);
    free(a.state);
}

int main(int argc, char **argv) {
    const work slstm = {"slstm", LS_RNN_SLSTM, 1, 256, 4, 256}, batch = {"slstm", LS_RNN_SLSTM, 16, 64, 4, 256},
               gru = {"diagonal gru", LS_RNN_DIAGONAL_GRU, 1, 16384, 1, 256};
    ls_pool *pool;
    stop_unless(ls_pool_create(argc > 1 ? atoi(argv[1]) : 1, false, &pool));
    measure(&slstm, plain_slstm, pool);
    measure(&batch, plain_slstm, pool);
    measure(&gru, plain_gru, pool);
    ls_pool_destroy(pool);
    return 0;
}
