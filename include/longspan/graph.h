/*
 * Graphs: what to compute, as if for one device.
 *
 * A graph is built by calling one function per op. A function takes tensors and gives a tensor; shapes follow from the
 * inputs. The user marks the batch and the sequence once, on the token input (ls_tokens); every other tensor inherits
 * these factors through the ops' own shape rules. Nothing in a graph mentions ranks: which tensors are cut, and what must be
 * sent, is the compiler's work.
 *
 * Errors are sticky. The first mistake (shapes that do not fit, a missing tensor, one of another graph, NULL) is kept in the graph with
 * the names and shapes involved, every later call returns the empty tensor, and ls_graph_status tells. So a model reads as its formula:
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
 * Activations and parameters have the graph's element type T; what sums over many terms (losses, log-sum-exp,
 * gradients of parameters) has its accumulator type G: f64 under f64, otherwise f32.
 * Shapes: B batch, S sequence, E model width, Hq/Hkv heads, D head size, V vocabulary; [..] any leading dimensions.
 * A graph owns its tensors and copies names and parameters; masks' document ends stay the caller's until compiled.
 */
#ifndef LONGSPAN_GRAPH_H
#define LONGSPAN_GRAPH_H

#include "longspan/linkage.h"
#include "longspan/tensor.h"

LS_PUBLIC_BEGIN

typedef struct ls_graph ls_graph;

typedef struct ls_tensor {
    int32_t id;     /* 0: no tensor */
    uint32_t graph; /* the number of the graph that it belongs to */
} ls_tensor;

#ifdef __cplusplus
#define LS_NO_TENSOR (ls_tensor{0, 0})
#else
#define LS_NO_TENSOR ((ls_tensor){0, 0})
#endif

/* dtype: LS_F32, LS_F64 or LS_BF16; another is the graph's first mistake. Never NULL. */
ls_graph *ls_graph_create(ls_dtype dtype);
void ls_graph_destroy(ls_graph *graph); /* NULL is allowed */

/* LS_OK, or the first mistake made while building. */
LS_MUST_USE ls_status ls_graph_status(const ls_graph *graph);

/* Name of parameter `index` in the order of declaration, and its shape; NULL past the end. Valid as long as the graph. */
const char *ls_graph_parameter(const ls_graph *graph, int index, ls_shape *shape);

/* Gives a tensor the name that listings and messages show. Returns it. */
ls_tensor ls_named(ls_graph *graph, ls_tensor tensor, const char *format, ...) LS_PRINTF(3, 4);

/* --- leaves ------------------------------------------------------------------------------------------------------------ */

/* The token input, i32[B,S]: its dimensions are the batch and the sequence of everything derived from it. */
ls_tensor ls_tokens(ls_graph *graph, const char *name, int64_t B, int64_t S);
/* Another i32 input of the same shape and factors (labels, positions). */
ls_tensor ls_input_like(ls_graph *graph, const char *name, ls_tensor like);
/* A trained tensor T[size...]; names are unique. */
ls_tensor ls_parameter(ls_graph *graph, const char *name, int ndim, const int64_t *size);
/* The same with a name made by printf's rules: a layer's number, a part. */
ls_tensor ls_parameter_named(ls_graph *graph, int ndim, const int64_t *size, const char *format, ...)
    LS_PRINTF(4, 5);

/* --- ops ---------------------------------------------------------------------------------------------------------------- */

ls_tensor ls_embedding(ls_graph *graph, ls_tensor ids, ls_tensor table); /* i32[..], T[V,E] -> T[..,E] */
/* The same, but the row of id `padding` gets no gradient from being looked up; -1: every row does. */
ls_tensor ls_embedding_padded(ls_graph *graph, ls_tensor ids, ls_tensor table, int64_t padding);

/* y = x·Wᵀ + bias: T[..,K], T[N,K], T[N] or LS_NO_TENSOR -> T[..,N]. _wide gives G[..,N] (for logits). */
ls_tensor ls_linear(ls_graph *graph, ls_tensor x, ls_tensor weight, ls_tensor bias);
ls_tensor ls_linear_wide(ls_graph *graph, ls_tensor x, ls_tensor weight);
/* y = x·W + bias: the same with the weight the other way round, T[K,N], as GPT-2's files have it. */
ls_tensor ls_linear_transposed(ls_graph *graph, ls_tensor x, ls_tensor weight, ls_tensor bias);

/* x / sqrt(mean(x²) + epsilon) * weight over the last dimension (Zhang, Sennrich 2019). */
ls_tensor ls_rmsnorm(ls_graph *graph, ls_tensor x, ls_tensor weight, double epsilon);
/* The same with (offset + weight) in the place of the weight: weights that are trained around 0, as Gemma's, have offset 1. */
ls_tensor ls_rmsnorm_offset(ls_graph *graph, ls_tensor x, ls_tensor weight, double epsilon, double offset);

/* (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; bias may be LS_NO_TENSOR (Ba et al. 2016). */
ls_tensor ls_layernorm(ls_graph *graph, ls_tensor x, ls_tensor weight, ls_tensor bias, double epsilon);

