/*
 * Decoding: for every token the logits over the cache equal those of the whole graph at once, over every way to
 * share the sequence, for every prompt, under windows, with sinks and soft caps; of a graph made here, and of every
 * architecture.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "longspan/newton.h"
#include "model/model.h"
#include "program/program.h"
#include "run/run.h"
#include "support/meshes.h"
#include "support/scratch.h"
#include "support/spread.h"
#include "support/tensors.h"
#include "support/worlds.h"

#include <math.h>

enum { S = 13, V = 19, E = 24, Hq = 4, Hkv = 2, D = 6, W = 5, F = 20, L = 3, MOST_RANKS = 6, MOST_S = 24, MOST_V = 48 };
enum { STATE_K = 3, STATE_H = 6 }; /* heads of keys and of values of states */

/* f64, so that only an error of logic is seen. */
#define TOLERANCE 1e-11

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    const ls_tensor bias = ls_parameter_named(g, 1, &to, "%d.%s.bias", layer, name);
    return ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){to, from}, "%d.%s", layer, name), bias);
}

/*
 * Heads of values have another size, W, than those of keys. A layer of each kind: a window with a first token seen by
 * all and sinks; causal with a soft cap and no rotation; a window.
 */
static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, int layer) {
    static const char *const masks[] = {"window:3:1", "causal", "window:4"};
    ls_mask mask = {.n = 0};
    assert_ok(ls_mask_add_term(&mask, masks[layer % 3]));
    ls_tensor q = ls_split_last(g, project(g, x, "q", layer, Hq * D, E), Hq, D);
    ls_tensor k = ls_split_last(g, project(g, x, "k", layer, Hkv * D, E), Hkv, D);
    const ls_tensor v = ls_split_last(g, project(g, x, "v", layer, Hkv * W, E), Hkv, W);
    if (layer % 3 != 1) {
        q = ls_rotate(g, q, rope);
        k = ls_rotate(g, k, rope);
    }
    const ls_tensor sink = layer % 3 == 0 ? ls_parameter_named(g, 1, (int64_t[]){Hq}, "%d.sink", layer) : LS_NO_TENSOR;
    const ls_tensor o = ls_attention_with_sink(g, q, k, v, sink, &mask, 1 / sqrt(D), layer % 3 == 1 ? 2.0 : 0.0);
    return project(g, ls_merge_last(g, o), "o", layer, E, Hq * W);
}

/* Learned positions and rotations both; logits. */
static ls_tensor build(ls_graph *g, int layers) {
    const ls_rope how = {.theta = 100};
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, S), positions = ls_input_like(g, "positions", tokens);
    const ls_tensor rope = ls_rope_table(g, positions, D, &how);
    ls_tensor x = ls_add(g, ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, E})),
                         ls_embedding(g, positions, ls_parameter(g, "places", 2, (int64_t[]){S, E})));
    for (int layer = 0; layer < layers; layer++) {
        const ls_tensor norm = ls_parameter_named(g, 1, (int64_t[]){E}, "%d.norm", layer);
        x = ls_add(g, x, attend(g, ls_rmsnorm(g, x, norm, 1e-5), rope, layer));
        const ls_tensor h = ls_gelu(g, project(g, x, "up", layer, F, E));
        x = ls_add(g, x, project(g, h, "down", layer, E, F));
    }
    return ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, E}));
}

/* --- running a graph ---------------------------------------------------------------------------------------------- */

typedef struct play {
    ls_job job;
    ls_target target;
    const ls_decoding *decoding; /* NULL: the whole graph at once */
    const char *logits;
    int S, V;
    int prompt;                 /* tokens; all but the last are prefilled */
    const char *recurrence_way; /* of states; NULL: the cheapest */
    const char *rnn_way;
    int32_t tokens[MOST_S];
    double expected[MOST_S * MOST_V];
    double worst[MOST_RANKS];
    int checked;
} play;

