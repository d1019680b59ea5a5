/*
 * split cuts the last dimension into parts (queries, keys and values of one product); join concatenates parts. Each is
 * the other's gradient. Both copy columns token by token, so tokens may be cut and sums may be partial
 * (compile/columns.c lowers them).
 */
#include "graph/graph_impl.h"

typedef struct split_params {
    int n;
    int64_t size[LS_NODE_OUTPUTS];
} split_params;

static int parts_of(const void *params) { return ((const split_params *)params)->n; }

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
    for (int o = 0; o < params->n; o++) {
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
    for (int i = 0; i < node->n_in; i++) {
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
    ls_tensor part[LS_NODE_OUTPUTS];
    if (!ls_gradient_wanted(d, 0)) return;
    for (int o = 0; o < node->n_out; o++) part[o] = gradient_of_part(d, node, o);
    ls_gradient_add(d, 0, ls_join(ls_gradient_graph(d), node->n_out, part));
}

static void join_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    int64_t size[LS_NODE_OUTPUTS];
    ls_tensor part[LS_NODE_OUTPUTS];
    for (int i = 0; i < node->n_in; i++) {
        const ls_shape *s = &ls_graph_tensor(g, node->in[i])->shape;
        size[i] = s->dim[s->ndim - 1].size;
    }
    ls_split(g, ls_gradient_out(d, 0), node->n_in, size, part);
    for (int i = 0; i < node->n_in; i++)
        if (ls_gradient_wanted(d, i)) ls_gradient_add(d, i, part[i]);
}

/* "*a,*b,*c" and "*[abc]". */
static char *write_parts(char *text, int n) {
    for (int i = 0; i < n; i++) {
        if (i > 0) *text++ = ',';
        *text++ = '*';
        *text++ = (char)('a' + i);
    }
    return text;
}
static char *write_whole(char *text, int n) {
    *text++ = '*';
    *text++ = '[';
    for (int i = 0; i < n; i++) *text++ = (char)('a' + i);
    *text++ = ']';
    return text;
}

static void split_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    text = write_whole(text, node->n_out);
    *text++ = '>';
    *write_parts(text, node->n_out) = 0;
}

static void join_dims(const ls_graph *g, const ls_node *node, char *text) {
    (void)g;
    text = write_parts(text, node->n_in);
    *text++ = '>';
    *write_whole(text, node->n_in) = 0;
}

const ls_op ls_op_split = {.name = "split",
                           .reach = LS_REACH_OWN,
                           .least_in = 1,
                           .most_in = 1,
                           .n_out = LS_NODE_OUTPUTS,
                           .outputs = parts_of,
                           .shape = split_shape,
                           .gradient = split_gradient,
                           .of_all = true,
                           .dims_of = split_dims,
                           .addends = 1U << 0};

const ls_op ls_op_join = {.name = "join",
                          .reach = LS_REACH_OWN,
                          .least_in = 2,
                          .most_in = LS_NODE_OUTPUTS,
                          .n_out = 1,
                          .shape = join_shape,
                          .gradient = join_gradient,
                          .dims_of = join_dims,
                          .addends = (1U << LS_NODE_OUTPUTS) - 1};

void ls_split(ls_graph *g, ls_tensor x, int n, const int64_t *size, ls_tensor *part) {
    for (int o = 0; part != NULL && o < n; o++) part[o] = LS_NO_TENSOR;
    if (part == NULL || size == NULL) {
        ls_graph_fail(g, ls_error(LS_INVALID, "op split: its %s NULL", part == NULL ? "parts are" : "sizes are"));
        return;
    }
    if (n < 2 || n > LS_NODE_OUTPUTS) {
        ls_graph_fail(g, ls_error(LS_INVALID, "op split: %d parts, expected 2 to %d", n, LS_NODE_OUTPUTS));
        return;
    }
    split_params params = {.n = n};
    for (int o = 0; o < n; o++) params.size[o] = size[o];
    part[0] = ls_graph_add(g, &ls_op_split, &params, sizeof params, &x, 1, -1);
    for (int o = 1; o < n && part[0].id != 0; o++) part[o] = ls_graph_output(g, part[0], o);
}

ls_tensor ls_join(ls_graph *g, int n, const ls_tensor *part) {
    if (part == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op join: its parts are NULL"));
    return ls_graph_add(g, &ls_op_join, NULL, 0, part, n, -1);
}
