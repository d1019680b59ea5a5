/* Builds graphs: leaves, nodes, names, and the first mistake. Also finds which integers a tensor may hold. */
#include "graph/graph_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A hash of the graph's address and the time, so that two graphs almost certainly have different numbers. */
static uint32_t make_number(const ls_graph *g) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t key = (uint64_t)(uintptr_t)g + 1000000000 * (uint64_t)now.tv_sec + (uint64_t)now.tv_nsec;
    return (uint32_t)(key * 0x9e3779b97f4a7c15 >> 32) | 1;
}

ls_graph *ls_graph_create(ls_dtype dtype) {
    const bool trainable = dtype == LS_F32 || dtype == LS_F64 || dtype == LS_BF16;
    ls_arena *arena = ls_arena_create();
    ls_graph *g = LS_NEW(arena, ls_graph);
    g->arena = arena;
    g->number = make_number(g);
    g->dtype = trainable ? dtype : LS_F32;
    g->accumulator = ls_dtype_accumulator(g->dtype);
    g->status = ls_ok();
    (void)LS_PUSH(arena, g->tensors, g->n_tensors, g->tensor_capacity); /* id 0 means no tensor */
    if (!trainable)
        ls_graph_fail(g,
                      ls_error(LS_INVALID, "graph: element type %s (%d) cannot be trained; expected f32, f64 or bf16",
                               dtype == LS_I32 ? "i32" : "unknown", (int)dtype));
    return g;
}

void ls_graph_destroy(ls_graph *g) {
    if (g != NULL) ls_arena_destroy(g->arena);
}

ls_status ls_graph_status(const ls_graph *g) {
    LS_NEED(g, "graph");
    return g->status;
}

/* --- mistakes ----------------------------------------------------------------------------------------------------- */

ls_tensor ls_graph_fail(ls_graph *g, ls_status status) {
    if (g != NULL && g->status.code == LS_OK) g->status = status;
    return LS_NO_TENSOR;
}

bool ls_graph_has(const ls_graph *g, ls_tensor t) { return t.graph == g->number && t.id > 0 && t.id < g->n_tensors; }

bool ls_graph_usable(ls_graph *g, ls_tensor t, const char *user) {
    if (g == NULL || g->status.code != LS_OK) return false;
    if (ls_graph_has(g, t)) return true;
    ls_graph_fail(g,
                  ls_error(LS_INVALID, "%s: the tensor is %s", user, t.id == 0 ? "missing" : "not one of this graph"));
    return false;
}

/* Checks that the graph and an argument of the public function `user` are not NULL; otherwise notes the mistake. */
static bool is_given(ls_graph *g, const void *argument, const char *user, const char *name) {
    if (g != NULL && argument == NULL) ls_graph_fail(g, ls_error(LS_INVALID, "%s: %s is NULL", user, name));
    return g != NULL && argument != NULL;
}

static ls_tensor declared_twice(ls_graph *g, const char *name) {
    return ls_graph_fail(g, ls_error(LS_INVALID, "tensor \"%s\" is declared twice", name));
}

/* Each dimension must be at least 1, and the size in bytes must fit in an int64_t. */
static ls_status check_sizes(const char *name, const ls_shape *shape) {
    double elements = 1;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i].size < 1)
            return ls_error(LS_INVALID, "tensor \"%s\": dimension %d is %lld, expected at least 1", name, i,
                            (long long)shape->dim[i].size);
        elements *= (double)shape->dim[i].size;
    }
    if (elements <= 0x1p58) return ls_ok();
    return ls_error(LS_INVALID, "tensor \"%s\" has %g elements, expected at most 2^58", name, elements);
}

/* --- leaves by name: a hash table with open addressing, at most half full ----------------------------------------- */

static void insert_leaf(const ls_graph *g, int id) {
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
            if (old[i] != 0) insert_leaf(g, old[i]);
    }
    g->n_leaves++;
    insert_leaf(g, id);
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
    if (t.id == 0 || !is_given(g, format, "ls_named", "the name") || !ls_graph_usable(g, t, "ls_named"))
        return LS_NO_TENSOR;
    char name[256];
    va_list args;
    va_start(args, format);
    ls_vprint(name, sizeof name, format, args);
    va_end(args);
    const ls_role role = g->tensors[t.id].role;
    if (strcmp(g->tensors[t.id].name, name) == 0) return t;
    if (role != LS_ROLE_VALUE && has_leaf(g, role, name)) return declared_twice(g, name);
    g->tensors[t.id].name = ls_arena_strdup(g->arena, name);
    if (role != LS_ROLE_VALUE) add_leaf(g, t.id); /* the entry under its old name remains, unused */
    return t;
}

