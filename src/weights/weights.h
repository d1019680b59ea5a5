/*
 * weights: where parameters come from (files, checkpoints, random numbers), and how they get into an executor.
 */
#ifndef LS_WEIGHTS_H
#define LS_WEIGHTS_H

#include "run/run.h"

/*
 * Gives elements [start, start+count) of a parameter. Callbacks, so that files, checkpoints and random numbers are one thing to the
 * executor; any thread may call them. context NULL: no source.
 */
typedef struct ls_weight_source {
    /* As f64: exact for every source type. */
    ls_status (*read)(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out);
    void *context;
    /* As f32, f64 or bf16, straight to where they belong; what bf16 cannot hold is rounded to f32 first. NULL: by read alone. */
    ls_status (*convert)(void *context, const ls_flat *flat, int64_t start, int64_t count, ls_dtype to,
                         void *out);
} ls_weight_source;

/* Fills the bound parameters (and the optimiser's masters, for this rank's shard) from the source. */
LS_MUST_USE ls_status ls_weights_fill(ls_executor *executor, const ls_weight_source *source);
/* Elements [start, start+count) of one parameter: rounded to G for the masters of this rank's shard, and from there to T. */
void ls_weights_store(ls_executor *executor, const ls_flat *flat, int64_t start, int64_t count,
                      const double *values);

/*
 * Why `what` (a line's beginning) is not finite: LS_INVALID that names the first parameter with a number that is not, the number and its
 * place, or says that all parameters are finite. Reads all parameters; of a rank that holds them.
 */
ls_status ls_weights_not_finite(ls_executor *executor, const char *what);

/* What files may hold beside the parameters, and how they may call them; a field may be NULL. */
typedef struct ls_weight_rules {
    const char *const *derived;  /* endings of the names of tensors that are not trained; ended by NULL */
    const char *copy, *original; /* a tensor that is the parameter `original` once more, as a tied head is */
    const char *prefix;          /* of parameters' names: files may leave it out in all of them */
} ls_weight_rules;

/*
 * The *.safetensors of a directory (one file, the shards of an index, or all). Names, types and shapes are checked against the image,
 * and an index against its files: the error lists what is missing, extra, misshapen and so on, all at once. A copy that is there must
 * be equal to its original. rules may be NULL. out->context is NULL when the directory has none.
 */
LS_MUST_USE ls_status ls_weights_open_directory(const char *directory, const ls_image *image,
                                                const ls_weight_rules *rules, ls_weight_source *out);
/* One safetensors file (a checkpoint's, say), checked in the same way. */
LS_MUST_USE ls_status ls_weights_open_file(const char *path, const ls_image *image, ls_weight_source *out);
/* Norms 1, biases 0, matrices normal with the deviation: keyed by (seed, name, index), the same for any mesh and type. */
LS_MUST_USE ls_status ls_weights_open_random(uint64_t seed, double deviation, ls_weight_source *out);
/* The same with another value for norms: 0 where what is trained is added to 1. */
LS_MUST_USE ls_status ls_weights_open_random_norms(uint64_t seed, double deviation, double norm,
                                                   ls_weight_source *out);
void ls_weights_close(ls_weight_source *source); /* NULL and one without context are allowed */
bool ls_weights_from_file(const ls_weight_source *source);

#endif
