/* The loss of a model on a text that is open already: what the command and the end of a training share. */
#ifndef LS_EVAL_EVALUATE_H
#define LS_EVAL_EVALUATE_H

#include "data/data.h"
#include "eval/trained.h"
#include "longspan/eval.h"

/*
 * Of the options seq and pack (those of the data), batch, sequences, dtype, seed, out and spread count, and none is left to a default but those of
 * the spread. All is borrowed for the call.
 */
LS_MUST_USE ls_status ls_evaluate_text(const ls_eval_options *options, const ls_trained *trained,
                                       const ls_data *data, ls_eval_result *result);

#endif
