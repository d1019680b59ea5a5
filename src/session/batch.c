/* Sequences on their way from where they come from to where a rank's programs read them. */
#include "session/session.h"

#include <stdlib.h>

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

/* One document, at positions from 0. */
static void mark_whole(int64_t S, ls_sample *out) {
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
        mark_whole(batch->S, &sample);
    }
    batch->n_ends[b] = sample.n_ends;
    if (b == 0) batch->apart = false;
    batch->apart |= sample.n_ends > 2;
    return ls_ok();
}

ls_status ls_batch_put(ls_batch *batch, const ls_rank *rank) {
    ls_executor *executor = rank->executor;
    ls_executor_scatter(executor, ls_image_find(rank->image, "tokens"), batch->tokens);
    ls_executor_scatter(executor, ls_image_find(rank->image, "labels"), batch->labels);
    const ls_binding *positions = ls_image_find(rank->image, "positions"); /* NULL: a model without them */
    if (positions != NULL) ls_executor_scatter(executor, positions, batch->positions);
    if (!batch->apart) return ls_executor_set_documents(executor, NULL, NULL, 0);
    return ls_executor_set_documents(executor, batch->ends, batch->n_ends, batch->S + 1);
}
