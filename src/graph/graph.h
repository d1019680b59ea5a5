/*
 * graph: nodes and the op table, as the compiler and the other folders see them. Users see longspan/graph.h.
 *
 * An op is one file in ops/ and one const row (its gradient op is a second row in the same file). The row holds
 * everything that the other folders need to know about the op, so no code outside ops/ asks which op a node is.
 */
#ifndef LS_GRAPH_H
#define LS_GRAPH_H

#include "base/base.h"
#include "kernel/kernel.h"
#include "longspan/graph.h"
#include "tensor/tensor.h"

#define LS_NODE_INPUTS 8
#define LS_NODE_OUTPUTS 8

typedef struct ls_op ls_op;

typedef struct ls_node {
    const ls_op *op;
    /* the op's own struct, which begins with the struct that its kernel reads (tensor/params.h) */
    const void *params;
    size_t params_bytes;
    int n_in, n_out;
    ls_tensor in[LS_NODE_INPUTS];
    ls_tensor out[LS_NODE_OUTPUTS];
    int forward; /* for a gradient node: index of the node that it differentiates; otherwise -1 */
} ls_node;

typedef enum ls_role {
    LS_ROLE_VALUE,       /* the result of a node */
    LS_ROLE_INPUT,       /* supplied with each micro-batch */
    LS_ROLE_PARAMETER,   /* trained, unless it is frozen */
    LS_ROLE_ACCUMULATOR, /* a sum over micro-batches (a gradient or the loss); starts at zero */
} ls_role;

typedef struct ls_tensor_info {
    const char *name;
    ls_dtype dtype;
    ls_shape shape; /* global */
    ls_role role;
    bool frozen;   /* parameter: not trained, so its gradient is not computed */
    bool borrowed; /* parameter: its values stay those of the model's files, so checkpoints do not hold it */
    bool added;    /* parameter: belongs to an adapter, so the model's files do not hold it */
    bool constant; /* result: derivatives treat it as a constant */
    /* parameter, or tensor that the host fetches: it belongs to ranks of another stage (compile/pipeline) */
    bool elsewhere;
    bool matrix; /* parameter: the job's optimiser updates it as a whole matrix (compile/optimizer/matrices.c) */
    int slice;   /* input, or tensor that the host fetches: which slice of the sequence it is (compile/pipeline) */
    /* the graph is cut after this tensor: no other tensor passes from the nodes before the cut to those after it */
    bool boundary;
    bool stays;    /* it is not recomputed, because slices of a sequence depend on it (compile/pipeline/slice.c) */
    ls_dtype kept; /* frozen parameter: its type in memory, from which it is cast where it is read */
    int producer;  /* index of the node that computes it; -1: none */
    int output;    /* which output of that node it is */
    ls_tensor of;  /* accumulator: the parameter whose gradient it sums, if any */
    /* The tensor whose bytes this tensor uses: itself, unless its op writes in place or only changes the shape. */
    ls_tensor storage;
} ls_tensor_info;

/* Results that an op could not compute and set to NaN. */
typedef struct ls_shortfall {
    ls_tensor count;  /* G[1]: the number of such results */
    const char *what; /* a clause that follows the number in a message: out of how many, which ones, and what to do */
} ls_shortfall;

struct ls_graph {
    ls_arena *arena;
    /* never 0; each of its tensors carries it, so that a tensor of another graph is detected */
    uint32_t number;
    ls_dtype dtype, accumulator; /* T and G */
    ls_node *nodes;
    int n_nodes;
    int forward_nodes; /* number of nodes before the first gradient node; 0: not differentiated */
    size_t node_capacity;
    ls_tensor_info *tensors; /* [0] is the empty tensor */
    int n_tensors;
    size_t tensor_capacity;
    /* [leaf_slots] hash table by name: ids, 0 = free. It keeps building linear in the number of leaves */
    int *leaves;
    size_t n_leaves, leaf_slots;
    ls_shortfall *shortfalls; /* in the order of the forward pass; a worker reads them when a loss is not finite */
    int n_shortfalls;
    size_t shortfall_capacity;
    ls_status status;
};

