/*
 * graph: nodes and the op table. What the compiler sees of a graph; users see longspan/graph.h.
 *
 * An op is one file in ops/ and one const row (its gradient op is a second row of the same file). A row knows everything that
 * the rest of the system asks of an op; nobody switches over ops.
 */
#ifndef LS_GRAPH_H
#define LS_GRAPH_H

#include "base/base.h"
#include "longspan/graph.h"
#include "tensor/tensor.h"

#define LS_NODE_INPUTS 8
#define LS_NODE_OUTPUTS 4

typedef struct ls_op ls_op;

typedef struct ls_node {
    const ls_op *op;
    const void *params; /* the op's own struct; begins with what its kernel reads (tensor/params.h) */
    size_t params_bytes;
    int n_in, n_out;
    ls_tensor in[LS_NODE_INPUTS];
    ls_tensor out[LS_NODE_OUTPUTS];
    int forward; /* of a gradient node: the node that it differentiates; else -1 */
} ls_node;

typedef enum ls_role {
    LS_ROLE_VALUE,       /* made by a node */
    LS_ROLE_INPUT,       /* given with each micro-batch */
    LS_ROLE_PARAMETER,   /* trained */
    LS_ROLE_ACCUMULATOR, /* persistent sum over micro-batches: a gradient or the loss; starts at zero */
} ls_role;

typedef struct ls_tensor_info {
    const char *name;
    ls_dtype dtype;
    ls_shape shape; /* global */
    ls_role role;
    bool frozen;  /* a parameter that is not trained: nothing of its gradient is computed */
    int producer; /* node, or -1 */
    int output;   /* which of its outputs */
    ls_tensor of; /* of an accumulator: the parameter whose gradient it sums, if any */
    ls_tensor
        storage; /* the tensor whose bytes this one lies in: itself, unless its op writes in place or only renames */
} ls_tensor_info;

struct ls_graph {
    ls_arena *arena;
    uint32_t number; /* that its tensors carry, so that those of another graph are known; never 0 */
    ls_dtype dtype, accumulator; /* T and G */
    ls_node *nodes;
    int n_nodes;
    int forward_nodes; /* nodes before the first that a gradient rule made; 0: not differentiated */
    size_t node_capacity;
    ls_tensor_info *tensors; /* [0] is the empty tensor */
    int n_tensors;
    size_t tensor_capacity;
    int *
        leaves; /* [leaf_slots] ids by the hash of their names, 0: free; so that a model is built in time proportional to it */
    size_t n_leaves, leaf_slots;
    ls_status status;
};

static inline const ls_tensor_info *ls_graph_tensor(const ls_graph *g, ls_tensor t) {
    return &g->tensors[t.id];
}

/* --- sharding ------------------------------------------------------------------------------------------------------------ */

/* State of a tensor along one mesh axis: whole on every rank, cut along the axis's factor, or a partial sum. */
typedef enum ls_state { LS_REPLICATED, LS_SHARDED, LS_PARTIAL } ls_state;

typedef struct ls_shard_query {
    const ls_graph *graph;
    const ls_node *node;
    ls_axis axis;
    ls_factor factor;   /* what the axis deals out */
    const ls_state *in; /* of the node's inputs */
} ls_shard_query;

typedef struct ls_shard_answer {
    ls_state out[LS_NODE_OUTPUTS];
    /* An accumulation into a partial sum of something every rank has whole: only the first rank of the axis adds it. */
    bool first_only;
} ls_shard_answer;

/* --- cost ---------------------------------------------------------------------------------------------------------------- */

/* Floating-point operations of a kernel call on local views (dense; masks are the caller's to count). NULL: one per output. */
typedef double (*ls_flops_rule)(const ls_view *in, const ls_view *out, const void *params);

/* --- gradient ------------------------------------------------------------------------------------------------------------- */

typedef struct ls_gradient ls_gradient; /* the differentiating pass, as a rule sees it */

/* Gradient of the node's output i; LS_NO_TENSOR when nothing depends on it. */
ls_tensor ls_gradient_out(const ls_gradient *d, int i);
/* Whether anything trained lies behind input i. */
bool ls_gradient_wanted(const ls_gradient *d, int i);
/* Adds `grad` (T, shape of the input) to the gradient of input i. */
void ls_gradient_add(ls_gradient *d, int i, ls_tensor grad);
/*
 * For kernels that add into a sum: the accumulator (G, shape of input i) as it stands, and its next version once the node
 * that adds has been made. For a parameter it is the persistent sum over micro-batches; otherwise a zeroed temporary.
 */
ls_tensor ls_gradient_sum(ls_gradient *d, int i);
void ls_gradient_summed(ls_gradient *d, int i, ls_tensor sum);
ls_graph *ls_gradient_graph(ls_gradient *d);

