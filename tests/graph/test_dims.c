/*
 * What op rows say of dimensions (ls_op.dims), against the kernels: cut along a letter, a node gives the parts of its
 * results, or addends of them; and where the row says that it takes addends, it gives addends. Nodes are those of every
 * differentiable op and of its gradient.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_call.h"
#include "support/op_cases.h"

enum { PARTS = 2 };

/* --- arrays ------------------------------------------------------------------------------------------------------- */

/* The indices of an array that a part of it has, by dimension. */
typedef struct choice {
    int64_t n[LS_MAX_DIMS], *index[LS_MAX_DIMS];
} choice;

static ls_view new_array(ls_dtype dtype, int ndim, const int64_t *size) {
    ls_view v = ls_view_dense(NULL, dtype, ndim, size);
    v.data = calloc((size_t)ls_view_elements(&v) + 1, 8);
    return v;
}

static ls_view new_like(const ls_graph *g, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(g, t);
    int64_t size[LS_MAX_DIMS];
    for (int d = 0; d < info->shape.ndim; d++) size[d] = info->shape.dim[d].size;
    return new_array(info->dtype, info->shape.ndim, size);
}

/* Ids, or normal numbers. */
static void fill(ls_view *v, uint64_t stream) {
    const int64_t n = ls_view_elements(v);
    if (v->dtype == LS_F64) fill_normal(v->data, n, stream);
    for (int64_t i = 0; i < n && v->dtype == LS_I32; i++) ((int32_t *)v->data)[i] = (int32_t)(i * 3 % OP_CASE_IDS);
}

static int64_t element_at(const ls_view *v, const choice *c, int64_t i) {
    int64_t at = 0;
    for (int d = v->ndim - 1; d >= 0; d--) {
        at += c->index[d][i % c->n[d]] * v->stride[d];
        i /= c->n[d];
    }
    return at;
}

static ls_view take(const ls_view *whole, const choice *c) {
    const ls_view part = new_array(whole->dtype, whole->ndim, c->n);
    const size_t bytes = ls_dtype_bytes(whole->dtype);
    for (int64_t i = 0; i < ls_view_elements(&part); i++)
        memcpy((char *)part.data + (size_t)i * bytes, (char *)whole->data + (size_t)element_at(whole, c, i) * bytes,
               bytes);
    return part;
}

static void add_into(const ls_view *whole, const choice *c, const ls_view *part) {
    for (int64_t i = 0; i < ls_view_elements(part); i++) {
        if (whole->dtype == LS_I32)
            ((int32_t *)whole->data)[element_at(whole, c, i)] += ((const int32_t *)part->data)[i];
        else
            ((double *)whole->data)[element_at(whole, c, i)] += ((const double *)part->data)[i];
    }
}

/* --- what a letter's part has ------------------------------------------------------------------------------------- */

typedef struct letters {
    ls_node_dims dims;
    int64_t size[LS_NODE_LETTERS]; /* 0: not known yet */
} letters;

/* Finds the size of one letter at most; returns whether all of the dimension are known and make up its size. */
static bool learn(letters *l, const ls_dim_letters *dim, int64_t size) {
    int unknown = 0, which = 0;
    int64_t known = dim->segments ? 0 : 1;
    for (int k = 0; k < dim->n; k++) {
        const int64_t part = l->size[dim->letter[k]];
        if (part == 0) {
            unknown++;
            which = dim->letter[k];
        } else {
            known = dim->segments ? known + part : known * part;
        }
    }
    if (unknown == 1) l->size[which] = dim->segments ? size - known : size % known == 0 ? size / known : -1;
    return unknown == 0 && known == size;
}

/* Sizes of all letters: those of each dimension make up its size. */
static void find_sizes(const ls_graph *g, const ls_node *node, letters *l) {
    bool all = false;
    *l = (letters){0};
    ls_node_dims_find(g, node, &l->dims);
    for (int round = 0; round < LS_NODE_LETTERS && !all; round++) {
        all = true;
        for (int i = 0; i < node->n_in + node->n_out; i++) {
            const ls_shape *s = &ls_graph_tensor(g, ls_node_tensor(node, i))->shape;
            for (int d = 0; d < s->ndim; d++) {
                assert_true(ls_node_tensor_dims(&l->dims, node, i)->dim[d].n > 0);
                all &= learn(l, &ls_node_tensor_dims(&l->dims, node, i)->dim[d], s->dim[d].size);
            }
        }
    }
    if (!all) fail_msg("op %s: the sizes of its dimensions do not agree", node->op->name);
}

