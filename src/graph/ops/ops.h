/* The rows of the op table: one extern per row, defined in the op's own file. */
#ifndef LS_GRAPH_OPS_H
#define LS_GRAPH_OPS_H

#include "graph/graph.h"

extern const ls_op ls_op_embedding, ls_op_embedding_grad;
extern const ls_op ls_op_linear, ls_op_linear_dx, ls_op_linear_dw, ls_op_column_sum;
extern const ls_op ls_op_rmsnorm, ls_op_rmsnorm_grad;
extern const ls_op ls_op_layernorm, ls_op_layernorm_grad;
extern const ls_op ls_op_rope_table, ls_op_rotate;
extern const ls_op ls_op_attention, ls_op_attention_grad, ls_op_attention_sink_grad, ls_op_attention_cached;
extern const ls_op ls_op_swiglu, ls_op_swiglu_grad;
extern const ls_op ls_op_activation, ls_op_activation_grad;
extern const ls_op ls_op_shift, ls_op_conv, ls_op_conv_dw;
extern const ls_op ls_op_add, ls_op_mul, ls_op_scale, ls_op_cast, ls_op_reshape;
extern const ls_op ls_op_split, ls_op_join;
extern const ls_op ls_op_cross_entropy, ls_op_cross_entropy_grad;
extern const ls_op ls_op_sum, ls_op_broadcast, ls_op_zeros, ls_op_accumulate;

#endif
