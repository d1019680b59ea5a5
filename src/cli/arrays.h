/* What commands share: arrays that all ranks see, masks and tokens from files. */
#ifndef LS_CLI_ARRAYS_H
#define LS_CLI_ARRAYS_H

#include "cli/commands.h"
#include "format/format.h"
#include "session/session.h"

/* --- arrays (array.c) -------------------------------------------------------------------------------------------------------- */

/* A dense global array in memory that forked ranks share with their parent. */
typedef struct ls_array {
    ls_dtype dtype;
    int ndim;
    int64_t size[LS_MAX_DIMS];
    int64_t count; /* elements */
    size_t bytes;
    void *data;
} ls_array;

LS_MUST_USE ls_status ls_array_make(ls_dtype dtype, int ndim, const int64_t *size, ls_array *out); /* zeros */
void ls_array_free(ls_array *array); /* NULL and a zeroed one are allowed */
/* The numbers of an f4 or f8 file, rounded to dtype. */
LS_MUST_USE ls_status ls_array_from_npy(const char *path, const ls_npy *file, ls_dtype dtype, ls_array *out);
/* The whole of an i4 or i8 file as i32; a value that does not fit is an error naming it. */
LS_MUST_USE ls_status ls_array_read_integers(const char *path, ls_array *out);
/* directory/NAME.npy, f8 for f64 and f4 otherwise. */
LS_MUST_USE ls_status ls_array_write(const ls_array *array, const char *directory, const char *name);

void ls_sizes_print(int ndim, const int64_t *size, char *out, size_t bytes); /* "[2,16,64]" */

/* "f32", "f64", "bf16"; NULL is `initial`. LS_USAGE otherwise. */
LS_MUST_USE ls_status ls_job_dtype(const char *text, ls_dtype initial, ls_dtype *out);

/* --- runs (checkpoint.c) ----------------------------------------------------------------------------------------------------- */

/* run.json of the run that a checkpoint's folder is of: it lies beside the checkpoints. *out stays as it is where there is none. */
LS_MUST_USE ls_status ls_job_read_run(const char *checkpoint, ls_json **out);

/* --- masks (mask_file.c) ----------------------------------------------------------------------------------------------------- */

/* A mask from text, with the arrays that its documents terms read. */
typedef struct ls_mask_text {
    ls_mask mask;
    ls_array ends[LS_MASK_TERMS];
    int n_ends;
} ls_mask_text;

/* Terms joined by '+', "documents:FILE.npy" among them; checked against a sequence of S. Free it whatever the status. */
LS_MUST_USE ls_status ls_mask_text_read(const char *text, int64_t S, ls_mask_text *out);
void ls_mask_text_free(ls_mask_text *mask);

/* --- tokens (token_file.c) ---------------------------------------------------------------------------------------------------- */

/* i32[B,S], each in [0,V); errors name row, column and value. Free *out whatever the status. */
LS_MUST_USE ls_status ls_tokens_read(const char *path, int64_t V, ls_array *out);
/* Like the tokens, -100 allowed; path NULL: the next token, -100 at the end of each row. valid: how many are not -100. */
LS_MUST_USE ls_status ls_labels_read(const char *path, int64_t V, const ls_array *tokens, ls_array *out,
                                     int64_t *valid);

#endif
