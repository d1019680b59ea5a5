/* split and join: each part is a copy from or to a range of indices in one dimension of the whole. */
#include "compile/compile_impl.h"

/*
 * The dimension of the whole, input 0 or output 0, that has the parts. It is counted from the last one, since a tile
 * has one dimension less.
 */
static int parts_from_behind(const ls_builder *b, const ls_node *node, bool of_input) {
    ls_node_dims dims;
    ls_node_dims_find(b->job->graph, node, &dims);
    const ls_tensor_dims *whole = of_input ? &dims.in[0] : &dims.out[0];
    const int ndim = ls_graph_tensor(b->job->graph, of_input ? node->in[0] : node->out[0])->shape.ndim;
    int dim = 0;
    while (!whole->dim[dim].segments) dim++;
    return ndim - dim;
}

/* Whether a node of the graph or the host reads the tensor. A part that nothing reads is not made. */
static bool is_read(const ls_builder *b, ls_tensor t) {
    const ls_graph *g = b->job->graph;
    bool is = ls_job_fetches(b->job, t);
    for (int n = ls_graph_tensor(g, t)->producer + 1; n < g->n_nodes && !is; n++)
        for (int i = 0; i < g->nodes[n].n_in && !is; i++) is = g->nodes[n].in[i].id == t.id;
    return is;
}

/* The range of the whole that belongs to `part`, from index *at on; *at becomes the index after it. */
static ls_operand columns_of(const ls_builder *b, ls_operand whole, ls_tensor part, int behind, int64_t *at) {
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, part, size);
    const int64_t n = size[ls_graph_tensor(b->job->graph, part)->shape.ndim - behind];
    const ls_operand columns = ls_operand_slice(whole, whole.view.ndim - behind, *at, n);
    *at += n;
    return columns;
}

static void lower_split(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand whole = ls_lower_tensor(b, node->in[0]);
    const int behind = parts_from_behind(b, node, true);
    int64_t from = 0;
    for (int o = 0; o < node->n_out; o++) {
        const ls_operand columns = columns_of(b, whole, node->out[o], behind, &from);
        if (is_read(b, node->out[o])) ls_build_copy(b, columns, ls_lower_tensor(b, node->out[o]));
    }
}

static void lower_join(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand whole = ls_lower_tensor(b, node->out[0]);
    const int behind = parts_from_behind(b, node, false);
    int64_t from = 0;
    for (int i = 0; i < node->n_in; i++)
        ls_build_copy(b, ls_lower_tensor(b, node->in[i]), columns_of(b, whole, node->in[i], behind, &from));
}

const ls_lowering ls_lowering_split = {.lower = lower_split, .ordered = true};
const ls_lowering ls_lowering_join = {.lower = lower_join, .ordered = true};
