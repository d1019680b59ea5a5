/*
 * Longspan's training step for run.py: one rank, through the library as a user has it (include/longspan/engine.h).
 *
 *     step MODEL DTYPE B S L E HQ HKV F V THREADS MEMORY [ISA]
 *
 * MODEL: llama or gpt2; MEMORY: MiB that it may map, 0: any number.
 */
#include "graphs.h"
#include "serve.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    peers_sizes sizes;
    int32_t *tokens, *labels, *positions; /* [B,S] */
    int64_t resident;
    char isa[32];
    ls_worker *worker;
    double first_loss, loss;
} bench;

/* As in peer.py. */
static void fill(bench *b) {
    const int64_t S = b->sizes.S;
    for (int64_t row = 0; row < b->sizes.B; row++) {
        for (int64_t i = 0; i <= S; i++) {
            uint32_t x = (uint32_t)(row * (S + 1) + i) * 0x9E3779B9u;
            x = (x ^ x >> 15) % (uint32_t)b->sizes.V;
            if (i < S) b->tokens[row * S + i] = (int32_t)x;
            if (i < S) b->positions[row * S + i] = (int32_t)i;
            if (i > 0) b->labels[row * S + i - 1] = (int32_t)x;
        }
    }
}

static ls_status once(void *context) {
    bench *b = context;
    LS_TRY(ls_worker_set_input(b->worker, "tokens", b->tokens));
    LS_TRY(ls_worker_set_input(b->worker, "labels", b->labels));
    ls_step_result result;
    const ls_step step = {.tokens = b->sizes.B * b->sizes.S, .lr = 1e-4, .clip = 1};
    LS_TRY(ls_worker_step(b->worker, &step, &result));
    if (b->first_loss == 0) b->first_loss = result.loss;
    b->loss = result.loss;
    return ls_ok();
}

static double check(void *context, int i) {
    const bench *b = context;
    return i == 0 ? b->first_loss : b->loss;
}

/* The rank is a thread, so the bench that *input points to is the caller's own. */
static ls_status on_rank(ls_worker *worker, const void *input, void *result) {
    (void)result;
    bench *b = *(bench *const *)input;
    b->worker = worker;
    LS_TRY(ls_worker_set_random(worker, 0.02, 1));
    LS_TRY(ls_worker_set_input(worker, "positions", b->positions));
    const peers_server server = {
        .run = once, .check = check, .n_check = 2, .context = b, .resident = b->resident, .isa = b->isa};
    return peers_serve(&server);
}

static ls_status train(bench *b, ls_graph *g, ls_tensor loss, const ls_spread *spread) {
    const ls_engine_options options = {.weight_decay = 0.1, .spread = *spread};
    ls_engine *engine;
    LS_TRY(ls_engine_open(g, loss, &options, &engine));
    const ls_spread_result chosen = ls_engine_describe(engine);
    snprintf(b->isa, sizeof b->isa, "%s", chosen.isa);
    const ls_status status = ls_engine_run(engine, on_rank, &b, NULL, 0);
    ls_engine_close(engine);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 13 || argc > 14) {
        fprintf(stderr, "usage: step MODEL DTYPE B S L E HQ HKV F V THREADS MEMORY [ISA]\n");
        return 2;
    }
    bench b = {.resident = peers_memory("VmRSS")};
    int64_t *const sizes[] = {&b.sizes.B,  &b.sizes.S,   &b.sizes.L, &b.sizes.E,
                              &b.sizes.Hq, &b.sizes.Hkv, &b.sizes.F, &b.sizes.V};
    for (size_t i = 0; i < LS_COUNT(sizes); i++) *sizes[i] = atoll(argv[3 + i]);
    const size_t n = (size_t)(b.sizes.B * b.sizes.S);
    b.tokens = calloc(n, sizeof *b.tokens);
    b.labels = calloc(n, sizeof *b.labels);
    b.positions = calloc(n, sizeof *b.positions);
    if (n == 0 || b.tokens == NULL || b.labels == NULL || b.positions == NULL) {
        fprintf(stderr, "step: no memory for %zu tokens\n", n);
        return 1;
    }
    fill(&b);
    ls_graph *graph = ls_graph_create(strcmp(argv[2], "f32") == 0 ? LS_F32 : LS_BF16);
    const ls_tensor loss = strcmp(argv[1], "gpt2") == 0 ? peers_gpt2(graph, &b.sizes) : peers_llama(graph, &b.sizes);
    const ls_spread spread = {
        .ranks = 1, .threads = atoll(argv[11]), .memory = atoll(argv[12]) << 20, .isa = argv[13], .as_threads = true};
    const ls_status status = train(&b, graph, loss, &spread);
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    ls_graph_destroy(graph);
    free(b.tokens);
    free(b.labels);
    free(b.positions);
    return status.code == LS_OK ? 0 : 1;
}
