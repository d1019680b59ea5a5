/*
 * Graphs that go on token by token, for tests: what is prefilled of a prompt, and then one token after the other, over
 * every way to share the sequence. Ends the test where logits are not those that are expected.
 */
#ifndef TESTS_DECODING_H
#define TESTS_DECODING_H

#include "compile/compile.h"
#include "graph/graph.h"

enum { DECODING_LONGEST = 24, DECODING_WORDS = 48, DECODING_RANKS = 6 };

/* S tokens of V words. The test sets what comes first, the rest is support/decoding.c's. */
typedef struct play {
    const char *name;
    int S, V;
    ls_dtype dtype; /* of the graphs that are decoded; parameters are rounded to it in all graphs */
    ls_isa isa;
    double bound;               /* how far logits may be from those expected */
    const char *recurrence_way; /* of states; NULL: the cheapest */
    const char *rnn_way;
    int state_heads; /* heads of keys of states, of which `recurrence_way` "heads" gives each rank one at least */
    int32_t tokens[DECODING_LONGEST];
    double expected[DECODING_LONGEST * DECODING_WORDS]; /* logits of all tokens */

    ls_job job;
    ls_target target;
    const ls_decoding *decoding; /* NULL: the whole graph at once */
    const char *logits;
    int prompt; /* tokens; all but the last are prefilled */
    double worst[DECODING_RANKS];
    int checked;
} play;

/* In f64 by the reference kernels; random tokens. */
play play_of(const char *name, int S, int V);

/* Expected become the logits of one pass over the whole graph on one rank, of any type. */
void play_expect(play *p, ls_graph *whole, ls_tensor logits);

/* What a graph of play.dtype has when it goes on token by token. */
typedef struct play_kept {
    int masks, tensors; /* different masks; tensors that are kept, of tokens so far */
} play_kept;

/* Decodes the graph in every `step`-th pair of a way to share the sequence and a prompt, as expected. */
void play_decode(play *p, ls_graph *whole, ls_tensor logits, play_kept kept, size_t step);

/* Both: expects what the graph itself gives. */
void play_like_the_whole(play *p, ls_graph *whole, ls_tensor logits, play_kept kept, size_t step);

#endif