/* --- the row ------------------------------------------------------------------------------------------------------------- */

/* ids: 1 + the input that holds integers (0: none); they choose from dimension `dim` (-1: the last) of input `among`. */
typedef struct ls_lookup {
    signed char ids, among, dim;
    bool may_ignore; /* -100 chooses nothing */
} ls_lookup;

typedef struct ls_op {
    const char *name;
    const char *kernel;   /* NULL: nothing runs (a renaming), or the compiler lowers it itself (`special`) */
    bool kernel_by_input; /* the kernel goes by the type of input 0; otherwise by the graph's type */
    const char
        *special; /* the pass of the compiler that lowers it (compile/lower.c); NULL: one kernel call */
    bool linear;  /* partial sums may pass through: f(a)+f(b) = f(a+b) */
    /* Token by token: a token's results follow from the same token of the inputs and from whole inputs (weights); a whole result is
     * a sum over tokens that is added to. Such nodes may be run for a part of the tokens at a time. */
    bool by_rows;
    int least_in, most_in, n_out;
    signed char in_place[LS_NODE_OUTPUTS]; /* 1 + the input in whose bytes an output lies; 0: its own */
    /* Of a node that adds to a sum: params with which its kernel writes the sum instead. NULL: it can only add. */
    const void *writes;
    ls_lookup
        lookup; /* of an op whose kernel looks up by integers: the host checks those that come from outside */
    /* Sets dtype and shape of each out[i]; the error names the op's inputs and shapes. */
    ls_status (*shape)(const ls_graph *g, const ls_node *node, ls_tensor_info *out);
    /* Emits the nodes that carry the outputs' gradients to the inputs. NULL: not differentiable. */
    void (*gradient)(ls_gradient *d, const ls_node *node);
    bool of_all; /* its gradient rule takes the gradients of all outputs; otherwise of the first alone */
    /* States of the outputs. Inputs in state LS_PARTIAL come here only when `linear`. NULL: no rule, a compile error. */
    ls_status (*shard)(const ls_shard_query *q, ls_shard_answer *answer);
    ls_flops_rule flops;
} ls_op;

/* Parameters of the attention ops, which the strategies read. */
typedef struct ls_attention_node {
    ls_mask mask;
    double scale;
    double softcap; /* 0: none */
} ls_attention_node;

/* The input of attention behind q, k, v, if it has one; of its gradient behind o, lse and do, and the sum that grows. */
enum { LS_ATTENTION_SINK = 3, LS_ATTENTION_GRAD_SINK = 6, LS_ATTENTION_GRAD_SINK_SUM };

/* The inputs of attention over a cache; the last one may be left out. */
enum {
    LS_CACHED_Q,
    LS_CACHED_K, /* of the new token */
    LS_CACHED_V,
    LS_CACHED_KEYS, /* T[1,S,Hkv,D], which get the new one; with them the values */
    LS_CACHED_VALUES,
    LS_CACHED_PLACE, /* i32[1,1]: position of the new token */
    LS_CACHED_SPANS, /* i32[1,1,2w]: what it sees (ls_mask_spans) */
    LS_CACHED_SINK
};
bool ls_node_reads_cache(const ls_node *node);

/* What the ops behind an integer tensor allow it to hold: 0 .. count-1 (count INT64_MAX: anything), and perhaps -100. */
typedef struct ls_id_range {
    int64_t count;
    bool may_ignore;
} ls_id_range;
ls_id_range ls_graph_id_range(const ls_graph *g, ls_tensor ids);
bool ls_id_within(const ls_id_range *range, int32_t id);

/* The mask of an attention node; NULL for any other node, its gradient included. */
const ls_mask *ls_node_mask(const ls_node *node);

/* The visible table, in the order of graph/ops.c; NULL past the end. */
const ls_op *ls_op_at(int index);

/* --- building, for ops and passes --------------------------------------------------------------------------------------- */

/*
 * Adds a node; outputs get shapes by the op's rule. params (bytes) are copied. Returns the first output; a second is
 * ls_graph_output(g, first, 1). forward as in ls_node.
 */
ls_tensor ls_graph_add(ls_graph *g, const ls_op *op, const void *params, size_t bytes, const ls_tensor *in,
                       int n_in, int forward);
