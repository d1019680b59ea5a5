/*
 * Longspan: training of transformer language models on sequences shared by many ranks. Everything public.
 *
 *   graph.h      describe a model as if for one device
 *   attention.h  attention alone, on queries, keys and values of your own
 *   engine.h     compile, run, differentiate and train one of your own
 *   data.h       text to token shards
 *   train.h      train a model from its files
 *   checkpoint.h what is in a checkpoint, and its export
 *   eval.h       loss on a text, by position
 *   recall.h     what a model finds again in a long text
 *   job.h        attention, gradients, generation and explanations as calls
 *   report.h     results as JSON and words; what this build is
 *   options.h    command lines from tables
 */
#ifndef LONGSPAN_LONGSPAN_H
#define LONGSPAN_LONGSPAN_H

#include "longspan/attention.h"
#include "longspan/checkpoint.h"
#include "longspan/data.h"
#include "longspan/engine.h"
#include "longspan/eval.h"
#include "longspan/graph.h"
#include "longspan/job.h"
#include "longspan/options.h"
#include "longspan/recall.h"
#include "longspan/report.h"
#include "longspan/status.h"
#include "longspan/tensor.h"
#include "longspan/train.h"
#include "longspan/units.h"

#endif