/* The indices of a dimension in part p of what is cut with the letter; all, if the dimension is not. */
static int64_t list_indices(const letters *l, const ls_dim_letters *dim, int64_t size, int letter, int p,
                            int64_t *index) {
    int64_t n = 0, base = 0;
    const int64_t inner = dim->segments ? 1 : size / l->size[dim->letter[0]];
    for (int k = 0; k < (dim->segments ? dim->n : 1); k++) {
        const int64_t all = l->size[dim->letter[k]];
        const bool cut = p >= 0 && l->dims.cut_with[dim->letter[k]] == l->dims.cut_with[letter];
        const int64_t first = cut ? ls_part_start(all, PARTS, p) : 0,
                      past = cut ? ls_part_start(all, PARTS, p + 1) : all;
        for (int64_t i = first * inner; i < past * inner; i++) index[n++] = base + i;
        base += all * inner;
    }
    return n;
}

static choice choose(const letters *l, const ls_tensor_dims *dims, const ls_view *v, int letter, int p) {
    choice c = {{0}, {0}};
    for (int d = 0; d < v->ndim; d++) {
        c.index[d] = malloc(sizeof(int64_t) * (size_t)v->size[d]);
        c.n[d] = list_indices(l, &dims->dim[d], v->size[d], letter, p, c.index[d]);
    }
    return c;
}

static void free_choice(const choice *c) {
    for (int d = 0; d < LS_MAX_DIMS; d++) free(c->index[d]);
}

/* --- running a node ----------------------------------------------------------------------------------------------- */

/* The dimension that has parts. */
static int dim_in_segments(const ls_tensor_dims *dims) {
    int d = 0;
    while (!dims->dim[d].segments) d++;
    return d;
}

/* Indices of a dimension, in one tensor after the other, from or to those of one. */
static void move_columns(const ls_view *parts, int n, const ls_view *one, int dim, bool join) {
    const int64_t whole = one->size[dim] * one->stride[dim], rows = ls_view_elements(one) / ls_max(whole, 1);
    int64_t at = 0;
    for (int p = 0; whole > 0 && p < n; at += parts[p].size[dim] * one->stride[dim], p++) {
        const int64_t width = parts[p].size[dim] * one->stride[dim];
        for (int64_t r = 0; r < rows; r++) {
            double *there = (double *)one->data + r * whole + at, *here = (double *)parts[p].data + r * width;
            memcpy(join ? there : here, join ? here : there, sizeof(double) * (size_t)width);
        }
    }
}

/* Whether one call of a kernel, or moving bytes, is all that the node does. */
static bool can_run(const ls_graph *g, const ls_node *node) {
    const ls_op *op = node->op;
    if (op == &ls_op_split || op == &ls_op_join) return ls_graph_tensor(g, node->in[0])->dtype == LS_F64;
    return op->reach == LS_REACH_OWN;
}

/* The view with the dimensions of `to`, of which dimension d is its dimension from[d], or one that it lacks (-1). */
static ls_view repeated(ls_view x, const ls_view *to, const int *from) {
    ls_view out = {.data = x.data, .dtype = x.dtype, .ndim = to->ndim};
    for (int d = 0; d < to->ndim; d++) {
        const bool has = from[d] >= 0 && x.size[from[d]] == to->size[d];
        out.size[d] = to->size[d];
        out.stride[d] = has ? x.stride[from[d]] : 0;
    }
    return out;
}

/* The operands of general ops as their kernels take them: what the lowerings of compile/general/ do. */
static void run_map(const ls_graph *g, const ls_node *node, const ls_view *in, const ls_view *out) {
    static const ls_map_params same = {.n_in = 1, .n_results = 1};
    const bool is_map = node->op == &ls_op_map;
    ls_kernel_call call = {
        .n_in = node->n_in, .n_out = node->n_out, .params = is_map ? node->params : (const void *)&same};
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    for (int i = 0; i < node->n_in; i++) {
        int from[LS_MAX_DIMS];
        for (int d = 0; d < out->ndim; d++)
            from[d] =
                is_map ? d - (out->ndim - in[i].ndim) : ls_letter_dim(&dims, &dims.in[0], dims.out[0].dim[d].letter[0]);
        call.in[i] = repeated(in[i], out, from);
    }
    for (int o = 0; o < node->n_out; o++) call.out[o] = out[o];
    run_kernel("map", LS_F64, LS_ISA_REF, 1, call);
}

