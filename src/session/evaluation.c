/* The forward passes of an evaluation, and the sums of their losses. */
#include "session/session.h"

#include <math.h>
#include <stdlib.h>

static ls_status run_programs(const ls_rank *rank, const ls_micro_batches *batches) {
    for (int64_t i = 0; i < batches->count; i++) {
        if (batches->feed != NULL) LS_TRY(batches->feed(batches->context, i));
        if (ls_rank_runs_after(rank, i)) LS_TRY(ls_executor_run(rank->executor, rank->evaluate));
    }
    return ls_ok();
}

/*
 * *loss becomes this rank's term of the loss of the batches, as the programs have added it up. It is 0 if another rank
 * holds the same term, and NaN if the programs have no such sum.
 */
static ls_status run_batches(const ls_rank *rank, const ls_micro_batches *batches, double *loss) {
    double kept;
    LS_TRY(ls_rank_get_number(rank, LS_BIND_LOSS, &kept));
    LS_TRY(ls_rank_put_number(rank, LS_BIND_LOSS, 0));
    ls_status status = run_programs(rank, batches);
    if (status.code == LS_OK) status = ls_rank_get_number(rank, LS_BIND_LOSS, loss);
    LS_TRY(ls_rank_put_number(rank, LS_BIND_LOSS, kept));
    const ls_binding *sum = ls_image_find(rank->image, LS_BIND_LOSS);
    if (sum != NULL && !ls_rank_contributes(rank, sum)) *loss = 0;
    return status;
}

ls_status ls_rank_evaluate_step(const ls_rank *rank, const ls_micro_batches *batches, ls_step_sums *out) {
    enum { LOSS, STOP, SUMS };
    double sum[SUMS];
    LS_TRY(run_batches(rank, batches, &sum[LOSS]));
    sum[STOP] = ls_comm_stop_requested(rank->comm);
    LS_TRY(ls_rank_sum(rank, sum, SUMS));
    *out = (ls_step_sums){.loss = sum[LOSS], .grad_norm = NAN, .stop = sum[STOP] > 0};
    return ls_ok();
}

/* --- sequences ---------------------------------------------------------------------------------------------------- */

typedef struct evaluating {
    const ls_rank *rank;
    const ls_evaluation *evaluation;
    bool lists; /* the losses of sequences are wanted */
    int64_t B, S;
    int64_t first;   /* the first sequence of the running batch, or of the first of several batches that run at once */
    int64_t counted; /* labels so far in this rank's part that are not ignored */
    ls_batch batch;
    /* On rank 0, if it lists losses: arrays for all sequences of a batch. */
    float *all_losses;
    int32_t *all_labels, *seen; /* `seen` is of one sequence */
    int64_t words;              /* number of likeliest words per token that the job fetches; 0: none */
    float *top_logprobs;
    int32_t *top_ids;
} evaluating;

