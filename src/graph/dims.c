/*
 * What the dimensions of a node's tensors stand for: reads the notation of op rows (ls_op.dims) together with the
 * shapes of the node's tensors.
 */
#include "graph/graph_impl.h"

#include <ctype.h>
#include <string.h>

enum { NAMES = 128 }; /* characters that may name a letter */

typedef struct reader {
    const ls_graph *graph;
    const ls_node *node;
    const char *at;
    signed char letter[NAMES];     /* by name: 1 + the number of the letter; 0: not seen yet */
    signed char star[LS_MAX_DIMS]; /* the same for the dimensions of a star */
    ls_node_dims *out;
} reader;

static signed char add_letter(reader *r, bool may_cut) {
    LS_ASSERT(r->out->n < LS_NODE_LETTERS);
    const signed char letter = (signed char)r->out->n++;
    r->out->may_cut[letter] = may_cut;
    r->out->needs_whole[letter] = !may_cut;
    r->out->cut_with[letter] = letter;
    return letter;
}

static signed char letter_of(reader *r, char name) {
    signed char *known = &r->letter[(unsigned char)name % NAMES];
    if (*known == 0) *known = (signed char)(1 + add_letter(r, islower((unsigned char)name)));
    return (signed char)(*known - 1);
}

/* Reads one name, or several in ( ) or [ ]. */
static ls_dim_letters read_dim(reader *r) {
    ls_dim_letters dim = {.segments = *r->at == '['};
    if (isalpha((unsigned char)*r->at)) {
        dim.letter[dim.n++] = letter_of(r, *r->at++);
        return dim;
    }
    for (r->at++; isalpha((unsigned char)*r->at); r->at++) {
        LS_ASSERT(dim.n < LS_DIM_LETTERS);
        const signed char letter = dim.letter[dim.n++] = letter_of(r, *r->at);
        if (dim.segments)
            r->out->cut_with[letter] = dim.letter[0];
        else if (dim.n > 1)
            r->out->may_cut[letter] = false;
    }
    r->at++;
    return dim;
}

/* The number of dimensions that a text names, not counting the star. */
static int count_written(const char *text) {
    int n = 0;
    for (bool within = false; *text != 0 && *text != ',' && *text != '>'; text++) {
        if (*text == '(' || *text == '[') within = true;
        if (*text == ')' || *text == ']') within = false;
        n += isalpha((unsigned char)*text) ? !within : *text == ')' || *text == ']';
    }
    return n;
}

/*
 * Reads the text of one tensor. The letters are noted for the dimensions of `t`; if the node lacks this input, nowhere.
 */
static void read_tensor(reader *r, ls_tensor t, ls_tensor_dims *out) {
    const int ndim = t.id != 0 ? ls_graph_tensor(r->graph, t)->shape.ndim : 0, written = count_written(r->at);
    out->same = *r->at == '=';
    r->at += out->same;
    int d = 0;
    while (*r->at != 0 && *r->at != ',' && *r->at != '>') {
        if (*r->at != '*') {
            const ls_dim_letters dim = read_dim(r);
            if (d < ndim) out->dim[d++] = dim;
            continue;
        }
        for (int i = 0; i < ndim - written; i++) {
            if (r->star[i] == 0) r->star[i] = (signed char)(1 + add_letter(r, true));
            out->dim[d++] = (ls_dim_letters){.n = 1, .letter = {(signed char)(r->star[i] - 1)}};
        }
        r->at++;
    }
    LS_ASSERT(d == ndim);
    if (*r->at == ',') r->at++;
}

void ls_node_dims_find(const ls_graph *g, const ls_node *node, ls_node_dims *out) {
    char text[LS_DIMS_TEXT];
    *out = (ls_node_dims){0};
    if (node->op->dims_of != NULL) node->op->dims_of(g, node, text);
    reader r = {.graph = g, .node = node, .at = node->op->dims_of != NULL ? text : node->op->dims, .out = out};
    for (int i = 0; *r.at != '>'; i++) read_tensor(&r, i < node->n_in ? node->in[i] : LS_NO_TENSOR, &out->in[i]);
    r.at++;
    for (int o = 0; o < node->n_out; o++) read_tensor(&r, node->out[o], &out->out[o]);
}

int ls_letter_dim(const ls_node_dims *dims, const ls_tensor_dims *tensor, int letter) {
    for (int d = 0; d < LS_MAX_DIMS; d++)
        for (int k = 0; k < tensor->dim[d].n; k++)
            if (dims->cut_with[tensor->dim[d].letter[k]] == dims->cut_with[letter]) return d;
    return -1;
}

bool ls_letter_is(const ls_graph *g, const ls_node *node, const ls_node_dims *dims, int letter, ls_factor factor) {
    bool is = dims->may_cut[letter], has = false;
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const ls_tensor t = ls_node_tensor(node, i);
        const ls_tensor_dims *tensor = ls_node_tensor_dims(dims, node, i);
        const int d = ls_letter_dim(dims, tensor, letter);
        if (d < 0) continue;
        is &= tensor->dim[d].n == 1 && ls_graph_tensor(g, t)->shape.dim[d].factor == factor;
        has = true;
    }
    return is && has;
}
