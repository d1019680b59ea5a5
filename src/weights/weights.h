/*
 * weights: where parameters come from (safetensors files, checkpoints, random numbers), and how they get into an
 * executor.
 */
#ifndef LS_WEIGHTS_H
#define LS_WEIGHTS_H

#include "run/run.h"

/* Of numbers that became blocks: how many, the sum of their squares, and that of what rounding changed. */
typedef struct ls_weights_rounding {
    double numbers, squares, change;
} ls_weights_rounding;

/*
 * Gives numbers [start, start + count) of a parameter (flat: its name, shape and type; of blocks whole ones, as far as
 * they are converted to such). Any thread may call the functions. A source whose context is NULL is none.
 */
typedef struct ls_weight_source {
    /* As f64, which holds every source type exactly. Of a parameter in blocks: what these decode to. */
    ls_status (*read)(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out);
    void *context;
    /*
     * As f32, f64, bf16 or blocks, into their final place; f64 becomes bf16 by way of f32. NULL: the source can only
     * read.
     */
    ls_status (*convert)(void *context, const ls_flat *flat, int64_t start, int64_t count, ls_dtype to, void *out);
    int64_t (*bytes_read)(void *context); /* of files, by all calls so far; NULL: the source reads no files */
    /* What rounding numbers to blocks has changed, by all calls so far; NULL: nothing is rounded so. */
    ls_weights_rounding (*rounding)(void *context);
    const char *left_out; /* what files hold that is not read, for a line; lives as long as the source. NULL: nothing */
    void (*close)(void *context); /* frees what it made; NULL: the source owns nothing */
} ls_weight_source;

/* What a rank has done to get its weights. */
typedef struct ls_weights_figures {
    double exchange; /* seconds in which the ranks exchanged their shares */
    int64_t bytes;   /* read from files; what is read twice counts twice */
} ls_weights_figures;

/* Fills what this rank holds of the parameters, and of the masters when masters are bound. */
LS_MUST_USE ls_status ls_weights_fill(ls_executor *executor, const ls_weight_source *source);
/*
 * The same, by all ranks together: each takes its shards from the source; where ranks hold the same parts of all
 * parameters, an equal share of these, and the shares are exchanged. Rank 0 says what is left out. figures may be NULL.
 * Collective; all ranks return the failure of the first that failed.
 */
LS_MUST_USE ls_status ls_weights_fill_shared(ls_executor *executor, ls_comm *comm, const ls_weight_source *source,
                                             ls_weights_figures *figures);
/* Sets what this rank holds of one parameter, and of its master. values: of the whole parameter. */
LS_MUST_USE ls_status ls_weights_store(ls_executor *executor, const ls_flat *flat, const double *values);

/*
 * Converts n numbers to elements of a floating-point type or to blocks. bf16 is rounded from f32, not from f64, because
 * the update also makes parameters from f32 masters.
 */
void ls_weights_narrow(const double *x, int64_t n, ls_dtype dtype, void *to);
void ls_weights_from_f32(const float *x, int64_t n, ls_dtype dtype, void *to);

/*
 * Explains a result that is not finite. LS_INVALID: `what`, which begins the message, then the first element of a
 * parameter that is not finite, on the first rank that holds one, or that all parameters are finite. Collective.
 */
ls_status ls_weights_not_finite(const ls_executor *executor, ls_comm *comm, const char *what);

/* Files may hold the parameter `original` a second time under the name `copy`, as a tied head is. */
typedef struct ls_weight_copy {
    const char *copy, *original;
} ls_weight_copy;

/* Files may have the text `files` in the place of `model` at the beginning of every parameter's name. */
typedef struct ls_weight_spelling {
    const char *model, *files;
} ls_weight_spelling;

/* What files may hold besides the parameters, and how they may name them. A field may be NULL. */
typedef struct ls_weight_rules {
    const char *const *derived; /* name endings of tensors that are not trained and are ignored; ends with NULL */
    const ls_weight_copy *copies;
    int n_copies;
    const ls_weight_spelling *spellings; /* ends with one whose `model` is NULL */
    const char *const *left_out;         /* beginnings of names of tensors of other parts of a model; ends with NULL */
    bool (*has)(const ls_flat *flat);    /* whether files of this kind have the parameter; NULL: they have all */
} ls_weight_rules;

/*
 * The safetensors of a folder: model.safetensors, or the files of model.safetensors.index.json, or all *.safetensors.
 * Names and shapes must be those of the image's parameters, types F64, F32, F16 or BF16, and an index must agree with
 * its files. One LS_INVALID error lists all mistakes. A copy must be equal to its original: who reads elements of that,
 * compares them, and gets LS_INVALID. rules may be NULL.
 * out->context is NULL when the folder has no such file.
 */
LS_MUST_USE ls_status ls_weights_open_folder(const char *folder, const ls_image *image, const ls_weight_rules *rules,
                                             ls_weight_source *out);
/* One safetensors file, checked in the same way. */
LS_MUST_USE ls_status ls_weights_open_file(const char *path, const ls_image *image, const ls_weight_rules *rules,
                                           ls_weight_source *out);
/*
 * Of the parameters that `has` says, the source `own`; of the others `base`. Owns both, also when this fails. base has
 * files.
 */
LS_MUST_USE ls_status ls_weights_compose(const ls_weight_source *base, const ls_weight_source *own,
                                         bool (*has)(const ls_flat *flat), ls_weight_source *out);
/*
 * Norms 1, biases 0, matrices normally distributed around 0 with this standard deviation. A number depends on (seed,
 * parameter's name, index) only, and so is the same for any mesh and type.
 */
LS_MUST_USE ls_status ls_weights_open_random(uint64_t seed, double deviation, ls_weight_source *out);
/*
 * Random values of parameters whose names end so: `value`; or, where most > 0, the logarithm of a number uniform
 * between `least` and `most`. A table ends with suffix NULL.
 */
typedef struct ls_weight_initial {
    const char *suffix;
    double value, least, most;
} ls_weight_initial;
/* Norms: 0 for models that add 1 to the weight of a norm. others: parameters that are neither that; NULL: none. */
typedef struct ls_weight_random {
    uint64_t seed;
    double deviation, norm;
    const ls_weight_initial *others; /* a table with static storage */
} ls_weight_random;
LS_MUST_USE ls_status ls_weights_open_random_as(const ls_weight_random *rule, ls_weight_source *out);
void ls_weights_close(ls_weight_source *source); /* NULL and a source without context are allowed */
bool ls_weights_from_file(const ls_weight_source *source);

#endif
