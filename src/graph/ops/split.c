/*
 * split cuts a dimension into parts (for example queries, keys and values of one product); join concatenates parts.
 * Each is the other's gradient. Both copy parts token by token, so tokens may be cut and sums may be partial
 * (compile/columns.c lowers them). Slices, and concatenations of many parts, are built from them.
 */
#include "graph/graph_impl.h"

/* For both ops. */
typedef struct split_params {
    int dim, n;
    int64_t size[LS_NODE_OUTPUTS]; /* of a split */
} split_params;

static int parts_of(const void *params) { return ((const split_params *)params)->n; }

static ls_status check_dim(const ls_graph *g, const ls_node *node, int i) {
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[i]);
    const int dim = ((const split_params *)node->params)->dim;
    if (dim >= 0 && dim < x->shape.ndim && x->shape.dim[dim].factor == LS_FACTOR_NONE) return ls_ok();
    return ls_op_input_error(g, node, i, "a dimension %d that is neither batch nor sequence", dim);
}

static ls_status split_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const split_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    const int dim = params->dim;
    LS_TRY(check_dim(g, node, 0));
    int64_t sum = 0;
    for (int o = 0; o < params->n; o++) {
        const int64_t size = params->size[o];
        if (size < 1 || size > x->shape.dim[dim].size - sum)
            return ls_op_input_error(g, node, 0,
                                     "a dimension %d that holds all parts, and parts of at least 1 (part %d is %lld)",
                                     dim, o, (long long)size);
        sum += size;
        out[o].dtype = x->dtype;
        out[o].shape = x->shape;
        out[o].shape.dim[dim].size = size;
    }
    if (sum == x->shape.dim[dim].size) return ls_ok();
    return ls_op_input_error(g, node, 0, "a dimension %d of %lld, the sum of the parts", dim, (long long)sum);
}

static ls_status join_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *first = ls_graph_tensor(g, node->in[0]);
    const int dim = ((const split_params *)node->params)->dim;
    out->dtype = first->dtype;
    out->shape = first->shape;
    for (int i = 0; i < node->n_in; i++) {
        LS_TRY(check_dim(g, node, i));
        const ls_tensor_info *part = ls_graph_tensor(g, node->in[i]);
        ls_shape like = part->shape;
        if (i > 0) out->shape.dim[dim].size += like.dim[dim].size;
        like.dim[dim] = first->shape.dim[dim];
        if (part->dtype != first->dtype || !ls_shape_equal(&like, &first->shape))
            return ls_op_input_error(g, node, i, "the type and the dimensions of \"%s\" except dimension %d",
                                     first->name, dim);
    }
    return ls_ok();
}

/* The gradient of a part is 0 if the roots do not depend on the part. */
static ls_tensor zeros_of(ls_graph *g, ls_tensor part, ls_dtype dtype) {
    const ls_tensor zeros = ls_zeros(g, &ls_graph_tensor(g, part)->shape);
    return dtype == g->accumulator ? zeros : ls_cast(g, zeros, dtype);
}

static void split_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    ls_tensor part[LS_NODE_OUTPUTS];
    ls_dtype dtype = g->accumulator; /* of the gradients of all parts */
    if (!ls_gradient_wanted(d, 0)) return;
    for (int o = 0; o < node->n_out; o++) {
        part[o] = ls_gradient_out(d, o);
        if (part[o].id != 0) dtype = ls_graph_tensor(g, part[o])->dtype;
    }
    for (int o = 0; o < node->n_out; o++)
        if (part[o].id == 0) part[o] = zeros_of(g, node->out[o], dtype);
    ls_gradient_add(d, 0, ls_concat(g, ((const split_params *)node->params)->dim, node->n_out, part));
}

static void join_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    int64_t size[LS_NODE_OUTPUTS];
    ls_tensor part[LS_NODE_OUTPUTS];
    const int dim = ((const split_params *)node->params)->dim;
    for (int i = 0; i < node->n_in; i++) size[i] = ls_graph_tensor(g, node->in[i])->shape.dim[dim].size;
    ls_split_along(g, ls_gradient_out(d, 0), dim, node->n_in, size, part);
    for (int i = 0; i < node->n_in; i++)
        if (ls_gradient_wanted(d, i)) ls_gradient_add(d, i, part[i]);
}