static ls_tensor new_tensor(ls_graph *g, const ls_tensor_info *info) {
    ls_tensor_info *slot = LS_PUSH(g->arena, g->tensors, g->n_tensors, g->tensor_capacity);
    *slot = *info;
    const ls_tensor t = ls_graph_at(g, g->n_tensors - 1);
    if (slot->storage.id == 0) slot->storage = t;
    return t;
}

ls_tensor ls_graph_leaf(ls_graph *g, ls_role role, const char *name, ls_dtype dtype, const ls_shape *shape) {
    if (g->status.code != LS_OK) return LS_NO_TENSOR;
    const ls_status sizes = check_sizes(name, shape);
    if (sizes.code != LS_OK) return ls_graph_fail(g, sizes);
    if (role != LS_ROLE_VALUE && has_leaf(g, role, name)) return declared_twice(g, name);
    const ls_tensor_info info = {.name = ls_arena_strdup(g->arena, name),
                                 .dtype = dtype,
                                 .kept = dtype,
                                 .shape = *shape,
                                 .role = role,
                                 .producer = -1};
    const ls_tensor t = new_tensor(g, &info);
    if (role != LS_ROLE_VALUE) add_leaf(g, t.id);
    return t;
}

ls_tensor ls_graph_leaf_like(ls_graph *g, const ls_tensor_info *like) {
    const ls_tensor t = ls_graph_leaf(g, like->role, like->name, like->dtype, &like->shape);
    if (t.id == 0) return t;
    ls_tensor_info *made = &g->tensors[t.id];
    made->frozen = like->frozen;
    made->borrowed = like->borrowed;
    made->added = like->added;
    made->kept = like->kept;
    return t;
}

ls_tensor ls_tokens(ls_graph *g, const char *name, int64_t B, int64_t S) {
    const ls_shape shape = {2, {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}}};
    if (!is_given(g, name, "ls_tokens", "the name")) return LS_NO_TENSOR;
    return ls_graph_leaf(g, LS_ROLE_INPUT, name, LS_I32, &shape);
}

/* user: the public function, for messages. */
static ls_tensor input_like(ls_graph *g, const char *name, ls_dtype dtype, ls_tensor like, const char *user) {
    if (!is_given(g, name, user, "the name") || !ls_graph_usable(g, like, user)) return LS_NO_TENSOR;
    const ls_shape shape = ls_graph_tensor(g, like)->shape; /* a copy: the array may move */
    return ls_graph_leaf(g, LS_ROLE_INPUT, name, dtype, &shape);
}

ls_tensor ls_input_like(ls_graph *g, const char *name, ls_tensor like) {
    return input_like(g, name, LS_I32, like, "ls_input_like");
}

ls_tensor ls_input_typed(ls_graph *g, const char *name, ls_dtype dtype, ls_tensor like) {
    if (g != NULL && (unsigned)dtype >= LS_DTYPES)
        return ls_graph_fail(
            g, ls_error(LS_INVALID, "ls_input_typed: element type %d, expected one of ls_dtype", (int)dtype));
    return input_like(g, name, dtype, like, "ls_input_typed");
}

ls_tensor ls_parameter(ls_graph *g, const char *name, int ndim, const int64_t *size) {
    if (!is_given(g, name, "ls_parameter", "the name") || !is_given(g, size, "ls_parameter", "the list of sizes"))
        return LS_NO_TENSOR;
    if (ndim < 1 || ndim > LS_MAX_DIMS)
        return ls_graph_fail(
            g, ls_error(LS_INVALID, "parameter \"%s\" has %d dimensions, expected 1 to %d", name, ndim, LS_MAX_DIMS));
    ls_shape shape = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) shape.dim[i].size = size[i];
    return ls_graph_leaf(g, LS_ROLE_PARAMETER, name, g->dtype, &shape);
}

ls_tensor ls_parameter_named(ls_graph *g, int ndim, const int64_t *size, const char *format, ...) {
    if (!is_given(g, format, "ls_parameter_named", "the name")) return LS_NO_TENSOR;
    char name[256];
    va_list args;
    va_start(args, format);
    ls_vprint(name, sizeof name, format, args);
    va_end(args);
    return ls_parameter(g, name, ndim, size);
}

const char *ls_graph_parameter(const ls_graph *g, int index, ls_shape *shape) {
    if (g == NULL || index < 0) return NULL;
    for (int t = 1; t < g->n_tensors; t++) {
        if (g->tensors[t].role != LS_ROLE_PARAMETER || index-- > 0) continue;
        if (shape != NULL) *shape = g->tensors[t].shape;
        return g->tensors[t].name;
    }
    return NULL;
}

