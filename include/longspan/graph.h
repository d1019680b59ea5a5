/*
 * Graphs: what to compute, as if for one device.
 *
 * A graph is built by calling one function per op. The function takes tensors and returns a tensor, whose shape follows
 * from the inputs. The user marks the batch and the sequence once, on the token input (ls_tokens); every other tensor
 * inherits these factors through the ops' shape rules. Nothing in a graph mentions ranks: the compiler decides which
 * tensors are cut and what is sent.
 *
 * Errors are sticky. The graph keeps the first mistake (shapes that do not fit, a missing tensor, a tensor of another
 * graph, NULL) with the names and shapes involved. Every later call returns the empty tensor, and ls_graph_status
 * returns the mistake. A model can therefore be written without a check after each op:
 *
 *     ls_graph *g = ls_graph_create(LS_F32);
 *     ls_tensor tokens = ls_tokens(g, "tokens", B, S);
 *     ls_tensor labels = ls_input_like(g, "labels", tokens);
 *     ls_tensor table  = ls_parameter(g, "embedding", 2, (int64_t[]){V, E});
 *     ls_tensor x      = ls_embedding(g, tokens, table);
 *     ls_tensor w      = ls_parameter(g, "w", 2, (int64_t[]){Hq * D, E});
 *     ls_tensor q      = ls_split_last(g, ls_linear(g, x, w, LS_NO_TENSOR), Hq, D);
 *     ...
 *     ls_tensor loss   = ls_sum(g, ls_cross_entropy(g, logits, labels));
 *     LS_TRY(ls_graph_status(g));
 *
 * Types: activations and parameters have the graph's element type T. Sums over many terms (losses, log-sum-exp,
 * gradients of parameters) have its accumulator type G: f64 if T is f64, otherwise f32.
 *
 * Shapes: B batch, S sequence, E model width, Hq/Hkv heads, D head size, V vocabulary; [..] any leading dimensions. "x,
 * y -> z" gives the types and shapes of a function's inputs and result.
 *
 * Ownership: a graph owns its tensors and copies names, shapes and params. The document ends of a mask are not copied:
 * the caller keeps them until the graph has been compiled. Calls return at once; a graph must not be used by two
 * threads at the same time.
 */
#ifndef LONGSPAN_GRAPH_H
#define LONGSPAN_GRAPH_H

#include <stdbool.h>

#include "longspan/linkage.h"
#include "longspan/map.h"
#include "longspan/rnn.h"
#include "longspan/tensor.h"

LS_PUBLIC_BEGIN

typedef struct ls_graph ls_graph;

typedef struct ls_tensor {
    int32_t id;     /* 0: no tensor */
    uint32_t graph; /* number of the graph that the tensor belongs to */
} ls_tensor;

#ifdef __cplusplus
#define LS_NO_TENSOR (ls_tensor{0, 0})
#else
#define LS_NO_TENSOR ((ls_tensor){0, 0})
#endif

/*
 * The caller destroys the result, which is never NULL. dtype: LS_F32, LS_F64 or LS_BF16; any other dtype becomes the
 * graph's first mistake.
 */
ls_graph *ls_graph_create(ls_dtype dtype);
void ls_graph_destroy(ls_graph *graph); /* NULL is allowed */

/* LS_OK, or the first mistake. */
LS_MUST_USE ls_status ls_graph_status(const ls_graph *graph);

/*
 * The name of parameter number `index` in the order of declaration, owned by the graph, and its shape (NULL: not
 * wanted); returns NULL past the last one.
 */
const char *ls_graph_parameter(const ls_graph *graph, int index, ls_shape *shape);

/* Sets the name of a tensor in listings and messages, in printf format. Returns the tensor. */
ls_tensor ls_named(ls_graph *graph, ls_tensor tensor, const char *format, ...) LS_PRINTF(3, 4);

/* --- leaves ------------------------------------------------------------------------------------------------------- */

/* The token input, i32[B,S]: its dimensions are the batch and the sequence of every tensor derived from it. */
ls_tensor ls_tokens(ls_graph *graph, const char *name, int64_t B, int64_t S);
/* Another i32 input with the shape and factors of `like` (labels, positions). */
ls_tensor ls_input_like(ls_graph *graph, const char *name, ls_tensor like);
/* The same with any element type, for example a weight for the loss of each token. It gets no gradient. */
ls_tensor ls_input_typed(ls_graph *graph, const char *name, ls_dtype dtype, ls_tensor like);
/* A trained tensor T[size...]; names are unique. */
ls_tensor ls_parameter(ls_graph *graph, const char *name, int ndim, const int64_t *size);
/* The same with a name in printf format, for example with the number of a layer. */
ls_tensor ls_parameter_named(ls_graph *graph, int ndim, const int64_t *size, const char *format, ...) LS_PRINTF(4, 5);

