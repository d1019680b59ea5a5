/* Sequences of tokens: reads them into a batch, and copies them into a rank's inputs. */
#include "session/session.h"

#include "base/base.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

/* The inputs of a sequence that a rank has: those that its layout assigns, in each slice. NULL: out of memory. */
static ls_layout_run *runs_of_slices(const ls_image *image, int place, int *n_runs) {
    const ls_layout_run *held;
    const int n = ls_layout_runs(&image->layout, place, &held);
    ls_layout_run *runs = malloc(sizeof *runs * (size_t)(n * image->slices));
    *n_runs = n * image->slices;
    for (int i = 0; i < *n_runs && runs != NULL; i++) {
        runs[i] = held[i % n];
        runs[i].first += i / n * image->layout.S;
    }
    return runs;
}

/* The number of a teacher's words per token that the programs read. */
static int words_of(const ls_image *image) {
    char name[40];
    int words = 0;
    do {
        snprintf(name, sizeof name, LS_MODEL_TEACHER_IDS ".%d", words);
    } while (ls_image_find(image, name) != NULL && ++words > 0);
    return words;
}

ls_status ls_batch_make(const ls_rank *rank, int64_t B, int64_t S, ls_batch *out) {
    const ls_image *image = rank->image;
    const int replicas = ls_mesh_replicas(&image->mesh), place = ls_mesh_sequence_index(&image->mesh, rank->rank);
    LS_ASSERT(B % replicas == 0 && ls_image_tokens(image) == S);
    ls_batch made = {
        .rank = rank, .S = S, .rows = B / replicas, .inputs = image->slices * ls_layout_count(&image->layout, place)};
    made.first = made.rows * ls_mesh_replica(&image->mesh, rank->rank);
    made.part.runs = made.runs = runs_of_slices(image, place, &made.part.n_runs);
    const size_t count = (size_t)(made.rows * made.inputs), bytes = count * sizeof(int32_t);
    made.tokens = malloc(bytes);
    made.labels = malloc(bytes);
    made.positions = malloc(bytes);
    made.keys = calloc(count, sizeof *made.keys);
    made.ends = malloc((size_t)(made.rows * (S + 1)) * sizeof *made.ends);
    made.words = words_of(image);
    made.teacher_ids = malloc(bytes * (size_t)made.words + 1);
    made.teacher_logprobs = malloc(bytes * (size_t)made.words + 1);
    made.word = malloc(made.words > 0 ? bytes : 1);
    made.n_ends = calloc((size_t)made.rows, sizeof *made.n_ends);
    if (made.tokens == NULL || made.labels == NULL || made.positions == NULL || made.keys == NULL ||
        made.ends == NULL || made.n_ends == NULL || made.runs == NULL || made.teacher_ids == NULL ||
        made.teacher_logprobs == NULL || made.word == NULL) {
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
    free(batch->keys);
    free(batch->teacher_ids);
    free(batch->teacher_logprobs);
    free(batch->word);
    free(batch->ends);
    free(batch->n_ends);
    free(batch->runs);
    *batch = (ls_batch){0};
}

void ls_batch_noise(ls_batch *batch, uint64_t seed) {
    batch->noisy = true;
    batch->noise = seed;
}

/* Draws the keys of noise for the inputs of one sequence. */
static void draw_keys(const ls_batch *batch, int64_t index, int32_t *keys) {
    const uint64_t stream = ls_rng_stream("noise");
    for (int r = 0; r < batch->part.n_runs; r++) {
        const ls_layout_run *run = &batch->part.runs[r];
        for (int64_t i = 0; i < run->count; i++) {
            const uint64_t at = (uint64_t)(index * batch->S + run->first + i * run->step);
            *keys++ = (int32_t)((uint32_t)ls_rng_bits(batch->noise, stream, at) | 1U); /* never 0 */
        }
    }
}

ls_status ls_batch_read(ls_batch *batch, const ls_sequences *from, int64_t first, int64_t end) {
    batch->apart = false;
    for (int64_t b = 0; b < batch->rows; b++) {
        const int64_t at = b * batch->inputs, index = first + batch->first + b;
        ls_sample sample = {.tokens = batch->tokens + at,
                            .labels = batch->labels + at,
                            .positions = batch->positions + at,
                            .ends = batch->ends + b * (batch->S + 1),
                            .teacher_ids = batch->words > 0 ? batch->teacher_ids + at * batch->words : NULL,
                            .teacher_logprobs = batch->words > 0 ? batch->teacher_logprobs + at * batch->words : NULL};
        LS_TRY(from->sample(from->context, index < end ? index : 0, &batch->part, &sample));
        for (int64_t i = 0; index >= end && i < batch->inputs; i++) sample.labels[i] = LS_LABEL_IGNORED;
        if (batch->noisy) draw_keys(batch, index, batch->keys + at);
        batch->n_ends[b] = sample.n_ends;
        batch->apart |= sample.n_ends > 2;
        batch->bytes += sample.bytes;
        ls_comm_tick(batch->rank->comm);
    }
    return ls_ok();
}

bool ls_batch_counts(const ls_batch *batch) {
    return ls_rank_contributes(batch->rank, ls_image_find(batch->rank->image, "tokens"));
}

int64_t ls_batch_labels(const ls_batch *batch) {
    int64_t labels = 0;
    if (!ls_batch_counts(batch)) return 0;
    for (int64_t i = 0; i < batch->rows * batch->inputs; i++) labels += batch->labels[i] != LS_LABEL_IGNORED;
    return labels;
}

/*
 * Copies an input of a micro-batch, of values of four bytes: to each slice its part. Does nothing if the model has no
 * such input.
 */
static ls_status put_input(const ls_batch *batch, const char *name, int64_t micro_batch, const void *values) {
    const int slices = batch->rank->image->slices;
    const int64_t each = batch->inputs / slices; /* inputs of a sequence in one slice */
    for (int s = 0; s < slices; s++) {
        const ls_binding *to = ls_image_find_micro(batch->rank->image, name, micro_batch, s);
        if (to == NULL) return ls_ok();
        LS_ASSERT(ls_view_elements(&to->operand.view) == batch->rows * each);
        LS_ASSERT(ls_dtype_bytes(to->operand.view.dtype) == sizeof(int32_t));
        for (int64_t b = 0; b < batch->rows; b++) {
            const ls_operand row = ls_operand_slice(to->operand, 0, b, 1);
            LS_TRY(
                ls_executor_write(batch->rank->executor, &row, (const int32_t *)values + b * batch->inputs + s * each));
        }
    }
    return ls_ok();
}

/*
 * Copies a teacher's words, each as an input of its own. Ids and log-probabilities have the same size, and are copied
 * as bytes.
 */
static ls_status put_words(const ls_batch *batch, const char *of, int64_t micro_batch, const void *values) {
    char name[40];
    const char *from = values;
    const size_t each = sizeof *batch->word;
    for (int k = 0; k < batch->words; k++) {
        for (int64_t i = 0; i < batch->rows * batch->inputs; i++)
            memcpy(&batch->word[i], from + (size_t)(i * batch->words + k) * each, each);
        snprintf(name, sizeof name, "%s.%d", of, k);
        LS_TRY(put_input(batch, name, micro_batch, batch->word));
    }
    return ls_ok();
}

ls_status ls_batch_put(const ls_batch *batch, int64_t micro_batch) {
    LS_ASSERT(batch->rank != NULL); /* ls_batch_make has set it */
    const int micro = (int)(micro_batch % batch->rank->image->micro_batches);
    LS_TRY(put_input(batch, "tokens", micro_batch, batch->tokens));
    LS_TRY(put_input(batch, "labels", micro_batch, batch->labels));
    LS_TRY(put_input(batch, "positions", micro_batch, batch->positions));
    LS_TRY(put_input(batch, LS_MODEL_NOISE, micro_batch, batch->keys));
    LS_TRY(put_words(batch, LS_MODEL_TEACHER_IDS, micro_batch, batch->teacher_ids));
    LS_TRY(put_words(batch, LS_MODEL_TEACHER_LOGPROBS, micro_batch, batch->teacher_logprobs));
    if (!batch->apart) return ls_executor_set_documents(batch->rank->executor, micro, NULL, NULL, 0);
    return ls_executor_set_documents(batch->rank->executor, micro, batch->ends, batch->n_ends, batch->S + 1);
}