static inline const ls_tensor_info *ls_graph_tensor(const ls_graph *g, ls_tensor t) { return &g->tensors[t.id]; }
/* The number of nodes of the forward pass, which come first: all nodes if the graph is not differentiated. */
static inline int ls_forward_nodes(const ls_graph *g) { return g->forward_nodes > 0 ? g->forward_nodes : g->n_nodes; }

/* --- dimensions (dims.c) ------------------------------------------------------------------------------------------ */

enum { LS_NODE_LETTERS = 16, LS_DIM_LETTERS = LS_DIM_SEGMENTS, LS_DIMS_TEXT = 96 };

/* What one dimension stands for: a product of letters, outermost first; or segments, one after the other. */
typedef struct ls_dim_letters {
    int n;
    bool segments;
    signed char letter[LS_DIM_LETTERS];
} ls_dim_letters;

typedef struct ls_tensor_dims {
    ls_dim_letters dim[LS_MAX_DIMS];
    bool same; /* result: if it lacks a letter that is cut, every rank has all of the result (notation '=') */
} ls_tensor_dims;

/* What the dimensions of a node's tensors stand for. A letter means the same thing wherever it appears in the node. */
typedef struct ls_node_dims {
    int n;                             /* number of letters */
    bool needs_whole[LS_NODE_LETTERS]; /* by letter: the op needs all of it at once */
    /*
     * the node can be cut along the letter: the op does not need all of it, and it is never the inner part of a product
     */
    bool may_cut[LS_NODE_LETTERS];
    /* the first of the letters that are cut together with this one, as segments are */
    signed char cut_with[LS_NODE_LETTERS];
    ls_tensor_dims in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
} ls_node_dims;

/* The tensors of a node as one list: its inputs, then its outputs; and the dimensions of these tensors. */
static inline int ls_node_tensors(const ls_node *node) { return node->n_in + node->n_out; }
static inline ls_tensor ls_node_tensor(const ls_node *node, int i) {
    return i < node->n_in ? node->in[i] : node->out[i - node->n_in];
}
static inline const ls_tensor_dims *ls_node_tensor_dims(const ls_node_dims *dims, const ls_node *node, int i) {
    return i < node->n_in ? &dims->in[i] : &dims->out[i - node->n_in];
}

/* Reads the dimensions from the row of the node's op. */
void ls_node_dims_find(const ls_graph *g, const ls_node *node, ls_node_dims *out);
/* The first dimension of the tensor that is cut with the letter; -1: there is none. */
int ls_letter_dim(const ls_node_dims *dims, const ls_tensor_dims *tensor, int letter);
/* Whether the node can be cut along the letter, and each dimension with this letter stands for the factor. */
bool ls_letter_is(const ls_graph *g, const ls_node *node, const ls_node_dims *dims, int letter, ls_factor factor);

/* --- factors (factors.c) ------------------------------------------------------------------------------------------ */

/* A product of factors, by number, outermost first. */
typedef struct ls_segment {
    int n, factor[LS_DIM_LETTERS];
} ls_segment;

/* What a dimension of a tensor stands for: segments, one after the other. */
typedef struct ls_factored_dim {
    int n;
    ls_segment segment[LS_DIM_LETTERS];
} ls_factored_dim;

typedef struct ls_graph_factor {
    int64_t size;
    ls_factor is; /* LS_FACTOR_BATCH, LS_FACTOR_SEQUENCE, or neither */
    bool whole;   /* some node needs all of it at once */
    bool inner;   /* in some dimension it is not the outermost factor of its product */
} ls_graph_factor;

typedef struct ls_factors {
    ls_graph_factor *list;
    int n;
    ls_factored_dim *dim; /* by tensor * LS_MAX_DIMS + dimension */
} ls_factors;

