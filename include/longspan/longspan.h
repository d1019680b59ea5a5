/*
 * Longspan trains transformer language models on sequences that are split over many ranks. This header includes all public headers:
 *
 *   graph.h      describe a model as if for one device
 *   attention.h  attention alone, on your own queries, keys and values
 *   engine.h     compile, run, differentiate and train your own graph
 *   data.h       text to token shards
 *   train.h      train a model from its files
 *   checkpoint.h inspect, verify and export checkpoints
 *   eval.h       loss on a text, by position
 *   recall.h     how well a model finds facts again in a long text
 *   job.h        attention, gradients, generation and explanations as calls
 *   report.h     results as JSON and text; version and features of this build
 *   options.h    command lines from tables
 *   tensor.h     element types, shapes and masks
 *   status.h     errors
 *   units.h      bytes and seconds as text
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