static ls_status check_inputs(const ls_graph *g, const ls_op *op, const ls_tensor *in, int n_in) {
    if (n_in < op->least_in || n_in > op->most_in)
        return ls_error(LS_INVALID, "op %s: %d inputs, expected %d to %d", op->name, n_in, op->least_in, op->most_in);
    for (int i = 0; i < n_in; i++) {
        if (in[i].id == 0) return ls_error(LS_INVALID, "op %s: input %d is missing", op->name, i);
        if (!ls_graph_has(g, in[i]))
            return ls_error(LS_INVALID, "op %s: input %d is no tensor of this graph", op->name, i);
    }
    return ls_ok();
}

ls_tensor ls_graph_add(ls_graph *g, const ls_op *op, const void *params, size_t bytes, const ls_tensor *in, int n_in,
                       int forward) {
    if (g == NULL || g->status.code != LS_OK) return LS_NO_TENSOR;
    ls_status status = check_inputs(g, op, in, n_in);
    ls_node node = {.op = op, .n_in = n_in, .forward = forward, .params_bytes = bytes};
    node.n_out = op->outputs != NULL ? op->outputs(params) : op->n_out;
    ls_tensor_info out[LS_NODE_OUTPUTS] = {{0}};
    if (status.code == LS_OK) {
        for (int i = 0; i < n_in; i++) node.in[i] = in[i];
        node.params = bytes > 0 ? ls_arena_copy(g->arena, params, bytes) : NULL;
        status = op->shape(g, &node, out);
    }
    for (int i = 0; i < node.n_out && status.code == LS_OK; i++) {
        out[i].name = ls_arena_printf(g->arena, i == 0 ? "%s.%d" : "%s.%d.%d", op->name, g->n_nodes, i);
        status = check_sizes(out[i].name, &out[i].shape);
    }
    if (status.code != LS_OK) return ls_graph_fail(g, status);
    for (int i = 0; i < node.n_out; i++) {
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

/* --- which integers a tensor may hold ----------------------------------------------------------------------------- */

static int64_t lookup_size(const ls_graph *g, const ls_node *node) {
    const ls_lookup *lookup = &node->op->lookup;
    const ls_shape *shape = &ls_graph_tensor(g, node->in[lookup->among])->shape;
    return shape->dim[lookup->dim < 0 ? shape->ndim - 1 : lookup->dim].size;
}

static void narrow(ls_id_range *range, ls_id_range by) {
    range->count = ls_min(range->count, by.count);
    range->may_ignore = range->may_ignore && by.may_ignore;
}

ls_id_range ls_graph_id_range(const ls_graph *g, ls_tensor ids) {
    ls_id_range range = {INT64_MAX, true};
    ls_arena *scratch = ls_arena_create();
    bool *moved = LS_NEW_ARRAY(scratch, bool, g->n_tensors); /* whether a tensor has the same integers */
    moved[ids.id] = true;
    for (int n = 0; n < g->n_nodes; n++) { /* inputs come before the nodes that read them */
        const ls_node *node = &g->nodes[n];
        for (int i = 0; i < node->n_in; i++) {
            if (!moved[node->in[i].id]) continue;
            if (node->op->lookup.ids == i + 1)
                narrow(&range, (ls_id_range){lookup_size(g, node), node->op->lookup.may_ignore});
            else if (ls_graph_tensor(g, node->out[0])->dtype ==
                     LS_I32) /* the node only moves integers, as shift does */
                moved[node->out[0].id] = true;
        }
    }
    ls_arena_destroy(scratch);
    return range;
}

bool ls_id_within(const ls_id_range *range, int32_t id) {
    if (range->count == INT64_MAX) return true;
    return (id >= 0 && id < range->count) || (range->may_ignore && id == LS_LABEL_IGNORED);
}

ls_graph *ls_graph_bare(const ls_graph *g, ls_arena *arena) {
    ls_graph *bare = ls_arena_copy(arena, g, sizeof *g);
    bare->arena = arena;
    bare->nodes = NULL;
    bare->tensors = NULL;
    bare->n_nodes = bare->n_tensors = 0;
    bare->node_capacity = bare->tensor_capacity = 0;
    return bare;
}

void ls_graph_own_outputs(ls_graph *g, const ls_node *node) {
    for (int o = 0; o < node->n_out; o++) {
        ls_tensor_info *info = &g->tensors[node->out[o].id];
        const int shared = node->op->in_place[o] - 1; /* the input whose storage the output uses; -1: none */
        info->producer = g->n_nodes;
        if (shared >= 0) info->storage = g->tensors[node->in[shared].id].storage;
    }
}
