/*
 * Evaluation by one rank: program `evaluate`, forward only, over batches, and the losses that it leaves. Training, the
 * eval command and the library's worker evaluate with these two calls.
 *
 * Both are collective: all ranks make them with the same arguments, and block until their part is done. Losses are in
 * nats. What ranks add up is added in f64 and in the order of the ranks, so it is equal on all of them. The loss of a
 * step that has begun is kept. Everything is borrowed for the call.
 */
#ifndef LS_SESSION_EVALUATION_H
#define LS_SESSION_EVALUATION_H

#include "model/model.h"
#include "session/sequences.h"

/* The name of the tensor of losses, f32[B,S], B of all dp ranks together. */
#define LS_TOKEN_LOSSES "token_loss"

/* Sequences 0 .. n-1 of a source, each evaluated once, in this order. All but `from` and `n` may be NULL. */
typedef struct ls_evaluation {
    const ls_sequences *from;
    int64_t n;
    ls_mean mean;          /* what the sum of the losses is divided by */
    ls_progress *progress; /* rank 0 shows the sequences that are done */
    /* Called on each rank after each batch, while the results of the program are in memory. */
    void (*on_batch)(void *context, const ls_rank *rank);
    /*
     * Called on rank 0 for each sequence, in order. losses[S] are in the order of positions; the sample has labels and
     * seen of all its inputs, and, where the job fetches them (ls_model_likeliest), the likeliest words of the model as
     * those of a teacher. The job must fetch LS_TOKEN_LOSSES.
     */
    void (*on_sequence)(void *context, const ls_sample *sample, const float *losses);
    void *context; /* passed to both */
} ls_evaluation;

/*
 * Evaluates sequences, with a program whose inputs are those of ls_language_model. The last batch is filled up with
 * sequences whose labels are ignored. *loss becomes the mean of the losses, over the labels that are not ignored unless
 * `mean` says otherwise; NaN where all labels are ignored.
 * NULL: it is not computed, which a graph that was not differentiated cannot do. LS_INTERRUPTED on all ranks when any
 * was asked to stop; a source that fails on one rank fails on all.
 */
LS_MUST_USE ls_status ls_rank_evaluate(const ls_rank *rank, const ls_evaluation *evaluation, double *loss);

/*
 * Evaluates the micro-batches of a step, whose inputs the caller writes; the graph was differentiated. Each rank adds
 * up their losses in the type and in the order of a step. Of *out, loss and stop are set: a request to stop does not
 * end the evaluation. A failure of `feed` is this rank's alone.
 */
LS_MUST_USE ls_status ls_rank_evaluate_step(const ls_rank *rank, const ls_micro_batches *batches, ls_step_sums *out);

#endif
