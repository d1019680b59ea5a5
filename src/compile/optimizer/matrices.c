/*
 * Which parameters an optimiser of matrices updates as whole matrices: those with two dimensions that a product
 * multiplies with (hidden layers), except tables of the vocabulary, which have a row for each token: the tables in
 * which ids are looked up, and the matrix that makes the logits. (Jordan et al., "Muon: an optimizer for hidden layers
 * in neural networks", 2024.)
 */
#include "compile/optimizer/optimizer.h"

/* The tensor by which a product multiplies its input; the empty tensor if the node is no product. */
static ls_tensor factor_of(const ls_graph *g, const ls_node *node) {
    const bool product = node->op->kernel == LS_KERNEL_MATMUL;
    return product ? ls_graph_tensor(g, node->in[1])->storage : LS_NO_TENSOR;
}

/* The table in which the node looks up ids: the input itself, or the table from which a product has made it. */
static ls_tensor table_of(const ls_graph *g, const ls_node *node) {
    ls_tensor t = node->in[node->op->lookup.among];
    for (;;) {
        if (ls_graph_tensor(g, t)->role == LS_ROLE_PARAMETER) return t;
        const ls_node *producer = ls_graph_producer(g, t);
        if (producer == NULL) return LS_NO_TENSOR;
        const ls_tensor factor = factor_of(g, producer);
        if (factor.id != 0) return factor;
        t = producer->in[0];
    }
}

/* Applies what the job says about single parameters. */
static void apply_own(const ls_job *job, const ls_optimizer *optimizer, bool *matrix) {
    const ls_graph *g = job->graph;
    for (int t = 1, p = 0; t < g->n_tensors && job->own != NULL; t++) {
        if (g->tensors[t].role != LS_ROLE_PARAMETER) continue;
        const ls_optimizer *own = job->own[p++].optimizer;
        if (own != NULL) matrix[t] = own == optimizer;
    }
}

const ls_graph *ls_mark_matrices(const ls_job *job, ls_arena *arena) {
    const ls_graph *g = job->graph;
    const ls_optimizer *optimizer = ls_job_optimizer(job);
    if (optimizer->update_matrices == NULL || !ls_job_updates(job, LS_UPDATE_APPLY)) return g;
    bool *matrix = LS_NEW_ARRAY(arena, bool, g->n_tensors);
    for (int n = 0; n < g->n_nodes; n++) matrix[factor_of(g, &g->nodes[n]).id] = true;
    for (int n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op->lookup.ids != 0) matrix[table_of(g, &g->nodes[n]).id] = false;
    apply_own(job, optimizer, matrix);
    ls_graph *marked = ls_arena_copy(arena, g, sizeof *g);
    marked->tensors = ls_arena_copy(arena, g->tensors, sizeof *g->tensors * (size_t)g->n_tensors);
    for (int t = 1; t < g->n_tensors; t++) {
        ls_tensor_info *info = &marked->tensors[t];
        info->matrix = matrix[t] && info->role == LS_ROLE_PARAMETER && info->shape.ndim == 2 && !info->frozen;
    }
    return marked;
}
