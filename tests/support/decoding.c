#include "support/decoding.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/run.h"
#include "support/meshes.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "support/worlds.h"

/* f64, so that only an error of logic is seen. */
#define TOLERANCE 1e-11

static void put_element(void *array, ls_dtype dtype, int64_t i, double value) {
    if (dtype == LS_F64) ((double *)array)[i] = value;
    if (dtype == LS_F32) ((float *)array)[i] = (float)value;
    if (dtype == LS_BF16) ((ls_bf16 *)array)[i] = ls_bf16_from_f32((float)value);
}

/* f32 of logits becomes f64, in its place. */
static void widen(ls_dtype from, double *logits, int64_t n) {
    for (int64_t i = n - 1; from == LS_F32 && i >= 0; i--) {
        float narrow;
        memcpy(&narrow, (const float *)logits + i, sizeof narrow);
        logits[i] = (double)narrow;
    }
}

/* By name and place, so that a parameter is the same in both graphs. */
static void fill_parameters(const play *p, ls_executor *executor) {
    static const char *const lists[] = {LS_BIND_PARAMETERS, LS_BIND_KEPT};
    const ls_image *image = ls_executor_image(executor);
    double *whole = malloc((size_t)image->whole_elements * sizeof *whole);
    for (size_t list = 0; list < LS_COUNT(lists); list++) {
        const ls_binding *binding = ls_image_find(image, lists[list]);
        if (binding == NULL) continue;
        memset(whole, 0, (size_t)image->whole_elements * sizeof *whole);
        for (int i = 0; i < image->n_flats; i++) {
            for (int64_t e = 0; e < image->flats[i].whole_count; e++) {
                const double value = 0.4 * ls_rng_normal(5, ls_rng_stream(image->flats[i].name), (uint64_t)e),
                             rounded =
                                 p->dtype == LS_BF16 ? (double)ls_bf16_to_f32(ls_bf16_from_f32((float)value)) : value;
                put_element(whole, binding->operand.view.dtype, image->flats[i].whole_start + e, rounded);
            }
        }
        assert_ok(ls_executor_scatter(executor, binding, whole));
    }
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
    double logits[DECODING_WORDS];
    for (int place = p->prompt - 1; place < p->S; place++) {
        put_number(executor, LS_NEXT "tokens", p->tokens[place]);
        put_number(executor, LS_NEXT "positions", place);
        put_number(executor, LS_NEXT "places", place);
        put_number(executor, LS_NEXT_PLACE, place);
        put_spans(p, executor, place);
        LS_TRY(ls_executor_run(executor, ls_program_find(ls_executor_image(executor), LS_PROGRAM_DECODE)));
        read_tensor(executor, p->logits, p->V, logits);
        widen(ls_dtype_accumulator(p->dtype), logits, p->V);
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
    fill_parameters(p, executor);
    int32_t row[DECODING_LONGEST] = {0};
    const int known = p->decoding != NULL ? p->prompt - 1 : p->S;
    memcpy(row, p->tokens, sizeof *row * (size_t)known); /* behind the prompt there is anything */
    const ls_binding *tokens = ls_image_find(image, "tokens");
    if (tokens != NULL) LS_TRY(ls_executor_scatter(executor, tokens, row));
    for (int i = 0; i < p->S; i++) row[i] = i;
    static const char *const counting[] = {"positions", "places"};
    for (size_t i = 0; i < LS_COUNT(counting); i++) {
        const ls_binding *places = ls_image_find(image, counting[i]);
        if (places != NULL) LS_TRY(ls_executor_scatter(executor, places, row));
    }
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
    ls_image *images[DECODING_RANKS];
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

static ls_target target_of(const play *p, int ring, int ulysses, const char *strategy, ls_layout_kind layout) {
    return (ls_target){.mesh = mesh_of(1, ring, ulysses),
                       .strategy = strategy,
                       .layout = layout,
                       .isa = p->isa,
                       .threads = 1,
                       .host_ranks = LS_ONE_HOST};
}

void play_expect(play *p, ls_graph *whole, ls_tensor logits) {
    p->job = (ls_job){.graph = whole, .programs = ls_plain_programs(whole, 0), .fetch = &logits, .n_fetch = 1};
    p->target = target_of(p, 1, 1, "local", LS_LAYOUT_CONTIGUOUS);
    p->decoding = NULL;
    p->logits = ls_graph_tensor(whole, logits)->name;
    run_play(p);
    widen(ls_graph_tensor(whole, logits)->dtype, p->expected, (int64_t)p->S * p->V);
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
    const bool lacks = ls_mesh_sequence_ranks(&p->target.mesh) > p->state_heads;
    if (!lacks || p->recurrence_way == NULL || strcmp(p->recurrence_way, "heads") != 0) return false;
    ls_image *image;
    assert_error(ls_compile(&p->job, &p->target, &image), LS_UNSUPPORTED, "heads of keys", "ranks");
    return true;
}

static void decode_one_way(play *p, const struct way *way, int prompt) {
    p->target = target_of(p, ls_max(way->ring, 1), ls_max(way->ulysses, 1), way->strategy, way->layout);
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
        if (!(p->worst[r] <= p->bound))
            fail_msg("%s, %s, %s %d x %d, prompt %d, rank %d: logits off by %g, more than %g", p->name,
                     ls_dtype_name(p->dtype), way->strategy, way->ring, way->ulysses, prompt, r, p->worst[r], p->bound);
}

play play_of(const char *name, int S, int V) {
    play p = {.name = name, .S = S, .V = V, .dtype = LS_F64, .isa = LS_ISA_REF, .bound = TOLERANCE};
    for (int i = 0; i < S; i++) p.tokens[i] = (int32_t)ls_rng_below(9, 9, (uint64_t)i, (uint64_t)V);
    return p;
}

void play_decode(play *p, ls_graph *whole, ls_tensor logits, play_kept kept, size_t step) {
    const int prompts[] = {1, 2, p->S / 2, p->S};
    ls_graph *graph = ls_graph_create(p->dtype);
    ls_decoding decoding;
    assert_ok(ls_graph_decode(whole, logits, graph, &decoding));
    assert_int_equal(decoding.n_masks, kept.masks);
    assert_int_equal(decoding.n_kept, kept.tensors + 1 /* the logits */);
    p->job = (ls_job){.graph = graph,
                      .programs = ls_apart_programs(graph, decoding.forward_nodes, LS_PROGRAM_DECODE),
                      .fetch = decoding.kept,
                      .n_fetch = decoding.n_kept};
    p->decoding = &decoding;
    p->logits = ls_graph_tensor(graph, decoding.logits)->name;
    for (size_t i = 0; i < LS_COUNT(ways) * LS_COUNT(prompts); i += step)
        decode_one_way(p, &ways[i / LS_COUNT(prompts)], prompts[i % LS_COUNT(prompts)]);
    ls_graph_destroy(graph);
}

void play_like_the_whole(play *p, ls_graph *whole, ls_tensor logits, play_kept kept, size_t step) {
    play_expect(p, whole, logits);
    play_decode(p, whole, logits, kept, step);
}