/* --- ops ---------------------------------------------------------------------------------------------------------- */

/* Rows ids[..] of the table: i32[..], T[V,E] -> T[..,E]. */
ls_tensor ls_embedding(ls_graph *graph, ls_tensor ids, ls_tensor table);
/* The same, but id `padding` adds nothing to the gradient of its row of the table. padding -1: no such id. */
ls_tensor ls_embedding_padded(ls_graph *graph, ls_tensor ids, ls_tensor table, int64_t padding);

/* y = x·Wᵀ + bias: T[..,K], T[N,K], T[N] or LS_NO_TENSOR -> T[..,N]. The result of _wide is G[..,N] (for logits). */
ls_tensor ls_linear(ls_graph *graph, ls_tensor x, ls_tensor weight, ls_tensor bias);
ls_tensor ls_linear_wide(ls_graph *graph, ls_tensor x, ls_tensor weight);
/* y = x·W + bias: the same with a transposed weight T[K,N], as in GPT-2's files. */
ls_tensor ls_linear_transposed(ls_graph *graph, ls_tensor x, ls_tensor weight, ls_tensor bias);

/* x / sqrt(mean(x²) + epsilon) * weight over the last dimension (Zhang, Sennrich 2019). */
ls_tensor ls_rmsnorm(ls_graph *graph, ls_tensor x, ls_tensor weight, double epsilon);
/* scale·x/sqrt(sum of x² + epsilon) over the last dimension. */
ls_tensor ls_l2norm(ls_graph *graph, ls_tensor x, double epsilon, double scale);
/*
 * ls_rmsnorm with (offset + weight) instead of the weight; offset 1 is for weights that are trained around 0, as in
 * Gemma.
 */
ls_tensor ls_rmsnorm_offset(ls_graph *graph, ls_tensor x, ls_tensor weight, double epsilon, double offset);

/*
 * The same with a gate of x's shape, in one pass: the norm times silu(gate), or, if gate_first, the norm of
 * x * silu(gate). weight: T[E], or T[G,E] with a row for each of G groups, x T[..,G,E].
 */
ls_tensor ls_gated_norm(ls_graph *graph, ls_tensor x, ls_tensor weight, ls_tensor gate, double epsilon,
                        bool gate_first);

/*
 * (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; bias may be LS_NO_TENSOR (Ba et al.
 * 2016).
 */
ls_tensor ls_layernorm(ls_graph *graph, ls_tensor x, ls_tensor weight, ls_tensor bias, double epsilon);

/*
 * Rotary positions, and how they are scaled for a context longer than the model was trained with (as in Hugging Face
 * configs).
 */
enum { LS_ROPE_MOST_PAIRS = 128 };
typedef struct ls_rope {
    double theta;
    const char *scaling; /* NULL ("default"), "linear", "dynamic", "yarn", "llama3" or "longrope" */
    double factor;
    double low_factor, high_factor; /* llama3 */
    double original_length; /* dynamic, yarn, llama3 and longrope: length in tokens that the model was trained with */
    /*
     * dynamic and longrope: tokens of the sequence. With dynamic, a position p beyond it is rotated as in a sequence of
     * p + 1 tokens.
     */
    double length;
    /* longrope: divisors of the frequency of each pair, for sequences up to the original length and for longer ones */
    float short_factor[LS_ROPE_MOST_PAIRS], long_factor[LS_ROPE_MOST_PAIRS];
    /* yarn and longrope: factor of cosines and sines; 0: computed from factor, mscale and mscale_all_dim */
    double attention_factor;
    /* The remaining fields are for yarn. */
    double beta_fast, beta_slow;   /* 0: 32 and 1 */
    double mscale, mscale_all_dim; /* 0: not given */
    bool untruncated;              /* the ends of the ramp are not rounded to whole dimensions */
} ls_rope;

/* Cosines and sines for each position, shared by all layers: i32[..] -> G[..,D]. D even. */
ls_tensor ls_rope_table(ls_graph *graph, ls_tensor positions, int64_t D, const ls_rope *rope);
/* Rotates the pairs (i, i + D/2) of each head: T[..,H,D], G[..,D] -> T[..,H,D]. */
ls_tensor ls_rotate(ls_graph *graph, ls_tensor x, ls_tensor table);

