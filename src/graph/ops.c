/* The table of all ops. */
#include "graph/graph_impl.h"

static const ls_op *const table[] = {
    /* tokens and positions */
    &ls_op_embedding,
    &ls_op_embedding_grad,
    &ls_op_rope_table,
    &ls_op_rotate,
    /* projections */
    &ls_op_linear,
    &ls_op_linear_dx,
    &ls_op_linear_dw,
    &ls_op_column_sum,
    /* normalisation, attention, activation */
    &ls_op_rmsnorm,
    &ls_op_rmsnorm_grad,
    &ls_op_layernorm,
    &ls_op_layernorm_grad,
    &ls_op_attention,
    &ls_op_attention_grad,
    &ls_op_attention_sink_grad,
    &ls_op_attention_cached,
    &ls_op_swiglu,
    &ls_op_swiglu_grad,
    &ls_op_activation,
    &ls_op_activation_grad,
    /* along the sequence */
    &ls_op_shift,
    &ls_op_conv,
    &ls_op_conv_dw,
    /* element by element */
    &ls_op_add,
    &ls_op_mul,
    &ls_op_scale,
    &ls_op_cast,
    &ls_op_reshape,
    &ls_op_split,
    &ls_op_join,
    /* loss and sums */
    &ls_op_cross_entropy,
    &ls_op_cross_entropy_grad,
    &ls_op_sum,
    &ls_op_broadcast,
    &ls_op_zeros,
    &ls_op_accumulate,
};

const ls_op *ls_op_at(int index) { return index >= 0 && index < (int)LS_COUNT(table) ? table[index] : NULL; }
