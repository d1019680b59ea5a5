/*
 * Sums of gradients on this rank. If a group's gradients have a buffer of their own, which is then reduced over the
 * ranks, this pass inserts a node that makes the buffer before the first node that adds to it. There is one such sum
 * for all nodes of a program; if sums are canonical, one for each set of nodes that stand together (ls_program_node).
 * The pass also marks the nodes that are the first to add to an empty sum: these write the sum instead.
 */
#include "compile/pass.h"

bool ls_sums_leave(const ls_builder *b) {
    const ls_binding *gradients = ls_image_find(b->image, LS_BIND_GRADIENTS);
    const bool persist = gradients != NULL && !gradients->sharded;
    return ls_program_reduces(b, b->row) && !ls_gradients_stay(b) && b->packing->n_trained > 0 && !persist;
}

/* Whether the program begins its sums, instead of adding to those that it finds. */
static bool begins_sums(const ls_builder *b) {
    return ls_program_reduces(b, b->row) && (b->row->sums == LS_SUMS_BEGUN || b->packing->cut->gradients);
}

/* The index in flats of the parameter to whose gradients output o of the graph's node adds; -1: none. */
static int sum_at(const ls_builder *b, const ls_node *node, int o) {
    const ls_graph *g = b->job->graph;
    const ls_tensor storage = ls_graph_tensor(g, node->out[o])->storage;
    return ls_graph_tensor(g, storage)->role == LS_ROLE_ACCUMULATOR ? b->packing->flat_of[storage.id] : -1;
}

/* By parameter: whether nodes first .. past - 1 of the list add to its gradients. */
static bool *find_added(const ls_builder *b, const ls_program_nodes *nodes, int first, int past) {
    bool *adds = LS_NEW_ARRAY(b->image->arena, bool, b->image->n_flats + 1);
    for (int i = first; i < past; i++) {
        const ls_node *node = nodes->list[i].of >= 0 ? ls_graph_node(b, &nodes->list[i]) : NULL;
        for (int o = 0; node != NULL && o < node->n_out; o++)
            if (sum_at(b, node, o) >= 0) adds[sum_at(b, node, o)] = true;
    }
    return adds;
}

/* --- the nodes that begin a sum ----------------------------------------------------------------------------------- */

static void mark_first(const ls_builder *b, ls_program_nodes *nodes, int first, int past) {
    bool *begun = LS_NEW_ARRAY(b->image->arena, bool, b->image->n_flats + 1);
    for (int i = first; i < past; i++) {
        ls_program_node *at = &nodes->list[i];
        const ls_node *node = at->of >= 0 ? ls_graph_node(b, at) : NULL;
        for (int o = 0; node != NULL && o < node->n_out; o++) {
            const int flat = sum_at(b, node, o);
            if (node->op->in_place[o] == 0 || flat < 0 || begun[flat]) continue;
            begun[flat] = true;
            at->begins |= 1U << o;
        }
    }
}

/* --- sums that leave ---------------------------------------------------------------------------------------------- */

/* The end of the unit that begins with node `first`: the nodes of the list whose additions go to one sum. */
static int unit_past(const ls_builder *b, const ls_program_nodes *nodes, int first) {
    return b->target->canonical ? ls_nodes_past(nodes, first) : nodes->n;
}

/* Whether a parameter of the group is marked. */
static bool is_any(const ls_builder *b, int group, const bool *marked) {
    const ls_group *g = &b->packing->groups[group];
    bool any = false;
    for (int f = g->first; f < g->past; f++) any |= marked[f];
    return any;
}

/*
 * Appends a node, with all nodes of its region if it is one; before it, the nodes that make the sums to which it is the
 * first of its unit to add.
 */
static void put_node(const ls_builder *b, ls_program_nodes *to, const ls_program_nodes *from, int first, int past,
                     const bool *adds_of_unit, bool *made) {
    const bool *adds = find_added(b, from, first, past);
    for (int g = 0; g < b->packing->n_groups; g++) {
        if (made[g] || !is_any(b, g, adds)) continue;
        ls_group_sum *sum = LS_NEW(b->image->arena, ls_group_sum);
        *sum = (ls_group_sum){.group = g, .adds = adds_of_unit};
        ls_nodes_put(b, to, &ls_lowering_sum, from->list[first].together, sum);
        made[g] = true;
    }
    ls_nodes_copy(b, to, &from->list[first], past - first);
}

static void lower_unused(ls_builder *b, const ls_program_node *node) {
    const int *group = node->params;
    ls_build_fill(b, ls_groups_shard(b, *group, *group + 1));
}

