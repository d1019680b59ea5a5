/*
 * A user's network, trained with its sequences spread over several ranks: a convolution over the last tokens, then
 * attention. The first half of each sequence consists of random symbols, and the second half repeats it. To predict the
 * next symbol, a token must find the last tokens in the first half, half a sequence away and on another rank.
 *
 *     cc graph.c $(pkg-config --cflags --libs longspan) -o graph && ./graph [RANKS [STRATEGY]]
 */
#include <longspan/longspan.h>

#include <math.h>
#include <stdlib.h>

enum { B = 4, S = 64, HALF = S / 2, SYMBOLS = 16, E = 32, H = 2, D = E / H, WIDTH = 3, LAYERS = 2, STEPS = 160 };

/* --- the network, for one device ---------------------------------------------------------------------------------- */

static ls_tensor matrix(ls_graph *g, int layer, const char *name, int64_t to, int64_t from) {
    return ls_parameter_named(g, 2, (int64_t[]){to, from}, "layer.%d.%s", layer, name);
}

static ls_tensor norm(ls_graph *g, ls_tensor x, int layer, const char *name) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, (int64_t[]){E}, "layer.%d.%s", layer, name), 1e-6);
}

static ls_tensor heads(ls_graph *g, ls_tensor x, int layer, const char *name) {
    return ls_split_last(g, ls_linear(g, x, matrix(g, layer, name, E, E), LS_NO_TENSOR), H, D);
}

static ls_tensor layer(ls_graph *g, ls_tensor x, ls_tensor rope, int n) {
    const ls_mask causal = ls_mask_causal();
    x = ls_add(g, x, ls_conv(g, norm(g, x, n, "norm 1"), matrix(g, n, "taps", WIDTH, E)));
    const ls_tensor y = norm(g, x, n, "norm 2");
    const ls_tensor q = ls_rotate(g, heads(g, y, n, "q"), rope), k = ls_rotate(g, heads(g, y, n, "k"), rope);
    const ls_tensor o = ls_attention(g, q, k, heads(g, y, n, "v"), &causal, 1 / sqrt(D));
    return ls_add(g, x, ls_linear(g, ls_merge_last(g, o), matrix(g, n, "o", E, E), LS_NO_TENSOR));
}

static ls_tensor network(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor rope = ls_rope_table(g, ls_input_like(g, "positions", tokens), D, &(ls_rope){.theta = 10000});
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){SYMBOLS, E});
    ls_tensor x = ls_embedding(g, tokens, table);
    for (int n = 0; n < LAYERS; n++) x = layer(g, x, rope, n);
    const ls_tensor head = ls_parameter(g, "head", 2, (int64_t[]){SYMBOLS, E});
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, norm(g, x, LAYERS, "norm"), head), labels));
}

/* --- the data, equal on every rank -------------------------------------------------------------------------------- */

typedef struct batch {
    uint32_t random;
    int32_t tokens[B][S], labels[B][S], positions[B][S];
} batch;

static void draw(batch *b) {
    for (int row = 0; row < B; row++) {
        for (int i = 0; i < S; i++) {
            b->random = b->random * 1664525u + 1013904223u;
            b->tokens[row][i] = i < HALF ? (int32_t)(b->random >> 28) : b->tokens[row][i - HALF];
            b->positions[row][i] = i;
        }
        for (int i = 0; i < S; i++) /* the next token, if it can be predicted; -100: ignored */
            b->labels[row][i] = i >= HALF && i + 1 < S ? b->tokens[row][i + 1] : -100;
    }
}

/* --- the training, on each rank ----------------------------------------------------------------------------------- */

typedef struct outcome {
    double first, last;
    int64_t bytes;
} outcome;

static ls_status train(ls_worker *w, const void *input, void *result) {
    (void)input;
    outcome *out = result;
    batch b = {.random = 1};
    LS_TRY(ls_worker_set_random(w, 0.15, 7));
    for (int n = 0; n < STEPS; n++) {
        ls_step_result step;
        draw(&b);
        LS_TRY(ls_worker_set_input(w, "tokens", b.tokens[0]));
        LS_TRY(ls_worker_set_input(w, "labels", b.labels[0]));
        LS_TRY(ls_worker_set_input(w, "positions", b.positions[0]));
        LS_TRY(ls_worker_step(w, &(ls_step){.tokens = B * (HALF - 1), .lr = 0.01 * fmin(1, (n + 1) / 20.0), .clip = 1},
                              &step));
        if (step.stop) return ls_error(LS_INTERRUPTED, "stopped after %d steps", n + 1);
        if (w->rank == 0 && (n % 20 == 0 || n + 1 == STEPS)) printf("step %3d  loss %.4f\n", n + 1, step.loss);
        out->first = n == 0 ? step.loss : out->first;
        out->last = step.loss;
    }
    out->bytes = w->bytes;
    return ls_ok();
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static ls_status run(ls_graph *g, const ls_engine_options *options, outcome *out) {
    ls_engine *engine;
    LS_TRY(ls_engine_open(g, network(g), options, &engine));
    ls_engine_print(engine, LS_PRINT_CHOICE, stdout);
    const ls_status status = ls_engine_run(engine, train, NULL, out, sizeof *out);
    ls_engine_close(engine);
    return status;
}

int main(int argc, char **argv) {
    outcome out = {0, 0, 0};
    const ls_engine_options options = {
        .weight_decay = 0.01, .spread = {.ranks = argc > 1 ? atoi(argv[1]) : 2, .strategy = argc > 2 ? argv[2] : NULL}};
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_status status = run(g, &options, &out);
    ls_graph_destroy(g);
    if (status.code != LS_OK) {
        fprintf(stderr, "%s\n", status.text);
        return 1;
    }
    printf("loss %.4f -> %.4f, %lld bytes on rank 0\n", out.first, out.last, (long long)out.bytes);
    return out.last < out.first ? 0 : 1;
}
