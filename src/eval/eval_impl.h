/* Shared by evaluate.c and logprobs.c, and by recall.c, needle.c and tests. */
#ifndef LS_EVAL_IMPL_H
#define LS_EVAL_IMPL_H

#include "eval/eval.h"

/* --- logprobs.c --------------------------------------------------------------------------------------------------- */

typedef struct ls_logprobs ls_logprobs;
/* For `some` sequences of S tokens, spread over the data (ls_text_sequences). NULL: out of memory. */
ls_logprobs *ls_logprobs_create(const ls_data *data, int64_t S, int64_t some);
void ls_logprobs_destroy(ls_logprobs *logprobs); /* NULL is allowed */
/* labels, losses [S]: those of the next sequence. A failure becomes the status of ls_logprobs_write. */
void ls_logprobs_add(ls_logprobs *logprobs, const int32_t *labels, const float *losses);
/*
 * Writes one line of JSON for each passage of a document, in the order of documents: document, chosen (for pairs of
 * answers), offset (of the passage in the document), sum and, for the learnt tokens, ids, places (in the document) and
 * logprobs (natural logarithms).
 */
LS_MUST_USE ls_status ls_logprobs_write(ls_logprobs *logprobs, const char *path);

/* --- teacher.c ---------------------------------------------------------------------------------------------------- */

typedef struct ls_teacher_file ls_teacher_file;
typedef struct ls_teacher_options {
    const ls_data *data; /* its documents must be apart */
    int64_t S, some;     /* `some` sequences of S tokens, spread over the data (ls_text_sequences) */
    int words;           /* number of likeliest words for each token */
    double temperature;
    const char *path;
} ls_teacher_options;
/* Creates a temporary file beside the path. The options are borrowed. */
LS_MUST_USE ls_status ls_teacher_file_create(const ls_teacher_options *options, ls_teacher_file **out);
/*
 * Writes the passages of the next sequence, whose sample has labels and likeliest words. Each passage is one line of
 * JSON with input_ids, labels, teacher_ids, teacher_logprobs and teacher_temperature; document and offset identify the
 * passage. A failure becomes the status of ls_teacher_file_finish.
 */
void ls_teacher_file_add(ls_teacher_file *file, const ls_sample *sample);
/* Renames the file to its path. Logs the number of passages that are left out because nothing in them is learnt. */
LS_MUST_USE ls_status ls_teacher_file_finish(ls_teacher_file *file);
/* Removes a file that was not finished. NULL is allowed. */
void ls_teacher_file_destroy(ls_teacher_file *file);

/* --- recall.c ----------------------------------------------------------------------------------------------------- */

/*
 * -log p of the token under the logits [V]. *likeliest: it has the largest logit and, of equal ones, the smallest id.
 */
double ls_recall_surprise(const float *logits, int64_t V, int32_t id, bool *likeliest);

/* Writes folder/recall.json and recall.svg. */
LS_MUST_USE ls_status ls_recall_write(const ls_recall_result *result, const char *folder);

/* --- needle.c ----------------------------------------------------------------------------------------------------- */

/* The settings that all texts of one length share. */
typedef struct ls_haystack {
    const ls_tokenizer *tokenizer;
    const ls_data *data; /* sequences of `length` tokens; NULL: the built-in sentences */
    int64_t length;
    int64_t samples; /* number of texts for each depth; sample k begins at the k-th of this many parts of the data */
    uint64_t seed;
} ls_haystack;

typedef struct ls_needle {
    int64_t n_answer; /* number of tokens in the answer, which ends the text */
    int64_t at;       /* index of the first token of the sentence with the key */
    int32_t key;      /* 10000 .. 99999 */
} ls_needle;

/*
 * Makes text number `sample` for a depth in [0, 1]: ids[length], a pure function of the arguments. LS_USAGE if the
 * length is too short for the sentences. Other errors are the tokenizer's.
 */
LS_MUST_USE ls_status ls_needle_make(const ls_haystack *haystack, double depth, int64_t sample, int32_t *ids,
                                     ls_needle *out);

#endif
