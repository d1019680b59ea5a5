/*
 * split cuts the last dimension into three parts (queries, keys and values of one product); join concatenates three
 * parts. Each is the other's gradient. Both copy columns token by token, so tokens may be cut and sums may be partial
 * (compile/columns.c lowers them).
 */
#include "graph/graph_impl.h"

enum { PARTS = 3 };

typedef struct split_params {
    int64_t size[PARTS];
} split_params;

static ls_status check_last(const ls_graph *g, const ls_node *node, int i) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[i]);
    if (x->dtype == g->dtype && x->shape.ndim >= 1 && x->shape.dim[x->shape.ndim - 1].factor == LS_FACTOR_NONE)
        return ls_ok();
    return ls_op_input_error(g, node, i, "activations [..,K] with a last dimension that is neither batch nor sequence");
}

static ls_status split_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const split_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    const int last = x->shape.ndim - 1;
    LS_TRY(check_last(g, node, 0));
    int64_t sum = 0;
    for (int o = 0; o < PARTS; o++) {
        const int64_t size = params->size[o];
        if (size < 1 || size > x->shape.dim[last].size - sum)
            return ls_op_input_error(g, node, 0,
                                     "a last dimension that holds all parts, and parts of at least 1 (part %d is %lld)",
                                     o, (long long)size);
        sum += size;
        out[o].dtype = x->dtype;
        out[o].shape = x->shape;
        out[o].shape.dim[last].size = size;
    }
    if (sum == x->shape.dim[last].size) return ls_ok();
    return ls_op_input_error(g, node, 0, "a last dimension of %lld, the sum of the parts", (long long)sum);
}

static ls_status join_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *first = ls_graph_tensor(g, node->in[0]);
    const int last = first->shape.ndim - 1;
    out->dtype = first->dtype;
    out->shape = first->shape;
    for (int i = 0; i < PARTS; i++) {
        LS_TRY(check_last(g, node, i));
        ls_shape like = ls_graph_tensor(g, node->in[i])->shape;
        if (i > 0) out->shape.dim[last].size += like.dim[like.ndim - 1].size;
        like.dim[like.ndim - 1] = first->shape.dim[last];
        if (!ls_shape_equal(&like, &first->shape))
            return ls_op_input_error(g, node, i, "the dimensions of \"%s\" except the last one", first->name);
    }
    return ls_ok();
}

/* The gradient of a part is 0 if the roots do not depend on it. */
static ls_tensor gradient_of_part(ls_gradient *d, const ls_node *node, int o) {
    ls_graph *g = ls_gradient_graph(d);
    const ls_tensor gradient = ls_gradient_out(d, o);
    if (gradient.id != 0) return gradient;
    return ls_cast(g, ls_zeros(g, &ls_graph_tensor(g, node->out[o])->shape), g->dtype);
}

static void split_gradient(ls_gradient *d, const ls_node *node) {
    ls_tensor part[PARTS];
    if (!ls_gradient_wanted(d, 0)) return;
    for (int o = 0; o < PARTS; o++) part[o] = gradient_of_part(d, node, o);
    ls_gradient_add(d, 0, ls_join(ls_gradient_graph(d), part));
}

static void join_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    int64_t size[PARTS];
    ls_tensor part[PARTS];
    for (int i = 0; i < PARTS; i++) {
        const ls_shape *s = &ls_graph_tensor(g, node->in[i])->shape;
        size[i] = s->dim[s->ndim - 1].size;
    }
    ls_split(g, ls_gradient_out(d, 0), size, part);
    for (int i = 0; i < PARTS; i++)
        if (ls_gradient_wanted(d, i)) ls_gradient_add(d, i, part[i]);
}

const ls_op ls_op_split = {.name = "split",
                           .reach = LS_REACH_OWN,
                           .least_in = 1,
                           .most_in = 1,
                           .n_out = PARTS,
                           .shape = split_shape,
                           .gradient = split_gradient,
                           .of_all = true,
                           .dims = "*[abc]>*a,*b,*c",
                           .addends = 1U << 0};

const ls_op ls_op_join = {.name = "join",
                          .reach = LS_REACH_OWN,
                          .least_in = PARTS,
                          .most_in = PARTS,
                          .n_out = 1,
                          .shape = join_shape,
                          .gradient = join_gradient,
                          .dims = "*a,*b,*c>*[abc]",
                          .addends = 1U << 0 | 1U << 1 | 1U << 2};

void ls_split(ls_graph *g, ls_tensor x, const int64_t size[3], ls_tensor part[3]) {
    if (part == NULL || size == NULL) {
        ls_graph_fail(g, ls_error(LS_INVALID, "op split: its %s NULL", part == NULL ? "parts are" : "sizes are"));
        for (int o = 0; part != NULL && o < PARTS; o++) part[o] = LS_NO_TENSOR;
        return;
    }
    const split_params params = {{size[0], size[1], size[2]}};
    part[0] = ls_graph_add(g, &ls_op_split, &params, sizeof params, &x, 1, -1);
    for (int o = 1; o < PARTS; o++) part[o] = part[0].id != 0 ? ls_graph_output(g, part[0], o) : LS_NO_TENSOR;
}

ls_tensor ls_join(ls_graph *g, const ls_tensor part[3]) {
    if (part == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op join: its parts are NULL"));
    return ls_graph_add(g, &ls_op_join, NULL, 0, part, PARTS, -1);
}