static const ls_lowering unused = {.name = "unused", .lower = lower_unused};

/* Sums that stay, and to which no node of a program that begins them adds, are zeroed before all nodes. */
static void put_unused(const ls_builder *b, ls_program_nodes *nodes) {
    ls_program_nodes to = {0};
    const bool *adds = find_added(b, nodes, 0, nodes->n);
    for (int g = 0; g < b->packing->n_trained && nodes->n > 0; g++) {
        if (is_any(b, g, adds) || b->packing->groups[g].count == 0) continue;
        ls_nodes_put(b, &to, &unused, nodes->list[0].together, ls_arena_copy(b->image->arena, &g, sizeof g));
    }
    if (to.n == 0) return;
    ls_nodes_copy(b, &to, nodes->list, nodes->n);
    *nodes = to;
}

static ls_status run(const ls_builder *b, ls_program_nodes *nodes) {
    ls_program_nodes to = {0};
    if (!ls_sums_leave(b) && !begins_sums(b)) return ls_ok();
    for (int first = 0, past; first < nodes->n; first = past) {
        past = unit_past(b, nodes, first);
        if (begins_sums(b)) mark_first(b, nodes, first, past);
        const bool *adds = find_added(b, nodes, first, past);
        bool *made = LS_NEW_ARRAY(b->image->arena, bool, b->packing->n_groups + 1);
        for (int i = first, end; i < past && ls_sums_leave(b); i = end) {
            end = i + 1 + nodes->list[i].n_body;
            put_node(b, &to, nodes, i, end, adds, made);
        }
    }
    if (ls_sums_leave(b))
        *nodes = to;
    else
        put_unused(b, nodes);
    return ls_ok();
}

/* --- the node that makes a sum ------------------------------------------------------------------------------------ */

/*
 * Zeroes the elements that no node writes: gradients of parameters to which no node of the unit adds, and padding
 * between parameters.
 */
static void fill_gaps(ls_builder *b, const ls_group_sum *s) {
    const ls_group *group = &b->packing->groups[s->group];
    const int64_t element = (int64_t)ls_dtype_bytes(s->all.view.dtype);
    int64_t written = 0; /* elements from the group's start on that are written or zeroed */
    for (int f = group->first; f <= group->past; f++) {
        const bool past = f == group->past;
        if (!past && !s->adds[f]) continue;
        const ls_operand part = past ? s->all : ls_group_parameter(b, s->group, f, s->all);
        const int64_t start = past ? group->count : (int64_t)(part.offset - s->all.offset) / element;
        if (start > written) ls_build_fill(b, ls_operand_slice(s->all, 0, written, start - written));
        if (!past) written = start + part.view.size[0];
    }
}

static void lower(ls_builder *b, const ls_program_node *node) {
    const ls_graph *g = b->job->graph;
    ls_group_sum *s = node->params;
    const ls_group *group = &b->packing->groups[s->group];
    s->all = ls_build_private(b, LS_BUFFER_GRADIENT, ls_group_name(b, "gradients", s->group), b->image->accumulator, 1,
                              &group->count);
    ls_group_note(b, s->group, s->all);
    fill_gaps(b, s);
    for (int t = 1; t < g->n_tensors; t++) {
        const int f = b->packing->flat_of[t];
        if (g->tensors[t].role != LS_ROLE_ACCUMULATOR || f < group->first || f >= group->past) continue;
        b->tensor[t] = ls_group_parameter(b, s->group, f, s->all);
    }
}

const ls_lowering ls_lowering_sum = {.name = "sum", .lower = lower};

ls_group_sum *ls_put_empty_sum(const ls_builder *b, ls_program_nodes *to, int together, int group) {
    ls_group_sum *sum = LS_NEW(b->image->arena, ls_group_sum);
    *sum = (ls_group_sum){.group = group, .adds = LS_NEW_ARRAY(b->image->arena, bool, b->image->n_flats + 1)};
    ls_nodes_put(b, to, &ls_lowering_sum, together, sum);
    return sum;
}

int ls_find_sums(const ls_builder *b, const ls_program_nodes *nodes, int group, ls_group_sum ***out) {
    size_t capacity = 0;
    int n = 0;
    *out = NULL;
    for (int i = 0; i < nodes->n; i++) {
        if (nodes->list[i].lowering != &ls_lowering_sum) continue;
        ls_group_sum *sum = nodes->list[i].params;
        if (sum->group == group) *LS_PUSH(b->image->arena, *out, n, capacity) = sum;
    }
    return n;
}

const ls_pass ls_pass_sums = {
    .name = "sums", .about = "where the gradients of a group are added up on this rank", .run = run};