/*
 * Finds the factors of all tensors of a graph: dimensions with the same letter in a node are one factor. A factor may
 * occur several times in a tensor (a square weight). The arrays lie in the arena.
 */
void ls_factors_find(const ls_graph *g, ls_arena *arena, ls_factors *out);

/* --- the op row --------------------------------------------------------------------------------------------------- */

/*
 * Floating-point operations of one kernel call on local views. Attention counts all pairs; the caller corrects for the
 * mask. NULL: one operation per output element.
 */
typedef double (*ls_flops_rule)(const ls_view *in, const ls_view *out, const void *params);

typedef struct ls_gradient ls_gradient; /* the state of a differentiation, for gradient rules (graph_impl.h) */

/*
 * ids: 1 + the input that holds integers (0: none). These integers index dimension `dim` (-1: the last) of input
 * `among`.
 */
typedef struct ls_lookup {
    signed char ids, among, dim;
    bool may_ignore; /* -100 is allowed and selects nothing */
    bool padded;     /* the params are ls_embedding_params: lookups of the padding id do not count */
} ls_lookup;

/* The tokens of the inputs on which the result of a token depends: what an op needs along the sequence. */
typedef enum ls_reach {
    LS_REACH_ALL,
    LS_REACH_PREFIX,     /* the same token and all earlier ones */
    LS_REACH_NEIGHBOURS, /* the tokens that the row's `neighbours` gives */
    /*
     * The same token, and whole inputs such as weights. A result without tokens is a sum over tokens, to which the node
     * adds. Such a node can be run on a part of the tokens at a time.
     */
    LS_REACH_OWN,
    LS_REACHES
} ls_reach;
/* Returns "all tokens", "earlier tokens", "neighbouring tokens" or "its own token". */
const char *ls_reach_name(ls_reach reach);

/*
 * The result of token i depends on tokens i - before .. i + after of input 0. One of the two numbers may be negative.
 */
typedef struct ls_neighbours {
    int64_t before, after;
} ls_neighbours;

#define LS_MADE (1U << LS_NODE_INPUTS) /* a bit of ls_op.addends */

typedef struct ls_next ls_next; /* the state of building a graph for one more token, for rules (graph_impl.h) */