/*
 * softmax(scale · q·kᵀ) · v under the mask, with grouped queries: q T[B,S,Hq,D], k T[B,S,Hkv,D], v T[B,S,Hkv,E] ->
 * T[B,S,Hq,E]. Hq is a multiple of Hkv; D and E are any. Which strategy computes it over the ranks is decided when the
 * graph is compiled.
 */
ls_tensor ls_attention(ls_graph *graph, ls_tensor q, ls_tensor k, ls_tensor v, const ls_mask *mask, double scale);
/* The same with soft-capped logits, c·tanh(logit/c), as in Gemma 2. softcap 0: no cap. */
ls_tensor ls_attention_capped(ls_graph *graph, ls_tensor q, ls_tensor k, ls_tensor v, const ls_mask *mask, double scale,
                              double softcap);
/*
 * The same with a sink T[Hq] (LS_NO_TENSOR: none): an additional logit per query head, which every query sees under any
 * mask and whose value vector is 0. The weights of the keys then add up to less than 1 (as in gpt-oss; a sink of 0 adds
 * 1 to the softmax's denominator). The sink is neither scaled nor capped. A query that sees no key has result 0, and
 * its log-sum-exp is the sink.
 */
ls_tensor ls_attention_with_sink(ls_graph *graph, ls_tensor q, ls_tensor k, ls_tensor v, ls_tensor sink,
                                 const ls_mask *mask, double scale, double softcap);
/* The log-sum-exp of the logits, sink included, for a result of ls_attention or its variants: G[B,Hq,S]. */
ls_tensor ls_attention_lse(ls_graph *graph, ls_tensor attention);

/* Functions of single elements: T[..] -> T[..], unless a comment says otherwise. All inputs have the same shape. */
ls_tensor ls_swiglu(ls_graph *graph, ls_tensor gate, ls_tensor up); /* silu(gate)·up */
ls_tensor ls_gelu(ls_graph *graph, ls_tensor x);                    /* x·Phi(x), exact: "gelu" in configs */
ls_tensor ls_gelu_tanh(ls_graph *graph, ls_tensor x);               /* approximation of gelu with tanh: "gelu_new" */
ls_tensor ls_relu(ls_graph *graph, ls_tensor x);                    /* max(x, 0) */
ls_tensor ls_silu(ls_graph *graph, ls_tensor x);                    /* x·sigmoid(x) */
ls_tensor ls_softcap(ls_graph *graph, ls_tensor x, double cap);     /* cap·tanh(x/cap), cap > 0; T or G[..] */
ls_tensor ls_add(ls_graph *graph, ls_tensor a, ls_tensor b);
ls_tensor ls_mul(ls_graph *graph, ls_tensor a, ls_tensor b);
ls_tensor ls_scale(ls_graph *graph, ls_tensor x, double factor);
/* The same values in another floating-point type, dtype[..]. */
ls_tensor ls_cast(ls_graph *graph, ls_tensor x, ls_dtype dtype);

/*
 * Expressions of single elements (longspan/map.h) of n_in inputs T, G or i32: one node, one pass over memory. Inputs
 * are broadcast as in NumPy, aligned at the last dimension: a dimension that an input lacks, or has with size 1, is
 * repeated. An input has both the batch and the sequence, as the results do, or neither. All results have the same
 * shape; result i is G if bit i of `wide` is set, else T. Integers have no gradient, and none passes through floor,
 * sign, comparisons and conditions.
 */
typedef struct ls_expression {
    const ls_map_step *step;
    int n_steps;
    const int *result; /* the operands that are results, [n_results]; NULL: only the last step */
    int n_results;
    unsigned wide;
} ls_expression;
/* Returns result 0; ls_map_result returns result i. Copies the expression. */
ls_tensor ls_map(ls_graph *graph, const ls_tensor *in, int n_in, const ls_expression *expression);
ls_tensor ls_map_result(ls_graph *graph, ls_tensor map, int i);

/*
 * Sum over the dimensions whose bits are set in `over` (bit 0: the first): T or G[..] -> G[..]. In the result these
 * dimensions have size 1 (keep), or are left out. The batch and the sequence must both be summed over, or neither.
 */
ls_tensor ls_reduce_sum(ls_graph *graph, ls_tensor x, unsigned over, bool keep);
/* The same divided by the number of elements summed: the mean, G. */
ls_tensor ls_reduce_mean(ls_graph *graph, ls_tensor x, unsigned over, bool keep);
/*
 * The largest element, G (NaN if any is NaN), over dimensions other than the batch and the sequence. The gradient goes
 * to the first of the largest elements, as in torch.max along a dimension; with `shared`, to all of them in equal
 * parts, as in torch.amax and jax.numpy.max.
 */
