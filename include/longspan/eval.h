/*
 * Evaluation: the loss of a model on a text, by the number of tokens that the model has seen; and recall: whether the
 * model finds a sentence again in a long text.
 */
#ifndef LONGSPAN_EVAL_H
#define LONGSPAN_EVAL_H

#include "longspan/adapter.h"
#include "longspan/data.h"
#include "longspan/linkage.h"
#include "longspan/spread.h"

LS_PUBLIC_BEGIN

/* The predicted tokens that have `first` to `last` tokens of the same document before them in the sequence. */
typedef struct ls_loss_bin {
    int64_t first, last;
    int64_t tokens; /* number of predicted tokens, at least 1 */
    double loss;    /* mean, in nats per token */
    double error;   /* standard error of the mean, with sequences as the sample; NaN for fewer than two */
} ls_loss_bin;

#define LS_LOSS_BINS 34 /* 0, 1, 2, 3-4, 5-8, ...: enough for any sequence */

/*
 * Ascending bins, and `all`: all of them together. Neighbouring bins with too few tokens for a mean within 0.05 nats
 * are merged.
 */
typedef struct ls_loss_table {
    int n;
    ls_loss_bin bin[LS_LOSS_BINS];
    ls_loss_bin all;
    int64_t sequences;
} ls_loss_table;

/*
 * Loss and perplexity of a model on a text. The fields are the flags of `longspan eval`; zero and NULL mean the
 * default.
 */
typedef struct ls_eval_options {
    const char *model; /* config.json, or a folder with one */
    ls_rope_change rope;
    ls_adapter_choice adapter;
    const char *checkpoint; /* a training run's checkpoint, or its --out; NULL: the model's own weights */
    const char *const *data;
    int n_data;
    ls_text_form form; /* if data is text */
    const char *pack;  /* how documents are packed into sequences: "auto", "join", "best", "stream" */
    int64_t seq, batch;
    int64_t sequences; /* number of sequences to evaluate, evenly spread over the text; 0: all */
    const char *dtype; /* "f32" or "bf16" */
    uint64_t seed;     /* for random weights, if the model has none */
    const char *out;   /* folder for eval.json and loss_by_position.svg; NULL: not written */
    /*
     * File for the log-probabilities of all learnt tokens, a line of JSON for each passage of a document; NULL: none.
     */
    const char *logprobs;
    /*
     * If top > 0, that file has records for a model that learns from this one (distillation): for each learnt token the
     * `top` likeliest words, with their log-probabilities at `temperature` (0: 1).
     */
    int64_t top;
    double temperature;
    ls_spread spread;
} ls_eval_options;

typedef struct ls_eval_result {
    ls_loss_table table;
    double perplexity;      /* exp of the mean loss */
    int64_t text_sequences; /* number of sequences in the whole text */
    int64_t resident_bytes; /* at the end: resident bytes of those predicted, on the rank with most */
    ls_spread_result spread;
} ls_eval_result;

/* Blocks until done. LS_INTERRUPTED: stopped by a signal, with nothing written. */
LS_MUST_USE ls_status ls_evaluate(const ls_eval_options *options, ls_eval_result *result);

/* --- recall ------------------------------------------------------------------------------------------------------- */

/*
 * A sentence with a pass key of five digits is placed at some depth of a long text, and a question at the end asks for
 * the key. For each length and depth there are several texts, each with its own key.
 */
#define LS_RECALL_LENGTHS 16
#define LS_RECALL_DEPTHS 32

/* The fields are the flags of `longspan recall`; zero and NULL mean the default. */
typedef struct ls_recall_options {
    const char *model; /* config.json, or a folder with one */
    ls_rope_change rope;
    ls_adapter_choice adapter;
    const char *checkpoint; /* a training run's checkpoint, or its --out; NULL: the model's own weights */
    const char *const *data;
    int n_data;        /* the text around the key; 0: a few sentences, repeated */
    ls_text_form form; /* if data is text */
    int64_t lengths[LS_RECALL_LENGTHS];
    int n_lengths;   /* lengths of the whole texts in tokens; 0: a quarter, a half and all of the model's positions, at
                        most 8192 */
    int64_t depths;  /* number of depths, evenly from the beginning to the end */
    int64_t samples; /* texts for each length and depth */
    const char *dtype; /* "f32" or "bf16" */
    uint64_t seed;     /* for the keys, and for random weights */
    const char *out;   /* folder for recall.json and recall.svg; NULL: not written */
    ls_spread spread;
} ls_recall_options;

typedef struct ls_recall_cell {
    int64_t samples, right; /* right: each token of the answer is the model's most likely one */
    double loss;            /* mean over the tokens of the answers, in nats */
} ls_recall_cell;

typedef struct ls_recall_result {
    int n_lengths, n_depths;
    int64_t length[LS_RECALL_LENGTHS];
    double depth[LS_RECALL_DEPTHS]; /* 0: at the beginning, 1: right before the question */
    ls_recall_cell cell[LS_RECALL_LENGTHS][LS_RECALL_DEPTHS];
    double seconds;
} ls_recall_result;

/* Blocks until done. LS_INTERRUPTED: stopped by a signal, with nothing written. */
LS_MUST_USE ls_status ls_recall(const ls_recall_options *options, ls_recall_result *result);

LS_PUBLIC_END

#endif
