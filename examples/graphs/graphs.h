/*
 * Networks written only with longspan/graph.h. Each function builds a network for one device and returns the sum of its
 * losses over all tokens. Sizes are constants at the top of each file, small enough for a test on several ranks
 * (tests/compile/test_matrix.c); otherwise the networks are the published ones, unless a file says something else.
 */
#ifndef EXAMPLES_GRAPHS_H
#define EXAMPLES_GRAPHS_H

#include "longspan/graph.h"

ls_tensor gpt2_loss(ls_graph *g);    /* layernorm, gelu, learned positions, biases, a tied head */
ls_tensor llama2_loss(ls_graph *g);  /* rmsnorm, rotary positions, swiglu */
ls_tensor llama_loss(ls_graph *g);   /* Llama 3: Llama 2 with grouped queries and scaled rotations */
ls_tensor qwen2_loss(ls_graph *g);   /* Llama 3 with biases on q, k, v, unscaled rotations */
ls_tensor qwen3_loss(ls_graph *g);   /* queries and keys normalised per head */
ls_tensor mistral_loss(ls_graph *g); /* a sliding window */
ls_tensor gemma2_loss(ls_graph *g);  /* alternating windows, norms before and after, soft caps, gelu gates */
ls_tensor gptoss_loss(ls_graph *g);  /* alternating windows, a learned sink for each head, biases */
ls_tensor mla_loss(ls_graph *g);     /* keys and values from a short vector, of different sizes */
ls_tensor encoder_loss(ls_graph *g); /* full attention: every token sees every token */
ls_tensor mixer_loss(ls_graph *g);   /* no attention: token shift and convolution along the sequence */
ls_tensor timemix_loss(ls_graph *g); /* general ops: expressions, sums over a dimension, a recurrence */
ls_tensor plstm_loss(ls_graph *g);   /* general ops: a recurrence with matrices, read before it is written */
/* The logits of which plstm_loss is the loss, for B sequences; *tokens: the input with the tokens. */
ls_tensor plstm_logits(ls_graph *g, int64_t B, ls_tensor *tokens);
ls_tensor experts_loss(ls_graph *g); /* general ops: slices, products of three dimensions, softmax, topk, maxima */

#endif
