/* Sequences of tokens: read into a batch, placed in a rank's inputs, and scored by a forward pass. */
#include "session/session.h"

#include <stdlib.h>

/* --- a batch ------------------------------------------------------------------------------------------------------ */

ls_status ls_batch_make(const ls_rank *rank, int64_t B, int64_t S, ls_batch *out) {
    const ls_image *image = rank->image;
    const int replicas = ls_mesh_replicas(&image->mesh), place = ls_mesh_sequence_index(&image->mesh, rank->rank);
    LS_ASSERT(B % replicas == 0 && image->layout.S == S);
    ls_batch made = {
        .rank = rank, .S = S, .rows = B / replicas, .inputs = ls_layout_count(&image->layout, place), .apart = false};
    made.first = made.rows * ls_mesh_replica(&image->mesh, rank->rank);
    made.part.n_runs = ls_layout_runs(&image->layout, place, &made.part.runs);
    const size_t count = (size_t)(made.rows * made.inputs), bytes = count * sizeof(int32_t);
    made.tokens = malloc(bytes);
    made.labels = malloc(bytes);
    made.positions = malloc(bytes);
    made.ends = malloc((size_t)(made.rows * (S + 1)) * sizeof *made.ends);
    made.n_ends = calloc((size_t)made.rows, sizeof *made.n_ends);
    if (made.tokens == NULL || made.labels == NULL || made.positions == NULL || made.ends == NULL ||
        made.n_ends == NULL) {
        ls_batch_free(&made);
        return ls_error(LS_NO_MEMORY, "no memory for %zu tokens of a micro-batch", count);
    }
    *out = made;
    return ls_ok();
}

void ls_batch_free(ls_batch *batch) {
    free(batch->tokens);
    free(batch->labels);
    free(batch->positions);
    free(batch->ends);
    free(batch->n_ends);
    *batch = (ls_batch){0};
}

ls_status ls_batch_read(ls_batch *batch, const ls_sequences *from, int64_t first, int64_t end) {
    batch->apart = false;
    for (int64_t b = 0; b < batch->rows; b++) {
        const int64_t at = b * batch->inputs, index = first + batch->first + b;
        ls_sample sample = {.tokens = batch->tokens + at,
                            .labels = batch->labels + at,
                            .positions = batch->positions + at,
                            .ends = batch->ends + b * (batch->S + 1)};
        LS_TRY(from->sample(from->context, index < end ? index : 0, &batch->part, &sample));
        for (int64_t i = 0; index >= end && i < batch->inputs; i++) sample.labels[i] = LS_LABEL_IGNORED;
        batch->n_ends[b] = sample.n_ends;
        batch->apart |= sample.n_ends > 2;
        batch->bytes += sample.bytes;
        ls_comm_tick(batch->rank->comm);
    }
    return ls_ok();
}

/* Nothing is written where the model has no such input. */
static ls_status put_input(const ls_batch *batch, const char *name, const int32_t *values) {
    const ls_binding *to = ls_image_find(batch->rank->image, name);
    if (to == NULL) return ls_ok();
    LS_ASSERT(ls_view_elements(&to->operand.view) == batch->rows * batch->inputs);
    return ls_executor_write(batch->rank->executor, &to->operand, values);
}

ls_status ls_batch_put(const ls_batch *batch) {
    LS_ASSERT(batch->rank != NULL); /* it was made */
    LS_TRY(put_input(batch, "tokens", batch->tokens));
    LS_TRY(put_input(batch, "labels", batch->labels));
    LS_TRY(put_input(batch, "positions", batch->positions));
    if (!batch->apart) return ls_executor_set_documents(batch->rank->executor, NULL, NULL, 0);
    return ls_executor_set_documents(batch->rank->executor, batch->ends, batch->n_ends, batch->S + 1);
}

/* --- losses of sequences ------------------------------------------------------------------------------------------ */

