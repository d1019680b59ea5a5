/*
 * The factors of a graph: what the dimensions of its tensors stand for, found from the letters of its nodes. Dimensions
 * with the same letter in a node are the same thing. Where a product or segments meet a dimension that was taken for a
 * single thing, this dimension becomes a product or segments everywhere: unification of terms (Robinson 1965), in which
 * the sizes decide how the parts of two products correspond.
 */
#include "graph/graph_impl.h"

typedef enum form { ATOM, PRODUCT, SEGMENTS } form;

/* What a dimension stands for. Terms that were found to be equal share a root, which has the form. */
typedef struct term {
    int parent; /* its own index: a root */
    form form;
    int n, part[LS_DIM_LETTERS]; /* parts of a product, outermost first; or of segments, in order */
    int64_t size;                /* 0: not known yet; the size of a letter that is never a dimension by itself */
    bool whole;                  /* some node needs the whole dimension */
    int number;                  /* of a term without parts: 1 + its number among the factors; 0: none yet */
    ls_factor is;
} term;

typedef struct finder {
    const ls_graph *graph;
    ls_arena *arena;
    term *terms;
    int n;
    size_t capacity;
    int first[LS_NODE_LETTERS]; /* by letter of the current node: its term; -1: none yet */
    ls_factors *out;
    size_t factor_capacity;
} finder;

static int add_term(finder *f, form kind, int64_t size) {
    const int t = f->n;
    *LS_PUSH(f->arena, f->terms, f->n, f->capacity) = (term){.parent = t, .form = kind, .size = size};
    return t;
}

static int root_of(finder *f, int t) {
    while (f->terms[t].parent != t) t = f->terms[t].parent = f->terms[f->terms[t].parent].parent;
    return t;
}

static void join(finder *f, int from, int to) {
    f->terms[to].whole |= f->terms[from].whole;
    if (f->terms[to].size == 0) f->terms[to].size = f->terms[from].size;
    if (f->terms[from].is != LS_FACTOR_NONE) f->terms[to].is = f->terms[from].is;
    f->terms[from].parent = to;
}

/* Two terms that have no parts in common: neither can be cut. */
static void keep_whole(finder *f, int a, int b) { f->terms[a].whole = f->terms[b].whole = true; }

static void unify(finder *f, int a, int b);

/* Makes `large` the product of `part` and a remainder, which is returned; -1: that is not possible. */
static int divide(finder *f, int large, int part) {
    const int64_t size = f->terms[large].size, of = f->terms[part].size;
    if (size % of != 0) return -1;
    const int rest = add_term(f, ATOM, size / of), product = add_term(f, PRODUCT, size);
    f->terms[product].n = 2;
    f->terms[product].part[0] = part;
    f->terms[product].part[1] = rest;
    unify(f, large, product);
    return root_of(f, rest);
}

/*
 * Unifies the parts of two products of one size, from the outermost on: of two parts, the larger one is the product of
 * the smaller one and a remainder.
 */
static void unify_products(finder *f, int a, int b) {
    const term x = f->terms[a], y = f->terms[b];
    int i = 0, j = 0, left = root_of(f, x.part[0]), right = root_of(f, y.part[0]);
    while (left >= 0 && right >= 0) {
        const int64_t l = f->terms[left].size, r = f->terms[right].size;
        if (l == r) {
            unify(f, left, right);
            if (++i == x.n || ++j == y.n) return;
            left = root_of(f, x.part[i]);
            right = root_of(f, y.part[j]);
        } else if (l > r) {
            left = divide(f, left, right);
            right = ++j < y.n ? root_of(f, y.part[j]) : -1;
        } else {
            right = divide(f, right, left);
            left = ++i < x.n ? root_of(f, x.part[i]) : -1;
        }
    }
    keep_whole(f, a, b);
}

static bool same_sizes(finder *f, const term *a, const term *b) {
    bool same = a->n == b->n;
    for (int k = 0; same && k < a->n; k++)
        same = f->terms[root_of(f, a->part[k])].size == f->terms[root_of(f, b->part[k])].size;
    return same;
}

