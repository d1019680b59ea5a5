/* The options of a node: the ways to spread it over the ranks of an axis, and the placements of its tensors in each. */
#include "compile/shard/shard.h"

static ls_along_placement of_tensor(const ls_question *q, const ls_tensor_dims *dims, int letter,
                                    ls_along_placement without) {
    const int dim = ls_letter_dim(&q->dims, dims, letter);
    return dim >= 0 ? (ls_along_placement)dim : without;
}

/* The dimension that is a product beginning with the letter; -1: there is none. */
static int product_dim(const ls_question *q, const ls_tensor_dims *dims, int letter) {
    const int dim = ls_letter_dim(&q->dims, dims, letter);
    return dim >= 0 && dims->dim[dim].n > 1 && !dims->dim[dim].segments ? dim : -1;
}

/* The placement of a tensor when rows are exchanged: cut along the letter if it has it, else along the tokens. */
static ls_along_placement exchanged(const ls_question *q, ls_tensor t, const ls_tensor_dims *dims, int letter) {
    const int tokens = ls_shape_dim_of(&ls_graph_tensor(q->along->graph, t)->shape, LS_FACTOR_SEQUENCE);
    return of_tensor(q, dims, letter, tokens >= 0 ? (ls_along_placement)tokens : LS_WHOLE);
}

ls_along_placement ls_option_output(const ls_question *q, ls_spread_option choice, int o) {
    const ls_op *op = q->node->op;
    const ls_tensor_dims *dims = &q->dims.out[o];
    const bool is_sum = op->in_place[o] > 0 && ls_op_adds_to(op, op->in_place[o] - 1);
    const ls_along_placement without = dims->same ? LS_WHOLE : LS_PARTIAL;
    int product;
    switch (choice.way) {
    case LS_CUT:
        return of_tensor(q, dims, choice.letter, without);
    case LS_CUT_PRODUCT:
        product = product_dim(q, dims, choice.letter);
        return product >= 0 ? (ls_along_placement)product : without;
    case LS_EXCHANGE:
        return exchanged(q, q->node->out[o], dims, choice.letter);
    case LS_ADD_UP:
        return LS_PARTIAL;
    case LS_ADD_ON_FIRST:
        return is_sum ? LS_PARTIAL : LS_WHOLE;
    default:
        return LS_WHOLE;
    }
}

/* Whether the node sums over the letter, so that each rank has a term of its results. */
static bool sums_over(const ls_question *q, int letter) {
    bool sums = false;
    for (int o = 0; o < q->node->n_out; o++)
        sums |= ls_option_output(q, (ls_spread_option){LS_CUT, letter}, o) == LS_PARTIAL;
    return sums;
}

/*
 * The placement of an input. A sum to which the node adds is spread as the output that it becomes. If the node sums
 * over the letter that is cut (a row cut of a weight), each rank has a term of the result; then an addend without that
 * letter (a bias) must be a partial sum too, or each rank would add the whole of it.
 */
ls_along_placement ls_option_input(const ls_question *q, ls_spread_option choice, int i) {
    const ls_op *op = q->node->op;
    const bool is_addend = (op->addends & 1U << i) != 0;
    for (int o = 0; o < q->node->n_out; o++)
        if (op->in_place[o] == i + 1 && ls_op_adds_to(op, i)) return ls_option_output(q, choice, o);
    if (choice.way == LS_ADD_UP) return is_addend ? LS_PARTIAL : LS_WHOLE;
    if (choice.way == LS_CUT_PRODUCT) {
        const int product = product_dim(q, &q->dims.in[i], choice.letter);
        return product >= 0 ? (ls_along_placement)product : LS_WHOLE;
    }
    if (choice.way == LS_EXCHANGE) return exchanged(q, q->node->in[i], &q->dims.in[i], choice.letter);
    if (choice.way != LS_CUT) return LS_WHOLE;
    return of_tensor(q, &q->dims.in[i], choice.letter,
                     is_addend && sums_over(q, choice.letter) ? LS_PARTIAL : LS_WHOLE);
}

static bool adds_to_sum(const ls_node *node) {
    bool adds = false;
    for (int i = 0; i < node->n_in; i++) adds |= ls_op_adds_to(node->op, i);
    return adds;
}

/* Whether the letter stands for the dimension in which the node looks up ids; feature axes may cut it. */
static bool is_looked_up(const ls_question *q, int letter) {
    const ls_lookup *lookup = &q->node->op->lookup;
    if (lookup->ids == 0) return false;
    const int ndim = ls_graph_tensor(q->along->graph, q->node->in[lookup->among])->shape.ndim;
    const int d = lookup->dim < 0 ? ndim - 1 : lookup->dim;
    return ls_letter_dim(&q->dims, &q->dims.in[lookup->among], letter) == d;
}

static bool is_factor(const ls_question *q, int letter, ls_factor factor) {
    return !is_looked_up(q, letter) && ls_letter_is(q->along->graph, q->node, &q->dims, letter, factor);
}

