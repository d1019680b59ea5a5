/* One attention op as a graph, with its gradient: what the attention command, the library's call and the benchmarks spread. */
#ifndef LS_JOB_ATTENTION_GRAPH_H
#define LS_JOB_ATTENTION_GRAPH_H

#include "compile/compile.h"
#include "longspan/attention.h"

enum { LS_Q, LS_K, LS_V, LS_GRAD_O, LS_SINK, LS_ATTENTION_INPUTS };
enum { LS_O, LS_LSE, LS_DQ, LS_DK, LS_DV, LS_DSINK, LS_ATTENTION_RESULTS };

/* What the graph's inputs and results are called: "q", "grad_o", "o", "dsink", ... */
extern const char *const ls_attention_input[LS_ATTENTION_INPUTS];
extern const char *const ls_attention_result[LS_ATTENTION_RESULTS];

typedef struct ls_attention_graph {
    ls_graph *graph;                        /* the owner destroys it, whatever the status was */
    ls_tensor result[LS_ATTENTION_RESULTS]; /* those that there are come first */
    int n_results, forward_nodes;
} ls_attention_graph;

/* Sizes, mask, scale, softcap, sink and gradients of the options, which are sound; the mask's arrays are copied. */
LS_MUST_USE ls_status ls_attention_graph_build(const ls_attention_options *options, ls_attention_graph *out);

/* All results are fetched. The job points into the graph. */
ls_job ls_attention_graph_job(const ls_attention_graph *g);

#endif
