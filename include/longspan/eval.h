/*
 * Evaluation: how well a model continues a text, and how that depends on how much of it the model has seen.
 */
#ifndef LONGSPAN_EVAL_H
#define LONGSPAN_EVAL_H

#include "longspan/data.h"
#include "longspan/job.h"
#include "longspan/linkage.h"

LS_PUBLIC_BEGIN

/* Tokens that were predicted with `first` to `last` tokens of the same document before them in the sequence. */
typedef struct ls_loss_bin {
    int64_t first, last;
    int64_t tokens; /* predicted: at least 1 */
    double loss;    /* mean, in nats per token */
    double error;   /* standard error of the mean, sequences taken as the sample; NaN with fewer than two */
} ls_loss_bin;

#define LS_LOSS_BINS 34 /* 0, 1, 2, 3-4, 5-8, ...: enough for any sequence */

/* Bins, ascending, where some with too few tokens for a mean within 0.05 nats are joined to one; and `all` of them together. */
typedef struct ls_loss_table {
    int n;
    ls_loss_bin bin[LS_LOSS_BINS];
    ls_loss_bin all;
    int64_t sequences;
} ls_loss_table;

/* A line for each bin. */
void ls_loss_table_print(const ls_loss_table *table, FILE *out);

/* Loss and perplexity of a model on a text. Fields are the flags of `longspan eval`; zero and NULL mean the default. */
typedef struct ls_eval_options {
    const char *model; /* config.json, or a directory with one */
    ls_rope_change rope;
    const char *checkpoint; /* of a training run, or its --out; NULL: the model's own weights */
    const char *const *data;
    int n_data;
    ls_text_form form; /* of text */
    const char *pack;  /* how documents come into sequences: "join", "best", "stream" */
    int64_t seq, batch;
    int64_t sequences; /* evaluated, spread evenly over the text; 0: all */
    const char *dtype; /* "f32" or "bf16" */
    uint64_t seed;     /* of random weights, when the model has none */
    const char *out;   /* directory for eval.json and loss_by_position.svg; NULL: none is written */
    ls_spread spread;
} ls_eval_options;

typedef struct ls_eval_result {
    ls_loss_table table;
    double perplexity;      /* exp of the mean loss */
    int64_t text_sequences; /* in the whole text */
    ls_spread_result spread;
} ls_eval_result;

/* Blocks until done; LS_INTERRUPTED when stopped by a signal, with nothing written. */
LS_MUST_USE ls_status ls_evaluate(const ls_eval_options *options, ls_eval_result *result);

LS_PUBLIC_END

#endif