/* By name and place, so that a parameter is the same in both graphs. */
static void fill_parameters(ls_executor *executor) {
    const ls_image *image = ls_executor_image(executor);
    double *whole = calloc((size_t)image->whole_elements, sizeof *whole);
    for (int i = 0; i < image->n_flats; i++)
        for (int64_t e = 0; e < image->flats[i].whole_count; e++)
            whole[image->flats[i].whole_start + e] =
                0.4 * ls_rng_normal(5, ls_rng_stream(image->flats[i].name), (uint64_t)e);
    assert_ok(ls_executor_scatter(executor, ls_image_find(image, LS_BIND_PARAMETERS), whole));
    free(whole);
}

static void put_number(ls_executor *executor, const char *name, int value) {
    const int32_t number = value;
    /* Learned positions need no table of rotations, nor the other way round. */
    if (ls_image_find(ls_executor_image(executor), name) != NULL) write_tensor(executor, name, 1, &number);
}

static void put_spans(const play *p, ls_executor *executor, int place) {
    for (int m = 0; m < p->decoding->n_masks; m++) {
        char name[40];
        snprintf(name, sizeof name, LS_NEXT "spans.%d", m);
        const int32_t position = place;
        ls_span spans[LS_MASK_SPANS];
        ls_mask_table(&p->decoding->mask[m], p->S, &position, 1, spans);
        write_tensor(executor, name, 2 * ls_mask_width(&p->decoding->mask[m]), spans);
    }
}

static ls_status decode_all(play *p, ls_executor *executor, int rank) {
    double logits[MOST_V];
    for (int place = p->prompt - 1; place < p->S; place++) {
        put_number(executor, LS_NEXT "tokens", p->tokens[place]);
        put_number(executor, LS_NEXT "positions", place);
        put_number(executor, LS_NEXT_PLACE, place);
        put_spans(p, executor, place);
        LS_TRY(ls_executor_run(executor, ls_program_find(ls_executor_image(executor), LS_PROGRAM_DECODE)));
        read_tensor(executor, p->logits, p->V, logits);
        for (int v = 0; v < p->V; v++) {
            const double off = fabs(logits[v] - p->expected[place * p->V + v]);
            if (!(off <= p->worst[rank])) p->worst[rank] = off; /* no number is never small */
        }
        if (rank == 0) p->checked++;
    }
    return ls_ok();
}

static ls_status run_image(play *p, const ls_image *image, ls_comm *comm) {
    ls_executor *executor;
    LS_TRY(ls_executor_create(image, comm, &executor));
    fill_parameters(executor);
    int32_t row[MOST_S] = {0};
    const int known = p->decoding != NULL ? p->prompt - 1 : p->S;
    memcpy(row, p->tokens, sizeof *row * (size_t)known); /* behind the prompt there is anything */
    const ls_binding *tokens = ls_image_find(image, "tokens");
    if (tokens != NULL) LS_TRY(ls_executor_scatter(executor, tokens, row));
    for (int i = 0; i < p->S; i++) row[i] = i;
    const ls_binding *positions = ls_image_find(image, "positions");
    if (positions != NULL) LS_TRY(ls_executor_scatter(executor, positions, row));
    for (int i = 0; i < p->S; i++) row[i] = i - known;
    const ls_binding *behind = ls_image_find(image, LS_NEXT_BEHIND);
    if (behind != NULL) LS_TRY(ls_executor_scatter(executor, behind, row));
    ls_status status = ls_executor_run(executor, 0);
    if (status.code == LS_OK && p->decoding != NULL)
        status = decode_all(p, executor, ls_comm_rank(comm));
    else if (status.code == LS_OK)
        status = ls_executor_gather(executor, ls_image_find(image, p->logits), p->expected);
    ls_executor_destroy(executor);
    return status;
}

static ls_status rank_main(ls_comm *comm, void *context) {
    play *p = context;
    ls_target target = p->target;
    target.rank = ls_comm_rank(comm);
    ls_image *image;
    LS_TRY(ls_compile(&p->job, &target, &image));
    const ls_status status = run_image(p, image, comm);
    ls_image_destroy(image);
    return status;
}