/* reduce, reduce_max and its gradient, whose second input is as the results of the others. */
static void run_reduce(const ls_graph *g, const ls_node *node, const ls_view *in, const ls_view *out) {
    const bool is_grad = node->op == &ls_op_reduce_max_grad;
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    int64_t size[3] = {1, 1, 1};
    for (int d = 0, part = 0; d < in->ndim; d++) {
        const bool over = ls_letter_dim(&dims, is_grad ? &dims.in[1] : &dims.out[0], dims.in[0].dim[d].letter[0]) < 0;
        part = over ? 1 : part == 1 ? 2 : part;
        size[part] *= in->size[d];
    }
    const int64_t left[] = {size[0], size[2]};
    ls_kernel_call call = {.n_in = 1, .in = {ls_view_dense(in->data, LS_F64, 3, size)}, .n_out = 1};
    call.out[0] = ls_view_dense(out->data, LS_F64, is_grad ? 3 : 2, is_grad ? size : left);
    if (is_grad) {
        call.in[call.n_in++] = ls_view_dense(in[1].data, LS_F64, 2, left);
        call.params = node->params;
    }
    run_kernel(ls_contracts[node->op->kernel].name, LS_F64, LS_ISA_REF, 1, call);
}

static void run_permute(const ls_graph *g, const ls_node *node, const ls_view *in, const ls_view *out) {
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    ls_view turned = *in;
    for (int d = 0; d < in->ndim; d++) {
        const int from = ls_letter_dim(&dims, &dims.in[0], dims.out[0].dim[d].letter[0]);
        turned.size[d] = in->size[from];
        turned.stride[d] = in->stride[from];
    }
    run_kernel("copy", LS_F64, LS_ISA_REF, 1, (ls_kernel_call){.n_in = 1, .in = {turned}, .n_out = 1, .out = {*out}});
}

/* Where the element of a tensor lies at these indices of letters. */
static int64_t at_letters(const ls_tensor_dims *dims, const ls_view *v, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < v->ndim; d++) at += index[(int)dims->dim[d].letter[0]] * v->stride[d];
    return at;
}

/* By their letters alone: results are the sums of all products. */
static void run_contract(const ls_graph *g, const ls_node *node, const ls_view *in, const ls_view *out) {
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    int64_t size[LS_NODE_LETTERS], index[LS_NODE_LETTERS] = {0}, all = 1;
    for (int letter = 0; letter < dims.n; letter++) {
        const int of_a = ls_letter_dim(&dims, &dims.in[0], letter), of_b = ls_letter_dim(&dims, &dims.in[1], letter);
        size[letter] = of_a >= 0 ? in[0].size[of_a] : in[1].size[of_b];
        all *= size[letter];
    }
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i;
        for (int letter = 0; letter < dims.n; rest /= size[letter++]) index[letter] = rest % size[letter];
        ((double *)out->data)[at_letters(&dims.out[0], out, index)] +=
            ((double *)in[0].data)[at_letters(&dims.in[0], &in[0], index)] *
            ((double *)in[1].data)[at_letters(&dims.in[1], &in[1], index)];
    }
}

