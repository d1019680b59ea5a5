/*
 * reshape: the same elements in the same order with other dimensions; nothing moves. The batch and the sequence must
 * remain separate dimensions: if one were split or merged, a rank's tokens would no longer be a range of one dimension.
 */
#include "graph/graph_impl.h"

#include <stdio.h>

typedef struct reshape_params {
    int ndim;
    int64_t size[LS_MAX_DIMS];
} reshape_params;

static ls_status reshape_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const reshape_params *params = node->params;
    const ls_tensor_info *x = ls_graph_tensor(g, node->in[0]);
    ls_shape to = {.ndim = params->ndim};
    const int64_t present = ls_shape_elements(&x->shape);
    int64_t elements = 1; /* never more than `present`, so the product cannot overflow */
    for (int i = 0; i < to.ndim; i++) {
        to.dim[i].size = params->size[i];
        if (params->size[i] < 1) return ls_op_input_error(g, node, 0, "new dimensions of at least 1");
        if (params->size[i] > present / elements)
            return ls_op_input_error(g, node, 0, "at least as many elements as the new dimensions have");
        elements *= params->size[i];
    }
    if (elements != present) return ls_op_input_error(g, node, 0, "%lld elements", (long long)elements);
    /* In the new dimensions, a factor must have the same size, and the same product of the sizes before it. */
    int64_t before = 1;
    for (int i = 0; i < x->shape.ndim; i++) {
        if (x->shape.dim[i].factor != LS_FACTOR_NONE) {
            int64_t reached = 1;
            int j = 0;
            while (j < to.ndim && reached < before) reached *= to.dim[j++].size;
            while (j < to.ndim && reached == before && to.dim[j].size == 1 && x->shape.dim[i].size != 1) j++;
            while (j < to.ndim && to.dim[j].factor != LS_FACTOR_NONE) j++;
            if (reached != before || j == to.ndim || to.dim[j].size != x->shape.dim[i].size)
                return ls_op_input_error(g, node, 0, "a shape that keeps dimension %d (%s) whole", i,
                                         x->shape.dim[i].factor == LS_FACTOR_BATCH ? "the batch" : "the sequence");
            to.dim[j].factor = x->shape.dim[i].factor;
        }
        before *= x->shape.dim[i].size;
    }
    out->dtype = x->dtype;
    out->shape = to;
    return ls_ok();
}

/* --- what the dimensions stand for -------------------------------------------------------------------------------- */

enum { FROM, TO, SIDES };

typedef struct naming {
    const ls_shape *shape[SIDES];
    char names[SIDES][LS_MAX_DIMS][LS_DIM_LETTERS + 1]; /* of each dimension */
    char next;                                          /* the next name, as a lower-case letter */
} naming;

/* Dimensions first .. past - 1 of each side. */
typedef struct span {
    int first[SIDES], past[SIDES];
} span;

static char lower_name(naming *n) { return n->next++; }
static char upper_name(naming *n) { return (char)(n->next++ - 'a' + 'A'); }

/* The number of dimensions of a side with more than one element; *which: the last of them. */
static int count_large(const naming *n, const span *s, int side, int *which) {
    int large = 0;
    for (int d = s->first[side]; d < s->past[side]; d++) {
        if (n->shape[side]->dim[d].size == 1) continue;
        large++;
        *which = d;
    }
    return large;
}

/* Dimension `whole` of one side is the product of the dimensions of the other. */
static void name_product(naming *n, const span *s, int side, int whole) {
    int letters = 0;
    for (int d = s->first[!side]; d < s->past[!side]; d++) {
        if (n->shape[!side]->dim[d].size == 1) continue;
        n->names[!side][d][0] = n->names[side][whole][letters++] = lower_name(n);
    }
}

/*
 * Names dimensions with equally many elements on both sides: a single one on each side is the same dimension; a single
 * one is the product of several on the other side; if there are several on both sides, they are unrelated. A dimension
 * of one element beside others is unrelated too.
 */
static void name_span(naming *n, const span *s) {
    int which[SIDES] = {s->first[FROM], s->first[TO]};
    const int from = count_large(n, s, FROM, &which[FROM]), to = count_large(n, s, TO, &which[TO]);
    if (s->past[FROM] - s->first[FROM] == 1 && s->past[TO] - s->first[TO] == 1)
        n->names[FROM][which[FROM]][0] = n->names[TO][which[TO]][0] = lower_name(n);
    else if (from == 1 || to == 1)
        name_product(n, s, from == 1 ? FROM : TO, from == 1 ? which[FROM] : which[TO]);
    for (int side = 0; side < SIDES; side++)
        for (int d = s->first[side]; d < s->past[side]; d++)
            if (n->names[side][d][0] == 0) n->names[side][d][0] = upper_name(n);
}