/* The programs of all ranks are proved, then run. */
static void run_play(play *p) {
    const int ranks = ls_mesh_ranks(&p->target.mesh);
    ls_image *images[MOST_RANKS];
    for (int r = 0; r < ranks; r++) {
        ls_target target = p->target;
        target.rank = r;
        assert_ok(ls_compile(&p->job, &target, &images[r]));
    }
    assert_ok(ls_verify((const ls_image *const *)images, ranks));
    assert_ok(ls_verify_local((const ls_image *const *)images, ranks));
    ls_world *world;
    assert_ok(world_of_images(images, ranks, NULL, 20, &world));
    assert_ok(ls_launch(world, ranks, true, rank_main, p));
    ls_world_destroy(world);
    for (int r = 0; r < ranks; r++) ls_image_destroy(images[r]);
}

static ls_target target_of(int ring, int ulysses, const char *strategy, ls_layout_kind layout) {
    return (ls_target){.mesh = mesh_of(1, ring, ulysses),
                       .strategy = strategy,
                       .layout = layout,
                       .isa = LS_ISA_REF,
                       .threads = 1,
                       .host_ranks = LS_ONE_HOST};
}

/* The logits of all tokens from one pass over the whole. */
static void expect_logits(play *p, ls_graph *whole, ls_tensor logits) {
    p->job = (ls_job){.graph = whole, .programs = ls_plain_programs(whole, 0), .fetch = &logits, .n_fetch = 1};
    p->target = target_of(1, 1, "local", LS_LAYOUT_CONTIGUOUS);
    p->decoding = NULL;
    p->logits = ls_graph_tensor(whole, logits)->name;
    run_play(p);
}

static const struct way {
    int ring, ulysses; /* 0, 0: the mesh is tp=2 */
    const char *strategy;
    ls_layout_kind layout;
} ways[] = {
    {1, 1, "local", LS_LAYOUT_CONTIGUOUS}, {2, 1, "ring", LS_LAYOUT_CONTIGUOUS},   {3, 1, "ring", LS_LAYOUT_ZIGZAG},
    {4, 1, "gather", LS_LAYOUT_STRIPED},   {1, 2, "ulysses", LS_LAYOUT_ZIGZAG},    {3, 2, "usp", LS_LAYOUT_CONTIGUOUS},
    {2, 1, "decode", LS_LAYOUT_BALANCED},  {3, 1, "tokenring", LS_LAYOUT_STRIPED}, {3, 1, "burst", LS_LAYOUT_ZIGZAG},
    {2, 2, "rsa", LS_LAYOUT_CONTIGUOUS},   {0, 0, "local", LS_LAYOUT_CONTIGUOUS}};

/* Whether the prefill is of states, for which neighbouring tokens lie together. */
static bool refuses_striped(const play *p) {
    bool has_states = false;
    for (int t = 1; t < p->job.graph->n_tensors; t++)
        has_states |= strcmp(p->job.graph->tensors[t].name, LS_NEXT_BEHIND) == 0;
    if (!has_states || p->target.layout != LS_LAYOUT_STRIPED) return false;
    ls_image *image;
    assert_error(ls_compile(&p->job, &p->target, &image), LS_UNSUPPORTED, "layout is striped", "neighbour");
    return true;
}

/* Whether there are fewer heads of keys than ranks, one of which each needs that takes states by heads. */
static bool lacks_heads(const play *p) {
    const bool lacks = ls_mesh_sequence_ranks(&p->target.mesh) > STATE_K;
    if (!lacks || p->recurrence_way == NULL || strcmp(p->recurrence_way, "heads") != 0) return false;
    ls_image *image;
    assert_error(ls_compile(&p->job, &p->target, &image), LS_UNSUPPORTED, "heads of keys", "ranks");
    return true;
}

