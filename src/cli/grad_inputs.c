/*
 * The inputs of longspan grad: tokens, labels, positions with the documents that they mark, and the other inputs of an
 * imported graph.
 */
#include "cli/grad_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ls_status check_like_tokens(const char *path, const ls_array *a, const ls_array *tokens) {
    char shape[96], expected[96];
    if (a->ndim == 2 && a->size[0] == tokens->size[0] && a->size[1] == tokens->size[1]) return ls_ok();
    ls_sizes_print(a->ndim, a->size, shape, sizeof shape);
    ls_sizes_print(tokens->ndim, tokens->size, expected, sizeof expected);
    return ls_error(LS_INVALID, "%s: shape is %s, expected %s like the tokens", path, shape, expected);
}

/* --- positions and documents -------------------------------------------------------------------------------------- */

/* Checks positions: a document begins at each position that is not the one before it plus 1. */
static ls_status check_positions(const char *path, const ls_grad_inputs *in) {
    const int64_t B = in->tokens.size[0], S = in->tokens.size[1];
    const int32_t *position = in->positions.data;
    for (int64_t b = 0; b < B; b++)
        for (int64_t i = 0; i < S; i++) {
            const int32_t at = position[b * S + i];
            if (at != 0 && (i == 0 || at != position[b * S + i - 1] + 1))
                return ls_error(LS_INVALID, "%s: row %lld, column %lld is %d; expected 0, where a document begins%s",
                                path, (long long)b, (long long)i, at, i > 0 ? ", or the position before it + 1" : "");
        }
    return ls_ok();
}

static void set_documents(ls_grad_inputs *in, int64_t row, const int32_t *ends, int n) {
    in->n_ends[row] = n;
    in->apart |= n > 2;
    in->documents[row] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = n};
}

/*
 * A document begins at each number that is not the one before it plus `step`, which is 1 for positions and 0 for
 * documents' numbers.
 */
static void mark_documents(const int32_t *number, int32_t step, ls_grad_inputs *in) {
    const int64_t B = in->tokens.size[0], S = in->tokens.size[1];
    for (int64_t b = 0; b < B; b++, number += S) {
        int32_t *ends = in->ends + b * (S + 1);
        int n = 0;
        for (int64_t i = 0; i < S; i++)
            if (i == 0 || number[i] != number[i - 1] + step) ends[n++] = (int32_t)i;
        ends[n++] = (int32_t)S;
        set_documents(in, b, ends, n);
    }
}

