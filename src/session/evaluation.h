/*
 * Evaluation by one rank: runs the program `evaluate`, forward only, over batches, and finds their losses. Training,
 * the eval command and the library's worker evaluate with these two calls.
 *
 * Both are collective: all ranks make them with the same arguments, and block until their part is done. Losses are in
 * nats. Sums over ranks are computed in f64 and in the order of the ranks, so they are equal on all of them. The loss
 * of a step that has begun is preserved. Everything is borrowed for the call.
 */
#ifndef LS_SESSION_EVALUATION_H
#define LS_SESSION_EVALUATION_H

#include "model/model.h"
#include "session/sequences.h"

/* The name of the tensor of losses, f32[B,S], where B counts the sequences of all dp ranks together. */
#define LS_TOKEN_LOSSES "token_loss"

/*
 * Evaluates each of the sequences 0 .. n-1 of a source once, in this order. All members but `from` and `n` may be NULL.
 */
typedef struct ls_evaluation {
    const ls_sequences *from;
    int64_t n;
    ls_mean mean;          /* what the sum of the losses is divided by */
    ls_progress *progress; /* rank 0 shows how many sequences are done */
    /* Called on each rank after each batch, while memory still holds the results of the program. */
    void (*on_batch)(void *context, const ls_rank *rank);
    /*
     * Called on rank 0 for each sequence, in order. losses[S] are in the order of positions. The sample has labels and
     * `seen` of all its inputs and, if the job fetches them (ls_model_likeliest), the likeliest words of the model, in
     * the members for a teacher's words. The job must fetch LS_TOKEN_LOSSES.
     */
    void (*on_sequence)(void *context, const ls_sample *sample, const float *losses);
    void *context; /* passed to both functions */
} ls_evaluation;

/*
 * Evaluates sequences with a program whose inputs are those of ls_language_model. The last batch is filled up with
 * sequences whose labels are all ignored. *loss becomes the mean of the losses, over the labels that are not ignored
 * unless `mean` says otherwise; NaN if all labels are ignored. loss NULL: the mean is not computed; a graph that was
 * not differentiated cannot compute it. LS_INTERRUPTED on all ranks if any was asked to stop; a source that fails on
 * one rank fails on all.
 */
LS_MUST_USE ls_status ls_rank_evaluate(const ls_rank *rank, const ls_evaluation *evaluation, double *loss);

/*
 * Evaluates the micro-batches of a step, whose inputs the caller writes; the graph was differentiated. Each rank adds
 * up their losses in the type and the order of a step. Of *out, only loss and stop are set: a request to stop does not
 * end the evaluation. A failure of `feed` is returned on this rank only.
 */
LS_MUST_USE ls_status ls_rank_evaluate_step(const ls_rank *rank, const ls_micro_batches *batches, ls_step_sums *out);

#endif