static void decode_one_way(play *p, const char *name, const struct way *way, int prompt) {
    p->target = target_of(ls_max(way->ring, 1), ls_max(way->ulysses, 1), way->strategy, way->layout);
    p->target.recurrence_way = p->recurrence_way;
    p->target.rnn_way = p->rnn_way;
    if (lacks_heads(p) || refuses_striped(p)) return;
    if (way->ring == 0) assert_ok(ls_mesh_parse("tp=2", &p->target.mesh));
    p->prompt = prompt;
    p->checked = 0;
    memset(p->worst, 0, sizeof p->worst);
    run_play(p);
    assert_int_equal(p->checked, p->S - prompt + 1);
    for (int r = 0; r < ls_mesh_ranks(&p->target.mesh); r++)
        if (!(p->worst[r] <= TOLERANCE))
            fail_msg("%s, %s %d x %d, prompt %d, rank %d: logits off by %g", name, way->strategy, way->ring,
                     way->ulysses, prompt, r, p->worst[r]);
}

/* Every `step`-th pair of a way and a prompt. kept: tensors that are, of tokens so far. */
static void decodes_like_the_whole(play *p, const char *name, ls_graph *whole, ls_tensor logits, int masks, int kept,
                                   size_t step) {
    const int prompts[] = {1, 2, p->S / 2, p->S};
    ls_graph *graph = ls_graph_create(LS_F64);
    ls_decoding decoding;
    assert_ok(ls_graph_decode(whole, logits, graph, &decoding));
    assert_int_equal(decoding.n_masks, masks);
    assert_int_equal(decoding.n_kept, kept + 1);
    for (int i = 0; i < p->S; i++) p->tokens[i] = (int32_t)ls_rng_below(9, 9, (uint64_t)i, (uint64_t)p->V);
    expect_logits(p, whole, logits);
    p->job = (ls_job){.graph = graph,
                      .programs = ls_apart_programs(graph, decoding.forward_nodes, LS_PROGRAM_DECODE),
                      .fetch = decoding.kept,
                      .n_fetch = decoding.n_kept};
    p->decoding = &decoding;
    p->logits = ls_graph_tensor(graph, decoding.logits)->name;
    for (size_t i = 0; i < LS_COUNT(ways) * LS_COUNT(prompts); i += step)
        decode_one_way(p, name, &ways[i / LS_COUNT(prompts)], prompts[i % LS_COUNT(prompts)]);
    ls_graph_destroy(graph);
}

static void layers_decode_like_the_whole(int layers) {
    play p = {.S = S, .V = V, .prompt = 1};
    ls_graph *whole = ls_graph_create(LS_F64);
    const ls_tensor logits = build(whole, layers);
    decodes_like_the_whole(&p, "layers", whole, logits, layers, 2 * layers, 1);
    ls_graph_destroy(whole);
}

static void test_layers(void **state) {
    (void)state;
    layers_decode_like_the_whole(L);
}