/* Writes a tensor whose dimension `dim` is the text `as` and whose other dimensions are letters from a on. */
static char *write_with(char *text, int ndim, int dim, const char *as) {
    for (int d = 0; d < ndim; d++) {
        if (d != dim) *text++ = (char)('a' + d);
        for (const char *c = as; d == dim && *c != 0; c++) *text++ = *c;
    }
    return text;
}

/* "abkd,abld,abmd" and "ab[klm]d": the letters of parts begin at k, after those of dimensions. */
static char *write_parts(char *text, int ndim, int dim, int n) {
    for (int i = 0; i < n; i++) {
        if (i > 0) *text++ = ',';
        text = write_with(text, ndim, dim, (char[]){(char)('k' + i), 0});
    }
    return text;
}
static char *write_whole(char *text, int ndim, int dim, int n) {
    char parts[LS_NODE_OUTPUTS + 3] = "[";
    for (int i = 0; i < n; i++) parts[1 + i] = (char)('k' + i);
    parts[1 + n] = ']';
    return write_with(text, ndim, dim, parts);
}

static void split_dims(const ls_graph *g, const ls_node *node, char *text) {
    const int ndim = ls_graph_tensor(g, node->in[0])->shape.ndim, dim = ((const split_params *)node->params)->dim;
    text = write_whole(text, ndim, dim, node->n_out);
    *text++ = '>';
    *write_parts(text, ndim, dim, node->n_out) = 0;
}

static void join_dims(const ls_graph *g, const ls_node *node, char *text) {
    const int ndim = ls_graph_tensor(g, node->in[0])->shape.ndim, dim = ((const split_params *)node->params)->dim;
    text = write_parts(text, ndim, dim, node->n_in);
    *text++ = '>';
    *write_whole(text, ndim, dim, node->n_in) = 0;
}

_Static_assert(LS_NODE_OUTPUTS <= LS_NODE_INPUTS && LS_NODE_OUTPUTS <= LS_DIM_LETTERS &&
                   LS_NODE_OUTPUTS + LS_MAX_DIMS - 1 <= LS_NODE_LETTERS,
               "a join of as many parts as a split has, each with a letter");

const ls_op ls_op_split = {.name = "split",
                           .reach = LS_REACH_OWN,
                           .least_in = 1,
                           .most_in = 1,
                           .n_out = LS_NODE_OUTPUTS,
                           .outputs = parts_of,
                           .moves = true,
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
                          .moves = true,
                          .shape = join_shape,
                          .gradient = join_gradient,
                          .dims_of = join_dims,
                          .addends = (1U << LS_NODE_OUTPUTS) - 1};

/* --- public functions --------------------------------------------------------------------------------------------- */

void ls_split_along(ls_graph *g, ls_tensor x, int dim, int n, const int64_t *size, ls_tensor *part) {
    for (int o = 0; part != NULL && o < n; o++) part[o] = LS_NO_TENSOR;
    if (part == NULL || size == NULL) {
        ls_graph_fail(g, ls_error(LS_INVALID, "op split: its %s NULL", part == NULL ? "parts are" : "sizes are"));
        return;
    }
    if (n < 2 || n > LS_NODE_OUTPUTS) {
        ls_graph_fail(g, ls_error(LS_INVALID, "op split: %d parts, expected 2 to %d", n, LS_NODE_OUTPUTS));
        return;
    }
    split_params params = {.dim = dim, .n = n};
    for (int o = 0; o < n; o++) params.size[o] = size[o];
    part[0] = ls_graph_add(g, &ls_op_split, &params, sizeof params, &x, 1, -1);
    for (int o = 1; o < n && part[0].id != 0; o++) part[o] = ls_graph_output(g, part[0], o);
}

/* The index of the last dimension of a tensor; 0 if it is not a tensor of the graph, which the op then refuses. */
static int last_of(const ls_graph *g, ls_tensor x) {
    return g != NULL && ls_graph_has(g, x) ? ls_graph_tensor(g, x)->shape.ndim - 1 : 0;
}

void ls_split(ls_graph *g, ls_tensor x, int n, const int64_t *size, ls_tensor *part) {
    ls_split_along(g, x, last_of(g, x), n, size, part);
}

static ls_tensor join(ls_graph *g, int dim, int n, const ls_tensor *part) {
    const split_params params = {.dim = dim, .n = n};
    return ls_graph_add(g, &ls_op_join, &params, sizeof params, part, n, -1);
}