typedef struct ls_op {
    const char *name;
    /*
     * Called on the tensors that are not changed in place and on the outputs. LS_KERNEL_NONE: no kernel runs, because
     * only the shape changes, or the op's lowering in compile/ decides which kernels run.
     */
    ls_kernel_id kernel;
    bool kernel_by_input; /* the type of input 0 selects the kernel; otherwise the graph's type does */
    ls_reach reach;
    /*
     * For reach LS_REACH_NEIGHBOURS. The kernel, if any, gets input 0 of a run of tokens together with their
     * neighbours. Without a kernel, the neighbours are the result.
     */
    ls_neighbours (*neighbours)(const ls_graph *g, const ls_node *node);
    /*
     * The mask that says which keys a query sees, and therefore how the node's work is spread over the sequence.
     * NULL: the op has no mask.
     */
    const ls_mask *(*mask)(const ls_node *node);
    /*
     * For sequences that are cut into slices, which are computed one after the other: the inputs (bit i) of which the
     * node's lowering also uses earlier slices. 0: the node can be cut only if its reach is its own token.
     */
    unsigned earlier;
    int least_in, most_in, n_out;
    /* number of outputs of a node, at most n_out, if nodes of the op differ in it; NULL: n_out */
    int (*outputs)(const void *params);
    bool moves; /* each element of the result is an unchanged element of an input */
    /* 1 + the input whose bytes the output uses; 0: the output has its own */
    signed char in_place[LS_NODE_OUTPUTS];
    /*
     * For an op that adds to a sum: the params with which its kernel overwrites the sum instead. NULL: it can only add.
     */
    const void *writes;
    /* integers that the kernel uses as indices; the host checks them before the kernel runs */
    ls_lookup lookup;
    /*
     * For a lookup: along axes of features, both the tokens and the table may be cut, because the op's lowering sends
     * rows of tokens to the rank that has the row which their id names (LS_EXCHANGE, compile/shard).
     */
    bool exchanges;
    /* Sets dtype and shape of each out[i]. An error names the op's inputs and their shapes. */
    ls_status (*shape)(const ls_graph *g, const ls_node *node, ls_tensor_info *out);
    /* Adds the nodes that compute the inputs' gradients from the outputs' gradients. NULL: not differentiable. */
    void (*gradient)(ls_gradient *d, const ls_node *node);
    bool of_all; /* the gradient rule uses the gradients of all outputs; otherwise only the gradient of output 0 */
    /*
     * What the dimensions of inputs and results stand for. From this the compiler derives how a node can be spread
     * over ranks (compile/shard): "*k,nk,n>*n" says that x[..,k], w[n,k] and a bias [n] become y[..,n]. Inputs come
     * before '>', results after it; inputs that a node may lack are included.
     *   a      a dimension that may be cut: each rank then has its part of this dimension in every tensor that has
     *          the letter, and a result without the letter is a partial sum
     *   A      a dimension that the op needs whole
     *   *      all dimensions that are not written, in their order
     *   (ab)   a product: a times b elements; a is the outer one, which alone may be cut
     *   [abc]  segments: the elements of a, then those of b, then those of c; a rank has the same share of each
     *   =      before a result: it is not a partial sum; every rank has all of it
     */
    const char *dims;
    const struct ls_op
        *in_blocks; /* the same if input 1 is in blocks of numbers (compile/kept.c); NULL: not supported */
    /* If the text depends on the node, this function writes it: at most LS_DIMS_TEXT - 1 characters. */
    void (*dims_of)(const ls_graph *g, const ls_node *node, char *text);
    /*
     * The inputs (bit i) in which the op is jointly linear, f(a + b) = f(a) + f(b): if they are partial sums, the
     * results are partial sums too. LS_MADE: a node without inputs may compute its result as an addend.
     */
    unsigned addends;
    ls_flops_rule flops;
    /*
     * Sets *out to the node as an expression of single elements of its inputs (longspan/map.h), all of whose results
     * have the same shape; false: this node is not such an expression. NULL: no node of the op is. fuses: the node may
     * become one map together with other nodes that have an expression (compile/fuse.c).
     */
    bool (*expression)(const ls_graph *g, const ls_node *node, ls_map_params *out);
    bool fuses;
    /*
     * For generation, which adds one token after the other. cache (bit i): input i is kept for all earlier tokens.
     * next: adds the nodes that compute output 0 for one more token, and returns that output; other outputs are not
     * computed. NULL: a node whose reach is its own token is repeated for the new token; with any other reach it is an
     * error.
     */
    unsigned cache;
    ls_tensor (*next)(ls_next *n, const ls_node *node);
    /*
     * For ops with a state, which is zero before the first token. prefill: adds the nodes that compute output 0 for all
     * given tokens at once, and returns that output; *state becomes the state after these tokens, which the node of
     * `next` then updates (ls_next_state). unread (bit i): `next` does not read input i.
     */
    ls_tensor (*prefill)(ls_next *n, const ls_node *node, ls_tensor *state);
    unsigned unread;
} ls_op;

/*
 * All ops. The first list has those that are one call of their row's kernel; the second has those with a lowering in
 * the folder compile (ls_lowering_X for ls_op_X).
 */
#define LS_CALLED_OPS(X)                                                                                             \
    X(embedding), X(embedding_grad), X(rope_table), X(rotate), X(linear), X(linear_dx), X(linear_dw), X(column_sum), \
        X(linear_blocks), X(linear_dx_blocks), X(decode), X(rmsnorm), X(rmsnorm_grad), X(gated_norm),                \
        X(gated_norm_grad), X(layernorm), X(layernorm_grad), X(swiglu), X(swiglu_grad), X(activation),               \
        X(activation_grad), X(add), X(mul), X(scale), X(cast), X(reshape), X(cross_entropy_grad), X(sum), X(zeros),  \
        X(accumulate), X(softmax), X(softmax_grad), X(take_along), X(take_along_grad), X(topk), X(noise)
