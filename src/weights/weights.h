/*
 * weights: where parameters come from (files, checkpoints, random numbers), and how they get into an executor.
 */
#ifndef LS_WEIGHTS_H
#define LS_WEIGHTS_H

#include "run/run.h"

/*
 * Gives elements [start, start+count) of a parameter, as f64 (exact for every source type). A callback, so that files,
 * checkpoints and random numbers are one thing to the executor. context NULL: no source.
 */
typedef struct ls_weight_source {
    ls_status (*read)(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out);
    void *context;
} ls_weight_source;

/* Fills the bound parameters (and the optimiser's masters, for this rank's shard) from the source. */
LS_MUST_USE ls_status ls_weights_fill(ls_executor *executor, const ls_weight_source *source);
/* Elements [start, start+count) of one parameter: rounded to G for the masters of this rank's shard, and from there to T. */
void ls_weights_store(ls_executor *executor, const ls_flat *flat, int64_t start, int64_t count,
                      const double *values);

/*
 * The *.safetensors of a directory (one file, the shards of an index, or all). Names and shapes are checked against the image:
 * the error lists what is missing, extra or misshapen. Tensors whose names end like one of `derived` (ended by NULL; may be NULL)
 * may be there too. out->context is NULL when the directory has none.
 */
LS_MUST_USE ls_status ls_weights_open_directory(const char *directory, const ls_image *image,
                                                const char *const *derived, ls_weight_source *out);
/* One safetensors file (a checkpoint's, say), checked in the same way. */
LS_MUST_USE ls_status ls_weights_open_file(const char *path, const ls_image *image, ls_weight_source *out);
/* Norms 1, biases 0, matrices normal with the deviation: keyed by (seed, name, index), the same for any mesh and type. */
LS_MUST_USE ls_status ls_weights_open_random(uint64_t seed, double deviation, ls_weight_source *out);
void ls_weights_close(ls_weight_source *source); /* NULL and one without context are allowed */
bool ls_weights_from_file(const ls_weight_source *source);

#endif