/* The shortest span from `first` on that has equally many elements on both sides. */
static span next_span(const naming *n, const int first[SIDES]) {
    span s = {{first[FROM], first[TO]}, {first[FROM], first[TO]}};
    int64_t elements[SIDES] = {1, 1};
    do {
        const bool done = s.past[FROM] == n->shape[FROM]->ndim;
        const int side = !done && elements[FROM] <= elements[TO] ? FROM : TO;
        if (s.past[side] == n->shape[side]->ndim) break;
        elements[side] *= n->shape[side]->dim[s.past[side]++].size;
        if (side == FROM && s.past[TO] == s.first[TO] && s.past[TO] < n->shape[TO]->ndim)
            elements[TO] *= n->shape[TO]->dim[s.past[TO]++].size;
    } while (elements[FROM] != elements[TO]);
    return s;
}

static char *write_side(const naming *n, int side, char *text) {
    for (int d = 0; d < n->shape[side]->ndim; d++) {
        const char *names = n->names[side][d];
        text += sprintf(text, names[1] != 0 ? "(%s)" : "%s", names);
    }
    return text;
}

static void reshape_dims(const ls_graph *g, const ls_node *node, char *text) {
    naming n = {.shape = {&ls_graph_tensor(g, node->in[0])->shape, &ls_graph_tensor(g, node->out[0])->shape},
                .next = 'a'};
    for (int first[SIDES] = {0, 0}; first[FROM] < n.shape[FROM]->ndim || first[TO] < n.shape[TO]->ndim;) {
        const span s = next_span(&n, first);
        name_span(&n, &s);
        first[FROM] = s.past[FROM];
        first[TO] = s.past[TO];
    }
    text = write_side(&n, FROM, text);
    *text++ = '>';
    write_side(&n, TO, text);
}

/* --- the op ------------------------------------------------------------------------------------------------------- */

static void reshape_gradient(ls_gradient *d, const ls_node *node) {
    ls_graph *g = ls_gradient_graph(d);
    if (!ls_gradient_wanted(d, 0)) return;
    const ls_shape *from = &ls_graph_tensor(g, node->in[0])->shape;
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < from->ndim; i++) size[i] = from->dim[i].size;
    ls_gradient_add(d, 0, ls_reshape(g, ls_gradient_out(d, 0), from->ndim, size));
}

/* The sizes are in the params, so the new token needs params of its own. */
static ls_tensor reshape_next(ls_next *n, const ls_node *node) {
    const ls_shape shape = ls_next_shape(n, node->out[0]);
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < shape.ndim; d++) size[d] = shape.dim[d].size;
    return ls_reshape(ls_next_graph(n), ls_next_tensor(n, node->in[0]), shape.ndim, size);
}

const ls_op ls_op_reshape = {.name = "reshape",
                             .reach = LS_REACH_OWN,
                             .least_in = 1,
                             .most_in = 1,
                             .n_out = 1,
                             .moves = true,
                             .in_place = {1},
                             .shape = reshape_shape,
                             .gradient = reshape_gradient,
                             .dims_of = reshape_dims,
                             .addends = 1U << 0,
                             .next = reshape_next};

ls_tensor ls_reshape(ls_graph *g, ls_tensor x, int ndim, const int64_t *size) {
    reshape_params params = {.ndim = ndim};
    if (ndim < 1 || ndim > LS_MAX_DIMS)
        return ls_graph_fail(g, ls_error(LS_INVALID, "op reshape: %d dimensions, expected 1 to %d", ndim, LS_MAX_DIMS));
    if (size == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op reshape: the list of sizes is NULL"));
    for (int i = 0; i < ndim; i++) params.size[i] = size[i];
    return ls_graph_add(g, &ls_op_reshape, &params, sizeof params, &x, 1, -1);
}

ls_tensor ls_split_last(ls_graph *g, ls_tensor x, int64_t H, int64_t D) {
    if (!ls_graph_usable(g, x, "ls_split_last")) return LS_NO_TENSOR;
    const ls_shape *from = &ls_graph_tensor(g, x)->shape;
    int64_t size[LS_MAX_DIMS + 1];
    for (int i = 0; i + 1 < from->ndim; i++) size[i] = from->dim[i].size;
    size[from->ndim - 1] = H;
    size[from->ndim] = D;
    return ls_reshape(g, x, from->ndim + 1, size);
}

ls_tensor ls_merge_last(ls_graph *g, ls_tensor x) {
    if (!ls_graph_usable(g, x, "ls_merge_last")) return LS_NO_TENSOR;
    const ls_shape *from = &ls_graph_tensor(g, x)->shape;
    int64_t size[LS_MAX_DIMS] = {0};
    for (int i = 0; i < from->ndim; i++) size[i] = from->dim[i].size;
    if (from->ndim >= 2) size[from->ndim - 2] *= size[from->ndim - 1];
    return ls_reshape(g, x, from->ndim - 1, size);
}