#define LS_LOWERED_OPS(X)                                                                                       \
    X(attention), X(attention_grad), X(attention_sink_grad), X(attention_cached), X(shift), X(conv),            \
        X(conv_silu_grad), X(conv_dw), X(cross_entropy), X(scale_rows), X(scale_rows_dw), X(recurrence),        \
        X(recurrence_back), X(split), X(join), X(redistribute), X(map), X(broadcast), X(reduce), X(reduce_max), \
        X(reduce_max_grad), X(permute), X(contract), X(contract_sum), X(linear_recurrence),                     \
        X(linear_recurrence_unmasked), X(linear_recurrence_grad), X(linear_recurrence_next), X(conv_next),      \
        X(shift_next), X(recurrence_next), X(rnn), X(rnn_grad), X(rnn_biased_grad), X(rnn_next), X(stage_send), \
        X(stage_expect), X(stage_arrive)

#define LS_OP_ROW(op) ls_op_##op
extern const ls_op LS_CALLED_OPS(LS_OP_ROW), LS_LOWERED_OPS(LS_OP_ROW);

/* The rows of both lists, one after the other; NULL past the end. */
const ls_op *ls_op_at(int index);

/* Whether some output uses the storage of input i. */
static inline bool ls_op_writes_input(const ls_op *op, int i) {
    bool writes = false;
    for (int o = 0; o < op->n_out; o++) writes |= op->in_place[o] == i + 1;
    return writes;
}

/* Whether input i is a sum that the op's nodes add to, rather than a tensor that gets another shape or other values. */
static inline bool ls_op_adds_to(const ls_op *op, int i) {
    return op->kernel != LS_KERNEL_NONE && ls_op_writes_input(op, i);
}

/* The node's mask; NULL: it has none. */
static inline const ls_mask *ls_node_mask(const ls_node *node) {
    return node->op->mask != NULL ? node->op->mask(node) : NULL;
}

/* --- what attention and its lowering agree on --------------------------------------------------------------------- */

/*
 * Inputs and outputs of attention; the sink is optional. The params of these ops begin with ls_attention_params: scale
 * and softcap.
 */
enum { LS_ATTENTION_Q, LS_ATTENTION_K, LS_ATTENTION_V, LS_ATTENTION_SINK };
enum { LS_ATTENTION_O, LS_ATTENTION_LSE };

/* Inputs and outputs of its gradient. Only attention_sink_grad has the last input and the last output. */
enum {
    LS_ATTENTION_GRAD_Q,
    LS_ATTENTION_GRAD_K,
    LS_ATTENTION_GRAD_V,
    LS_ATTENTION_GRAD_O,
    LS_ATTENTION_GRAD_LSE,
    LS_ATTENTION_GRAD_DO,
    LS_ATTENTION_GRAD_SINK,
    LS_ATTENTION_GRAD_SINK_SUM
};
enum { LS_ATTENTION_DQ, LS_ATTENTION_DK, LS_ATTENTION_DV, LS_ATTENTION_DSINK };

/*
 * Params of contract and contract_sum: whether a is [..,n,k,i] instead of [..,n,i,k], and b [..,n,j,k] instead of
 * [..,n,k,j].
 */
typedef struct ls_contract_node {
    ls_contract_params kernel;
    bool transpose_a, transpose_b;
} ls_contract_node;

/* The inputs of attention over a cache; the sink is optional. */
enum {
    LS_CACHED_Q,
    LS_CACHED_K, /* key of the new token */
    LS_CACHED_V,
    LS_CACHED_KEYS, /* T[1,S,Hkv,D]; the op writes the new token's key into it, and its value into LS_CACHED_VALUES */
    LS_CACHED_VALUES,
    LS_CACHED_PLACE, /* i32[1,1]: position of the new token */
    LS_CACHED_SPANS, /* i32[1,1,2w]: the positions that the new token sees (ls_mask_spans) */
    LS_CACHED_SINK
};

