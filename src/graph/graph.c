/* Building graphs: leaves, nodes, names, and the first error. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ls_graph *ls_graph_create(ls_dtype dtype) {
    ls_arena *arena = ls_arena_create();
    ls_graph *g = LS_NEW(arena, ls_graph);
    g->arena = arena;
    g->dtype = dtype;
    g->accumulator = ls_dtype_accumulator(dtype);
    g->status = ls_ok();
    (void)LS_PUSH(arena, g->tensors, g->n_tensors, g->tensor_capacity); /* id 0 is no tensor */
    if (dtype != LS_F32 && dtype != LS_F64 && dtype != LS_BF16)
        ls_graph_fail(g, ls_error(LS_INVALID,
                                  "graph: element type %s cannot be trained; expected f32, f64 or bf16",
                                  ls_dtype_name(dtype)));
    return g;
}

void ls_graph_destroy(ls_graph *g) {
    if (g != NULL) ls_arena_destroy(g->arena);
}

ls_status ls_graph_status(const ls_graph *g) { return g->status; }

void ls_graph_fail(ls_graph *g, ls_status status) {
    if (g->status.code == LS_OK) g->status = status;
}

/* --- leaves by name: an open table, at most half full ---------------------------------------------------------------------- */

static void place_leaf(const ls_graph *g, int id) {
    size_t slot = ls_rng_stream(g->tensors[id].name) & (g->leaf_slots - 1);
    while (g->leaves[slot] != 0) slot = (slot + 1) & (g->leaf_slots - 1);
    g->leaves[slot] = id;
}

static void add_leaf(ls_graph *g, int id) {
    if (2 * (g->n_leaves + 1) > g->leaf_slots) {
        const int *old = g->leaves;
        const size_t slots = g->leaf_slots;
        g->leaf_slots = slots > 0 ? 2 * slots : 64;
        g->leaves = LS_NEW_ARRAY(g->arena, int, g->leaf_slots);
        for (size_t i = 0; i < slots; i++)
            if (old[i] != 0) place_leaf(g, old[i]);
    }
    g->n_leaves++;
    place_leaf(g, id);
}

static bool has_leaf(const ls_graph *g, ls_role role, const char *name) {
    if (g->leaf_slots == 0) return false;
    for (size_t slot = ls_rng_stream(name);; slot++) {
        const int id = g->leaves[slot & (g->leaf_slots - 1)];
        if (id == 0) return false;
        if (g->tensors[id].role == role && strcmp(g->tensors[id].name, name) == 0) return true;
    }
}

ls_tensor ls_named(ls_graph *g, ls_tensor t, const char *format, ...) {
    if (t.id == 0) return t;
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    g->tensors[t.id].name = ls_arena_strdup(g->arena, name);
    if (g->tensors[t.id].role != LS_ROLE_VALUE) add_leaf(g, t.id); /* under its new name too */
    return t;
}

static ls_tensor new_tensor(ls_graph *g, const ls_tensor_info *info) {
    ls_tensor_info *slot = LS_PUSH(g->arena, g->tensors, g->n_tensors, g->tensor_capacity);
    *slot = *info;
    const ls_tensor t = {g->n_tensors - 1};
    if (slot->storage.id == 0) slot->storage = t;
    return t;
}

ls_tensor ls_graph_leaf(ls_graph *g, ls_role role, const char *name, ls_dtype dtype, const ls_shape *shape) {
    if (g->status.code != LS_OK) return LS_NO_TENSOR;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i].size < 1) {
            ls_graph_fail(g, ls_error(LS_INVALID, "tensor \"%s\": dimension %d is %lld, expected at least 1",
                                      name, i, (long long)shape->dim[i].size));
            return LS_NO_TENSOR;
        }
    }
    if (role != LS_ROLE_VALUE && has_leaf(g, role, name)) {
        ls_graph_fail(g, ls_error(LS_INVALID, "tensor \"%s\" is declared twice", name));
        return LS_NO_TENSOR;
    }
    const ls_tensor_info info = {.name = ls_arena_strdup(g->arena, name),
                                 .dtype = dtype,
                                 .shape = *shape,
                                 .role = role,
                                 .producer = -1};
    const ls_tensor t = new_tensor(g, &info);
    if (role != LS_ROLE_VALUE) add_leaf(g, t.id);
    return t;
}

