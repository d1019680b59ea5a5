/* Shape and sharding rules that several ops share. */
#include "graph/graph_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

bool ls_shape_has_factor(const ls_shape *shape, ls_factor factor) {
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i].factor == factor) return true;
    }
    return false;
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i].size != b->dim[i].size || a->dim[i].factor != b->dim[i].factor) return false;
    }
    return true;
}

ls_status ls_op_input_error(const ls_graph *g, const ls_node *node, int i, const char *expected, ...) {
    char expectation[200], shape[80];
    va_list args;
    va_start(args, expected);
    vsnprintf(expectation, sizeof expectation, expected, args);
    va_end(args);
    const ls_tensor_info *t = ls_graph_tensor(g, node->in[i]);
    ls_shape_print(&t->shape, shape, sizeof shape);
    return ls_error(LS_INVALID, "op %s: input %d \"%s\" is %s%s, expected %s", node->op->name, i, t->name,
                    ls_dtype_name(t->dtype), shape, expectation);
}

ls_status ls_rule_same_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *first = ls_graph_tensor(g, node->in[0]);
    for (int i = 1; i < node->n_in; i++) {
        const ls_tensor_info *t = ls_graph_tensor(g, node->in[i]);
        if (t->dtype != first->dtype || !ls_shape_equal(&t->shape, &first->shape))
            return ls_op_input_error(g, node, i, "the type and shape of \"%s\"", first->name);
    }
    for (int i = 0; i < node->n_out; i++) {
        out[i].dtype = first->dtype;
        out[i].shape = first->shape;
    }
    return ls_ok();
}

ls_status ls_rule_sum_shape(const ls_graph *g, const ls_node *node, ls_tensor_info *out) {
    const ls_tensor_info *sum = ls_graph_tensor(g, node->in[node->n_in - 1]);
    out->dtype = sum->dtype;
    out->shape = sum->shape;
    return ls_ok();
}

ls_status ls_norm_check(const ls_node *node) {
    const ls_norm_params *p = node->params;
    if (p->epsilon >= 0 && isfinite(p->epsilon) && isfinite(p->offset)) return ls_ok();
    return ls_error(LS_INVALID, "op %s: epsilon %g, offset %g; expected finite numbers, epsilon not negative",
                    node->op->name, p->epsilon, p->offset);
}

static const char *placement_name(ls_placement s) {
    static const char *const names[] = {"whole", "cut", "a partial sum"};
    return names[s];
}

static ls_status mismatch(const ls_shard_query *q, int i, ls_placement expected) {
    return ls_error(LS_UNSUPPORTED, "op %s: input %d \"%s\" is %s along %s, expected %s", q->node->op->name, i,
                    ls_graph_tensor(q->graph, q->node->in[i])->name, placement_name(q->in[i]), q->axis->name,
                    placement_name(expected));
}

static void fill(ls_shard_answer *answer, int n, ls_placement placement) {
    for (int i = 0; i < n; i++) answer->out[i] = placement;
}

ls_status ls_shard_together(const ls_shard_query *q, ls_shard_answer *answer) {
    for (int i = 1; i < q->node->n_in; i++) {
        if (q->in[i] != q->in[0]) return mismatch(q, i, q->in[0]);
    }
    fill(answer, q->node->n_out, q->in[0]);
    return ls_ok();
}

ls_status ls_shard_rows(const ls_shard_query *q, ls_shard_answer *answer) {
    for (int i = 1; i < q->node->n_in; i++) {
        const bool has = ls_shape_has_factor(&ls_graph_tensor(q->graph, q->node->in[i])->shape, q->factor);
        const ls_placement expected = has && q->in[0] != LS_PARTIAL ? q->in[0] : LS_WHOLE;
        if (q->in[i] != expected) return mismatch(q, i, expected);
    }
    fill(answer, q->node->n_out, q->in[0]);
    return ls_ok();
}

ls_status ls_shard_by_weights(const ls_shard_query *q, ls_shard_answer *answer) {
    for (int i = 1; i < q->node->n_in; i++) {
        if (q->in[i] != LS_WHOLE) return mismatch(q, i, LS_WHOLE);
    }
    fill(answer, q->node->n_out, q->in[0]);
    return ls_ok();
}

ls_status ls_shard_into_sum(const ls_shard_query *q, ls_shard_answer *answer) {
    const int sum = q->node->n_in - 1;
    ls_placement rows = LS_WHOLE;
    for (int i = 0; i < sum; i++) {
        if (q->in[i] != LS_WHOLE) rows = q->in[i];
    }
    for (int i = 0; i < sum; i++) {
        const bool has = ls_shape_has_factor(&ls_graph_tensor(q->graph, q->node->in[i])->shape, q->factor);
        if (q->in[i] != rows && has) return mismatch(q, i, rows);
    }
    if (q->in[sum] != LS_PARTIAL) return mismatch(q, sum, LS_PARTIAL);
    fill(answer, q->node->n_out - 1, rows);
    answer->out[q->node->n_out - 1] = LS_PARTIAL;
    answer->first_only = rows == LS_WHOLE;
    return ls_ok();
}