/* Of one layer the prefill is keys and values alone: a program without attention. */
static void test_one_layer(void **state) {
    (void)state;
    layers_decode_like_the_whole(1);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

/* Between 0 and `most`, or that and 0, of the type of states: for each head, or each element of its keys. */
static ls_tensor gates(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t elements, double most) {
    const ls_map_step step[] = {{LS_MAP_SIGMOID, 0, 0, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, most}, {LS_MAP_MUL, 1, 2, 0, 0}};
    const ls_tensor raw = project(g, x, name, layer, STATE_H * elements, E);
    const ls_tensor gate = ls_map(g, &raw, 1, &(ls_expression){.step = step, .n_steps = LS_COUNT(step), .wide = 1});
    return elements > 1 ? ls_split_last(g, gate, STATE_H, elements) : gate;
}

/* A convolution, with silu in it or behind it, then a state: layers of each kind of decay, with and without beta, of
 * both updates. */
static ls_tensor remember(ls_graph *g, ls_tensor x, ls_tensor positions, int layer) {
    const int width = layer == 1 ? 11 : 1 + layer; /* more than some ranks have of tokens */
    ls_conv_form form = {.last_first = layer % 2 != 0,
                         .reach = layer % 3 == 0 ? ls_conv_reach(g, positions, width) : LS_NO_TENSOR,
                         .silu = layer % 2 != 0};
    if (layer > 2) form.bias = ls_parameter_named(g, 1, (int64_t[]){E}, "%d.conv.bias", layer);
    const ls_tensor taps = ls_parameter_named(g, 2, (int64_t[]){width, E}, "%d.taps", layer),
                    z = ls_conv_within(g, x, taps, &form), y = form.silu ? z : ls_silu(g, z);
    ls_linear_state rule = {.delta = layer % 2 != 0};
    if (layer % 3 != 0) rule.decay = gates(g, y, "decay", layer, layer % 3 == 1 ? 1 : D, -0.5);
    if (rule.delta || layer == 2) rule.beta = gates(g, y, "beta", layer, 1, 1);
    if (layer % 2 == 0) rule.places = positions;
    const ls_tensor q = ls_split_last(g, project(g, y, "q", layer, STATE_K * D, E), STATE_K, D),
                    k = ls_l2norm(g, ls_split_last(g, project(g, y, "k", layer, STATE_K * D, E), STATE_K, D), 1e-6, 1),
                    v = ls_split_last(g, project(g, y, "v", layer, STATE_H * W, E), STATE_H, W);
    return project(g, ls_merge_last(g, ls_linear_recurrence(g, q, k, v, &rule)), "o", layer, E, STATE_H * W);
}

static void test_states(void **state) {
    (void)state;
    enum { LAYERS = 6 };
    static const char *const by[] = {"maps", "owners", "heads"};
    ls_graph *whole = ls_graph_create(LS_F64);
    const ls_tensor tokens = ls_tokens(whole, "tokens", 1, S), positions = ls_input_like(whole, "positions", tokens);
    ls_tensor x = ls_embedding(whole, tokens, ls_parameter(whole, "table", 2, (int64_t[]){V, E}));
    for (int layer = 0; layer < LAYERS; layer++) {
        const ls_tensor norm = ls_parameter_named(whole, 1, (int64_t[]){E}, "%d.norm", layer);
        x = ls_add(whole, x, remember(whole, ls_rmsnorm(whole, x, norm, 1e-5), positions, layer));
    }
    const ls_tensor logits = ls_linear_wide(whole, x, ls_parameter(whole, "head", 2, (int64_t[]){V, E}));
    for (size_t i = 0; i < LS_COUNT(by); i++) {
        play p = {.S = S, .V = V, .prompt = 1, .recurrence_way = by[i]};
        decodes_like_the_whole(&p, by[i], whole, logits, 0, 2 * LAYERS - 1,
                               1); /* a convolution of width 1 keeps nothing */
    }
    ls_graph_destroy(whole);
}

/* A layer of each kind of recurrent cell, two of them with biases; only states are kept. */
static void test_cells(void **state) {
    (void)state;
    ls_graph *whole = ls_graph_create(LS_F64);
    ls_tensor x =
        ls_embedding(whole, ls_tokens(whole, "tokens", 1, S), ls_parameter(whole, "table", 2, (int64_t[]){V, E}));
    for (int kind = 0; kind < LS_RNN_KINDS; kind++) {
        const ls_rnn_sizes s = ls_rnn_sizes_of((ls_rnn_kind)kind);
        const int64_t rows = s.numbers > 0 ? s.numbers : s.gates * D;
        ls_rnn_form form = {.kind = (ls_rnn_kind)kind};
        if (kind == LS_RNN_GRU || kind == LS_RNN_SLSTM)
            form.bias = ls_parameter_named(whole, 2, (int64_t[]){Hkv, rows}, "%d.bias", kind);
        const ls_tensor weight = ls_parameter_named(whole, 3, (int64_t[]){Hkv, rows, D}, "%d.R", kind),
                        in =
                            ls_split_last(whole, project(whole, x, "in", kind, Hkv * s.gates * D, E), Hkv, s.gates * D);
        x = ls_add(whole, x,
                   project(whole, ls_merge_last(whole, ls_rnn(whole, in, weight, &form)), "out", kind, E, Hkv * D));
    }
    const ls_tensor logits = ls_linear_wide(whole, x, ls_parameter(whole, "head", 2, (int64_t[]){V, E}));
    static const char *const by[] = {NULL, "chain"};
    for (size_t i = 0; i < LS_COUNT(by); i++) {
        play p = {.S = S, .V = V, .prompt = 1, .rnn_way = by[i]};
        decodes_like_the_whole(&p, "cells", whole, logits, 0, LS_RNN_KINDS, 1);
    }
    ls_graph_destroy(whole);
}

/* --- scans -------------------------------------------------------------------------------------------------------- */

/* A shift, a recurrence of numbers and one with matrices of two states, which a shift reads one token later. */
static ls_tensor scan_layers(ls_graph *g, ls_tensor x) {
    x = ls_add(g, x, project(g, ls_shift(g, x, 3), "moved", 0, E, E));
    const ls_tensor gate = ls_softcap(g, project(g, x, "gate", 1, E, E), 0.9);
    x = ls_add(g, x, ls_recurrence(g, gate, project(g, x, "given", 1, E, E)));
    const ls_tensor matrices = ls_softcap(g, project(g, x, "matrices", 2, 4 * D, E), 0.4),
                    h = ls_recurrence(g, ls_reshape(g, matrices, 5, (int64_t[]){1, S, 2, 2, D}),
                                      ls_split_last(g, project(g, x, "sources", 2, 2 * D, E), 2, D));
    return ls_add(g, x, project(g, ls_merge_last(g, ls_shift(g, h, 1)), "read", 2, E, 2 * D));
}

/* Diagonal cells by Newton's method; few steps, so that states of early ones differ. */
static ls_tensor newton_layer(ls_graph *g, ls_tensor x, ls_rnn_kind kind, int steps) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(kind);
    const ls_newton_form form = {.kind = kind, .steps = steps, .bound = 10};
    const ls_tensor weight = ls_parameter_named(g, 3, (int64_t[]){Hkv, s.numbers, D}, "%d.newton", (int)kind),
                    in =
                        ls_split_last(g, project(g, x, "newton.in", (int)kind, Hkv * s.gates * D, E), Hkv, s.gates * D);
    ls_tensor count;
    const ls_tensor y = ls_rnn_newton(g, in, weight, &form, &count, NULL);
    return ls_add(g, x, project(g, ls_merge_last(g, y), "newton.out", (int)kind, E, Hkv * D));
}

