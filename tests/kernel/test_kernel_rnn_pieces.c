/*
 * A diagonal cell over many tokens is computed in pieces (kernel/cpu/rnn_strands.h): results and the state behind the
 * last token are, bit by bit, those of calls of few tokens one after the other, on any threads and with every
 * instruction set, whether a cell forgets where it began (small numbers) or not (large ones), with documents too.
 */
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
    double scale; /* of its numbers */
    bool packed;
    ls_dtype dtype;
} cell;

static const cell cells[] = {
    {LS_RNN_DIAGONAL_GRU, 0.5, false, LS_F32},  {LS_RNN_DIAGONAL_GRU, 4, false, LS_F32},
    {LS_RNN_DIAGONAL_GRU, 4, true, LS_BF16},    {LS_RNN_DIAGONAL_LSTM, 0.5, false, LS_F32},
    {LS_RNN_DIAGONAL_LSTM, 0.5, true, LS_BF16}, {LS_RNN_DIAGONAL_LSTM, 4, false, LS_F32},
};

typedef struct arrays {
    float x[B * N * H * MOST_GATES * D], weight[H * MOST_NUMBERS * D], y[2][B * N * H * D]; /* of the cell's type */
    float state[2][B * H * MOST_STATES * D];
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

/* Tokens first .. first + n - 1. */
static void run(const cell *c, arrays *a, int made, int64_t first, int64_t n, ls_isa isa, int threads) {
    const ls_rnn_params params = {.kind = c->kind};
    const ls_rnn_sizes s = ls_rnn_sizes_of(c->kind);
    ls_kernel_call call = {.n_in = 4, .n_out = 2, .params = &params};
    call.in[0] = VIEW(a->x, c->dtype, B, N, H, s.gates * D);
    call.in[1] = VIEW(a->weight, c->dtype, H, s.numbers, D);
    call.in[2] = VIEW(a->weight, c->dtype, H, 0);
    call.in[3] = VIEW(a->places, LS_I32, B, N, c->packed);
    call.out[0] = VIEW(a->y[made], c->dtype, B, N, H, D);
    call.out[1] = VIEW(a->state[made], LS_F32, B, H, s.states * D);
    ls_view *const of_tokens[] = {&call.in[0], &call.in[3], &call.out[0]};
    for (size_t i = 0; i < LS_COUNT(of_tokens); i++) {
        of_tokens[i]->data =
            (char *)of_tokens[i]->data + first * of_tokens[i]->stride[1] * (int64_t)ls_dtype_bytes(of_tokens[i]->dtype);
        of_tokens[i]->size[1] = n;
    }
    run_kernel("rnn", c->dtype, isa, threads, call);
}

static bool same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

static void expect_same(const cell *c, arrays *a, ls_isa isa, int threads) {
    for (int made = 0; made < 2; made++) fill(&(cell){.dtype = LS_F32}, a->state[made], B * H * MOST_STATES * D, 1, 5);
    memset(a->y, 0x5a, sizeof a->y);
    for (int64_t first = 0; first < N; first += FEW) run(c, a, 0, first, ls_min(FEW, N - first), isa, 1);
    run(c, a, 1, 0, N, isa, threads);
    if (!same_bits(a->y[0], a->y[1], sizeof a->y[0]) || !same_bits(a->state[0], a->state[1], sizeof a->state[0]))
        fail_msg("kind %d, scale %g, %s, %d threads: pieces are not what single tokens are", (int)c->kind, c->scale,
                 ls_isa_name(isa), threads);
}

static void test_pieces(void **state) {
    (void)state;
    arrays *a = malloc(sizeof *a);
    for (size_t i = 0; i < LS_COUNT(cells); i++) {
        fill(&cells[i], a->x, B * N * H * MOST_GATES * D, 1, 1);
        fill(&cells[i], a->weight, H * MOST_NUMBERS * D, cells[i].scale, 2);
        for (int64_t n = 0; n < B * N; n++) a->places[n] = (int32_t)(n % N < 801 ? n % N : n % N - 801);
        for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
            if (ls_isa_check(isa).code != LS_OK) continue;
            expect_same(&cells[i], a, isa, 1);
            expect_same(&cells[i], a, isa, 3);
        }
    }
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces)};
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
