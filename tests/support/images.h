/* Images of all ranks for small problems, for tests of programs. */
#ifndef TESTS_IMAGES_H
#define TESTS_IMAGES_H

#include "compile/compile.h"

typedef struct image_set {
    int ranks;
    ls_image *image[64];
    ls_graph *graph;
} image_set;

/*
 * The programs of a loss with an optimiser (NULL: the first, AdamW): step and evaluate, and micro when a step has
 * several micro-batches (accumulates). target: rank is ignored. The set owns the graph. Ends the test on failure.
 */
image_set images_of_loss(ls_graph *graph, ls_tensor loss, const ls_target *target, bool accumulates,
                         const ls_optimizer *optimizer);
/* The job of these programs. And the loss of a network of some layers with attention and norms, of B sequences. */
ls_job job_of_loss(ls_graph *graph, ls_tensor loss, bool accumulates, const ls_optimizer *optimizer);
ls_tensor loss_of_layers(ls_graph *graph, int64_t B, int64_t S, int layers);
/*
 * A network of some layers with attention, norms and a loss, with AdamW, over the mesh. Ends the test on failure. The
 * first: steps of several micro-batches (programs micro and step); the second: of one (program step alone).
 */
image_set images_of_network(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers);
/* The same with attention that reads other ranks' blocks in place, where the strategy can. */
image_set images_in_place(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers);
image_set images_of_step(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers);

/*
 * Other ranks' blocks: put; read in place, where the strategy can; or in place within blocks of ulysses ranks, each on
 * its own host.
 */
typedef enum images_reads { READS_NOTHING, READS_ALL, READS_BLOCK } images_reads;
image_set images_of_kind(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers,
                         bool accumulates, images_reads reads);
/* Steps of several micro-batches, with what the mode says cut over the ranks. */
image_set images_of_shard(ls_mesh mesh, const char *strategy, int layers, const ls_shard_mode *shard,
                          const ls_optimizer *optimizer);
/* Steps of several micro-batches of 26 tokens, with what is done to use less memory. */
image_set images_of_saving(ls_mesh mesh, const char *strategy, int layers, const ls_saving *saving,
                           const ls_optimizer *optimizer);
/* Steps of four micro-batches on the stages of a mesh, with what --mesh and --pipeline say. */
image_set images_of_stages(const char *mesh, const char *strategy, const char *pipeline, const ls_shard_mode *shard);
/* Frees any of these. */
void free_images(image_set *set);
/*
 * Lays out the ranks' heaps differently, each large enough for all: what persists lies a little further on
 * each rank, what a program uses a lot.
 */
void move_heaps(image_set *set);

/* Removes an instruction from a program; what came after it comes after the one before it on its queue. */
void drop_instr(ls_program *program, int at);
/* The k-th thing that an instruction comes after is another instruction now; -1: it is dropped. */
void set_after(ls_instr *instr, int k, int other);

#endif