ls_tensor ls_join(ls_graph *g, int n, const ls_tensor *part) {
    if (part == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op join: its parts are NULL"));
    return join(g, n > 0 ? last_of(g, part[0]) : 0, n, part);
}

/* Joins groups of as many parts as one join takes, then joins the results, and so on. */
ls_tensor ls_concat(ls_graph *g, int dim, int n, const ls_tensor *part) {
    if (part == NULL || n < 1)
        return ls_graph_fail(g, ls_error(LS_INVALID, "op join: its parts are %s", part == NULL ? "NULL" : "none"));
    if (n == 1) return ls_graph_usable(g, part[0], "ls_concat") ? part[0] : LS_NO_TENSOR;
    if (n <= LS_NODE_OUTPUTS) return join(g, dim, n, part);
    int64_t width = 1; /* how many parts each of the last joins contains */
    while (width * LS_NODE_OUTPUTS < n) width *= LS_NODE_OUTPUTS;
    ls_tensor joined[LS_NODE_OUTPUTS];
    int groups = 0;
    for (int64_t first = 0; first < n; first += width)
        joined[groups++] = ls_concat(g, dim, (int)ls_min(width, n - first), part + first);
    return join(g, dim, groups, joined);
}

/* `length` consecutive elements: one part of a split, whose other parts nothing reads. */
static ls_tensor part_of(ls_graph *g, ls_tensor x, int dim, int64_t start, int64_t length) {
    if (!ls_graph_usable(g, x, "ls_slice")) return LS_NO_TENSOR;
    const int64_t all = ls_graph_tensor(g, x)->shape.dim[dim].size, ends[] = {start, length, all - start - length};
    int64_t size[LS_COUNT(ends)];
    ls_tensor part[LS_COUNT(ends)];
    int n = 0;
    const int wanted = start > 0 ? 1 : 0;
    for (size_t i = 0; i < LS_COUNT(ends); i++)
        if (ends[i] > 0) size[n++] = ends[i];
    LS_ASSERT(n > wanted);
    if (n == 1) return x;
    ls_split_along(g, x, dim, n, size, part);
    return part[wanted];
}

/* Every step-th of length * step consecutive elements: the first column, if they are seen as rows of `step`. */
static ls_tensor strided(ls_graph *g, ls_tensor x, int dim, int64_t start, int64_t length, int64_t step) {
    x = part_of(g, x, dim, start, length * step);
    if (!ls_graph_usable(g, x, "ls_slice")) return LS_NO_TENSOR;
    const ls_shape from = ls_graph_tensor(g, x)->shape;
    int64_t size[LS_MAX_DIMS + 1], n = 0;
    if (from.ndim == LS_MAX_DIMS)
        return ls_graph_fail(g, ls_error(LS_UNSUPPORTED, "op slice: a step of %lld in a tensor of %d dimensions; %s",
                                         (long long)step, from.ndim, "expected one less, or step 1"));
    for (int d = 0; d < from.ndim; d++) {
        size[n++] = d == dim ? length : from.dim[d].size;
        if (d == dim) size[n++] = step;
    }
    x = part_of(g, ls_reshape(g, x, from.ndim + 1, size), dim + 1, 0, 1);
    for (int d = dim + 1; d < from.ndim; d++) size[d] = from.dim[d].size;
    return ls_reshape(g, x, from.ndim, size);
}

ls_tensor ls_slice(ls_graph *g, ls_tensor x, int dim, int64_t start, int64_t length, int64_t step) {
    if (!ls_graph_usable(g, x, "ls_slice")) return LS_NO_TENSOR;
    const ls_shape shape = ls_graph_tensor(g, x)->shape;
    if (dim < 0 || dim >= shape.ndim)
        return ls_graph_fail(g, ls_error(LS_INVALID, "op slice: dimension %d of %d", dim, shape.ndim));
    const int64_t size = shape.dim[dim].size;
    if (start < 0 || start >= size || step < 1 || length < 1 || length - 1 > (size - 1 - start) / step)
        return ls_graph_fail(g, ls_error(LS_INVALID, "op slice: %lld elements from %lld on, %lld apart, of %lld",
                                         (long long)length, (long long)start, (long long)step, (long long)size));
    if (step == 1 || length == 1) return part_of(g, x, dim, start, length);
    if (length <= (size - start) / step) return strided(g, x, dim, start, length, step);
    /* The last element may have fewer than `step` elements from it to the end. */
    const ls_tensor part[] = {strided(g, x, dim, start, length - 1, step),
                              part_of(g, x, dim, start + (length - 1) * step, 1)};
    return ls_concat(g, dim, 2, part);
}