/* v: inputs, then outputs; sums are added to. */
static void run(const ls_graph *g, const ls_node *node, ls_view *v) {
    const ls_op *op = node->op;
    const ls_view *out = v + node->n_in;
    if (op == &ls_op_split || op == &ls_op_join) {
        ls_node_dims dims;
        ls_node_dims_find(g, node, &dims);
        move_columns(op == &ls_op_split ? out : v, op == &ls_op_split ? node->n_out : node->n_in,
                     op == &ls_op_split ? v : out, dim_in_segments(op == &ls_op_split ? dims.in : dims.out),
                     op == &ls_op_join);
        return;
    }
    if (op == &ls_op_map || op == &ls_op_broadcast) {
        run_map(g, node, v, out);
        return;
    }
    if (op == &ls_op_reduce || op == &ls_op_reduce_max || op == &ls_op_reduce_max_grad) {
        run_reduce(g, node, v, out);
        return;
    }
    if (op == &ls_op_permute) {
        run_permute(g, node, v, out);
        return;
    }
    if (op == &ls_op_contract || op == &ls_op_contract_sum) {
        run_contract(g, node, v, out);
        return;
    }
    if (op->kernel == LS_KERNEL_NONE) {
        memcpy(out->data, v->data, sizeof(double) * (size_t)ls_view_elements(v));
        return;
    }
    ls_kernel_call call = {.n_out = node->n_out, .params = node->params};
    for (int i = 0; i < node->n_in; i++)
        if (!ls_op_writes_input(op, i)) call.in[call.n_in++] = v[i];
    for (int o = 0; o < node->n_out; o++) call.out[o] = out[o];
    run_kernel(ls_contracts[op->kernel].name, LS_F64, LS_ISA_REF, 1, call);
}

enum { TENSORS = LS_NODE_INPUTS + LS_NODE_OUTPUTS };

/* The node's results of these inputs, into outputs that are zero. */
static void run_from(const ls_graph *g, const ls_node *node, const ls_view *in, ls_view *v) {
    memcpy(v, in, sizeof *in * (size_t)node->n_in);
    for (int o = 0; o < node->n_out; o++) v[node->n_in + o] = new_like(g, node->out[o]);
    run(g, node, v);
}

static void expect_equal(const ls_node *node, int o, const ls_view *is, const ls_view *expected, const char *why) {
    if (is->dtype == LS_I32) {
        if (memcmp(is->data, expected->data, ls_view_bytes(expected)) != 0)
            fail_msg("op %s, result %d, %s: other ids", node->op->name, o, why);
        return;
    }
    const double error = largest_error(is->data, expected->data, ls_view_elements(expected));
    if (!(error <= 1e-12)) fail_msg("op %s, result %d, %s: off by %g", node->op->name, o, why, error);
}

/* --- lookups in a part of a table --------------------------------------------------------------------------------- */

/* Whether the letter stands for what the node looks up ids in. */
static bool is_looked_up(const ls_graph *g, const ls_node *node, const letters *l, int letter) {
    const ls_lookup *lookup = &node->op->lookup;
    if (lookup->ids == 0) return false;
    const int ndim = ls_graph_tensor(g, node->in[lookup->among])->shape.ndim;
    return ls_letter_dim(&l->dims, &l->dims.in[lookup->among], letter) == (lookup->dim < 0 ? ndim - 1 : lookup->dim);
}

/* The ids become those among the rows of part p. */
static void make_local(const ls_node *node, const letters *l, int letter, int p, ls_view *v) {
    static const ls_embedding_params none = {.padding = -1};
    ls_view *ids = &v[node->op->lookup.ids - 1];
    int32_t part[2] = {(int32_t)ls_part_start(l->size[letter], PARTS, p), 0};
    part[1] = (int32_t)ls_part_start(l->size[letter], PARTS, p + 1) - part[0];
    const ls_view local = new_array(LS_I32, ids->ndim, ids->size);
    const int64_t two = 2;
    run_kernel("local_ids", LS_F64, LS_ISA_REF, 1,
               (ls_kernel_call){.n_in = 2,
                                .in = {*ids, ls_view_dense(part, LS_I32, 1, &two)},
                                .n_out = 1,
                                .out = {local},
                                .params = &none});
    free(ids->data);
    *ids = local;
}

