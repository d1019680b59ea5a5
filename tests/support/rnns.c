#include "support/rnns.h"

enum { B = 2, S = 37, V = 9, EMBEDDING = 6 };

typedef struct form {
    ls_rnn_kind kind;
    int64_t H, D;
    bool biased, documents;
} form;

static ls_tensor layer_of(ls_graph *g, const form *f, ls_tensor places, ls_tensor x, int layer) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(f->kind);
    const int64_t width = s.gates * f->D, rows = s.numbers > 0 ? s.numbers : width;
    const ls_tensor in = ls_parameter_named(g, 2, (int64_t[]){f->H * width, EMBEDDING}, "in %d", layer),
                    weight = ls_parameter_named(g, 3, (int64_t[]){f->H, rows, f->D}, "weight %d", layer),
                    out = ls_parameter_named(g, 2, (int64_t[]){EMBEDDING, f->H * f->D}, "out %d", layer);
    ls_rnn_form cell = {.kind = f->kind};
    if (f->biased) cell.bias = ls_parameter_named(g, 2, (int64_t[]){f->H, rows}, "bias %d", layer);
    if (f->documents) cell.places = places;
    const ls_tensor of_heads = ls_split_last(g, ls_linear(g, x, in, LS_NO_TENSOR), f->H, width),
                    y = ls_named(g, ls_rnn(g, of_heads, weight, &cell), "cells %d", layer);
    return ls_add(g, x, ls_linear(g, ls_merge_last(g, y), out, LS_NO_TENSOR));
}

static ls_tensor network_of(ls_graph *g, const form *f) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), places = ls_input_like(g, "places", tokens);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, EMBEDDING}));
    for (int layer = 0; layer < 2; layer++) x = layer_of(g, f, places, x, layer);
    const ls_tensor logits = ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, EMBEDDING}));
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

/* name, kind, heads, elements of a head, biased, documents */
#define FORMS(X)                                             \
    X(elman, LS_RNN_ELMAN, 3, 4, true, false)                \
    X(lstm, LS_RNN_LSTM, 4, 3, true, false)                  \
    X(gru, LS_RNN_GRU, 7, 2, true, true)                     \
    X(slstm, LS_RNN_SLSTM, 4, 3, false, false)               \
    X(packed_slstm, LS_RNN_SLSTM, 2, 5, true, true)          \
    X(packed_lstm, LS_RNN_LSTM, 1, 6, false, true)           \
    X(diagonal_gru, LS_RNN_DIAGONAL_GRU, 2, 7, false, false) \
    X(packed_diagonal_lstm, LS_RNN_DIAGONAL_LSTM, 6, 3, false, true)

#define BUILD(name, ...)                     \
    static ls_tensor name(ls_graph *g) {     \
        static const form f = {__VA_ARGS__}; \
        return network_of(g, &f);            \
    }
FORMS(BUILD)

#define ROW(name, ...) {#name, name, .ids = V},
const network rnn_networks[] = {FORMS(ROW)};
const int n_rnn_networks = (int)LS_COUNT(rnn_networks);