/*
 * Whether the axis can cut what the letter stands for, wherever the node has it. Feature axes may also cut the tokens
 * of a rank, for a node that works on each token separately.
 */
static bool is_cut(const ls_question *q, int letter) {
    const ls_node *node = q->node;
    if (q->along->axis->kind != LS_AXIS_FEATURE) return is_factor(q, letter, ls_axis_factor(q->along->axis));
    if (is_factor(q, letter, LS_FACTOR_SEQUENCE)) return q->along->features->tokens && node->op->reach == LS_REACH_OWN;
    bool is = q->dims.may_cut[letter];
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const int d = ls_letter_dim(&q->dims, ls_node_tensor_dims(&q->dims, node, i), letter);
        is &= d < 0 || ls_is_shared(q->along->features, ls_node_tensor(node, i), d);
    }
    return is;
}

/* Whether a letter within a product that begins with `first` is also a dimension by itself, as in a reshape. */
static bool is_apart(const ls_question *q, int first) {
    unsigned inner = 0, alone = 0; /* sets of letters */
    for (int i = 0; i < ls_node_tensors(q->node); i++) {
        const ls_tensor_dims *dims = ls_node_tensor_dims(&q->dims, q->node, i);
        const int product = product_dim(q, dims, first);
        for (int d = 0; d < LS_MAX_DIMS; d++)
            for (int k = d == product; k < dims->dim[d].n; k++)
                *(d == product ? &inner : &alone) |= 1U << dims->dim[d].letter[k];
    }
    return (inner & alone) != 0;
}

/*
 * Whether the axis can cut the products that begin with the letter, and leave whole what has the letter by itself, of
 * which there is too little (KV heads). The node must have both kinds of tensors.
 */
static bool is_cut_product(const ls_question *q, int letter) {
    const ls_node *node = q->node;
    bool is = q->along->axis->kind == LS_AXIS_FEATURE && q->dims.may_cut[letter] && !is_apart(q, letter);
    bool has[2] = {false, false};
    for (int i = 0; i < ls_node_tensors(node) && is; i++) {
        const ls_tensor_dims *dims = ls_node_tensor_dims(&q->dims, node, i);
        const int d = ls_letter_dim(&q->dims, dims, letter);
        if (d < 0) continue;
        const bool product = product_dim(q, dims, letter) == d;
        has[product] = true;
        is = ls_is_shared(q->along->features, ls_node_tensor(node, i), d) == product;
    }
    return is && has[false] && has[true];
}

/* Whether ranks can have parts of both the tokens and what the letter stands for, and exchange rows. */
static bool is_exchanged(const ls_question *q, int letter) {
    const ls_op *op = q->node->op;
    const bool may = op->exchanges && q->along->axis->kind == LS_AXIS_FEATURE && q->along->features->tokens;
    if (!may || !is_looked_up(q, letter) || !q->dims.may_cut[letter]) return false;
    const ls_tensor table = q->node->in[op->lookup.among], ids = q->node->in[op->lookup.ids - 1];
    const int d = ls_letter_dim(&q->dims, &q->dims.in[op->lookup.among], letter);
    return ls_is_shared(q->along->features, table, d) &&
           ls_shape_has_factor(&ls_graph_tensor(q->along->graph, ids)->shape, LS_FACTOR_SEQUENCE);
}

static void add(ls_question *q, ls_spread_way way, int letter) { q->option[q->n++] = (ls_spread_option){way, letter}; }

/* The node's operations on its whole tensors. */
static double work_of(const ls_graph *graph, const ls_node *node) {
    ls_view in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const ls_tensor_info *info = ls_graph_tensor(graph, ls_node_tensor(node, i));
        int64_t size[LS_MAX_DIMS];
        for (int d = 0; d < info->shape.ndim; d++) size[d] = info->shape.dim[d].size;
        *(i < node->n_in ? &in[i] : &out[i - node->n_in]) = ls_view_dense(NULL, info->dtype, info->shape.ndim, size);
    }
    return node->op->flops != NULL ? node->op->flops(in, out, node->params) : (double)ls_view_elements(&out[0]);
}

void ls_question_ask(const ls_along *along, const ls_node *node, ls_question *q) {
    const bool features = along->axis->kind == LS_AXIS_FEATURE;
    *q = (ls_question){.along = along, .node = node, .work = features ? work_of(along->graph, node) : 0};
    ls_node_dims_find(along->graph, node, &q->dims);
    for (int letter = 0; letter < q->dims.n; letter++) {
        if (is_cut(q, letter)) add(q, LS_CUT, letter);
        if (is_cut_product(q, letter)) add(q, LS_CUT_PRODUCT, letter);
        if (is_exchanged(q, letter)) add(q, LS_EXCHANGE, letter);
    }
    if (node->op->addends != 0) add(q, LS_ADD_UP, -1);
    if (adds_to_sum(node) && !features) add(q, LS_ADD_ON_FIRST, -1);
    add(q, LS_ALL_WHOLE, -1);
}
