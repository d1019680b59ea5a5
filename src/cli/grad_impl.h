/* What the files of the command grad share. */
#ifndef LS_CLI_GRAD_IMPL_H
#define LS_CLI_GRAD_IMPL_H

#include "cli/cli_impl.h"
#include "model/model.h"

/* The inputs of the command; arrays [B,S]. */
typedef struct ls_grad_inputs {
    ls_array tokens, labels, positions; /* labels without data: the model has none */
    ls_array numbers; /* the number of each token's document; without data: positions say where documents begin */
    ls_array *others; /* [n_others] the model's other inputs, in its order */
    int n_others;
    int64_t valid;           /* labels that are not ignored; if the model has no labels, tokens */
    bool apart;              /* some sequence holds several documents */
    int32_t *ends;           /* [B,S+1] bounds of documents */
    int *n_ends;             /* [B] */
    ls_mask_term *documents; /* [B] the same bounds as terms of masks */
} ls_grad_inputs;

/*
 * Reads the job's files into a zeroed *in, which the caller frees whatever the status. real: the type of inputs that
 * are real numbers.
 */
LS_MUST_USE ls_status ls_grad_inputs_read(const ls_grad_job *job, const ls_model *model, ls_dtype real,
                                          ls_grad_inputs *in);
/* The number by which the sum of the losses of all ranks is divided. */
double ls_grad_inputs_divisor(const ls_grad_inputs *in, const ls_model *model);
/* Adds the inputs that all processes of launched ranks must have read alike. */
void ls_grad_inputs_add(const ls_grad_inputs *in, const ls_model *model, ls_alike *alike);
/* A micro-batch: n rows of the arrays, after the rows of the micro-batches before it. */
typedef struct ls_micro_rows {
    int64_t number, n;
} ls_micro_rows;
/* Puts the rank's part of a micro-batch into the inputs of its programs, and sets the documents. */
LS_MUST_USE ls_status ls_grad_inputs_put(const ls_grad_inputs *in, const ls_model *model, const ls_rank *rank,
                                         const ls_micro_rows *micro);
void ls_grad_inputs_free(ls_grad_inputs *in);

/* --- the file of gradients (grad_file.c) -------------------------------------------------------------------------- */

/* Names and shapes of the weights that are trained, in the type in which gradients are summed. */
LS_MUST_USE ls_status ls_grad_file_plan(const ls_image *image, ls_st_plan **out);
/* Collective, after a step with LS_UPDATE_REDUCE: fills in the file that ls_st_create made from this plan. */
LS_MUST_USE ls_status ls_grad_file_write(const ls_rank *rank, const char *path, const ls_st_plan *plan);

#endif