/* The two terms are the same thing. */
static void unify(finder *f, int a, int b) {
    a = root_of(f, a);
    b = root_of(f, b);
    const term x = f->terms[a], y = f->terms[b];
    if (a == b) return;
    if (x.size != y.size && x.size != 0 && y.size != 0) {
        keep_whole(f, a, b);
        return;
    }
    if (x.form == ATOM) {
        join(f, a, b);
        return;
    }
    join(f, b, a);
    if (y.form == ATOM) return;
    if (x.form == PRODUCT && y.form == PRODUCT)
        unify_products(f, a, b);
    else if (x.form == SEGMENTS && y.form == SEGMENTS && same_sizes(f, &x, &y))
        for (int k = 0; k < x.n; k++) unify(f, x.part[k], y.part[k]);
    else
        keep_whole(f, a, b);
}

/* --- the letters of a node ---------------------------------------------------------------------------------------- */

/* The index of the term of a tensor's dimension. These terms come first, in the order of tensors. */
static int term_of(ls_tensor t, int d) { return t.id * LS_MAX_DIMS + d; }

static int term_of_letter(finder *f, const ls_node_dims *dims, int letter, int64_t size) {
    int *t = &f->first[letter];
    if (*t < 0) *t = add_term(f, ATOM, size);
    f->terms[root_of(f, *t)].whole |= dims->needs_whole[letter];
    return *t;
}

static void meet_single(finder *f, const ls_node_dims *dims, const ls_dim_letters *dim, int at) {
    unify(f, term_of_letter(f, dims, dim->letter[0], f->terms[root_of(f, at)].size), at);
}

/*
 * Unifies a dimension with a product or segments of letters; the size of at most one letter may be unknown. Letters of
 * one element are left out of a product; if none remain, the dimension is not a product.
 */
static void meet_compound(finder *f, const ls_node_dims *dims, const ls_dim_letters *dim, int at) {
    const int64_t size = f->terms[root_of(f, at)].size;
    int64_t known = dim->segments ? 0 : 1;
    for (int k = 0; k < dim->n; k++) {
        const int t = f->first[dim->letter[k]];
        const int64_t part = t >= 0 ? f->terms[root_of(f, t)].size : 0;
        if (part != 0) known = dim->segments ? known + part : known * part;
    }
    const int compound = add_term(f, dim->segments ? SEGMENTS : PRODUCT, size);
    for (int k = 0; k < dim->n; k++) {
        const int t = term_of_letter(f, dims, dim->letter[k], dim->segments ? size - known : size / known);
        term *c = &f->terms[compound];
        if (dim->segments || f->terms[root_of(f, t)].size != 1) c->part[c->n++] = t;
    }
    const term c = f->terms[compound];
    if (c.n > 0) unify(f, at, c.n == 1 ? c.part[0] : compound);
}

/* First the letters that are dimensions by themselves, as the sizes of the others follow from these. */
static void meet(finder *f, const ls_node *node) {
    ls_node_dims dims;
    ls_node_dims_find(f->graph, node, &dims);
    for (int letter = 0; letter < LS_NODE_LETTERS; letter++) f->first[letter] = -1;
    for (int compound = 0; compound < 2; compound++) {
        for (int i = 0; i < ls_node_tensors(node); i++) {
            const ls_tensor t = ls_node_tensor(node, i);
            for (int d = 0; d < ls_graph_tensor(f->graph, t)->shape.ndim; d++) {
                const ls_dim_letters *dim = &ls_node_tensor_dims(&dims, node, i)->dim[d];
                if ((dim->n > 1) == compound) (compound ? meet_compound : meet_single)(f, &dims, dim, term_of(t, d));
            }
        }
    }
}

/* --- the result --------------------------------------------------------------------------------------------------- */