/* Of cross-entropy, whose results every rank has whole: the losses and log-sum-exps of all parts, put together. */
static void merge_parts(const ls_node *node, const ls_view *parts, const ls_view *labels, const ls_view *sum) {
    const int64_t n = ls_view_elements(labels);
    run_kernel("cross_entropy_merge", LS_F64, LS_ISA_REF, 1,
               (ls_kernel_call){
                   .n_in = 2,
                   .in = {*parts, ls_view_dense(labels->data, LS_I32, 1, &n)},
                   .params = node->params,
                   .n_out = 2,
                   .out = {ls_view_dense(sum[0].data, LS_F64, 1, &n), ls_view_dense(sum[1].data, LS_F64, 1, &n)}});
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

/* Adds up what the parts give, each at its place. */
static void check_letter(const ls_graph *g, const ls_node *node, const letters *l, const ls_view *whole, int letter) {
    const int n = node->n_in + node->n_out;
    const bool lookup = is_looked_up(g, node, l, letter), merges = lookup && node->op == &ls_op_cross_entropy;
    ls_view sum[LS_NODE_OUTPUTS];
    for (int o = 0; o < node->n_out; o++) sum[o] = new_like(g, node->out[o]);
    const int64_t tokens = ls_view_elements(&sum[0]);
    const ls_view parts = new_array(LS_F64, 3, (int64_t[]){PARTS, 2, merges ? tokens : 1});
    for (int p = 0; p < PARTS; p++) {
        ls_view v[TENSORS];
        choice c[TENSORS];
        bool empty = false;
        for (int i = 0; i < n; i++) {
            c[i] = choose(l, ls_node_tensor_dims(&l->dims, node, i), &whole[i], letter, p);
            v[i] = take(&whole[i], &c[i]);
            empty |= ls_view_elements(&v[i]) == 0;
            /* An addend of a sum over the letter is there once, and sums begin with zero. */
            const bool once = i < node->n_in && (node->op->addends & 1U << i) != 0 &&
                              ls_letter_dim(&l->dims, &l->dims.in[i], letter) < 0 &&
                              ls_letter_dim(&l->dims, &l->dims.out[0], letter) < 0;
            if ((p > 0 && once) || i >= node->n_in)
                memset(v[i].data, 0, sizeof(double) * (size_t)ls_view_elements(&v[i]));
        }
        if (lookup) make_local(node, l, letter, p, v);
        empty &=
            !(node->op == &ls_op_split || node->op == &ls_op_join); /* what has no elements is some of their parts */
        /* The square of the log-sum-exp is added where the parts are put together. */
        ls_cross_entropy_params without = *ls_cross_entropy_params_of(merges ? node->params : NULL);
        without.z = 0;
        ls_node of_part = *node;
        if (merges) of_part.params = &without;
        if (!empty) run(g, &of_part, v);
        for (int o = 0; o < node->n_out && !empty; o++) {
            const ls_view *part = &v[node->n_in + o];
            if (merges)
                memcpy((double *)parts.data + (2 * p + o) * tokens, part->data, sizeof(double) * (size_t)tokens);
            else
                add_into(&sum[o], &c[node->n_in + o], part);
        }
        for (int i = 0; i < n; i++) {
            free_choice(&c[i]);
            free(v[i].data);
        }
    }
    if (merges) merge_parts(node, &parts, &whole[1], sum);
    free(parts.data);
    char why[64];
    (void)snprintf(why, sizeof why, "cut along letter %d of \"%.30s\"", letter, node->op->dims);
    for (int o = 0; o < node->n_out; o++) {
        expect_equal(node, o, &sum[o], &whole[node->n_in + o], why);
        free(sum[o].data);
    }
}

/* f(a + b) = f(a) + f(b) for the addends of the op. */
static void check_addends(const ls_graph *g, const ls_node *node, const ls_view *whole) {
    ls_view a[TENSORS], b[TENSORS], in[LS_NODE_INPUTS];
    const ls_view *results[] = {a, b};
    for (int i = 0; i < node->n_in; i++) {
        in[i] = whole[i];
        if ((node->op->addends & 1U << i) == 0) continue;
        in[i] = new_like(g, node->in[i]);
        fill(&in[i], 1000 + (uint64_t)i);
    }
    run_from(g, node, in, a);
    for (int i = 0; i < node->n_in; i++)
        for (int64_t k = 0; k < ls_view_elements(&in[i]) && in[i].data != whole[i].data; k++)
            ((double *)in[i].data)[k] = ((double *)whole[i].data)[k] - ((double *)in[i].data)[k];
    run_from(g, node, in, b);
    for (int o = 0; o < node->n_out; o++) {
        const ls_view sum = new_like(g, node->out[o]);
        for (int k = 0; k < 2; k++)
            for (int64_t e = 0; e < ls_view_elements(&sum); e++)
                ((double *)sum.data)[e] += ((const double *)results[k][node->n_in + o].data)[e];
        expect_equal(node, o, &sum, &whole[node->n_in + o], "of addends");
        free(sum.data);
        for (int k = 0; k < 2; k++) free(results[k][node->n_in + o].data);
    }
    for (int i = 0; i < node->n_in; i++)
        if (in[i].data != whole[i].data) free(in[i].data);
}

typedef struct counts {
    int nodes, letters, addends;
} counts;

static void check_node(const ls_graph *g, const ls_node *node, counts *done) {
    letters l;
    find_sizes(g, node, &l);
    if (!can_run(g, node)) return;
    ls_view in[LS_NODE_INPUTS], v[TENSORS];
    for (int i = 0; i < node->n_in; i++) {
        in[i] = new_like(g, node->in[i]);
        fill(&in[i], (uint64_t)i);
    }
    run_from(g, node, in, v);
    done->nodes++;
    for (int letter = 0; letter < l.dims.n; letter++) {
        if (!l.dims.may_cut[letter]) continue;
        check_letter(g, node, &l, v, letter);
        done->letters++;
    }
    if (node->op->addends & ~LS_MADE) {
        check_addends(g, node, v);
        done->addends++;
    }
    for (int i = 0; i < node->n_in + node->n_out; i++) free(v[i].data);
}

static void test_rows(void **state) {
    (void)state;
    counts done = {0};
    bool seen[128] = {false};
    for (int i = 0; i < n_op_cases; i++) {
        const op_case *c = &op_cases[i];
        ls_graph *g = ls_graph_create(LS_F64);
        const ls_tensor tokens = ls_tokens(g, "tokens", OP_CASE_B, OP_CASE_S);
        ls_tensor x[OP_CASE_INPUTS];
        static const char *const names[OP_CASE_INPUTS] = {"x0", "x1", "x2", "x3", "x4"};
        for (int k = 0; k < c->n_in; k++) x[k] = ls_graph_leaf(g, LS_ROLE_INPUT, names[k], LS_F64, &c->shape[k]);
        const ls_tensor loss = ls_sum(g, ls_scale(g, c->build(g, tokens, x), 2));
        const ls_shape one = {1, {{1, 0}}};
        ls_derivative d = {.n_roots = 1,
                           .root = {loss},
                           .seed = {ls_graph_leaf(g, LS_ROLE_INPUT, LS_BIND_SCALE, LS_F64, &one)},
                           .n_wanted = c->n_in};
        memcpy(d.wanted, x, sizeof x);
        assert_int_equal(ls_graph_accumulate_loss(g, loss).code, LS_OK);
        const ls_status status = ls_differentiate(g, &d);
        if (status.code != LS_OK) fail_msg("%s: %s", c->op, status.text);
        for (int n = 0; n < g->n_nodes; n++) {
            check_node(g, &g->nodes[n], &done);
            for (int k = 0; ls_op_at(k) != NULL; k++) seen[k] |= ls_op_at(k) == g->nodes[n].op;
        }
        ls_graph_destroy(g);
    }
    /* Only these are in no graph of a user's (of matrices in blocks of numbers: test_cli_base); test_graph_decode has
     * those of one more token, on tp=2 too. */
    const ls_op *const others[] = {
        &ls_op_attention_cached, &ls_op_linear_recurrence_next, &ls_op_conv_next,    &ls_op_redistribute,
        &ls_op_stage_send,       &ls_op_stage_expect,           &ls_op_stage_arrive, &ls_op_rnn_next,
        &ls_op_linear_blocks,    &ls_op_linear_dx_blocks,       &ls_op_decode,       &ls_op_shift_next,
        &ls_op_recurrence_next};
    for (int k = 0; ls_op_at(k) != NULL; k++)
        for (size_t o = 0; o < LS_COUNT(others); o++) seen[k] |= ls_op_at(k) == others[o];
    for (int k = 0; ls_op_at(k) != NULL; k++)
        if (!seen[k]) fail_msg("op %s was not tried", ls_op_at(k)->name);
    printf("%d nodes, %d cut along a letter, %d of addends\n", done.nodes, done.letters, done.addends);
    assert_true(done.letters > done.nodes && done.addends > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