static void test_scans(void **state) {
    (void)state;
    enum { STEPS = 2, OF_SCANS = 4, OF_NEWTON = 2 * STEPS + 1 /* a shift to see what has converged */ };
    ls_graph *whole = ls_graph_create(LS_F64);
    ls_tensor x =
        ls_embedding(whole, ls_tokens(whole, "tokens", 1, S), ls_parameter(whole, "table", 2, (int64_t[]){V, E}));
    x = scan_layers(whole, x);
    x = newton_layer(whole, x, LS_RNN_DIAGONAL_GRU, STEPS);
    x = newton_layer(whole, x, LS_RNN_DIAGONAL_LSTM, STEPS);
    const ls_tensor logits = ls_linear_wide(whole, x, ls_parameter(whole, "head", 2, (int64_t[]){V, E}));
    play p = {.S = S, .V = V, .prompt = 1};
    decodes_like_the_whole(&p, "scans", whole, logits, 0, OF_SCANS + 2 * OF_NEWTON, 3);
    ls_graph_destroy(whole);
}

/* --- architectures ------------------------------------------------------------------------------------------------ */

/*
 * The stored models: windows of 12, of all layers, of every other one or of the later ones; rope scaling in the place
 * of their own.
 */
static const struct architecture {
    const char *name;
    ls_rope_change rope;
    int masks;
} all[] = {
    {"llama", {NULL, 0}, 1},          {"llama", {"linear:2", 0}, 1}, {"llama", {"dynamic:4:16", 0}, 1},
    {"llama", {"yarn:4:16", 200}, 1}, {"llama", {"default", 0}, 1},  {"qwen2", {NULL, 0}, 2},
    {"qwen3", {NULL, 0}, 1},          {"mistral", {NULL, 0}, 1},     {"gpt2", {NULL, 0}, 1},
    {"gemma2", {NULL, 0}, 2},         {"gemma3", {NULL, 0}, 2},      {"phi3", {NULL, 0}, 1},
    {"olmo2", {NULL, 0}, 1},          {"olmo3", {NULL, 0}, 2},       {"smollm3", {NULL, 0}, 1},
    {"granite", {NULL, 0}, 1},        {"ministral3", {NULL, 0}, 1},  {"glm4", {NULL, 0}, 1},
    {"cohere2", {NULL, 0}, 2},        {"seed_oss", {NULL, 0}, 1},    {"starcoder2", {NULL, 0}, 1},
    {"qwen3_5", {NULL, 0}, 1},        {"mamba2", {NULL, 0}, 0},      {"nemotron_h", {NULL, 0}, 1},
};