/* --- what a linear recurrence and its lowering agree on ----------------------------------------------------------- */

/*
 * Inputs of a linear recurrence, then inputs of its gradient, then outputs of the gradient. The optional ones that a
 * node has come after the listed ones.
 */
enum { LS_LINEAR_Q, LS_LINEAR_K, LS_LINEAR_V, LS_LINEAR_OPTIONS };
enum { LS_LINEAR_GRAD_DO = LS_LINEAR_OPTIONS, LS_LINEAR_GRAD_OPTIONS };
enum { LS_LINEAR_DQ, LS_LINEAR_DK, LS_LINEAR_DV, LS_LINEAR_D_OPTIONS };
/*
 * The outputs of a recurrence. The second, G[1,H,D,E], exists only if params ask for it: the state after the last
 * token.
 */
enum { LS_LINEAR_O, LS_LINEAR_LAST };

/* Params of these ops. The optional inputs come in the order of these members. */
typedef struct ls_linear_recurrence_node {
    ls_linear_recurrence_params kernel;
    bool has_decay, has_beta, has_places, has_last;
} ls_linear_recurrence_node;

/*
 * Inputs of a node for one more token: the state [1,H,D,E], which the node updates, then the inputs of the recurrence
 * except places.
 */
enum { LS_LINEAR_NEXT_STATE, LS_LINEAR_NEXT_INPUTS };
/*
 * Inputs of a convolution for one more token: the rows of the last tokens, [1,width,E], to which the node adds the new
 * one; x; and the weight.
 */
enum { LS_CONV_NEXT_ROWS, LS_CONV_NEXT_X, LS_CONV_NEXT_WEIGHT };
/* Inputs of a shift for one more token: rows [1,tokens + 1,E], to which the node adds the new one, and x [1,1,E]. */
enum { LS_SHIFT_NEXT_ROWS, LS_SHIFT_NEXT_X };
/*
 * A recurrence may have a second output, after its result: the state after the last token, G[1,K,E]. The inputs of a
 * recurrence for one more token are that state, which the node updates, the gate and x.
 */
typedef struct ls_recurrence_node {
    ls_recurrence_params kernel;
    bool has_last;
} ls_recurrence_node;
enum { LS_RECURRENCE_LAST = 1 };
enum { LS_RECURRENCE_NEXT_STATE, LS_RECURRENCE_NEXT_GATE, LS_RECURRENCE_NEXT_X };

/* Operations of one token and head whose keys have D elements and whose values have E. */
double ls_linear_recurrence_flops(const ls_linear_recurrence_params *params, double D, double E);

/* --- what recurrent cells and their lowering agree on ------------------------------------------------------------- */

/*
 * Inputs of recurrent cells, followed by the bias and places if the node has them; inputs of the gradient, also
 * followed by places; and inputs of a node for one more token: the state [1,H,Z], which the node updates, then the
 * others except places.
 */
enum { LS_RNN_X, LS_RNN_WEIGHT, LS_RNN_OPTIONS };
enum { LS_RNN_GRAD_Y = LS_RNN_OPTIONS, LS_RNN_GRAD_DY, LS_RNN_GRAD_SUM, LS_RNN_GRAD_BIAS, LS_RNN_GRAD_BIAS_SUM };
enum { LS_RNN_NEXT_STATE, LS_RNN_NEXT_INPUTS };
/* The outputs. The second, G[1,H,Z], exists only if params ask for it: the state after the last token. */
enum { LS_RNN_Y, LS_RNN_LAST };

typedef struct ls_rnn_node {
    ls_rnn_params kernel;
    bool has_bias, has_places, has_last;
} ls_rnn_node;

/* Operations of one token and head of D elements. */
double ls_rnn_flops(ls_rnn_kind kind, double D);

/* --- ops that only models of this repository have ----------------------------------------------------------------- */

