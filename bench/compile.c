/*
 * How much time and memory it takes to compile the training step of a large model (gradients and AdamW, bf16) for all
 * classes of ranks, and to prove it. One JSON object per mesh on standard output.
 *
 *   make bench
 *   build/bench/compile [bench/compile.json] [sequence, 131072] [MESH[:MICRO-BATCHES] ...]
 *
 * Each class is compiled, proved and freed before the next one. one_rank_seconds: compiling one class, the median.
 * compile_seconds: compiling all classes. prove_seconds: the local verifier. peak_bytes: the most memory that this
 * process has held so far. elapsed_seconds: compiling and proving with ls_compile_proved, which handles several classes
 * at once on several cores. play_seconds: the play of all ranks, for up to 64 ranks, which needs all images at once; 0:
 * not done. image_bytes: the size of one image. slot_bytes: the slots in which gradients arrive. All seconds but
 * elapsed_seconds are processor time.
 */
#include "base/base.h"
#include "format/format.h"
#include "model/model.h"
#include "program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST_PLAYED = 64 };

/* Processor time of this process: the seconds that it would take on a core of its own. */
static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static const char *strategy_of(const ls_mesh *mesh) {
    const bool blocks = ls_mesh_block_axes(mesh) != 0;
    if (ls_mesh_head_axes(mesh) == 0) return blocks ? "ring" : "local";
    return blocks ? "usp" : "ulysses";
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

static int64_t peak_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

typedef struct figures {
    const char *name; /* of the mesh */
    ls_mesh mesh;
    ls_classes classes;
    int instrs, buffers;
    double *compile; /* [classes] seconds */
    double compile_all, prove, play, elapsed;
    size_t image, slots, bytes[LS_SPACES], least[LS_SPACES];
    int64_t peak;
} figures;

static void describe(const ls_image *image, figures *f) {
    for (int p = 0; p < image->n_programs; p++) f->instrs += image->programs[p].n_instrs;
    for (int i = 0; i < image->n_buffers; i++)
        if (strcmp(image->buffers[i].name, "gradient slots") == 0) f->slots += image->buffers[i].bytes;
    f->buffers = image->n_buffers;
    f->image = ls_arena_bytes(image->arena);
    memcpy(f->bytes, image->bytes, sizeof f->bytes);
    memcpy(f->least, image->least, sizeof f->least);
}

/* Compiles and proves one class. */
static ls_status measure_class(const ls_job *job, int class, ls_arena *arena, ls_class_proof **proof, figures *f) {
    ls_image *image;
    const double start = cpu_seconds();
    const ls_target target = target_of(&f->mesh, ls_class_first(&f->classes, class));
    LS_TRY(ls_compile(job, &target, &image));
    const double compiled = cpu_seconds();
    const ls_status status = ls_prove_class(image, target.rank, arena, proof);
    f->compile[class] = compiled - start;
    f->compile_all += compiled - start;
    f->prove += cpu_seconds() - compiled;
    if (class == 0) describe(image, f);
    ls_image_destroy(image);
    return status;
}

static ls_status measure_classes(const ls_job *job, ls_arena *arena, figures *f) {
    const int ranks = ls_mesh_ranks(&f->mesh);
    f->compile = LS_NEW_ARRAY(arena, double, f->classes.n);
    ls_class_proof **proofs = LS_NEW_ARRAY(arena, ls_class_proof *, f->classes.n);
    int *class_of = LS_NEW_ARRAY(arena, int, ranks);
    for (int r = 0; r < ranks; r++) class_of[r] = ls_class_of(&f->classes, r);
    for (int c = 0; c < f->classes.n; c++) LS_TRY(measure_class(job, c, arena, &proofs[c], f));
    const double start = cpu_seconds();
    LS_TRY(ls_prove_between((const ls_class_proof *const *)proofs, f->classes.n, class_of, ranks));
    f->prove += cpu_seconds() - start;
    f->peak = peak_bytes();
    return ls_ok();
}

static void pass(void *context, int class, const ls_image *image) { (void)context, (void)class, (void)image; }

static ls_status measure_elapsed(const ls_job *job, figures *f) {
    ls_image *first = NULL;
    const ls_target target = target_of(&f->mesh, 0);
    const double start = ls_seconds();
    const ls_status status = ls_compile_proved(job, &target, pass, NULL, &first);
    f->elapsed = ls_seconds() - start;
    ls_image_destroy(first);
    return status;
}

static ls_status play(const ls_job *job, figures *f) {
    const ls_image *of_rank[MOST_PLAYED];
    const int ranks = ls_mesh_ranks(&f->mesh);
    if (ranks > MOST_PLAYED) return ls_ok();
    ls_images images = {0};
    const ls_target target = target_of(&f->mesh, 0);
    LS_TRY(ls_compile_classes(job, &target, &images));
    for (int r = 0; r < ranks; r++) of_rank[r] = ls_images_of(&images, r);
    const double start = cpu_seconds();
    const ls_status status = ls_verify(of_rank, ranks);
    f->play = cpu_seconds() - start;
    ls_images_destroy(&images);
    return status;
}

static void print(const figures *f) {
    printf(
        "{\"bench\": \"compile\", \"mesh\": \"%s\", \"ranks\": %d, \"classes\": %d, \"one_rank_seconds\": %.4f, "
        "\"compile_seconds\": %.3f, \"prove_seconds\": %.3f, \"elapsed_seconds\": %.3f, \"peak_bytes\": %lld, \"play_seconds\": %.3f, "
        "\"instructions\": %d, \"buffers\": %d, \"image_bytes\": %zu, \"private_bytes\": %zu, "
        "\"least_private_bytes\": %zu, \"heap_bytes\": %zu, \"least_heap_bytes\": %zu, \"slot_bytes\": %zu}\n",
        f->name, ls_mesh_ranks(&f->mesh), f->classes.n, ls_median(f->compile, f->classes.n), f->compile_all, f->prove,
        f->elapsed, (long long)f->peak, f->play, f->instrs, f->buffers, f->image, f->bytes[LS_PRIVATE],
        f->least[LS_PRIVATE], f->bytes[LS_SYMMETRIC], f->least[LS_SYMMETRIC], f->slots);
    fflush(stdout);
}

/* One sequence for each dp rank. */
static ls_status measure(const ls_job *job, const ls_mesh *mesh, const char *name) {
    ls_arena *arena = ls_arena_create();
    figures f = {.name = name, .mesh = *mesh};
    const ls_target target = target_of(mesh, 0);
    ls_status status = ls_classes_find(job, &target, &f.classes);
    if (status.code == LS_OK) status = measure_classes(job, arena, &f);
    if (status.code == LS_OK) status = measure_elapsed(job, &f);
    if (status.code == LS_OK) status = play(job, &f);
    if (status.code == LS_OK) print(&f);
    ls_arena_destroy(arena);
    return status;
}

static ls_status measure_mesh(const ls_model *model, int64_t S, const char *name) {
    ls_mesh mesh;
    const char *const colon = strchr(name, ':');
    char axes[64];
    (void)ls_print(axes, sizeof axes, "%.*s", (int)(colon != NULL ? colon - name : (long)strlen(name)), name);
    LS_TRY(ls_mesh_parse(axes, &mesh));
    ls_graph *g = ls_graph_create(LS_BF16);
    ls_language_model lm;
    ls_status status = ls_model_build(model, g, ls_mesh_replicas(&mesh), S, true, &lm);
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, 0),
                        .hyper = {0.9, 0.95, 1e-8, 0.1},
                        .micro_batches = colon != NULL ? atoi(colon + 1) : 1};
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
    static const char *const usual[] = {"ring=8,ulysses=8", "ring=64", "ring=2,ulysses=32", "ring=64,ulysses=16"};
    const char *config = argc > 1 ? argv[1] : "bench/compile.json";
    const int64_t S = argc > 2 ? strtoll(argv[2], NULL, 10) : 131072;
    const ls_status status = argc > 3 ? run(config, S, argc - 3, (const char *const *)(argv + 3))
                                      : run(config, S, (int)LS_COUNT(usual), usual);
    if (status.code != LS_OK) ls_log("%s", status.text);
    return status.code != LS_OK;
}