ls_tensor ls_reduce_max(ls_graph *graph, ls_tensor x, unsigned over, bool keep, bool shared);
/*
 * The reverse of a sum: repeats x along the dimensions of `like` whose bits are set in `over`; x lacks these
 * dimensions, or has them with size 1. The result has the shape of `like` and the type of x, T or G.
 */
ls_tensor ls_broadcast(ls_graph *graph, ls_tensor x, unsigned over, ls_tensor like);

/* exp(x) / sum(exp(x)) over the last dimension, which is neither the batch nor the sequence: T or G[..] -> T[..]. */
ls_tensor ls_softmax(ls_graph *graph, ls_tensor x);

/*
 * The product of two tensors T, summed over letters, in the notation of numpy.einsum: "bshd,bsgd->bshg". A tensor has
 * each letter at most once, and a letter that the result lacks is in both inputs. The batch and the sequence come first
 * in each tensor that has them, and the result has them: a sum over tokens, or a product of different tokens, is
 * refused. If one input has no tokens and no letter is in all three tensors, it is a product of matrices (ls_linear).
 * Result T.
 */
ls_tensor ls_einsum(ls_graph *graph, const char *text, ls_tensor a, ls_tensor b);

/*
 * y[..,j] = x[..,ids[..,j]], within each token: T or G[..,K], i32[..,J] -> [..,J] of the type of x. An id outside of
 * 0..K-1 gives NaN.
 */
ls_tensor ls_take_along(ls_graph *graph, ls_tensor x, ls_tensor ids);
/*
 * The k largest elements of the last dimension, the largest first; of equal ones, the one with the lowest index comes
 * first; NaN counts as the largest. T or G[..,K] -> [..,k] of the type of x. *ids: their indices, i32[..,k]; ids NULL:
 * not wanted.
 */
ls_tensor ls_topk(ls_graph *graph, ls_tensor x, int64_t k, ls_tensor *ids);

/*
 * Ops along the sequence: each rank receives the tokens of other ranks that it needs. The layout must have at most 64
 * runs of positions per rank, so it cannot be striped.
 */

/* y[:,i] = x[:,i-tokens]; 0 if i-tokens is outside the sequence. tokens may be negative. [B,S,..] of any type. */
ls_tensor ls_shift(ls_graph *graph, ls_tensor x, int64_t tokens);
/*
 * Causal depth-wise convolution: y[:,i,e] = sum over t of weight[t,e]·x[:,i-t,e], with x = 0 in front of the sequence:
 * T[B,S,E], T[width,E] -> T[B,S,E].
 */
ls_tensor ls_conv(ls_graph *graph, ls_tensor x, ls_tensor weight);
/*
 * ls_conv with options: within the documents of a sequence, with the rows of the weight in reverse order, with a bias,
 * with silu. reach: from ls_conv_reach, of the tokens' positions in their documents, i32[B,S], for this width of the
 * weight, 1 to LS_CONV_WIDTH; all convolutions of that width may share it. LS_NO_TENSOR: the sequence is one document.
 */
typedef struct ls_conv_form {
    ls_tensor reach;
    bool last_first; /* the last row of the weight is for the token itself */
    ls_tensor bias;  /* T[E], added to the result; LS_NO_TENSOR: none */
    bool silu;       /* the result is the silu of all this, in the same pass and without keeping the input of silu */
} ls_conv_form;
enum { LS_CONV_WIDTH = 7 };
ls_tensor ls_conv_reach(ls_graph *graph, ls_tensor positions, int width);
ls_tensor ls_conv_within(ls_graph *graph, ls_tensor x, ls_tensor weight, const ls_conv_form *form);
/*
 * h[:,i,e] = gate[:,i,e]·h[:,i-1,e] + x[:,i,e], with h = 0 in front of the sequence: T[B,S,E], T[B,S,E] -> T[B,S,E]. Or
 * with states of K numbers, K at most 4, which matrices mix: h[:,i,r,e] = sum over c of gate[:,i,r,c,e]·h[:,i-1,c,e] +
 * x[:,i,r,e]: T[B,S,K,K,E], T[B,S,K,E] -> T[B,S,K,E]. The state is carried in f32 (f64 in a graph of f64).
 */
ls_tensor ls_recurrence(ls_graph *graph, ls_tensor gate, ls_tensor x);

