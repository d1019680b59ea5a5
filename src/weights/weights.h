/*
 * weights: where parameters come from (safetensors files, checkpoints, random numbers), and how they get into an
 * executor.
 */
#ifndef LS_WEIGHTS_H
#define LS_WEIGHTS_H

#include "run/run.h"

/*
 * The rounding error of numbers that became blocks: how many numbers, the sum of their squares, and that of the
 * changes.
 */
typedef struct ls_weights_rounding {
    double numbers, squares, change;
} ls_weights_rounding;

/*
 * Gives numbers [start, start + count) of a parameter (flat: its name, shape and type). If they are converted to
 * blocks, the range has whole blocks. Any thread may call the functions. A source whose context is NULL is empty.
 */
typedef struct ls_weight_source {
    /*
     * As f64, which represents every source type exactly. For a parameter in blocks: the numbers that these decode to.
     */
    ls_status (*read)(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out);
    void *context;
    /*
     * As f32, f64, bf16 or blocks, into their final place; f64 becomes bf16 by way of f32. NULL: the source can only
     * read.
     */
    ls_status (*convert)(void *context, const ls_flat *flat, int64_t start, int64_t count, ls_dtype to, void *out);
    /* bytes read from files by all calls so far; NULL: the source reads no files */
    int64_t (*bytes_read)(void *context);
    /* The rounding error of numbers that became blocks in all calls so far; NULL: nothing is rounded in this way. */
    ls_weights_rounding (*rounding)(void *context);
    /* what files hold that is not read, for a log line; lives as long as the source. NULL: nothing */
    const char *left_out;
    void (*close)(void *context); /* frees the context; NULL: the source owns nothing */
} ls_weight_source;

/* Figures of how a rank got its weights. */
typedef struct ls_weights_figures {
    double exchange; /* seconds that the exchange of shares took */
    int64_t bytes;   /* bytes read from files; what is read twice counts twice */
} ls_weights_figures;

/* Fills the parameters that this rank holds and, if masters are bound, the masters. */
LS_MUST_USE ls_status ls_weights_fill(ls_executor *executor, const ls_weight_source *source);
/*
 * The same by all ranks together. Each rank reads its shards from the source. If ranks hold the same parts of all
 * parameters, each of them reads an equal share of these, and the shares are exchanged. Rank 0 logs what is left out.
 * figures may be NULL. Collective; all ranks return the failure of the first rank that failed.
 */
LS_MUST_USE ls_status ls_weights_fill_shared(ls_executor *executor, ls_comm *comm, const ls_weight_source *source,
                                             ls_weights_figures *figures);
/* Sets what this rank holds of one parameter and of its master. values: all values of the parameter. */
LS_MUST_USE ls_status ls_weights_store(ls_executor *executor, const ls_flat *flat, const double *values);

/*
 * Converts n numbers to elements of a floating-point type or to blocks. bf16 is rounded from f32, not from f64, because
 * the update also makes parameters from f32 masters.
 */
void ls_weights_narrow(const double *x, int64_t n, ls_dtype dtype, void *to);
void ls_weights_from_f32(const float *x, int64_t n, ls_dtype dtype, void *to);

/*
 * Explains a result that is not finite. LS_INVALID: the message begins with `what`; then it names the first element of
 * a parameter that is not finite, on the first rank that holds one, or says that all parameters are finite. Collective.
 */
ls_status ls_weights_not_finite(const ls_executor *executor, ls_comm *comm, const char *what);

/* Files may hold the parameter `original` a second time under the name `copy`, such as a tied head. */
typedef struct ls_weight_copy {
    const char *copy, *original;
} ls_weight_copy;

/* Files may have the text `files` in place of `model` at the beginning of every parameter's name. */
typedef struct ls_weight_spelling {
    const char *model, *files;
} ls_weight_spelling;

/* Which other tensors files may hold, and how they may spell the names of parameters. A member may be NULL. */
typedef struct ls_weight_rules {
    const char *const *derived; /* suffixes of names of tensors that are not trained and are ignored; ends with NULL */
    const ls_weight_copy *copies;
    int n_copies;
    const ls_weight_spelling *spellings; /* ends with an entry whose `model` is NULL */
    /* prefixes of names of tensors that belong to other parts of a model; ends with NULL */
    const char *const *left_out;
    /* whether files of this kind have the parameter; NULL: they have all parameters */
    bool (*has)(const ls_flat *flat);
} ls_weight_rules;

/*
 * Opens the safetensors of a folder: model.safetensors, or the files of model.safetensors.index.json, or all
 * *.safetensors. Names and shapes must be those of the image's parameters, types F64, F32, F16 or BF16, and an index
 * must agree with its files. A single LS_INVALID error lists all mistakes. A copy must be equal to its original:
 * reading elements of the original compares them, and returns LS_INVALID if they differ. rules may be NULL.
 * out->context is NULL if the folder has no such file.
 */
LS_MUST_USE ls_status ls_weights_open_folder(const char *folder, const ls_image *image, const ls_weight_rules *rules,
                                             ls_weight_source *out);
/* One safetensors file, checked in the same way. */
LS_MUST_USE ls_status ls_weights_open_file(const char *path, const ls_image *image, const ls_weight_rules *rules,
                                           ls_weight_source *out);
/*
 * Parameters for which `has` is true come from the source `own`, the others from `base`. Owns both, also on failure.
 * base must read files.
 */
LS_MUST_USE ls_status ls_weights_compose(const ls_weight_source *base, const ls_weight_source *own,
                                         bool (*has)(const ls_flat *flat), ls_weight_source *out);
/*
 * Norms are 1, biases 0, and matrices normally distributed around 0 with this standard deviation. A number depends only
 * on (seed, parameter's name, index), so it is the same for any mesh and type.
 */
LS_MUST_USE ls_status ls_weights_open_random(uint64_t seed, double deviation, ls_weight_source *out);
/*
 * Initial values of parameters whose names end with `suffix`: `value` or, if most > 0, the logarithm of a random number
 * uniform between `least` and `most`. A table ends with suffix NULL.
 */
typedef struct ls_weight_initial {
    const char *suffix;
    double value, least, most;
} ls_weight_initial;
/* norm: 0 for models that add 1 to the weights of norms. others: parameters with other initial values; NULL: none. */
typedef struct ls_weight_random {
    uint64_t seed;
    double deviation, norm;
    const ls_weight_initial *others; /* a table with static storage */
} ls_weight_random;
LS_MUST_USE ls_status ls_weights_open_random_as(const ls_weight_random *rule, ls_weight_source *out);
void ls_weights_close(ls_weight_source *source); /* NULL and a source without context are allowed */
bool ls_weights_from_file(const ls_weight_source *source);

#endif
