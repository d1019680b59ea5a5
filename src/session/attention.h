/* One attention op and its gradient as a graph, for the attention command, the library's call and the benchmarks. */
#ifndef LS_SESSION_ATTENTION_H
#define LS_SESSION_ATTENTION_H

#include "compile/compile.h"
#include "longspan/attention.h"

enum { LS_Q, LS_K, LS_V, LS_GRAD_O, LS_SINK, LS_ATTENTION_INPUTS };
enum { LS_O, LS_LSE, LS_DQ, LS_DK, LS_DV, LS_DSINK, LS_ATTENTION_RESULTS };

/* The names of the graph's inputs and results: "q", "grad_o", "o", "dsink", ... */
extern const char *const ls_attention_input[LS_ATTENTION_INPUTS];
extern const char *const ls_attention_result[LS_ATTENTION_RESULTS];

typedef struct ls_attention_graph {
    ls_graph *graph;                        /* the caller destroys it, also on failure */
    ls_tensor result[LS_ATTENTION_RESULTS]; /* the first n_results exist */
    int n_results, forward_nodes;
} ls_attention_graph;

/*
 * Uses the sizes, mask, scale, softcap, sink and gradients of the options, which must be valid. Copies the mask's
 * arrays.
 */
LS_MUST_USE ls_status ls_attention_graph_build(const ls_attention_options *options, ls_attention_graph *out);

/*
 * A job that fetches all results, with one program for the whole graph or, if `apart`, with the programs evaluate and
 * backward. It points into g.
 */
ls_job ls_attention_graph_job(const ls_attention_graph *g, bool apart);

#endif
