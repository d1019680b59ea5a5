/* Sequences of tokens: read into a batch, placed in a rank's inputs, and scored by a forward pass. */
#include "session/session.h"

#include <stdlib.h>

/* --- a batch ------------------------------------------------------------------------------------------------------ */

ls_status ls_batch_make(int64_t B, int64_t S, bool seen, ls_batch *out) {
    const size_t count = (size_t)(B * S), bytes = count * sizeof(int32_t);
    ls_batch made = {.B = B,
                     .S = S,
                     .tokens = malloc(bytes),
                     .labels = malloc(bytes),
                     .positions = malloc(bytes),
                     .ends = malloc(bytes + (size_t)B * sizeof(int32_t)),
                     .seen = seen ? malloc(bytes) : NULL,
                     .n_ends = calloc((size_t)B, sizeof(int))};
    if (made.tokens == NULL || made.labels == NULL || made.positions == NULL || made.ends == NULL ||
        made.n_ends == NULL || (seen && made.seen == NULL)) {
        ls_batch_free(&made);
        return ls_error(LS_NO_MEMORY, "no memory for a micro-batch of %zu tokens", count);
    }
    *out = made;
    return ls_ok();
}

void ls_batch_free(ls_batch *batch) {
    free(batch->tokens);
    free(batch->labels);
    free(batch->positions);
    free(batch->ends);
    free(batch->seen);
    free(batch->n_ends);
    *batch = (ls_batch){0};
}

/* Marks the sequence as one document with positions from 0. */
static void mark_one_document(int64_t S, ls_sample *out) {
    for (int64_t i = 0; i < S; i++) out->positions[i] = (int32_t)i;
    for (int64_t i = 0; i < S && out->seen != NULL; i++) out->seen[i] = (int32_t)(i + 1);
    out->ends[0] = 0;
    out->ends[1] = (int32_t)S;
    out->n_ends = 2;
}

ls_status ls_batch_read(ls_batch *batch, int64_t b, const ls_sequences *from, int64_t index) {
    const int64_t at = b * batch->S;
    ls_sample sample = {.tokens = batch->tokens + at,
                        .labels = batch->labels + at,
                        .positions = batch->positions + at,
                        .ends = batch->ends + b * (batch->S + 1),
                        .seen = batch->seen != NULL ? batch->seen + at : NULL};
    if (from->sample != NULL) {
        LS_TRY(from->sample(from->context, index, &sample));
    } else {
        from->read(from->context, index, sample.tokens, sample.labels);
        mark_one_document(batch->S, &sample);
    }
    batch->n_ends[b] = sample.n_ends;
    if (b == 0) batch->apart = false;
    batch->apart |= sample.n_ends > 2;
    return ls_ok();
}

ls_status ls_batch_put(ls_batch *batch, const ls_rank *rank) {
    ls_executor *executor = rank->executor;
    LS_TRY(ls_executor_scatter(executor, ls_image_find(rank->image, "tokens"), batch->tokens));
    LS_TRY(ls_executor_scatter(executor, ls_image_find(rank->image, "labels"), batch->labels));
    const ls_binding *positions = ls_image_find(rank->image, "positions"); /* NULL: the model has no such input */
    if (positions != NULL) LS_TRY(ls_executor_scatter(executor, positions, batch->positions));
    if (!batch->apart) return ls_executor_set_documents(executor, NULL, NULL, 0);
    return ls_executor_set_documents(executor, batch->ends, batch->n_ends, batch->S + 1);
}

/* --- losses of sequences ------------------------------------------------------------------------------------------ */

typedef struct scoring {
    const ls_rank *rank;
    int program;
    const ls_binding *losses; /* f32[B,S] */
    const ls_sequences *from;
    int64_t n;
    ls_batch batch;
    float *all; /* on rank 0: the losses of a batch */
} scoring;

static ls_status make_room(scoring *s) {
    const int64_t B = s->losses->shape.dim[0].size, S = s->losses->shape.dim[1].size;
    LS_TRY(ls_batch_make(B, S, true, &s->batch));
    if (s->rank->rank != 0) return ls_ok();
    s->all = malloc(sizeof *s->all * (size_t)(B * S));
    if (s->all == NULL) return ls_error(LS_NO_MEMORY, "no memory for the losses of %lld tokens", (long long)(B * S));
    return ls_ok();
}

/* Reads sequences first .. first+B-1. Rows past the end hold sequence 0; their losses are ignored. */
static ls_status put_batch(scoring *s, int64_t first) {
    for (int64_t b = 0; b < s->batch.B; b++) {
        const int64_t index = first + b < s->n ? first + b : 0;
        LS_TRY(ls_batch_read(&s->batch, b, s->from, index));
        ls_comm_tick(s->rank->comm);
    }
    return ls_batch_put(&s->batch, s->rank);
}

/* LS_INTERRUPTED on all ranks if any was asked to stop. */
static ls_status agree_to_continue(const scoring *s, int64_t done) {
    ls_status status = ls_ok();
    if (ls_comm_stop_requested(s->rank->comm))
        status = ls_error(LS_INTERRUPTED, "stopped after %lld of %lld sequences", (long long)done, (long long)s->n);
    return ls_comm_agree(s->rank->comm, status);
}

static ls_status score_all(scoring *s, ls_scored on_scored, void *context, ls_progress *progress) {
    const ls_batch *batch = &s->batch;
    for (int64_t first = 0; first < s->n; first += batch->B) {
        LS_TRY(agree_to_continue(s, first));
        LS_TRY(put_batch(s, first));
        LS_TRY(ls_executor_run(s->rank->executor, s->program));
        LS_TRY(ls_rank_gather_tensor(s->rank, s->losses, s->all));
        if (s->rank->rank != 0) continue;
        const int64_t last = ls_min(first + batch->B, s->n);
        for (int64_t i = first; i < last; i++) {
            const int64_t at = (i - first) * batch->S;
            const ls_sample sample = {
                .tokens = batch->tokens + at, .labels = batch->labels + at, .seen = batch->seen + at};
            on_scored(context, i, &sample, s->all + at);
        }
        if (progress != NULL) ls_progress_show(progress, last, "");
    }
    return ls_ok();
}

ls_status ls_score(const ls_rank *rank, int program, const ls_sequences *from, int64_t n, ls_scored on_scored,
                   void *context, ls_progress *progress) {
    scoring s = {
        .rank = rank, .program = program, .losses = ls_image_find(rank->image, LS_SCORE_LOSSES), .from = from, .n = n};
    LS_ASSERT(s.losses != NULL && s.losses->operand.view.dtype == LS_F32);
    ls_status status = ls_comm_agree(rank->comm, make_room(&s));
    if (status.code == LS_OK) status = score_all(&s, on_scored, context, progress);
    ls_batch_free(&s.batch);
    free(s.all);
    return status;
}
