/*
 * graph, for the op files and passes of this folder: functions that the rules of a row may call, and rules that several
 * ops share.
 */
#ifndef LS_GRAPH_IMPL_H
#define LS_GRAPH_IMPL_H

#include "graph/graph.h"

/* --- what a gradient rule may call (differentiate.c) -------------------------------------------------------------- */

ls_graph *ls_gradient_graph(ls_gradient *d);
/* Gradient of the node's output i; LS_NO_TENSOR if the roots do not depend on it. */
ls_tensor ls_gradient_out(const ls_gradient *d, int i);
/* Whether the gradient of input i is needed: a trained parameter or a wanted tensor contributes to it. */
bool ls_gradient_wanted(const ls_gradient *d, int i);
/* Adds `grad` (T or G, shape of the input) to the gradient of input i. */
void ls_gradient_add(ls_gradient *d, int i, ls_tensor grad);
/*
 * For kernels that add to a sum. _sum returns the current sum (G, shape of input i), which the rule passes to its node;
 * _summed then notes the node's output as the current sum. The sum of a parameter persists over micro-batches; that of
 * any other tensor is a temporary that starts at zero.
 */
ls_tensor ls_gradient_sum(ls_gradient *d, int i);
void ls_gradient_summed(ls_gradient *d, int i, ls_tensor sum);
/*
 * Adds the sum of x over the dimensions whose bits are set in `over` to `sum`, G, in place. `sum` has only the other
 * dimensions, or all, those summed over with size 1.
 */
ls_tensor ls_reduce_into(ls_graph *g, ls_tensor x, unsigned over, ls_tensor sum);
/* x repeated along the dimensions of `shape` whose bits are set in `over`, in type `dtype`. */
ls_tensor ls_broadcast_to(ls_graph *g, ls_tensor x, unsigned over, const ls_shape *shape, ls_dtype dtype);
/* Adds aᵀ·b, summed over all tokens, to `sum`: T[..,M], T[..,N], G[M,N]; in place. */
ls_tensor ls_linear_sum(ls_graph *g, ls_tensor a, ls_tensor b, ls_tensor sum);
/* Zeros of type G, the start of a sum. */
ls_tensor ls_zeros(ls_graph *g, const ls_shape *shape);

/* --- what a rule for one more token may call (decode.c) ----------------------------------------------------------- */

/* The graph to which the rule adds. */
ls_graph *ls_next_graph(ls_next *n);
/* The node's input t for the new token; LS_NO_TENSOR if t is. */
ls_tensor ls_next_tensor(const ls_next *n, ls_tensor t);
/* The kept tensor of all tokens, for an input in the row's `cache`. What the rule's node writes there is kept. */
ls_tensor ls_next_cache(ls_next *n, ls_tensor t);
/* A tensor's shape for one token: the batch and the sequence have size 1 and no factor, so that nothing is cut. */
ls_shape ls_next_shape(const ls_next *n, ls_tensor t);
ls_tensor ls_next_state(const ls_next *n); /* the state of the node whose rule is running */
/* In the prefill: the input LS_NEXT_BEHIND, i32[1,S]. */
ls_tensor ls_next_behind(ls_next *n);
/* The inputs with the position of the new token, and with the spans of keys that it sees under a mask. */
ls_tensor ls_next_place(const ls_next *n);
ls_tensor ls_next_spans(ls_next *n, const ls_mask *mask);

/* --- what a rule for the prefill of a state may call, too (prefill.c) --------------------------------------------- */

/* The input LS_NEXT_BEHIND with ndim dimensions, i32[1,S,1..]. */
ls_tensor ls_prefill_behind(ls_next *n, int ndim);
/* x [1,S,..], T or G, with 0 for tokens that are not given, even if x is not finite there. */
ls_tensor ls_prefill_given(ls_next *n, ls_tensor x);
/* The last `width` given rows of x T[1,S,E], preceded by zeros if there are fewer: T[1,width,E]. */
ls_tensor ls_prefill_rows(ls_next *n, ls_tensor x, int64_t width);
/* x in the form in which each rank keeps it; before, it may be a sum over the ranks. */
ls_tensor ls_prefill_kept(ls_graph *g, ls_tensor x, ls_dtype dtype);

/* --- rules that several ops share (rules.c) ----------------------------------------------------------------------- */

/* All inputs must have one type and shape; the outputs get the same. */
ls_status ls_rule_same_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out);
/* Input 0 must have type T or G. */
ls_status ls_rule_numbers(const ls_graph *g, const ls_node *node);
/* Input i must have a last dimension that is neither the batch nor the sequence. */
ls_status ls_rule_last(const ls_graph *g, const ls_node *node, int i);
/* Output 0 gets the type and shape of the last input, the sum. */
ls_status ls_rule_sum_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out);
/* Checks epsilon and offset of a norm. */
ls_status ls_norm_check(const ls_node *node);
/*
 * For `expression` of a row: one step of that kind on the node's inputs, in their order; or, without a step, input 0
 * itself. false: the types are not allowed in a map.
 */
bool ls_rule_step(const ls_graph *g, const ls_node *node, ls_map_code code, ls_map_params *out);
bool ls_rule_no_step(const ls_graph *g, const ls_node *node, ls_map_params *out);
/* Params of the attention ops. */
typedef struct ls_attention_node {
    ls_attention_params kernel; /* scale and softcap; strategies set the rest */
    ls_mask mask;
} ls_attention_node;

/*
 * Whether `left` has the dimensions of `all` except those whose bits are set in `over` (at least one), which it has
 * with size 1 or lacks; one element may stand for no dimensions at all. And the text of an op row for these shapes: a
 * letter for each dimension, and O for those of size 1. Both ls_write functions return the end of the text.
 */
bool ls_shape_leaves(const ls_shape *all, unsigned over, const ls_shape *left);
char *ls_write_all(char *text, const ls_shape *all);
char *ls_write_left(char *text, const ls_shape *all, unsigned over, const ls_shape *left);
/* LS_INVALID error "op NAME: input i "NAME" is f32[2,3], expected WHAT". */
ls_status ls_op_input_error(const ls_graph *g, const ls_node *node, int i, const char *expected, ...) LS_PRINTF(4, 5);

/*
 * Whether a public function may use the tensor: the graph is not NULL, has no mistake so far, and the tensor belongs to
 * it. If only the tensor is wrong, the graph gets a mistake that names `user`, the public function.
 */
bool ls_graph_usable(ls_graph *g, ls_tensor t, const char *user);

#endif