ls_tensor ls_tokens(ls_graph *g, const char *name, int64_t B, int64_t S) {
    const ls_shape shape = {2, {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}}};
    return ls_graph_leaf(g, LS_ROLE_INPUT, name, LS_I32, &shape);
}

ls_tensor ls_input_like(ls_graph *g, const char *name, ls_tensor like) {
    if (like.id == 0) {
        ls_graph_fail(g, ls_error(LS_INVALID, "input \"%s\": the tensor to be like is missing", name));
        return LS_NO_TENSOR;
    }
    const ls_shape shape = ls_graph_tensor(g, like)->shape; /* a copy: the array may move */
    return ls_graph_leaf(g, LS_ROLE_INPUT, name, LS_I32, &shape);
}

ls_tensor ls_parameter(ls_graph *g, const char *name, int ndim, const int64_t *size) {
    if (ndim < 1 || ndim > LS_MAX_DIMS) {
        ls_graph_fail(g, ls_error(LS_INVALID, "parameter \"%s\" has %d dimensions, expected 1 to %d", name,
                                  ndim, LS_MAX_DIMS));
        return LS_NO_TENSOR;
    }
    ls_shape shape = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) shape.dim[i].size = size[i];
    return ls_graph_leaf(g, LS_ROLE_PARAMETER, name, g->dtype, &shape);
}

ls_tensor ls_parameter_named(ls_graph *g, int ndim, const int64_t *size, const char *format, ...) {
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return ls_parameter(g, name, ndim, size);
}

const char *ls_graph_parameter(const ls_graph *g, int index, ls_shape *shape) {
    for (int t = 1; t < g->n_tensors; t++) {
        if (g->tensors[t].role != LS_ROLE_PARAMETER || index-- > 0) continue;
        *shape = g->tensors[t].shape;
        return g->tensors[t].name;
    }
    return NULL;
}

static ls_status check_inputs(const ls_op *op, const ls_tensor *in, int n_in) {
    if (n_in < op->least_in || n_in > op->most_in)
        return ls_error(LS_INVALID, "op %s: %d inputs, expected %d to %d", op->name, n_in, op->least_in,
                        op->most_in);
    for (int i = 0; i < n_in; i++) {
        if (in[i].id == 0) return ls_error(LS_INVALID, "op %s: input %d is missing", op->name, i);
    }
    return ls_ok();
}

ls_tensor ls_graph_add(ls_graph *g, const ls_op *op, const void *params, size_t bytes, const ls_tensor *in,
                       int n_in, int forward) {
    if (g->status.code != LS_OK) return LS_NO_TENSOR;
    ls_status status = check_inputs(op, in, n_in);
    ls_node node = {.op = op, .n_in = n_in, .n_out = op->n_out, .forward = forward, .params_bytes = bytes};
    ls_tensor_info out[LS_NODE_OUTPUTS] = {{0}};
    if (status.code == LS_OK) {
        for (int i = 0; i < n_in; i++) node.in[i] = in[i];
        node.params = bytes > 0 ? ls_arena_copy(g->arena, params, bytes) : NULL;
        status = op->shape(g, &node, out);
    }
    if (status.code != LS_OK) {
        ls_graph_fail(g, status);
        return LS_NO_TENSOR;
    }
    for (int i = 0; i < op->n_out; i++) {
        out[i].name = ls_arena_printf(g->arena, i == 0 ? "%s.%d" : "%s.%d.%d", op->name, g->n_nodes, i);
        out[i].role = LS_ROLE_VALUE;
        out[i].producer = g->n_nodes;
        out[i].output = i;
        if (op->in_place[i] > 0) out[i].storage = ls_graph_tensor(g, in[op->in_place[i] - 1])->storage;
        node.out[i] = new_tensor(g, &out[i]);
    }
    *LS_PUSH(g->arena, g->nodes, g->n_nodes, g->node_capacity) = node;
    return node.out[0];
}

const ls_node *ls_graph_producer(const ls_graph *g, ls_tensor t) {
    const int node = g->tensors[t.id].producer;
    return t.id == 0 || node < 0 ? NULL : &g->nodes[node];
}

ls_tensor ls_graph_output(const ls_graph *g, ls_tensor first, int i) {
    const ls_node *node = ls_graph_producer(g, first);
    return node == NULL || i >= node->n_out ? LS_NO_TENSOR : node->out[i];
}