typedef struct scoring {
    const ls_rank *rank;
    int program;
    const ls_binding *losses, *labels; /* f32[B,S], i32[B,S] */
    const ls_sequences *from;
    int64_t n;
    ls_batch batch;
    /* Rank 0 has, of all sequences of a batch: */
    float *all_losses;
    int32_t *all_labels, *seen; /* seen of one sequence */
} scoring;

static ls_status make_room(scoring *s) {
    const int64_t B = s->losses->shape.dim[0].size, S = s->losses->shape.dim[1].size, count = B * S;
    LS_TRY(ls_batch_make(s->rank, B, S, &s->batch));
    if (s->rank->rank != 0) return ls_ok();
    s->all_losses = malloc(sizeof *s->all_losses * (size_t)count);
    s->all_labels = malloc(sizeof *s->all_labels * (size_t)count);
    s->seen = malloc(sizeof *s->seen * (size_t)S);
    if (s->all_losses == NULL || s->all_labels == NULL || s->seen == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the losses of %lld tokens", (long long)count);
    return ls_ok();
}

/* Reads sequences first .. first + B - 1. LS_INTERRUPTED on all ranks if any was asked to stop. */
static ls_status read_batch(scoring *s, int64_t first) {
    ls_status status;
    if (ls_comm_stop_requested(s->rank->comm))
        status = ls_error(LS_INTERRUPTED, "stopped after %lld of %lld sequences", (long long)first, (long long)s->n);
    else
        status = ls_batch_read(&s->batch, s->from, first, s->n);
    return ls_comm_agree(s->rank->comm, status);
}

/* On rank 0: reports sequences first .. end - 1. What their labels see of documents is known without their tokens. */
static ls_status report_scores(const scoring *s, int64_t first, int64_t end, ls_scored on_scored, void *context) {
    for (int64_t i = first; i < end; i++) {
        const int64_t at = (i - first) * s->batch.S;
        ls_sample sample = {.seen = s->seen};
        LS_TRY(s->from->sample(s->from->context, i, NULL, &sample));
        sample.labels = s->all_labels + at;
        on_scored(context, i, &sample, s->all_losses + at);
    }
    return ls_ok();
}

static ls_status score_all(scoring *s, ls_scored on_scored, void *context, ls_progress *progress) {
    const int64_t B = s->losses->shape.dim[0].size;
    for (int64_t first = 0; first < s->n; first += B) {
        LS_TRY(read_batch(s, first));
        LS_TRY(ls_batch_put(&s->batch));
        LS_TRY(ls_executor_run(s->rank->executor, s->program));
        LS_TRY(ls_rank_gather_tensor(s->rank, s->losses, false, s->all_losses));
        LS_TRY(ls_rank_gather_tensor(s->rank, s->labels, false, s->all_labels));
        if (s->rank->rank != 0) continue;
        const int64_t end = ls_min(first + B, s->n);
        LS_TRY(report_scores(s, first, end, on_scored, context));
        if (progress != NULL) ls_progress_show(progress, end, "");
    }
    return ls_ok();
}

ls_status ls_score(const ls_rank *rank, int program, const ls_sequences *from, int64_t n, ls_scored on_scored,
                   void *context, ls_progress *progress) {
    scoring s = {.rank = rank,
                 .program = program,
                 .losses = ls_image_find(rank->image, LS_SCORE_LOSSES),
                 .labels = ls_image_find(rank->image, "labels"),
                 .from = from,
                 .n = n};
    LS_ASSERT(s.losses != NULL && s.losses->operand.view.dtype == LS_F32 && s.labels != NULL);
    ls_status status = ls_comm_agree(rank->comm, make_room(&s));
    if (status.code == LS_OK) status = score_all(&s, on_scored, context, progress);
    ls_batch_free(&s.batch);
    free(s.all_losses);
    free(s.all_labels);
    free(s.seen);
    return status;
}