/* Rotary positions, and how they are stretched to a longer context than the model was trained with (as in Hugging Face configs). */
typedef struct ls_rope {
    double theta;
    const char *scaling; /* NULL ("default"), "linear", "dynamic", "yarn" or "llama3" */
    double factor;
    double low_factor, high_factor; /* of llama3 */
    double original_length;         /* of dynamic, yarn and llama3: tokens that the model was trained with */
    double length; /* of dynamic: tokens of a sequence; at a position beyond it, those up to that one */
    double beta_fast, beta_slow; /* of yarn, as all that follows; 0: 32 and 1 */
    double
        attention_factor; /* cosines and sines are multiplied by it; 0: made from factor and the two below */
    double mscale, mscale_all_dim; /* 0: not given */
    bool untruncated;              /* the ramp's ends are not rounded to whole dimensions */
} ls_rope;

/* Cosines and sines for each position, shared by all layers: i32[..] -> G[..,D]. D even. */
ls_tensor ls_rope_table(ls_graph *graph, ls_tensor positions, int64_t D, const ls_rope *rope);
/* Rotary embedding with halves rotated: T[..,H,D], G[..,D] -> T[..,H,D]. */
ls_tensor ls_rotate(ls_graph *graph, ls_tensor x, ls_tensor table);

/*
 * softmax(scale · q·kᵀ) · v under the mask, grouped queries: q T[B,S,Hq,D], k and v T[B,S,Hkv,D] -> T[B,S,Hq,D].
 * Hq is a multiple of Hkv; D is any. The strategy that computes it over ranks is chosen when the graph is compiled.
 */
ls_tensor ls_attention(ls_graph *graph, ls_tensor q, ls_tensor k, ls_tensor v, const ls_mask *mask,
                       double scale);
/* With logits capped softly, c·tanh(logit/c), as Gemma-2 does; softcap 0: not capped. */
ls_tensor ls_attention_capped(ls_graph *graph, ls_tensor q, ls_tensor k, ls_tensor v, const ls_mask *mask,
                              double scale, double softcap);
/*
 * With a sink T[Hq] (LS_NO_TENSOR: none): a further logit for each query head, which every query sees whatever the mask and whose
 * value is 0, so that its weights add up to less than 1 (as in gpt-oss; a sink of 0 is the softmax with one added to its denominator).
 * It is taken as it stands: neither scaled nor capped. A query that sees no key has result 0 and the sink for its log-sum-exp.
 */
ls_tensor ls_attention_with_sink(ls_graph *graph, ls_tensor q, ls_tensor k, ls_tensor v, ls_tensor sink,
                                 const ls_mask *mask, double scale, double softcap);
/* The log-sum-exp that goes with the result of ls_attention, the sink included: G[B,Hq,S]. */
ls_tensor ls_attention_lse(ls_graph *graph, ls_tensor attention);

ls_tensor ls_swiglu(ls_graph *graph, ls_tensor gate, ls_tensor up); /* silu(gate)·up */
ls_tensor ls_gelu(ls_graph *graph, ls_tensor x);                    /* x·Phi(x), exact: "gelu" */
ls_tensor ls_gelu_tanh(ls_graph *graph, ls_tensor x);               /* its form with tanh: "gelu_new" */
ls_tensor ls_relu(ls_graph *graph, ls_tensor x);
ls_tensor ls_silu(ls_graph *graph, ls_tensor x);
ls_tensor ls_softcap(ls_graph *graph, ls_tensor x, double cap); /* cap·tanh(x/cap), cap > 0; T or G[..] */
ls_tensor ls_add(ls_graph *graph, ls_tensor a, ls_tensor b);    /* same shapes */
ls_tensor ls_mul(ls_graph *graph, ls_tensor a, ls_tensor b);    /* same shapes */
ls_tensor ls_scale(ls_graph *graph, ls_tensor x, double factor);
ls_tensor ls_cast(ls_graph *graph, ls_tensor x, ls_dtype dtype);

/*
 * Along the sequence; over ranks, each gets the tokens that it needs from its neighbours. Layouts contiguous and zigzag.
 * shift: y[:,i] = x[:,i-tokens], zeros where nothing moves in; tokens < 0 looks ahead. Any type, [B,S,..].
 * conv: causal and depth-wise, y[:,i,e] = sum over t of weight[t,e]·x[:,i-t,e]: T[B,S,E], T[width,E] -> T[B,S,E].
 */
ls_tensor ls_shift(ls_graph *graph, ls_tensor x, int64_t tokens);
ls_tensor ls_conv(ls_graph *graph, ls_tensor x, ls_tensor weight);

/* Another split of the same elements. A batch or sequence dimension must stay whole. */
ls_tensor ls_reshape(ls_graph *graph, ls_tensor x, int ndim, const int64_t *size);
ls_tensor ls_split_last(ls_graph *graph, ls_tensor x, int64_t H, int64_t D); /* [..,H*D] -> [..,H,D] */
ls_tensor ls_merge_last(ls_graph *graph, ls_tensor x);                       /* [..,H,D] -> [..,H*D] */

/* The last dimension in three parts, and parts side by side: T[..,a+b+c] <-> T[..,a], T[..,b], T[..,c]. */
void ls_split(ls_graph *graph, ls_tensor x, const int64_t size[3], ls_tensor part[3]);
ls_tensor ls_join(ls_graph *graph, const ls_tensor part[3]);

/* -log softmax(logits)[label] per token: T or G[..,V], i32[..] -> G[..]; label -100 gives 0 and no gradient. */
ls_tensor ls_cross_entropy(ls_graph *graph, ls_tensor logits, ls_tensor labels);
ls_tensor ls_sum(ls_graph *graph, ls_tensor x); /* of all elements: G[..] -> G[1] */

LS_PUBLIC_END

#endif
