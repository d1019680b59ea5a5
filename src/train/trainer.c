/* One rank's optimiser steps: what the host does before, between and after the programs micro and step. */
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The figures of a step; after the reduction, each is the maximum over ranks. */
typedef struct step_figures {
    double wait, copy;
    int64_t peak, read;
    int64_t stop, save; /* the wish: an ls_stop, and whether a checkpoint is to be written */
} step_figures;

static void keep_largest(void *into, const void *from, size_t bytes) {
    (void)bytes;
    step_figures *all = into;
    const step_figures *one = from;
    all->wait = fmax(all->wait, one->wait);
    all->copy = fmax(all->copy, one->copy);
    all->peak = ls_max(all->peak, one->peak);
    all->read = ls_max(all->read, one->read);
    all->stop = ls_max(all->stop, one->stop);
    all->save = ls_max(all->save, one->save);
}

/* A rank's share of the sums that are needed before the first backward pass of a step; or the sum over the ranks. */
typedef struct step_share {
    int64_t valid;  /* labels that are not ignored */
    uint64_t hash;  /* ls_data_hash */
    int64_t failed; /* number of ranks that could not read their part */
} step_share;

struct ls_trainer {
    const ls_rank *rank;
    int64_t B, S, accumulate; /* B sequences in a micro-batch */
    ls_mean mean;
    ls_batch batch;
    step_share *shares;      /* [ranks] */
    ls_weighing weighing;    /* without a function: the steps use no weights */
    float *losses, *weights; /* [B·accumulate,S]; losses on rank 0 only */
    int64_t peak;            /* largest number of resident bytes of this rank so far */
};

ls_status ls_trainer_create(const ls_rank *rank, int64_t micro_batch, int64_t accumulate, int64_t S, ls_mean mean,
                            ls_trainer **out) {
    ls_trainer *t = calloc(1, sizeof *t);
    if (t == NULL) return ls_error(LS_NO_MEMORY, "no memory for a trainer");
    t->rank = rank;
    t->B = micro_batch;
    t->S = S;
    t->accumulate = accumulate;
    t->mean = mean;
    t->shares = calloc((size_t)rank->ranks, sizeof *t->shares);
    const ls_status status = t->shares != NULL ? ls_batch_make(rank, micro_batch, S, &t->batch)
                                               : ls_error(LS_NO_MEMORY, "no memory for sums of %d ranks", rank->ranks);
    if (status.code != LS_OK) {
        ls_trainer_destroy(t);
        return status;
    }
    *out = t;
    return ls_ok();
}

void ls_trainer_destroy(ls_trainer *t) {
    if (t == NULL) return;
    ls_batch_free(&t->batch);
    free(t->shares);
    free(t->losses);
    free(t->weights);
    free(t);
}

void ls_trainer_noise(ls_trainer *t, uint64_t seed) { ls_batch_noise(&t->batch, seed); }

ls_status ls_trainer_weigh(ls_trainer *t, const ls_weighing *weighing) {
    const size_t n = (size_t)(t->B * t->accumulate * t->S);
    t->weighing = *weighing;
    t->weights = calloc(n, sizeof *t->weights);
    t->losses = t->rank->rank == 0 ? calloc(n, sizeof *t->losses) : NULL;
    if (t->weights != NULL && (t->losses != NULL || t->rank->rank != 0)) return ls_ok();
    return ls_error(LS_NO_MEMORY, "no memory for the losses of %zu tokens", n);
}

/* Reads this rank's part of sequences first .. first+B-1 into t->batch. */
static ls_status read_batch(ls_trainer *t, const ls_sequences *from, int64_t first) {
    return ls_batch_read(&t->batch, from, first, INT64_MAX);
}

/* Finds this rank's share. Reads the micro-batches in reverse order, so that the first one remains in t->batch. */
static ls_status read_step(ls_trainer *t, const ls_sequences *from, int64_t first, step_share *out) {
    const ls_batch *batch = &t->batch;
    for (int64_t m = t->accumulate - 1; m >= 0; m--) {
        LS_TRY(read_batch(t, from, first + m * t->B));
        out->valid += ls_batch_labels(batch);
        if (!ls_batch_counts(batch)) continue;
        for (int64_t b = 0; b < batch->rows; b++) {
            const int64_t row = m * t->B + batch->first + b, at = b * batch->inputs;
            out->hash += ls_data_hash(row * t->S, &batch->part, batch->tokens + at, batch->labels + at);
        }
    }
    return ls_ok();
}

/*
 * Finds the sum over all ranks, on each of them: the loss is divided by the number of valid labels, so that number must
 * be known before the first backward pass. If a rank cannot read its part, all ranks return its failure.
 */