ls_tensor ls_graph_output(const ls_graph *g, ls_tensor first, int i);
/* A leaf of the given role. */
ls_tensor ls_graph_leaf(ls_graph *g, ls_role role, const char *name, ls_dtype dtype, const ls_shape *shape);
/* Keeps the first error; g may be NULL. Returns the empty tensor. */
ls_tensor ls_graph_fail(ls_graph *g, ls_status status);
/* Whether it is a tensor, and one of this graph. */
bool ls_graph_has(const ls_graph *g, ls_tensor t);
/* Tensor `id` of this graph. */
static inline ls_tensor ls_graph_at(const ls_graph *g, int id) { return (ls_tensor){id, g->number}; }
/*
 * Whether a public function can look at the tensor: there is a graph, without a mistake so far, and the tensor is one of it. Else the
 * graph has its mistake, which names `user`.
 */
bool ls_graph_usable(ls_graph *g, ls_tensor t, const char *user);
/* G zeros of a shape, as the start of a sum. */
ls_tensor ls_zeros(ls_graph *g, const ls_shape *shape);
/* sum + x: x T or G, sum G; in place. */
ls_tensor ls_accumulate(ls_graph *g, ls_tensor x, ls_tensor sum);
/* The node that made the tensor, or NULL. */
const ls_node *ls_graph_producer(const ls_graph *g, ls_tensor t);

/* Rules shared by ops (rules.c). */
ls_status ls_rule_same_shape(const ls_graph *g, const ls_node *node,
                             ls_tensor_info *out); /* out like input 0; all inputs equal */
ls_status ls_rule_sum_shape(const ls_graph *g, const ls_node *node,
                            ls_tensor_info *out); /* out 0 like the last input */
ls_status ls_norm_check(const ls_node *node);     /* the numbers of a norm */
ls_status ls_shard_together(const ls_shard_query *q,
                            ls_shard_answer *answer); /* all inputs alike -> outputs alike */
/* Input 0 decides; the others are cut with it where they have the factor, else whole (weights). */
ls_status ls_shard_rows(const ls_shard_query *q, ls_shard_answer *answer);
/* Input 0 decides; the others are weights, which every token needs whole. */
ls_status ls_shard_by_weights(const ls_shard_query *q, ls_shard_answer *answer);
/* Inputs 0..n-2 alike, cut or whole; the last input is a sum, and so is the output `n_out - 1`; earlier outputs follow the inputs. */
ls_status ls_shard_into_sum(const ls_shard_query *q, ls_shard_answer *answer);
bool ls_shape_has_factor(const ls_shape *shape, ls_factor factor);
bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
/* LS_INVALID "op NAME: input i "NAME" is f32[2,3], expected WHAT". */
ls_status ls_op_input_error(const ls_graph *g, const ls_node *node, int i, const char *expected, ...)
    LS_PRINTF(4, 5);

/* --- the pass that differentiates (differentiate.c) ------------------------------------------------- */

/* What to differentiate, and by what: d(sum over roots of seed·root). */
typedef struct ls_derivative {
    int n_roots;
    ls_tensor root[2], seed[2]; /* seed: a tensor of the root's shape and type */
    int n_wanted;               /* tensors besides the parameters whose gradients are asked for */
    ls_tensor wanted[4];
    ls_tensor gradient[4]; /* result; LS_NO_TENSOR where nothing depends on it */
} ls_derivative;

/*
 * Adds nodes that compute the gradients of all parameters, into accumulators (role LS_ROLE_ACCUMULATOR, `of` the parameter),
 * and of the wanted tensors. Reverse mode over the nodes made so far. An op without a gradient rule on the way is an
 * LS_UNSUPPORTED error naming it. Errors stay in the graph too.
 */
LS_MUST_USE ls_status ls_differentiate(ls_graph *graph, ls_derivative *derivative);

/* --- the pass that makes a graph to continue sequences with (decode.c) -------------------------------------------------------- */

/* Names of what belongs to the one token begin with it; its position's name as the cache's input. */
#define LS_NEXT "next "
#define LS_NEXT_PLACE LS_NEXT "place"

typedef struct ls_decoding {
    int forward_nodes; /* of the prefill: keys and values of all tokens; the nodes behind are for one token */
    ls_tensor logits;  /* of that one: [1,1,V] */
    ls_tensor *kept;   /* what the host must fetch (ls_job.fetch): the caches, then the logits; the graph's */
    int n_kept;
    ls_mask *
        mask; /* input "next spans.i" is what mask i lets the token see, of positions up to its own; the graph's */
    int n_masks;
} ls_decoding;

/*
 * Fills the empty graph `to` from a forward graph of one sequence of S tokens, the most that there will be. Inputs of the prefill keep their
 * names; those of one token are "next NAME" i32[1,1]. LS_UNSUPPORTED names an op that mixes tokens and is no attention. Masks' document
 * ends stay the caller's.
 */
LS_MUST_USE ls_status ls_graph_decode(const ls_graph *from, ls_tensor logits, ls_graph *to, ls_decoding *out);

#endif
