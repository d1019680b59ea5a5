/*
 * A diagonal cell over many tokens is computed in pieces (kernel/cpu/rnn_strands.h): results and the state behind the
 * last token are, bit by bit, those of calls of few tokens one after the other, on any threads and with every
 * instruction set, whether a cell forgets where it began (small numbers) or not (large ones), with documents too. So
 * are gradients of x and of the state in front, also where the results of half of the tokens have none; those of the
 * cell's numbers are the same bits on any threads.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/float16.h"
#include "support/kernel_call.h"

enum { B = 2, N = 1607, H = 1, D = 5, FEW = 400, MOST_GATES = 3, MOST_NUMBERS = 5, MOST_STATES = 2 };

typedef struct cell {
    ls_rnn_kind kind;
    double scale;        /* of its numbers */
    bool packed, masked; /* masked: the first half has no gradient of its own */
    ls_dtype dtype;
} cell;

static const cell cells[] = {
    {LS_RNN_DIAGONAL_GRU, 0.5, false, true, LS_F32},   {LS_RNN_DIAGONAL_GRU, 8, false, false, LS_F32},
    {LS_RNN_DIAGONAL_GRU, 4, true, false, LS_BF16},    {LS_RNN_DIAGONAL_LSTM, 0.5, false, true, LS_F32},
    {LS_RNN_DIAGONAL_LSTM, 0.5, true, false, LS_BF16}, {LS_RNN_DIAGONAL_LSTM, 8, false, false, LS_F32},
};

enum { CALLS = (N + FEW - 1) / FEW, OF_STATE = B * H * MOST_STATES * D, OF_NUMBERS = H * MOST_NUMBERS * D };

/* Of the cell's type, but for states and gradients of numbers. */
typedef struct arrays {
    float x[B * N * H * MOST_GATES * D], weight[OF_NUMBERS], y[2][B * N * H * D], dy[B * N * H * D];
    float dx[2][B * N * H * MOST_GATES * D], state[2][OF_STATE];
    float fronts[CALLS][OF_STATE], dstate[2][OF_STATE], dweight[2][OF_NUMBERS];
    int32_t places[B * N];
} arrays;

static void fill(const cell *c, float *to, int64_t n, double scale, uint64_t stream) {
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(scale * ls_rng_normal(3, stream, (uint64_t)i));
        const ls_bf16 half = ls_bf16_from_f32(x);
        const size_t bytes = ls_dtype_bytes(c->dtype);
        memcpy((char *)to + (size_t)i * bytes, c->dtype == LS_F32 ? (const void *)&x : &half, bytes);
    }
}

/* What both kernels are given of tokens first .. first + n - 1. */
static ls_kernel_call call_of(const cell *c, arrays *a, const ls_rnn_params *params) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(c->kind);
    ls_kernel_call call = {.n_in = 4, .params = params};
    call.in[0] = VIEW(a->x, c->dtype, B, N, H, s.gates * D);
    call.in[1] = VIEW(a->weight, c->dtype, H, s.numbers, D);
    call.in[2] = VIEW(a->weight, c->dtype, H, 0);
    call.in[3] = VIEW(a->places, LS_I32, B, N, c->packed);
    return call;
}

static void narrow(ls_view *v, int64_t first, int64_t n) {
    if (v->ndim < 3 || v->size[1] != N) return;
    v->data = (char *)v->data + first * v->stride[1] * (int64_t)ls_dtype_bytes(v->dtype);
    v->size[1] = n;
}

static void run_tokens(const char *name, const cell *c, ls_kernel_call call, int64_t first, int64_t n, ls_isa isa,
                       int threads) {
    for (int i = 0; i < call.n_in; i++) narrow(&call.in[i], first, n);
    for (int i = 0; i < call.n_out; i++) narrow(&call.out[i], first, n);
    run_kernel(name, c->dtype, isa, threads, call);
}

static void run(const cell *c, arrays *a, int made, int64_t first, int64_t n, ls_isa isa, int threads) {
    const ls_rnn_params params = {.kind = c->kind};
    ls_kernel_call call = call_of(c, a, &params);
    call.n_out = 2;
    call.out[0] = VIEW(a->y[made], c->dtype, B, N, H, D);
    call.out[1] = VIEW(a->state[made], LS_F32, B, H, ls_rnn_sizes_of(c->kind).states * D);
    run_tokens("rnn", c, call, first, n, isa, threads);
}

