/*
 * How long it takes to compile the training step of a large model (gradients and AdamW, bf16) for one rank, for all
 * classes of ranks, and to verify them, on one core. One JSON object per mesh on standard output.
 *
 *   make bench
 *   build/bench/compile [bench/compile.json] [sequence, 131072] [MESH ...]
 *
 * one_rank_seconds: the median over up to nine ranks, each compiled by itself. all_seconds: every class. image_bytes: what one image
 * holds. slot_bytes: where gradients arrive. play_seconds: the play
 * of all ranks, up to 64; 0: not made. local_seconds: the local verifier. Seconds are of processor time, of which there is one thread's.
 */
#include "base/base.h"
#include "format/format.h"
#include "model/model.h"
#include "program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 9, MOST_PLAYED = 64 };

/* Of this process: those of a core that it has to itself. */
static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static const char *strategy_of(const ls_mesh *mesh) {
    if (mesh->size[LS_AXIS_ULYSSES] == 1) return mesh->size[LS_AXIS_RING] == 1 ? "local" : "ring";
    return mesh->size[LS_AXIS_RING] == 1 ? "ulysses" : "usp";
}

static ls_target target_of(const ls_mesh *mesh, int rank) {
    ls_machine machine;
    ls_machine_detect(&machine);
    return (ls_target){.mesh = *mesh,
                       .rank = rank,
                       .strategy = strategy_of(mesh),
                       .layout = LS_LAYOUT_ZIGZAG,
                       .isa = machine.isa,
                       .threads = 1};
}

/* The median over a few ranks. */
static ls_status time_one(const ls_job *job, const ls_mesh *mesh, double *seconds) {
    const int ranks = ls_mesh_ranks(mesh), n = (int)ls_min(ranks, SAMPLES);
    double times[SAMPLES];
    for (int i = 0; i < n; i++) {
        ls_image *image;
        const double start = cpu_seconds();
        const ls_target target = target_of(mesh, i * ranks / n);
        LS_TRY(ls_compile(job, &target, &image));
        times[i] = cpu_seconds() - start;
        ls_image_destroy(image);
    }
    *seconds = ls_median(times, n);
    return ls_ok();
}

/* One sequence for each dp rank. */
static ls_status measure(const ls_job *job, const ls_mesh *mesh, const char *name) {
    const int ranks = ls_mesh_ranks(mesh);
    double one;
    LS_TRY(time_one(job, mesh, &one));
    const ls_image **of_rank = calloc((size_t)ranks, sizeof *of_rank);
    if (of_rank == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %d pointers", ranks);
    ls_images images = {0};
    const ls_target target = target_of(mesh, 0);
    double start = cpu_seconds();
    ls_status status = ls_compile_classes(job, &target, &images);
    const double all = cpu_seconds() - start;
    for (int r = 0; r < ranks && status.code == LS_OK; r++) of_rank[r] = ls_images_of(&images, r);
    start = cpu_seconds();
    if (status.code == LS_OK && ranks <= MOST_PLAYED) status = ls_verify(of_rank, ranks);
    const double verify = cpu_seconds() - start;
    start = cpu_seconds();
    if (status.code == LS_OK) status = ls_verify_local(of_rank, ranks);
    const double prove = cpu_seconds() - start;
    const ls_image *image = images.classes > 0 ? images.of_class[0] : NULL;
    if (status.code == LS_OK) {
        int instrs = 0;
        size_t slots = 0;
        for (int p = 0; p < image->n_programs; p++) instrs += image->programs[p].n_instrs;
        for (int i = 0; i < image->n_buffers; i++)
            if (strcmp(image->buffers[i].name, "gradient slots") == 0) slots += image->buffers[i].bytes;
        ls_machine machine;
        ls_machine_detect(&machine);
        printf(
            "{\"bench\": \"compile\", \"mesh\": \"%s\", \"ranks\": %d, \"classes\": %d, \"one_rank_seconds\": %.4f, "
            "\"all_seconds\": %.3f, \"play_seconds\": %.3f, \"local_seconds\": %.3f, \"instructions\": %d, \"buffers\": %d, "
            "\"image_bytes\": %zu, \"private_bytes\": %zu, \"least_private_bytes\": %zu, "
            "\"heap_bytes\": %zu, \"least_heap_bytes\": %zu, \"slot_bytes\": %zu}\n",
            name, ranks, images.classes, one, all, verify, prove, instrs, image->n_buffers,
            ls_arena_bytes(image->arena), image->bytes[LS_PRIVATE], image->least[LS_PRIVATE],
            image->bytes[LS_SYMMETRIC], image->least[LS_SYMMETRIC], slots);
        fflush(stdout);
    }
    ls_images_destroy(&images);
    free(of_rank);
    return status;
}

static ls_status measure_mesh(const ls_model *model, int64_t S, const char *name) {
    ls_mesh mesh;
    LS_TRY(ls_mesh_parse(name, &mesh));
    for (int a = 0; a < LS_AXES; a++) mesh.size[a] = (int)ls_max(mesh.size[a], 1);
    ls_graph *g = ls_graph_create(LS_BF16);
    ls_language_model lm;
    ls_status status = ls_model_build(model, g, mesh.size[LS_AXIS_DP], S, true, &lm);
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, 0, LS_UPDATE_ADAMW, false),
                        .adamw = {0.9, 0.95, 1e-8, 0.1}};
    if (status.code == LS_OK) status = measure(&job, &mesh, name);
    ls_graph_destroy(g);
    return status;
}

static ls_status run(const char *config, int64_t S, int n, const char *const *meshes) {
    ls_model *model;
    LS_TRY(ls_model_open(config, &model));
    ls_status status = ls_ok();
    for (int i = 0; i < n && status.code == LS_OK; i++) status = measure_mesh(model, S, meshes[i]);
    ls_model_close(model);
    return status;
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"ring=8,ulysses=8", "ring=64", "ring=2,ulysses=32"};
    const char *config = argc > 1 ? argv[1] : "bench/compile.json";
    const int64_t S = argc > 2 ? strtoll(argv[2], NULL, 10) : 131072;
    const ls_status status = argc > 3 ? run(config, S, argc - 3, (const char *const *)(argv + 3))
                                      : run(config, S, (int)LS_COUNT(usual), usual);
    if (status.code != LS_OK) ls_log("%s", status.text);
    return status.code != LS_OK;
}
