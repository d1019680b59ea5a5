/*
 * Longspan trains transformer language models on sequences that are split over many ranks. This header includes all
 * public headers:
 *
 *   tensor.h     element types, shapes
 *   graph.h      describe a model as if for one device
 *   map.h        expressions of single elements, for graphs
 *   attention.h  attention alone, on your own queries, keys and values
 *   engine.h     compile, run, differentiate and train your own graph
 *   data.h       text to token shards
 *   train.h      train a model from its files
 *   eval.h       loss on a text, by position; what a model finds again in a long text
 *   spread.h     how a job is spread over ranks
 *   status.h     what every call returns
 */
#ifndef LONGSPAN_LONGSPAN_H
#define LONGSPAN_LONGSPAN_H

#include "longspan/adapter.h"
#include "longspan/attention.h"
#include "longspan/data.h"
#include "longspan/engine.h"
#include "longspan/eval.h"
#include "longspan/graph.h"
#include "longspan/map.h"
#include "longspan/newton.h"
#include "longspan/rnn.h"
#include "longspan/spread.h"
#include "longspan/status.h"
#include "longspan/tensor.h"
#include "longspan/train.h"

#endif