static ls_status make_room(evaluating *e) {
    const size_t count = (size_t)(e->B * e->S);
    LS_TRY(ls_batch_make(e->rank, e->B, e->S, &e->batch));
    if (!e->lists || e->rank->rank != 0) return ls_ok();
    e->all_losses = malloc(sizeof *e->all_losses * count);
    e->all_labels = malloc(sizeof *e->all_labels * count);
    e->seen = malloc(sizeof *e->seen * (size_t)e->S);
    e->top_logprobs = malloc(sizeof *e->top_logprobs * (count * (size_t)e->words + 1));
    e->top_ids = malloc(sizeof *e->top_ids * (count * (size_t)e->words + 1));
    if (e->all_losses == NULL || e->all_labels == NULL || e->seen == NULL || e->top_logprobs == NULL ||
        e->top_ids == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the losses of %zu tokens", count);
    return ls_ok();
}

/* LS_INTERRUPTED if this rank was asked to stop. */
static ls_status read_batch(evaluating *e, int64_t micro_batch) {
    if (ls_comm_stop_requested(e->rank->comm))
        return ls_error(LS_INTERRUPTED, "the evaluation was stopped after %lld of %lld sequences", (long long)e->first,
                        (long long)e->evaluation->n);
    LS_TRY(ls_batch_read(&e->batch, e->evaluation->from, e->first + micro_batch * e->B, e->evaluation->n));
    e->counted += ls_batch_labels(&e->batch);
    return ls_ok();
}

static ls_status feed(void *context, int64_t micro_batch) {
    evaluating *e = context;
    LS_TRY(ls_comm_agree(e->rank->comm, read_batch(e, micro_batch)));
    return ls_batch_put(&e->batch, micro_batch);
}

/*
 * On rank 0: passes on the sequences of a batch, from sequence `first` on. What their labels see of documents is known
 * without reading their tokens.
 */
static ls_status pass_sequences(const evaluating *e, int64_t first) {
    const ls_evaluation *to = e->evaluation;
    for (int64_t i = first; i < ls_min(first + e->B, to->n); i++) {
        const int64_t at = (i - first) * e->S;
        ls_sample sample = {.seen = e->seen};
        LS_TRY(to->from->sample(to->from->context, i, NULL, &sample));
        sample.labels = e->all_labels + at;
        sample.teacher_ids = e->words > 0 ? e->top_ids + at * e->words : NULL;
        sample.teacher_logprobs = e->words > 0 ? e->top_logprobs + at * e->words : NULL;
        to->on_sequence(to->context, &sample, e->all_losses + at);
    }
    return ls_ok();
}

/*
 * For one of the batches that ran at once: gathers losses f32[B,S], labels i32[B,S] and likeliest words [B,S,words],
 * and passes them on.
 */
static ls_status pass_losses(const evaluating *e, int64_t batch) {
    LS_TRY(ls_rank_gather_micro(e->rank, LS_TOKEN_LOSSES, batch, e->all_losses));
    LS_TRY(ls_rank_gather_micro(e->rank, "labels", batch, e->all_labels));
    if (e->words > 0) {
        LS_TRY(ls_rank_gather_micro(e->rank, LS_MODEL_TOP_IDS, batch, e->top_ids));
        LS_TRY(ls_rank_gather_micro(e->rank, LS_MODEL_TOP_LOGPROBS, batch, e->top_logprobs));
    }
    return e->rank->rank == 0 ? pass_sequences(e, e->first + batch * e->B) : ls_ok();
}

/* Passes on the results of the batches that ran at once. */
static ls_status pass_results(const evaluating *e) {
    const ls_evaluation *to = e->evaluation;
    const int at_once = e->rank->image->micro_batches;
    if (to->on_batch != NULL) to->on_batch(to->context, e->rank);
    for (int j = 0; j < at_once && e->lists; j++) LS_TRY(pass_losses(e, j));
    if (e->rank->rank == 0 && to->progress != NULL)
        ls_progress_show(to->progress, ls_min(e->first + e->B * at_once, to->n), "");
    return ls_ok();
}

/* The loss is read after each run and added in f64, since a long sum in f32 would lose digits. */
static ls_status evaluate(evaluating *e, double *mean) {
    enum { LOSS, LABELS, SUMS };
    double sum[SUMS] = {0};
    const int at_once = e->rank->image->micro_batches;
    for (; e->first < e->evaluation->n; e->first += e->B * at_once) {
        double loss;
        LS_TRY(run_batches(e->rank, &(ls_micro_batches){at_once, feed, NULL, e}, &loss));
        sum[LOSS] += loss;
        LS_TRY(pass_results(e));
    }
    sum[LABELS] = (double)e->counted;
    if (mean == NULL) return ls_ok();
    LS_TRY(ls_rank_sum(e->rank, sum, SUMS));
    const int64_t tokens = e->evaluation->n * e->S;
    *mean =
        sum[LABELS] > 0 ? sum[LOSS] / (double)ls_mean_divisor(e->evaluation->mean, (int64_t)sum[LABELS], tokens) : NAN;
    return ls_ok();
}

ls_status ls_rank_evaluate(const ls_rank *rank, const ls_evaluation *evaluation, double *loss) {
    evaluating e = {.rank = rank, .evaluation = evaluation, .lists = evaluation->on_sequence != NULL};
    const ls_binding *tokens = ls_image_find(rank->image, "tokens");
    if (e.lists) {
        const ls_binding *losses = ls_image_find(rank->image, LS_TOKEN_LOSSES);
        LS_ASSERT(losses != NULL && losses->operand.view.dtype == LS_F32);
    }
    const ls_binding *top = ls_image_find(rank->image, LS_MODEL_TOP_IDS);
    e.words = e.lists && top != NULL ? top->shape.dim[2].size : 0;
    LS_ASSERT(tokens != NULL && (loss == NULL || ls_image_find(rank->image, LS_BIND_LOSS) != NULL));
    e.B = tokens->shape.dim[0].size;
    e.S = tokens->shape.dim[1].size;
    ls_status status = ls_comm_agree(rank->comm, make_room(&e));
    if (status.code == LS_OK) status = evaluate(&e, loss);
    ls_batch_free(&e.batch);
    free(e.all_losses);
    free(e.all_labels);
    free(e.seen);
    free(e.top_logprobs);
    free(e.top_ids);
    return status;
}
