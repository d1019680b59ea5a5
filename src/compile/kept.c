/*
 * Frozen parameters that are kept in another type than the graph's (bf16 under f32 training). A product with a matrix
 * in blocks of numbers becomes the op that decodes the blocks while it multiplies (ls_op.in_blocks). Before every other
 * node that reads such a parameter a cast of its own is inserted, or a node that decodes the parameter. The result of
 * the cast exists for that node alone; if the node is a reshape, for the nodes that read the reshaped tensor; and if
 * the node runs in tiles, for all of its tiles.
 */
#include "compile/compile_impl.h"

static bool is_kept(const ls_graph *g, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(g, t);
    return info->role == LS_ROLE_PARAMETER && info->kept != g->dtype;
}

static ls_tensor add_cast(ls_rewriting *r, ls_tensor t) {
    ls_tensor_info info = *ls_graph_tensor(r->from, t);
    info.role = LS_ROLE_VALUE;
    info.name = ls_arena_printf(r->arena, "%s cast", info.name);
    const ls_tensor made = ls_graph_at(r->to, r->to->n_tensors);
    info.storage = made;
    *LS_PUSH(r->arena, r->to->tensors, r->to->n_tensors, r->to->tensor_capacity) = info;
    const bool blocks = ls_dtype_is_block(info.kept);
    const ls_node node = blocks ? ls_decode_node(t, made) : ls_cast_node(r->arena, t, made, r->from->dtype);
    ls_rewriting_add(r, &node);
    return made;
}

/* Whether the node multiplies with input 1 as it is stored, in blocks. */
static bool takes_blocks(const ls_graph *g, const ls_node *node) {
    return node->op->in_blocks != NULL && is_kept(g, node->in[1]) &&
           ls_dtype_is_block(ls_graph_tensor(g, node->in[1])->kept);
}

static void copy_node(ls_rewriting *r, int n) {
    ls_node node = r->from->nodes[n];
    const bool blocks = takes_blocks(r->from, &node);
    if (blocks) node.op = node.op->in_blocks;
    for (int i = 0; i < node.n_in; i++)
        if (is_kept(r->from, node.in[i]) && !(blocks && i == 1)) node.in[i] = add_cast(r, node.in[i]);
    for (int o = 0; o < node.n_out; o++) { /* the result of a reshape lies where the cast does */
        ls_tensor *storage = &r->to->tensors[node.out[o].id].storage;
        if (is_kept(r->from, *storage)) *storage = r->to->tensors[node.in[0].id].storage;
    }
    ls_rewriting_copy(r, n, node);
}

void ls_cast_kept(ls_job *job, ls_arena *arena) {
    const ls_graph *g = job->graph;
    bool any = false;
    for (int t = 1; t < g->n_tensors; t++) any |= is_kept(g, ls_graph_at(g, t));
    if (!any) return;
    ls_rewriting r = ls_rewriting_begin(g, arena);
    for (int t = 0; t < g->n_tensors; t++) {
        ls_tensor_info *info = LS_PUSH(arena, r.to->tensors, r.to->n_tensors, r.to->tensor_capacity);
        *info = g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        info->dtype = info->kept;
        if (info->shape.ndim > 0) info->shape.dim[info->shape.ndim - 1].size /= ls_dtype_values(info->kept);
    }
    for (int n = 0; n < g->n_nodes; n++) {
        ls_rewriting_reach(&r, n);
        copy_node(&r, n);
    }
    ls_rewriting_end(&r, job);
}
