/*
 * The type in which matrices of a model that are not trained are kept: the type of --base, or the type in which the
 * files hold them. This concerns all matrices that multiply activations except the one that makes the logits, as in
 * bitsandbytes; tables, biases and norms have the type of the run.
 */
#include "graph/graph.h"
#include "model/model_impl.h"

#include <stdio.h>
#include <string.h>

static const ls_dtype types[] = {LS_BF16, LS_FP8, LS_INT8, LS_NF4};

ls_status ls_base_parse(const char *name, ls_dtype *out) {
    for (size_t i = 0; i < LS_COUNT(types); i++) {
        if (strcmp(ls_dtype_name(types[i]), name) != 0) continue;
        *out = types[i];
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--base %s; expected bf16, fp8, int8 or nf4", name);
}

/* The product that makes the logits; NULL: there is none. */
static const ls_node *head_of(const ls_graph *g, ls_tensor logits) {
    const ls_node *node = logits.id != 0 ? ls_graph_producer(g, logits) : NULL;
    while (node != NULL && node->op != &ls_op_linear && node->n_in > 0) node = ls_graph_producer(g, node->in[0]);
    return node;
}

/* Whether each row of the matrix consists of whole blocks of numbers. */
static bool fits(const ls_tensor_info *matrix, ls_dtype type) {
    return matrix->shape.dim[matrix->shape.ndim - 1].size % ls_dtype_values(type) == 0;
}

ls_status ls_base_keep(const ls_model *model, ls_graph *g, ls_tensor logits) {
    const ls_node *head = head_of(g, logits);
    int matrices = 0;
    for (int n = 0; n < g->n_nodes && model->kept != LS_DTYPES; n++) {
        const ls_node *node = &g->nodes[n];
        if (node->op != &ls_op_linear || node == head) continue;
        ls_tensor_info *matrix = &g->tensors[node->in[1].id];
        const bool own = matrix->role == LS_ROLE_PARAMETER && !matrix->added;
        if (!own || (model->adapter != NULL && !matrix->borrowed) || !fits(matrix, model->kept)) continue;
        matrix->kept = model->kept;
        matrix->frozen = matrix->borrowed = true;
        matrices++;
    }
    if (matrices > 0 || model->kept == LS_DTYPES || !ls_dtype_is_block(model->kept)) return ls_ok();
    return ls_error(LS_USAGE,
                    "--base %s: no matrix can be kept in it, since none has rows of whole blocks of %lld numbers; "
                    "expected --base bf16, or none",
                    ls_dtype_name(model->kept), (long long)ls_dtype_values(model->kept));
}