static ls_status sum_step(ls_trainer *t, const ls_sequences *from, int64_t first, step_share *out) {
    step_share mine = {0}, sum = {0};
    const ls_status status = read_step(t, from, first, &mine);
    mine.failed = status.code != LS_OK;
    LS_TRY(ls_comm_exchange(t->rank->comm, &mine, sizeof mine, t->shares));
    for (int r = 0; r < t->rank->ranks; r++) {
        sum.valid += t->shares[r].valid;
        sum.hash += t->shares[r].hash;
        sum.failed += t->shares[r].failed;
    }
    *out = sum;
    return sum.failed > 0 ? ls_comm_agree(t->rank->comm, status) : ls_ok();
}

/*
 * The input of a running step. At the beginning, the first micro-batch is in t->batch; the others are read one by one.
 */
typedef struct step_input {
    ls_trainer *trainer;
    const ls_sequences *from;
    int64_t first; /* index of the step's first sequence */
    int64_t here;  /* the micro-batch that is in t->batch */
} step_input;

static ls_status feed(void *context, int64_t micro_batch) {
    step_input *m = context;
    ls_trainer *t = m->trainer;
    if (micro_batch != m->here) LS_TRY(read_batch(t, m->from, m->first + micro_batch * t->B));
    m->here = micro_batch;
    return ls_batch_put(&t->batch, micro_batch);
}

static ls_status feed_weighted(void *context, int64_t micro_batch) {
    const step_input *m = context;
    const ls_trainer *t = m->trainer;
    LS_TRY(feed(context, micro_batch));
    return ls_rank_scatter_micro(t->rank, LS_MODEL_WEIGHTS, micro_batch, t->weights + micro_batch * t->B * t->S);
}

/* Runs all micro-batches of a step forward, and finds the weights of their tokens. */
static ls_status weigh_step(step_input *m, ls_answers_figures *out) {
    const ls_trainer *t = m->trainer;
    const int at_once = t->rank->image->micro_batches;
    for (int64_t i = 0; i < t->accumulate; i++) {
        LS_TRY(feed(m, i));
        if (!ls_rank_runs_after(t->rank, i)) continue;
        LS_TRY(ls_executor_run(t->rank->executor, t->rank->evaluate));
        for (int64_t of = i + 1 - at_once; of <= i; of++) {
            float *to = t->losses != NULL ? t->losses + of * t->B * t->S : NULL;
            LS_TRY(ls_rank_gather_micro(t->rank, LS_TOKEN_LOSSES, of, to));
        }
    }
    return t->weighing.weigh(t->weighing.context, m->first, t->B * t->accumulate, t->losses, t->weights, out);
}

/* Counters as they were before a step. */
typedef struct counts {
    ls_run_times times;
    int64_t read;
} counts;

static counts counts_now(const ls_trainer *t) { return (counts){ls_executor_times(t->rank->executor), t->batch.bytes}; }

/* Reduces the figures of a step, including this rank's wish, over the ranks. */
static ls_status reduce_figures(ls_trainer *t, const counts *before, ls_wish wish, ls_step_report *out) {
    const counts now = counts_now(t);
    t->peak = ls_max(t->peak, ls_resident_bytes(t->rank).bytes);
    step_figures all = {.wait = now.times.waiting - before->times.waiting,
                        .copy = now.times.copying - before->times.copying,
                        .peak = t->peak,
                        .read = now.read - before->read,
                        .stop = wish.stop,
                        .save = wish.save};
    LS_TRY(ls_comm_reduce(t->rank->comm, &all, sizeof all, keep_largest));
    if (all.stop < LS_STOP_NOT || all.stop > LS_STOP_SIGNAL)
        return ls_error(LS_INVALID, "a rank's wish to stop is %lld; expected %d to %d", (long long)all.stop,
                        LS_STOP_NOT, LS_STOP_SIGNAL);
    out->wait_seconds = all.wait;
    out->copy_seconds = all.copy;
    out->peak_bytes = all.peak;
    out->read_bytes = all.read;
    out->wish = (ls_wish){(ls_stop)all.stop, all.save != 0};
    return ls_ok();
}

