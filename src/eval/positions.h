/* Losses by distance into the document: the figure that shows whether a long context is of use. */
#ifndef LS_EVAL_POSITIONS_H
#define LS_EVAL_POSITIONS_H

#include "data/data.h"
#include "format/format.h"
#include "longspan/eval.h"

/* Sums over tokens of loss and loss²; and over sequences, each with n of the tokens and their loss L: of L², L·n and n². */
typedef struct ls_loss_sum {
    int64_t sequences, tokens;
    double loss, token_squares;
    double squares, cross, counts;
} ls_loss_sum;

/* Starts as zeros. */
typedef struct ls_loss_sums {
    ls_loss_sum bins[LS_LOSS_BINS][LS_LOSS_BINS]; /* [first][last]: of all tokens in bins first to last */
    int64_t farthest;                             /* most tokens before a predicted one */
} ls_loss_sums;

/*
 * Adds a sequence with the losses[S] of its labels (ignored ones: LS_LABEL_IGNORED) by sample->seen: what the model has not seen of a
 * document, because the sequence begins inside it, does not count.
 */
void ls_loss_sums_add(ls_loss_sums *sums, int64_t S, const ls_sample *sample, const float *losses);

/*
 * Neighbouring bins are joined until each holds so many tokens that their scatter leaves its mean a standard error of `error` nats at most:
 * no line of the table is noise. INFINITY joins none.
 */
ls_loss_table ls_loss_sums_table(const ls_loss_sums *sums, double error);
#define LS_LOSS_BIN_ERROR 0.05

/* "loss", "tokens", "sequences", "perplexity" and the array "by_position" of an open object. */
void ls_loss_table_put(const ls_loss_table *table, ls_json_writer *writer);
/* directory/loss_by_position.svg. what: a line that says of which text, e.g. "8 sequences of 4096 tokens". */
LS_MUST_USE ls_status ls_loss_table_draw(const ls_loss_table *table, const char *directory);

#endif