/*
 * The loss with smoothed labels, plus z times the square of the log-sum-exp. Of V words, the label has probability 1 -
 * smoothing + smoothing/V and each other word smoothing/V. Otherwise as ls_cross_entropy.
 */
ls_tensor ls_cross_entropy_smoothed(ls_graph *g, ls_tensor logits, ls_tensor labels, double smoothing, double z);
/*
 * x T[..,E] plus uniform noise within ±amplitude. The noise is a function of the token's key i32[..] and the element's
 * number only; with key 0 there is none.
 */
ls_tensor ls_noise(ls_graph *g, ls_tensor x, ls_tensor keys, double amplitude);

/* --- questions about a graph -------------------------------------------------------------------------------------- */

/* The values that an integer tensor may hold: 0 .. count-1 (count INT64_MAX: any), and also -100 if may_ignore. */
typedef struct ls_id_range {
    int64_t count;
    bool may_ignore;
} ls_id_range;
/* The range allowed by all lookups that use `ids`, directly or after nodes that only move integers. */
ls_id_range ls_graph_id_range(const ls_graph *g, ls_tensor ids);
bool ls_id_within(const ls_id_range *range, int32_t id);

/* Tensor `id` of this graph. */
static inline ls_tensor ls_graph_at(const ls_graph *g, int id) { return (ls_tensor){id, g->number}; }
/* Whether t is a tensor of this graph. The empty tensor is not. */
bool ls_graph_has(const ls_graph *g, ls_tensor t);
/* The node that computes the tensor; NULL for a leaf and for the empty tensor. */
const ls_node *ls_graph_producer(const ls_graph *g, ls_tensor t);
/* The first dimension that stands for the factor; -1: there is none. */
int ls_shape_dim_of(const ls_shape *shape, ls_factor factor);
bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
static inline bool ls_shape_has_factor(const ls_shape *shape, ls_factor factor) {
    return ls_shape_dim_of(shape, factor) >= 0;
}

/*
 * For passes that write a graph anew, node by node. ls_graph_bare: a copy of the graph without its nodes and tensors,
 * in the arena. The other function is for a node that is pushed next: sets the producer of its outputs, and the storage
 * of outputs that share that of an input.
 */
ls_graph *ls_graph_bare(const ls_graph *g, ls_arena *arena);
/* A node that casts `from` to `to`, of the given type; its parameters lie in the arena. */
ls_node ls_cast_node(ls_arena *arena, ls_tensor from, ls_tensor to, ls_dtype dtype);
/* A node that decodes `from`, which is kept in blocks of numbers, into `to`. */
ls_node ls_decode_node(ls_tensor from, ls_tensor to);
/* Turns the node, with its inputs and outputs, into a map with this expression. */
void ls_node_become_map(ls_node *node, const ls_map_params *params, ls_arena *arena);
void ls_graph_own_outputs(ls_graph *g, const ls_node *node);

/* --- building ----------------------------------------------------------------------------------------------------- */

/*
 * Adds a node; its op's rule sets the shapes of its outputs. params (bytes) are copied; forward as in ls_node. Returns
 * the first output; ls_graph_output(g, first, i) gives output i.
 */
ls_tensor ls_graph_add(ls_graph *g, const ls_op *op, const void *params, size_t bytes, const ls_tensor *in, int n_in,
                       int forward);
ls_tensor ls_graph_output(const ls_graph *g, ls_tensor first, int i);
ls_tensor ls_graph_leaf(ls_graph *g, ls_role role, const char *name, ls_dtype dtype, const ls_shape *shape);
/* A leaf like that of another graph: with the same name, role, type, shape and properties of a parameter. */
ls_tensor ls_graph_leaf_like(ls_graph *g, const ls_tensor_info *info);
/* Keeps the first error; g may be NULL. Returns the empty tensor. */
ls_tensor ls_graph_fail(ls_graph *g, ls_status status);
/* sum + x: x T or G, sum G; in place. */
ls_tensor ls_accumulate(ls_graph *g, ls_tensor x, ls_tensor sum);