/* KNOWN tokens that grow to MOST_S: more than dynamic scaling's 16 and than two windows of 12 less one. */
enum { KNOWN = 6 };

static void test_architectures(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        char path[256], name[96];
        ls_model *model;
        ls_language_model lm;
        snprintf(path, sizeof path, LS_TEST_REFERENCE "/models/%s", all[i].name);
        snprintf(name, sizeof name, "%s %s", all[i].name, all[i].rope.scaling ? all[i].rope.scaling : "");
        assert_ok(ls_model_open_changed(path, &all[i].rope, &model));
        const ls_model_sizes sizes = ls_model_describe(model);
        assert_in_range(sizes.V, 2, MOST_V);
        play p = {.S = MOST_S, .V = (int)sizes.V, .prompt = 1};
        ls_graph *whole = ls_graph_create(LS_F64);
        assert_ok(ls_model_build_growing(model, whole, KNOWN, MOST_S, &lm));
        const int feeding = strcmp(all[i].name, "nemotron_h") == 0; /* layers that keep nothing */
        decodes_like_the_whole(&p, name, whole, lm.logits, all[i].masks, 2 * ((int)sizes.L - feeding), 3);
        ls_graph_destroy(whole);
        ls_model_close(model);
    }
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void test_what_mixes_tokens_is_refused(void **state) {
    (void)state;
    ls_graph *whole = ls_graph_create(LS_F32), *graph = ls_graph_create(LS_F32);
    const ls_tensor tokens = ls_tokens(whole, "tokens", 1, S);
    const ls_tensor x = ls_embedding(whole, tokens, ls_parameter(whole, "table", 2, (int64_t[]){V, E}));
    const ls_tensor logits = ls_named(whole, ls_shift(whole, x, -1), "moved");
    ls_decoding decoding;
    assert_error(ls_graph_decode(whole, logits, graph, &decoding), LS_UNSUPPORTED, "op shift", "later tokens");
    ls_graph_destroy(graph);
    ls_graph_destroy(whole);
}

static void test_several_sequences_are_refused(void **state) {
    (void)state;
    ls_graph *whole = ls_graph_create(LS_F32), *graph = ls_graph_create(LS_F32);
    const ls_tensor tokens = ls_tokens(whole, "tokens", 2, S);
    const ls_tensor x = ls_embedding(whole, tokens, ls_parameter(whole, "table", 2, (int64_t[]){V, E}));
    ls_decoding decoding;
    assert_error(ls_graph_decode(whole, x, graph, &decoding), LS_INVALID, "2 sequences", "tokens");
    ls_graph_destroy(graph);
    ls_graph_destroy(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_one_layer),
                                       cmocka_unit_test(test_states),
                                       cmocka_unit_test(test_cells),
                                       cmocka_unit_test(test_scans),
                                       cmocka_unit_test(test_architectures),
                                       cmocka_unit_test(test_what_mixes_tokens_is_refused),
                                       cmocka_unit_test(test_several_sequences_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
