/* Calls of the kernels of recurrent cells: all kinds, heads, odd sizes, documents, with and without biases. */
#include "support/kernel_examples.h"

typedef struct sizes {
    int64_t B, N, H, D;
    bool biased, packed;
} sizes;

static const sizes all[] = {
    {1, 1, 1, 1, false, false},
    {2, 37, 3, 5, true, true},
    {5, 70, 2, 24, false, true},
    {1, 40, 1, 67, true, false},
};

static void visit_sizes(visit_example visit, const sizes *s, ls_rnn_kind kind, char token) {
    const ls_rnn_params params = {.kind = kind};
    const ls_rnn_sizes of = ls_rnn_sizes_of(kind);
    const int64_t rows = of.numbers > 0 ? of.numbers : of.gates * s->D;
    const operand x = {token, NORMAL, 4, {s->B, s->N, s->H, of.gates * s->D}, 0};
    const operand weight = {'T', KEYS, 3, {s->H, rows, s->D}, s->D};
    const operand bias = {'T', NORMAL, 2, {s->H, s->biased && of.numbers == 0 ? rows : 0}, 0};
    const operand places = {'I', STARTS, 3, {s->B, s->N, s->packed}, 0};
    const operand y = {token, RATES, 4, {s->B, s->N, s->H, s->D}, 0};
    /* Of states the third is a sum of positive terms; zeros are what is in front of a document. */
    const operand state = {'G', POSITIVE, 3, {s->B, s->H, of.states * s->D}, 0};
    operand dx = x, made = y, dweight = weight, dbias = bias, dy = y, dstate = state;
    dx.contents = made.contents = POISON;
    dy.contents = dstate.contents = NORMAL;
    dweight.type = dbias.type = 'G';
    const ls_rnn_params to_ends = {.kind = kind, .ends = true};
    const operand ends = {'I', ENDS, 3, {s->B, s->N, 1}, s->N};
    const example examples[] = {
        {"rnn", &params, 4, 2, {x, weight, bias, places}, {made, state}},
        {"rnn_grad", &params, 7, 4, {x, weight, bias, places, y, dy, state}, {dx, dweight, dbias, dstate}},
        {"rnn", &to_ends, 4, 2, {x, weight, bias, ends}, {made, state}},
    };
    /* The last: sums of an sLSTM over many tokens differ by more in f32, and all results behind them are of such a sum.
     */
    enum { MANY = 70 };
    for (size_t i = 0; i < LS_COUNT(examples) - (s->N >= MANY); i++) visit(&examples[i]);
}

void visit_rnn_examples(visit_example visit) {
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        for (int kind = 0; kind < LS_RNN_KINDS; kind++) {
            visit_sizes(visit, &all[i], (ls_rnn_kind)kind, 'T');
            visit_sizes(visit, &all[i], (ls_rnn_kind)kind, 't');
        }
    }
}