ls_status ls_trainer_step(ls_trainer *t, const ls_sequences *from, int64_t step, const ls_step_hyper *hyper,
                          ls_wish wish, ls_step_report *out) {
    const double start = ls_seconds();
    const counts before = counts_now(t);
    const int64_t first = step * t->B * t->accumulate;
    ls_comm_doing(t->rank->comm, "step %lld", (long long)step + 1);
    step_share sum;
    LS_TRY(sum_step(t, from, first, &sum));
    *out = (ls_step_report){.loss = NAN, .tokens = sum.valid};
    if (out->tokens == 0) {
        LS_TRY(reduce_figures(t, &before, wish, out));
        out->seconds = ls_seconds() - start;
        return ls_ok();
    }
    const int64_t divisor = ls_mean_divisor(t->mean, out->tokens, t->B * t->S * t->accumulate);
    ls_step_numbers numbers = {.divisor = (double)divisor,
                               .update = step + 1,
                               .lr = hyper->lr,
                               .clip = hyper->clip,
                               .beta1 = hyper->beta1,
                               .beta2 = hyper->beta2};
    const bool weighs = t->weights != NULL;
    step_input m = {.trainer = t, .from = from, .first = first};
    if (weighs) {
        LS_TRY(weigh_step(&m, &out->answers));
        numbers.divisor = 1;
    }
    LS_TRY(ls_rank_run_step(t->rank, &numbers,
                            &(ls_micro_batches){t->accumulate, weighs ? feed_weighted : feed, NULL, &m}));
    ls_step_sums sums;
    LS_TRY(ls_rank_read_step(t->rank, &sums));
    out->loss = weighs ? out->answers.loss : sums.loss / (double)divisor;
    out->grad_norm = sums.grad_norm;
    out->applied = sums.applied;
    out->data_hash = sum.hash;
    LS_TRY(reduce_figures(t, &before, wish, out));
    out->seconds = ls_seconds() - start;
    return ls_ok();
}

/* --- results that are not finite ---------------------------------------------------------------------------------- */

/* The first result of a rank that is not finite: its place in the step, and the names of op and tensor. */
typedef struct finding {
    int64_t micro_batch; /* -1: every result is finite */
    int instr, rank;     /* instr: index in the program of the micro-batch */
    char op[64], tensor[160];
} finding;

/* Repeats the step. Its update is not applied this time either; it sets the sums to zero. */
static ls_status find_not_finite(ls_trainer *t, const ls_sequences *from, int64_t first, finding *out) {
    *out = (finding){.micro_batch = -1, .rank = t->rank->rank};
    for (int64_t m = 0; m < t->accumulate; m++) {
        LS_TRY(read_batch(t, from, first + m * t->B));
        LS_TRY(ls_batch_put(&t->batch, m));
        if (!ls_rank_runs_after(t->rank, m)) continue;
        const int program = ls_rank_step_program(t->rank, m, t->accumulate);
        ls_result_place bad;
        LS_TRY(ls_executor_run_checked(t->rank->executor, program, &bad));
        if (bad.instr < 0 || out->micro_batch >= 0) continue;
        const ls_instr *instr = &t->rank->image->programs[program].instrs[bad.instr];
        out->micro_batch = m;
        out->instr = bad.instr;
        snprintf(out->op, sizeof out->op, "%s", instr->op);
        snprintf(out->tensor, sizeof out->tensor, "%s", t->rank->image->buffers[instr->out[bad.output].buffer].name);
    }
    return ls_ok();
}

static bool earlier(const finding *a, const finding *b) {
    if (a->micro_batch < 0 || b->micro_batch < 0) return a->micro_batch >= 0 && b->micro_batch < 0;
    if (a->micro_batch != b->micro_batch) return a->micro_batch < b->micro_batch;
    return a->instr != b->instr ? a->instr < b->instr : a->rank < b->rank;
}

static void keep_earliest(void *into, const void *from, size_t bytes) {
    if (earlier(from, into)) memcpy(into, from, bytes);
}

ls_status ls_trainer_explain(ls_trainer *t, const ls_sequences *from, int64_t step, const ls_step_report *report,
                             char *out, size_t room) {
    finding first;
    LS_TRY(find_not_finite(t, from, step * t->B * t->accumulate, &first));
    LS_TRY(ls_comm_reduce(t->rank->comm, &first, sizeof first, keep_earliest));
    /* the bytes may come from another rank */
    first.op[sizeof first.op - 1] = first.tensor[sizeof first.tensor - 1] = 0;
    const char *what = isfinite(report->loss) ? "the gradient's norm is not finite" : "loss is not finite";
    if (first.micro_batch >= 0)
        snprintf(out, room, "%s; first bad tensor \"%s\" (op %s) on rank %d", what, first.tensor, first.op, first.rank);
    else
        ls_print(out, room, "%s (loss %g, gradient norm %g), though every single result is: a sum overflows", what,
                 report->loss, report->grad_norm);
    return ls_ok();
}