static ls_status make_room(ls_grad_inputs *in) {
    const size_t B = (size_t)in->tokens.size[0], S = (size_t)in->tokens.size[1];
    in->ends = malloc(B * (S + 1) * sizeof *in->ends);
    in->n_ends = calloc(B, sizeof *in->n_ends);
    in->documents = calloc(B, sizeof *in->documents);
    if (in->ends == NULL || in->n_ends == NULL || in->documents == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the documents of %zu sequences", B);
    return ls_ok();
}

/* Reads positions from the file, or counts them from 0 in each sequence. */
static ls_status read_positions(const char *path, ls_grad_inputs *in) {
    const int64_t S = in->tokens.size[1];
    if (path != NULL) {
        LS_TRY(ls_array_read_integers(path, &in->positions));
        LS_TRY(check_like_tokens(path, &in->positions, &in->tokens));
    } else {
        LS_TRY(ls_array_make(LS_I32, 2, in->tokens.size, &in->positions));
        int32_t *position = in->positions.data;
        for (int64_t i = 0; i < in->positions.count; i++) position[i] = (int32_t)(i % S);
    }
    return check_positions(path, in);
}

/* Finds the documents: the model finds them in its tokens, positions mark them, or a file numbers them. */
static ls_status read_documents(const ls_grad_job *job, const ls_model *model, ls_grad_inputs *in) {
    const ls_marks marks = ls_model_takes(model).marks;
    const int64_t S = in->tokens.size[1];
    const int32_t *token = in->tokens.data;
    LS_TRY(make_room(in));
    if (job->documents == NULL && marks.kind != LS_MARK_NOT) {
        for (int64_t b = 0; b < in->tokens.size[0]; b++) {
            int32_t *ends = in->ends + b * (S + 1);
            set_documents(in, b, ends, ls_marks_find(&marks, token + b * S, S, ends));
        }
        return ls_ok();
    }
    if (job->documents == NULL) {
        mark_documents(in->positions.data, 1, in);
        return in->apart ? ls_model_check_apart(model, in->tokens.size[1]) : ls_ok();
    }
    if (!ls_model_takes(model).documents)
        return ls_error(LS_USAGE, "--documents %s: attention of the model is told of no documents; expected none",
                        job->documents);
    if (job->positions != NULL)
        return ls_error(LS_USAGE, "--documents %s and --position-ids %s: both say where documents begin; expected one",
                        job->documents, job->positions);
    LS_TRY(ls_array_read_integers(job->documents, &in->numbers));
    LS_TRY(check_like_tokens(job->documents, &in->numbers, &in->tokens));
    mark_documents(in->numbers.data, 0, in);
    return ls_ok();
}

/* --- labels ------------------------------------------------------------------------------------------------------- */

/* The label of each token of a sequence becomes that of the next token. The label of the last token is ignored. */
static void shift_labels(const ls_grad_inputs *in, int32_t *labels) {
    const int64_t B = in->tokens.size[0], S = in->tokens.size[1];
    for (int64_t b = 0; b < B; b++) {
        memmove(labels + b * S, labels + b * S + 1, sizeof *labels * (size_t)(S - 1));
        labels[(b + 1) * S - 1] = LS_LABEL_IGNORED;
    }
}

/* Makes labels from the tokens: the next token of the same document. */
static void label_next_tokens(const ls_grad_inputs *in, int32_t *labels) {
    const int64_t B = in->tokens.size[0], S = in->tokens.size[1];
    memcpy(labels, in->tokens.data, in->tokens.bytes);
    shift_labels(in, labels);
    for (int64_t b = 0; b < B; b++)
        for (int d = 1; d < in->n_ends[b]; d++) labels[b * S + in->ends[b * (S + 1) + d] - 1] = LS_LABEL_IGNORED;
}

/* Reads labels from the file, shifted if the graph wants that; without a file, labels are the next tokens. */
static ls_status read_labels(const char *path, const ls_model *model, ls_grad_inputs *in) {
    const ls_model_inputs takes = ls_model_takes(model);
    if (!takes.labels && path != NULL)
        return ls_error(LS_USAGE, "--labels %s: the model has no input that is labels; expected none", path);
    if (!takes.labels) {
        in->valid = in->tokens.count;
        return ls_ok();
    }
    LS_TRY(ls_labels_read(path, ls_model_describe(model).outputs, &in->tokens, &in->labels, &in->valid));
    int32_t *label = in->labels.data;
    if (path == NULL)
        label_next_tokens(in, label);
    else if (takes.shifts)
        shift_labels(in, label); /* as the program that wrote the graph does, across documents too */
    in->valid = 0;
    for (int64_t i = 0; i < in->labels.count; i++) in->valid += label[i] != LS_LABEL_IGNORED;
    return ls_ok();
}

/* --- other inputs ------------------------------------------------------------------------------------------------- */

static ls_status read_real(const char *path, ls_dtype dtype, ls_array *out) {
    ls_npy file;
    LS_TRY(ls_npy_open(path, &file));
    const ls_status status = ls_array_from_npy(path, &file, dtype, out);
    ls_npy_close(&file);
    return status;
}

/* Checks an input whose integers are ids of the vocabulary. */
static ls_status check_words(const char *path, const ls_model_input *input, const ls_array *a) {
    const int32_t *id = a->data;
    for (int64_t i = 0; i < a->count && input->words > 0; i++)
        if (id[i] != LS_LABEL_IGNORED && (id[i] < 0 || id[i] >= input->words))
            return ls_error(LS_INVALID, "%s: element %lld is %d; expected 0 to %lld, or %d", path, (long long)i, id[i],
                            (long long)input->words - 1, LS_LABEL_IGNORED);
    return ls_ok();
}

/* The input that a word "NAME=FILE" is for; *path becomes the file. */
static ls_status find_input(const char *word, const ls_model_inputs *takes, int *input, const char **path) {
    char known[240] = "";
    for (int i = 0; i < takes->n_others; i++) {
        const char *name = takes->others[i].name;
        const size_t length = strlen(name), used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", name);
        if (strncmp(word, name, length) != 0 || word[length] != '=' || word[length + 1] == 0) continue;
        *input = i;
        *path = word + length + 1;
        return ls_ok();
    }
    if (takes->n_others == 0)
        return ls_error(LS_USAGE, "--input '%s': the model has tokens, labels and positions alone; expected none",
                        word);
    return ls_error(LS_USAGE, "--input '%s'; expected NAME=FILE.npy with one of the inputs %s", word, known);
}

static ls_status read_others(const ls_grad_job *job, const ls_model *model, ls_dtype real, ls_grad_inputs *in) {
    const ls_model_inputs takes = ls_model_takes(model);
    in->n_others = takes.n_others;
    in->others = calloc((size_t)takes.n_others + 1, sizeof *in->others);
    if (in->others == NULL) return ls_error(LS_NO_MEMORY, "no memory for %d inputs", takes.n_others);
    for (int w = 0; w < job->n_inputs; w++) {
        int i;
        const char *path;
        LS_TRY(find_input(job->inputs[w], &takes, &i, &path));
        ls_array *to = &in->others[i];
        if (to->data != NULL)
            return ls_error(LS_USAGE, "--input '%s': \"%s\" is given twice", job->inputs[w], takes.others[i].name);
        LS_TRY(takes.others[i].dtype == LS_I32 ? ls_array_read_integers(path, to) : read_real(path, real, to));
        LS_TRY(check_like_tokens(path, to, &in->tokens));
        LS_TRY(check_words(path, &takes.others[i], to));
    }
    for (int i = 0; i < takes.n_others; i++)
        if (in->others[i].data == NULL && !(job->forward && takes.others[i].of_loss))
            return ls_error(LS_USAGE, "the model has an input \"%s\"; expected --input %s=FILE.npy",
                            takes.others[i].name, takes.others[i].name);
    return ls_ok();
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

ls_status ls_grad_inputs_read(const ls_grad_job *job, const ls_model *model, ls_dtype real, ls_grad_inputs *in) {
    LS_TRY(ls_tokens_read(job->tokens, ls_model_describe(model).V, &in->tokens));
    if (job->positions != NULL && !ls_model_takes(model).positions && !ls_model_takes(model).documents)
        return ls_error(LS_USAGE, "--position-ids %s: the model has no input that is positions; expected none",
                        job->positions);
    LS_TRY(read_positions(job->positions, in));
    LS_TRY(read_documents(job, model, in));
    LS_TRY(read_labels(job->labels, model, in));
    return read_others(job, model, real, in);
}

/* The value of an input for token i + shift in the sequence of token i; 0 if there is no such token. */
static double weight_at(const ls_array *input, int64_t i, int64_t shift) {
    const int64_t S = input->size[1], at = i % S + shift;
    return at >= 0 && at < S ? ls_number_at(input->data, input->dtype, i + shift) : 0;
}

static double sum_of_weights(const ls_grad_inputs *in, const ls_mean_weights *w) {
    double sum = 0;
    for (int64_t i = 0; i < in->tokens.count; i++) {
        double product = w->labels && ((const int32_t *)in->labels.data)[i] == LS_LABEL_IGNORED ? 0 : 1;
        for (int k = 0; k < w->n; k++) product *= weight_at(&in->others[w->of[k].input], i, w->of[k].shift);
        sum += product;
    }
    return fmax(sum, w->least) + w->plus;
}

double ls_grad_inputs_divisor(const ls_grad_inputs *in, const ls_model *model) {
    const ls_model_inputs takes = ls_model_takes(model);
    if (takes.mean == LS_MEAN_WEIGHTS) return sum_of_weights(in, &takes.weights);
    return (double)ls_mean_divisor(takes.mean, in->valid, in->tokens.count);
}

void ls_grad_inputs_add(const ls_grad_inputs *in, const ls_model *model, ls_alike *alike) {
    const ls_model_inputs takes = ls_model_takes(model);
    ls_alike_add_bytes(alike, "--tokens", in->tokens.data, in->tokens.bytes);
    ls_alike_add_bytes(alike, "--labels", in->labels.data, in->labels.bytes);
    ls_alike_add_bytes(alike, "--position-ids", in->positions.data, in->positions.bytes);
    ls_alike_add_bytes(alike, "--documents", in->numbers.data, in->numbers.bytes);
    for (int i = 0; i < in->n_others; i++)
        ls_alike_add_bytes(alike, takes.others[i].name, in->others[i].data, in->others[i].bytes);
}

/* Puts the rows of a micro-batch into an input; every micro-batch has the same number of rows. */
static ls_status put(const ls_rank *rank, const char *name, const ls_array *array, const ls_micro_rows *micro) {
    if (array->data == NULL) return ls_ok();
    const size_t row = array->bytes / (size_t)array->size[0];
    return ls_rank_scatter_micro(rank, name, micro->number,
                                 (const char *)array->data + row * (size_t)(micro->number * micro->n));
}

ls_status ls_grad_inputs_put(const ls_grad_inputs *in, const ls_model *model, const ls_rank *rank,
                             const ls_micro_rows *micro) {
    const ls_model_inputs takes = ls_model_takes(model);
    LS_TRY(put(rank, "tokens", &in->tokens, micro));
    LS_TRY(put(rank, "labels", &in->labels, micro));
    LS_TRY(put(rank, "positions", &in->positions, micro));
    for (int i = 0; i < in->n_others; i++) LS_TRY(put(rank, takes.others[i].name, &in->others[i], micro));
    if (!in->apart) return ls_ok();
    const int64_t rows = micro->n / ls_mesh_replicas(&rank->image->mesh), S = in->tokens.size[1];
    const int64_t own = micro->number * micro->n + rows * ls_mesh_replica(&rank->image->mesh, rank->rank);
    return ls_executor_set_documents(rank->executor, (int)(micro->number % rank->image->micro_batches),
                                     in->ends + own * (S + 1), in->n_ends + own, S + 1);
}

void ls_grad_inputs_free(ls_grad_inputs *in) {
    ls_array_free(&in->tokens);
    ls_array_free(&in->labels);
    ls_array_free(&in->positions);
    ls_array_free(&in->numbers);
    for (int i = 0; i < in->n_others; i++) ls_array_free(&in->others[i]);
    free(in->others);
    free(in->ends);
    free(in->n_ends);
    free(in->documents);
}