static void run_back(const cell *c, arrays *a, int made, int64_t first, int64_t n, ls_isa isa, int threads) {
    const ls_rnn_params params = {.kind = c->kind};
    const ls_rnn_sizes s = ls_rnn_sizes_of(c->kind);
    ls_kernel_call call = call_of(c, a, &params);
    call.n_in = 7;
    call.in[4] = VIEW(a->y[0], c->dtype, B, N, H, D);
    call.in[5] = VIEW(a->dy, c->dtype, B, N, H, D);
    call.in[6] = VIEW(a->fronts[first / FEW], LS_F32, B, H, s.states * D);
    call.n_out = 4;
    call.out[0] = VIEW(a->dx[made], c->dtype, B, N, H, s.gates * D);
    call.out[1] = VIEW(a->dweight[made], LS_F32, H, s.numbers, D);
    call.out[2] = VIEW(a->dweight[made], LS_F32, H, 0);
    call.out[3] = VIEW(a->dstate[made], LS_F32, B, H, s.states * D);
    run_tokens("rnn_grad", c, call, first, n, isa, threads);
}

static bool same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

static void expect_same(const cell *c, arrays *a, ls_isa isa, int threads) {
    for (int made = 0; made < 2; made++) fill(&(cell){.dtype = LS_F32}, a->state[made], OF_STATE, 1, 5);
    memset(a->y, 0x5a, sizeof a->y);
    for (int64_t first = 0; first < N; first += FEW) {
        memcpy(a->fronts[first / FEW], a->state[0], sizeof a->state[0]);
        run(c, a, 0, first, ls_min(FEW, N - first), isa, 1);
    }
    run(c, a, 1, 0, N, isa, threads);
    if (!same_bits(a->y[0], a->y[1], sizeof a->y[0]) || !same_bits(a->state[0], a->state[1], sizeof a->state[0]))
        fail_msg("kind %d, scale %g, %s, %d threads: pieces are not what single tokens are", (int)c->kind, c->scale,
                 ls_isa_name(isa), threads);
}

static void begin_back(arrays *a, int made) {
    fill(&(cell){.dtype = LS_F32}, a->dstate[made], OF_STATE, 1, 6);
    memset(a->dweight[made], 0, sizeof a->dweight[made]);
    memset(a->dx[made], 0x5a, sizeof a->dx[made]);
}

static bool same_gradients(const arrays *a) {
    return same_bits(a->dx[0], a->dx[1], sizeof a->dx[0]) && same_bits(a->dstate[0], a->dstate[1], sizeof a->dstate[0]);
}

static double largest_difference(const float *a, const float *b, int64_t n) {
    double largest = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = ls_max(largest, fabs((double)a[i]));
        most = ls_max(most, fabs((double)a[i] - (double)b[i]));
    }
    return most / largest;
}

/* With states and results that expect_same left. */
static void expect_same_back(const cell *c, arrays *a, ls_isa isa) {
    begin_back(a, 0);
    run_back(c, a, 0, 0, N, isa, 1);
    begin_back(a, 1);
    run_back(c, a, 1, 0, N, isa, 3);
    if (!same_gradients(a) || !same_bits(a->dweight[0], a->dweight[1], sizeof a->dweight[0]))
        fail_msg("kind %d, scale %g, %s: gradients depend on the threads", (int)c->kind, c->scale, ls_isa_name(isa));
    if (c->dtype == LS_BF16) return; /* states in front of calls are not rounded as results are */
    begin_back(a, 0);
    for (int64_t first = (CALLS - 1) * FEW; first >= 0; first -= FEW)
        run_back(c, a, 0, first, ls_min(FEW, N - first), isa, 1);
    const double apart = largest_difference(a->dweight[0], a->dweight[1], OF_NUMBERS);
    if (!same_gradients(a) || !(apart < 1e-5))
        fail_msg("kind %d, scale %g, %s: gradients of pieces are not those of single tokens; of numbers %g apart",
                 (int)c->kind, c->scale, ls_isa_name(isa), apart);
}

static void test_pieces(void **state) {
    (void)state;
    arrays *a = malloc(sizeof *a);
    for (size_t i = 0; i < LS_COUNT(cells); i++) {
        fill(&cells[i], a->x, B * N * H * MOST_GATES * D, 1, 1);
        fill(&cells[i], a->weight, OF_NUMBERS, cells[i].scale, 2);
        fill(&cells[i], a->dy, B * N * H * D, 1, 3);
        for (int64_t b = 0; b < B && cells[i].masked; b++)
            memset(&a->dy[b * N * H * D], 0, (size_t)(N / 2 * H * D) * sizeof *a->dy); /* these cells are f32 */
        for (int64_t n = 0; n < B * N; n++) a->places[n] = (int32_t)(n % N < 801 ? n % N : n % N - 801);
        for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
            if (ls_isa_check(isa).code != LS_OK) continue;
            expect_same(&cells[i], a, isa, 1);
            expect_same(&cells[i], a, isa, 3);
            expect_same_back(&cells[i], a, isa);
        }
    }
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces)};
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
