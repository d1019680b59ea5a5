/*
 * Recall: whether a model finds one sentence again in a long text. A pass key of five digits is put at a depth of a text of some length, and asked
 * for at its end; for each length and depth several texts with keys of their own.
 */
#ifndef LONGSPAN_RECALL_H
#define LONGSPAN_RECALL_H

#include "longspan/data.h"
#include "longspan/job.h"
#include "longspan/linkage.h"

LS_PUBLIC_BEGIN

#define LS_RECALL_LENGTHS 16
#define LS_RECALL_DEPTHS 32

/* Fields are the flags of `longspan recall`; zero and NULL mean the default. */
typedef struct ls_recall_options {
    const char *model; /* config.json, or a directory with one */
    ls_rope_change rope;
    const char *checkpoint; /* of a training run, or its --out; NULL: the model's own weights */
    const char *const *data;
    int n_data;        /* what the key is hidden in; 0: a few sentences over and over */
    ls_text_form form; /* of text */
    int64_t lengths[LS_RECALL_LENGTHS];
    int n_lengths; /* in tokens, all in all; 0: a quarter, a half and all of the model's positions, 8192 at most */
    int64_t depths, samples; /* evenly from the beginning to the end; texts of each cell */
    const char *dtype;       /* "f32" or "bf16" */
    uint64_t seed;           /* of the keys, and of random weights */
    const char *out;         /* directory for recall.json and recall.svg; NULL: none is written */
    ls_spread spread;
} ls_recall_options;

typedef struct ls_recall_cell {
    int64_t samples, right; /* right: every token of the answer is the likeliest one */
    double loss;            /* mean over the answers' tokens, in nats */
} ls_recall_cell;

typedef struct ls_recall_result {
    int n_lengths, n_depths;
    int64_t length[LS_RECALL_LENGTHS];
    double depth[LS_RECALL_DEPTHS]; /* 0: at the beginning, 1: right before the question */
    ls_recall_cell cell[LS_RECALL_LENGTHS][LS_RECALL_DEPTHS];
    double seconds;
} ls_recall_result;

/* Blocks until done; LS_INTERRUPTED when stopped by a signal, with nothing written. */
LS_MUST_USE ls_status ls_recall(const ls_recall_options *options, ls_recall_result *result);

/* A line for each depth, a column for each length. */
void ls_recall_print(const ls_recall_result *result, FILE *out);
void ls_recall_result_json(const ls_recall_result *result, FILE *out);

LS_PUBLIC_END

#endif