/*
 * Linear recurrences: linear attention, retention, state space models (Mamba-2) and delta rules. Each value head has a
 * state M [Dk,Dv], which goes from token to token and is 0 in front of the first:
 *
 *   M = Diag(exp(decay)) M'      M': the state of the previous token
 *   M = M + beta k v^T           adds the value; a delta rule replaces what the state has for the key instead:
 *   M = M + beta k (v - k M)^T
 *   o = q M
 *
 * decay: logarithms G[B,S,Hv] or, with one for each element of a key, G[B,S,Hv,Dk]. beta: G[B,S,Hv]; a delta rule needs
 * it. places: the tokens' positions in their documents, i32[B,S]; in front of a token with place 0 the state is 0. Each
 * may be LS_NO_TENSOR. unmasked: every token reads the state of all tokens; decay, delta rule and documents are then
 * not allowed.
 */
typedef struct ls_linear_state {
    ls_tensor decay, beta, places;
    bool delta, unmasked;
} ls_linear_state;
/* q and k T[B,S,Hk,Dk], v T[B,S,Hv,Dv], Hv a multiple of Hk -> T[B,S,Hv,Dv]. Head h of v uses head h/(Hv/Hk) of k. */
ls_tensor ls_linear_recurrence(ls_graph *graph, ls_tensor q, ls_tensor k, ls_tensor v, const ls_linear_state *rule);

/*
 * Recurrent cells (longspan/rnn.h), for new states that are not a linear function of the previous one. x: the token's
 * part of each gate, including biases, T[B,S,H,gates·D], gate by gate within a head. weight: the matrices R of a head's
 * gates in the same order, T[H,gates·D,D]; of a diagonal cell, the numbers of each element, T[H,numbers,D]. bias:
 * T[H,gates·D], added to R y; only in a GRU does it differ from a bias in x. places: the tokens' positions in their
 * documents, i32[B,S]; in front of a token with place 0 the state is 0. bias and places may be LS_NO_TENSOR; diagonal
 * cells have no bias. -> y T[B,S,H,D]. The state is carried in G; the gradient uses y as rounded to T.
 */
typedef struct ls_rnn_form {
    ls_rnn_kind kind;
    ls_tensor bias, places;
} ls_rnn_form;
ls_tensor ls_rnn(ls_graph *graph, ls_tensor x, ls_tensor weight, const ls_rnn_form *form);

/*
 * The same elements in the same order with other dimensions. The batch and the sequence must remain separate
 * dimensions.
 */
ls_tensor ls_reshape(ls_graph *graph, ls_tensor x, int ndim, const int64_t *size);
ls_tensor ls_split_last(ls_graph *graph, ls_tensor x, int64_t H, int64_t D); /* [..,H*D] -> [..,H,D] */
ls_tensor ls_merge_last(ls_graph *graph, ls_tensor x);                       /* [..,H,D] -> [..,H*D] */

/*
 * The dimensions in another order: dimension i of the result is dimension order[i] of x. The batch and the sequence
 * must stay first.
 */
ls_tensor ls_permute_dims(ls_graph *graph, ls_tensor x, const int *order);

/*
 * split: divides the last dimension into n parts of size[i] elements, part[n]; join: concatenates n parts. n is 2 to 8:
 * [..,a+b+c] <-> [..,a], [..,b], [..,c]. Any type.
 */
void ls_split(ls_graph *graph, ls_tensor x, int n, const int64_t *size, ls_tensor *part);
ls_tensor ls_join(ls_graph *graph, int n, const ls_tensor *part);
/* The same along any dimension except the batch and the sequence. ls_concat takes any number of parts. */
void ls_split_along(ls_graph *graph, ls_tensor x, int dim, int n, const int64_t *size, ls_tensor *part);
ls_tensor ls_concat(ls_graph *graph, int dim, int n, const ls_tensor *part);
/* Elements start, start + step, .. of dimension `dim`, `length` of them; step at least 1. */
ls_tensor ls_slice(ls_graph *graph, ls_tensor x, int dim, int64_t start, int64_t length, int64_t step);

/* -log softmax(logits)[label] per token: T or G[..,V], i32[..] -> G[..]; label -100 gives 0 and no gradient. */
ls_tensor ls_cross_entropy(ls_graph *graph, ls_tensor logits, ls_tensor labels);
ls_tensor ls_sum(ls_graph *graph, ls_tensor x); /* sum of all elements: G[..] -> G[1] */

LS_PUBLIC_END

#endif
