/*
 * Adds adapters to a graph: writes the graph anew, node by node, and adds the nodes of the adapter after each product
 * and each lookup of a module that has one. The model's own parameters become frozen.
 */
#include "adapter/adapter_impl.h"

typedef struct applying {
    const ls_adapter *a;
    const ls_graph *from;
    ls_graph *to;
    ls_tensor *map;                       /* by tensor of `from` */
    ls_tensor (*parts)[LS_ADAPTER_PARTS]; /* by module: parameters, added when they are needed */
} applying;

/* --- leaves ------------------------------------------------------------------------------------------------------- */

static ls_tensor copy_leaf(const applying *p, const ls_tensor_info *info) {
    const ls_tensor made = ls_graph_leaf_like(p->to, info);
    if (made.id == 0 || info->role != LS_ROLE_PARAMETER) return made;
    ls_tensor_info *is = &p->to->tensors[made.id];
    is->borrowed = !ls_adapter_saves(p->a, info->name);
    is->frozen = info->frozen || is->borrowed;
    return made;
}

static ls_tensor part_of(const applying *p, int module, ls_adapter_part part, int ndim, const int64_t *size) {
    ls_tensor *made = &p->parts[module][part];
    if (made->id != 0) return *made; /* the module is used more than once */
    *made = ls_parameter_named(p->to, ndim, size, "%s%s", p->a->modules[module].name, ls_adapter_endings[part]);
    if (made->id != 0) p->to->tensors[made->id].added = true;
    return *made;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

/* The module whose weight the node reads; -1: none with an adapter. */
static int module_of(const applying *p, const ls_node *node) {
    const bool table = node->op == &ls_op_embedding;
    if (!table && node->op != &ls_op_linear) return -1;
    const ls_tensor_info *weight = ls_graph_tensor(p->from, node->in[1]);
    const ls_adapted *m = weight->role == LS_ROLE_PARAMETER ? ls_adapter_of(p->a, weight->name) : NULL;
    return m != NULL && m->table == table ? (int)(m - p->a->modules) : -1;
}

static ls_tensor add_node(const applying *p, const ls_node *node, int n_in) {
    return ls_graph_add(p->to, node->op, node->params, node->params_bytes, node->in, n_in, -1);
}

/* Adds the adapter's term to a product of the model. node: has inputs of the new graph. */
static ls_tensor add_product(const applying *p, const ls_node *node, int module) {
    ls_graph *g = p->to;
    const ls_adapted *m = &p->a->modules[module];
    const ls_shape w = ls_graph_tensor(g, node->in[1])->shape;
    const int64_t to = w.dim[m->transposed ? 1 : 0].size, from = w.dim[m->transposed ? 0 : 1].size;
    const ls_tensor a = part_of(p, module, LS_ADAPTER_A, 2, (int64_t[]){m->r, from});
    const ls_tensor b = part_of(p, module, LS_ADAPTER_B, 2, (int64_t[]){to, m->r});
    const ls_tensor product = add_node(p, node, p->a->dora ? 2 : node->n_in);
    if (product.id == 0) return product;
    const bool wide = ls_graph_tensor(g, product)->dtype != g->dtype;
    const ls_tensor down = ls_named(g, ls_linear(g, node->in[0], a, LS_NO_TENSOR), "%s.lora_A", m->name);
    const ls_tensor low =
        ls_named(g, wide ? ls_linear_wide(g, down, b) : ls_linear(g, down, b, LS_NO_TENSOR), "%s.lora_B", m->name);
    if (!p->a->dora) return ls_add(g, product, ls_scale(g, low, m->scaling));
    const ls_dora dora = {.base = node,
                          .module = m,
                          .product = product,
                          .low = low,
                          .a = a,
                          .b = b,
                          .magnitude = part_of(p, module, LS_ADAPTER_MAGNITUDE, 1, &to),
                          .bias = node->n_in > 2 ? node->in[2] : LS_NO_TENSOR};
    return ls_dora_add(g, &dora);
}

/* Adds the adapter's term to the rows that a table looks up. */
static ls_tensor add_rows(const applying *p, const ls_node *node, int module) {
    ls_graph *g = p->to;
    const ls_adapted *m = &p->a->modules[module];
    const ls_shape w = ls_graph_tensor(g, node->in[1])->shape;
    const ls_tensor a = part_of(p, module, LS_ADAPTER_TABLE_A, 2, (int64_t[]){m->r, w.dim[0].size});
    const ls_tensor b = part_of(p, module, LS_ADAPTER_TABLE_B, 2, (int64_t[]){w.dim[1].size, m->r});
    ls_node low = *node;
    low.in[1] = ls_permute_dims(g, a, (int[]){1, 0});
    const ls_tensor rows = add_node(p, node, node->n_in), down = add_node(p, &low, node->n_in);
    return ls_add(g, rows, ls_scale(g, ls_linear(g, down, b, LS_NO_TENSOR), m->scaling));
}

static void copy_node(const applying *p, const ls_node *from) {
    ls_node node = *from;
    for (int i = 0; i < node.n_in; i++) node.in[i] = p->map[from->in[i].id];
    const int module = module_of(p, from);
    const ls_tensor first = module < 0                    ? add_node(p, &node, node.n_in)
                            : p->a->modules[module].table ? add_rows(p, &node, module)
                                                          : add_product(p, &node, module);
    for (int o = 0; o < from->n_out && first.id != 0; o++) {
        const ls_tensor made = o == 0 ? first : ls_graph_output(p->to, first, o);
        p->map[from->out[o].id] = ls_named(p->to, made, "%s", ls_graph_tensor(p->from, from->out[o])->name);
    }
}

ls_status ls_adapter_apply(const ls_adapter *a, const ls_graph *from, ls_graph *to, ls_tensor *map) {
    applying p = {.a = a, .from = from, .to = to, .map = map};
    LS_TRY(ls_graph_status(from));
    p.parts = (ls_tensor(*)[LS_ADAPTER_PARTS])LS_NEW_ARRAY(to->arena, ls_tensor, LS_ADAPTER_PARTS * (a->n_modules + 1));
    map[0] = LS_NO_TENSOR;
    for (int t = 1; t < from->n_tensors && to->status.code == LS_OK; t++) {
        const ls_tensor_info *info = &from->tensors[t];
        if (info->producer < 0)
            map[t] = copy_leaf(&p, info);
        else if (info->output == 0)
            copy_node(&p, &from->nodes[info->producer]);
    }
    return ls_graph_status(to);
}