/* y[..,e] = x[..,e] * table[ids[..]][e]: i32[..], T[..,E], T[V,E] -> T[..,E] (ops/scale_rows.c). */
ls_tensor ls_scale_rows(ls_graph *g, ls_tensor ids, ls_tensor x, ls_tensor table);

/* --- differentiation (differentiate.c) ---------------------------------------------------------------------------- */

/* What to differentiate, the sum over the roots of seed·root, and with respect to which tensors. */
typedef struct ls_derivative {
    int n_roots;
    ls_tensor root[2], seed[2]; /* seed: a tensor of the root's shape and type */
    int n_wanted;               /* tensors, besides the parameters, whose gradients the caller wants */
    ls_tensor wanted[LS_NODE_INPUTS];
    ls_tensor gradient[LS_NODE_INPUTS]; /* result; LS_NO_TENSOR if the roots do not depend on the tensor */
} ls_derivative;

/*
 * Reverse mode over the nodes built so far. Adds the nodes that compute the gradients of all parameters that are not
 * frozen, into accumulators (role LS_ROLE_ACCUMULATOR, `of` the parameter), and the gradients of the wanted tensors.
 * LS_UNSUPPORTED names an op that the roots depend on and that has no gradient rule. Errors stay in the graph too.
 */
LS_MUST_USE ls_status ls_differentiate(ls_graph *graph, ls_derivative *derivative);

/* --- the loss of a training step (differentiate.c) ---------------------------------------------------------------- */

/* Names of the two leaves. Both are G[1]. */
#define LS_BIND_LOSS "step.loss" /* this rank's sum over the micro-batches so far */
#define LS_BIND_SCALE \
    "step.scale" /* what the loss is multiplied by before it is differentiated: 1/N, N the tokens of the step */

/*
 * Adds the nodes that add the loss G[1] to the sum of earlier micro-batches. These are the last nodes of the forward
 * pass.
 */
LS_MUST_USE ls_status ls_graph_accumulate_loss(ls_graph *graph, ls_tensor loss);
/* Adds the nodes that compute the gradients of scale·loss with respect to all parameters, into accumulators. */
LS_MUST_USE ls_status ls_graph_differentiate_loss(ls_graph *graph, ls_tensor loss);

/* --- graphs for generation (decode.c) ----------------------------------------------------------------------------- */

/*
 * LS_NEXT: prefix of the names of tensors that belong to the one new token. LS_NEXT_PLACE: the input with the position
 * of the new token. LS_NEXT_BEHIND, i32[1,S]: an input of a prefill with states. It says how far each place is after
 * the last given token, minus 1, so it is negative for given tokens.
 */
#define LS_NEXT "next "
#define LS_NEXT_PLACE LS_NEXT "place"
#define LS_NEXT_BEHIND LS_NEXT "behind"

typedef struct ls_decoding {
    /*
     * Number of nodes of the prefill, which compute keys and values of all tokens, and states after the given ones. The
     * nodes after them are for one token.
     */
    int forward_nodes;
    ls_tensor logits; /* logits of the new token, [1,1,V] */
    /* tensors that the host must fetch (ls_job.fetch): the caches, then the logits; owned by the graph */
    ls_tensor *kept;
    int n_kept;
    /* input "next spans.i": the positions that mask i lets the new token see; owned by the graph */
    ls_mask *mask;
    int n_masks;
} ls_decoding;

/*
 * Fills the empty graph `to` from a forward graph of one sequence of S tokens, the longest that can be generated.
 * Inputs of the prefill keep their names; inputs of the new token are "next NAME", i32[1,1]. LS_UNSUPPORTED names an op
 * that needs other tokens and has no rule for one more token. The document ends of masks remain the caller's.
 */
LS_MUST_USE ls_status ls_graph_decode(const ls_graph *from, ls_tensor logits, ls_graph *to, ls_decoding *out);

#endif