static int number_of(finder *f, int t, bool whole) {
    term *atom = &f->terms[t];
    if (atom->number == 0) {
        *LS_PUSH(f->arena, f->out->list, f->out->n, f->factor_capacity) =
            (ls_graph_factor){.size = atom->size, .is = atom->is};
        atom->number = f->out->n;
    }
    f->out->list[atom->number - 1].whole |= whole || atom->whole;
    return atom->number - 1;
}

/* Adds the factors of a term to a segment; returns whether there is room for them and they form a product. */
static bool add_product(finder *f, int t, bool whole, ls_segment *segment) {
    t = root_of(f, t);
    const term is = f->terms[t];
    if (is.form == SEGMENTS || segment->n == LS_DIM_LETTERS) return false;
    if (is.form == ATOM) {
        const int number = number_of(f, t, whole);
        f->out->list[number].inner |= segment->n > 0;
        segment->factor[segment->n++] = number;
        return true;
    }
    bool fits = true;
    for (int k = 0; k < is.n && fits; k++) fits = add_product(f, is.part[k], whole || is.whole, segment);
    return fits;
}

/* The number of segments of a term; a product has those of its outermost part. */
static int count_segments(finder *f, int t) {
    t = root_of(f, t);
    if (f->terms[t].form == PRODUCT) return count_segments(f, f->terms[t].part[0]);
    return f->terms[t].form == SEGMENTS ? f->terms[t].n : 1;
}

/* Writes segment k of a term: of a product, segment k of its outermost part times the other parts. */
static bool add_segment(finder *f, int t, int k, bool whole, ls_segment *segment) {
    t = root_of(f, t);
    const term is = f->terms[t];
    if (is.form == SEGMENTS) return add_product(f, is.part[k], whole || is.whole, segment);
    if (is.form == ATOM) return add_product(f, t, whole, segment);
    bool fits = add_segment(f, is.part[0], k, whole || is.whole, segment);
    for (int i = 1; i < is.n && fits; i++) fits = add_product(f, is.part[i], whole || is.whole, segment);
    return fits;
}

/*
 * A dimension that is neither a product of a few factors nor segments of such products is one factor, and needed whole.
 */
static ls_factored_dim factor_dim(finder *f, int t) {
    ls_factored_dim dim = {0};
    t = root_of(f, t);
    bool fits = true;
    for (int k = 0, n = count_segments(f, t); k < n; k++) fits &= add_segment(f, t, k, false, &dim.segment[dim.n++]);
    if (!fits) dim = (ls_factored_dim){.n = 1, .segment = {{.n = 1, .factor = {number_of(f, t, true)}}}};
    return dim;
}

void ls_factors_find(const ls_graph *g, ls_arena *arena, ls_factors *out) {
    *out = (ls_factors){.dim = LS_NEW_ARRAY(arena, ls_factored_dim, g->n_tensors * LS_MAX_DIMS)};
    finder f = {.graph = g, .arena = arena, .out = out};
    for (int t = 0; t < g->n_tensors; t++) {
        const ls_shape *shape = &g->tensors[t].shape;
        for (int d = 0; d < LS_MAX_DIMS; d++) {
            const int at = add_term(&f, ATOM, d < shape->ndim ? shape->dim[d].size : 0);
            if (d < shape->ndim) f.terms[at].is = shape->dim[d].factor;
        }
    }
    for (int n = 0; n < g->n_nodes; n++) meet(&f, &g->nodes[n]);
    for (int t = 1; t < g->n_tensors; t++) /* a gradient has its parameter's dimensions */
        for (int d = 0; d < g->tensors[t].shape.ndim && g->tensors[t].of.id != 0; d++)
            unify(&f, term_of(ls_graph_at(g, t), d), term_of(g->tensors[t].of, d));
    for (int t = 1; t < g->n_tensors; t++)
        for (int d = 0; d < g->tensors[t].shape.ndim; d++)
            out->dim[t * LS_MAX_DIMS + d] = factor_dim(&f, term_of(ls_graph_at(g, t), d));
}
