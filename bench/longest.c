/*
 * The longest sequence for which training a model of about 100M parameters (bench/models/100m, bf16, AdamW, one
 * micro-batch) on 2 ranks fits into 8 GiB in total, with more and more ways of saving memory. Nothing runs: programs
 * are compiled, and the bytes that `train` would map are read from them. Besides its arenas, a process holds its code,
 * stacks and tables, for which the budget leaves room.
 *
 *     longest [RANKS [GIB [MODEL]]]
 */
#include "model/model.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP = 512, MOST = 1 << 20 };

/* The bytes that a process holds besides its arenas, measured in runs of this model. */
static const int64_t beside = 96 << 20;

static const struct {
    const char *name;
    int drop;
    ls_tile_kind tile;
} rows[] = {
    {"plain", 0, LS_TILE_NONE},
    {"+ recompute", 1 << 20, LS_TILE_NONE},
    {"+ tiled loss", 1 << 20, LS_TILE_LOSS},
    {"+ tiled MLP", 1 << 20, LS_TILE_ALL},
};

typedef struct trial {
    const ls_model *model;
    ls_plan_request request;
    int64_t bytes; /* of a rank, at the longest length that fitted */
} trial;

static bool fits(trial *t, int64_t seq) {
    ls_graph *graph = ls_graph_create(LS_BF16);
    ls_language_model lm;
    ls_status status = ls_model_build(t->model, graph, 1, seq, true, &lm);
    const ls_job job = {.graph = graph, .programs = ls_training_programs(graph, 0, LS_UPDATE_APPLY, 0)};
    ls_plan plan = {.n_candidates = 0};
    if (status.code == LS_OK) status = ls_plan_make(&job, &t->request, &plan);
    ls_graph_destroy(graph);
    if (status.code == LS_OK)
        t->bytes = (int64_t)(plan.candidates[0].bytes[LS_PRIVATE] + plan.candidates[0].bytes[LS_SYMMETRIC]);
    ls_plan_free(&plan);
    if (status.code == LS_OK) return true;
    if (status.code != LS_NO_MEMORY) {
        fprintf(stderr, "longest: %s\n", status.text);
        exit(1);
    }
    return false;
}

static int64_t longest(trial *t) {
    int64_t low = 0, high = MOST / STEP;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (fits(t, middle * STEP))
            low = middle;
        else
            high = middle;
    }
    if (low > 0) (void)fits(t, low * STEP);
    return low * STEP;
}

int main(int argc, char **argv) {
    const int ranks = argc > 1 ? atoi(argv[1]) : 2;
    const double gib = argc > 2 ? atof(argv[2]) : 8;
    ls_model *model;
    ls_status status = ls_model_open(argc > 3 ? argv[3] : LS_BENCH_MODELS "/100m", &model);
    if (status.code != LS_OK || ranks < 1 || gib <= 0) {
        fprintf(stderr, "longest: %s\n", status.text);
        return 1;
    }
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_mesh mesh;
    char ring[32];
    snprintf(ring, sizeof ring, "ring=%d", ranks);
    status = ls_mesh_parse(ring, &mesh);
    LS_ASSERT(status.code == LS_OK);
    int64_t plain = 0;
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        trial t = {.model = model,
                   .request = {.ranks = ranks,
                               .mesh = mesh,
                               .strategy = ranks > 1 ? "ring" : "local",
                               .layout = ranks > 1 ? "zigzag" : "contiguous",
                               .isa = machine.isa,
                               .threads = 1,
                               .memory = (int64_t)(gib * (double)(1 << 30)) / ranks - beside,
                               .drop = rows[i].drop,
                               .tile = (int)rows[i].tile}};
        const int64_t seq = longest(&t);
        if (i == 0) plain = seq;
        printf("{\"saving\": \"%s\", \"seq\": %lld, \"times_plain\": %.2f, \"bytes_of_a_rank\": %lld}\n", rows[i].name,
               (long long)seq, plain > 0 ? (double)seq / (double)plain : 0.0, (long long)t.bytes);
        fflush(stdout);
    }
    ls_model_close(model);
    return 0;
}
