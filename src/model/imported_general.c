/*
 * The general ops of graph.json: ops that compute on single elements, sums, ops that move elements, and products. The
 * rows are as in imported_ops.c.
 */
#include "model/imported_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- readers of params -------------------------------------------------------------------------------------------- */

enum { MOST_ELEMENTS = 1 << 30 }; /* limit of the numbers of a slice */

static ls_status read_dim(ls_json_value node, ls_imported_params *out) {
    int64_t dim;
    LS_TRY(ls_json_int(node, "dim", 0, LS_MAX_DIMS - 1, &dim));
    out->dim = (int)dim;
    return ls_ok();
}

static const char *const slice_fields[] = {"dim", "start", "length", "step", NULL};
static ls_status read_slice(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    LS_TRY(ls_json_int_or(node, "step", 1, 1, MOST_ELEMENTS, &out->step));
    LS_TRY(ls_json_int(node, "start", 0, MOST_ELEMENTS, &out->start));
    LS_TRY(ls_json_int(node, "length", 1, MOST_ELEMENTS, &out->length));
    return read_dim(node, out);
}

static const char *const dim_fields[] = {"dim", NULL};
static ls_status read_along(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return read_dim(node, out);
}

static const char *const permute_fields[] = {"order", NULL};
static ls_status read_permute(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    ls_json_value list;
    LS_TRY(ls_json_array(node, "order", &list));
    const size_t n = ls_json_count(list);
    if (n < 1 || n > LS_MAX_DIMS) return ls_json_error(list, "an array of 1 to %d", LS_MAX_DIMS);
    for (size_t i = 0; i < n; i++) {
        int64_t dim;
        LS_TRY(ls_json_as_int(ls_json_item(list, i), 0, (int64_t)n - 1, &dim));
        out->order[i] = (int)dim;
    }
    out->ndim = (int)n;
    return ls_ok();
}

static const char *const contract_fields[] = {"equation", NULL};
static ls_status read_contract(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return ls_json_text(node, "equation", &out->equation);
}

static const char *const topk_fields[] = {"k", NULL};
static ls_status read_topk(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return ls_json_int(node, "k", 1, MOST_ELEMENTS, &out->length);
}

static const char *const iota_fields[] = {"along", NULL};
static ls_status read_iota(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    LS_TRY(ls_imported_read_size(ls_json_field(node, "along"), &out->size[0]));
    return out->size[0].unit == LS_SIZE_S ? ls_ok() : ls_json_error(ls_json_field(node, "along"), "\"S\"");
}

static const char *const reduce_kinds[] = {
    [LS_IMPORTED_SUM] = "sum", [LS_IMPORTED_MEAN] = "mean", [LS_IMPORTED_MAX] = "max"};

static ls_status read_kind(ls_json_value node, ls_imported_params *out) {
    const char *kind = NULL, *ties = NULL;
    LS_TRY(ls_json_text(node, "kind", &kind));
    size_t k = 0;
    while (k < LS_COUNT(reduce_kinds) && strcmp(kind, reduce_kinds[k]) != 0) k++;
    if (k == LS_COUNT(reduce_kinds)) return ls_json_error(ls_json_field(node, "kind"), "sum, mean or max");
    out->kind = (ls_imported_reduction)k;
    if (!ls_json_has(node, "ties")) return ls_ok();
    LS_TRY(ls_json_text(node, "ties", &ties));
    out->shared = strcmp(ties, "shared") == 0;
    if (out->kind != LS_IMPORTED_MAX) return ls_json_error(ls_json_field(node, "ties"), "nothing: the kind is no max");
    return out->shared || strcmp(ties, "first") == 0 ? ls_ok()
                                                     : ls_json_error(ls_json_field(node, "ties"), "first or shared");
}

static const char *const reduce_fields[] = {"kind", "dims", "keep", "ties", NULL};
static ls_status read_reduce(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    ls_json_value list;
    LS_TRY(read_kind(node, out));
    LS_TRY(ls_json_array(node, "dims", &list));
    for (size_t i = 0; i < ls_json_count(list); i++) {
        int64_t dim;
        LS_TRY(ls_json_as_int(ls_json_item(list, i), 0, LS_MAX_DIMS - 1, &dim));
        out->over |= 1U << dim;
    }
    if (out->over == 0) return ls_json_error(list, "at least one dimension");
    return ls_json_bool_or(node, "keep", false, &out->keep);
}

/* Reads an operand: "i0" is an input, "r0" the result of a step, and a number becomes a step of its own. */
static ls_status read_operand(ls_json_value value, const int *results, int n_results, ls_map_params *map, int *out) {
    const char *text = NULL;
    char kind = 0, behind = 0;
    int number = 0;
    if (!ls_json_is_text(value)) {
        double x;
        LS_TRY(ls_json_as_double(value, -INFINITY, INFINITY, &x));
        if (map->n_steps == LS_MAP_STEPS) return ls_json_error(value, "at most %d steps and numbers", LS_MAP_STEPS);
        map->step[map->n_steps] = (ls_map_step){.code = LS_MAP_NUMBER, .number = x};
        *out = LS_MAP_TENSORS + map->n_steps++;
        return ls_ok();
    }
    LS_TRY(ls_json_as_text(value, &text));
    const bool reads = sscanf(text, "%c%3d%c", &kind, &number, &behind) == 2 && number >= 0;
    if (reads && kind == 'i' && number < LS_MAP_TENSORS - 1) {
        *out = number;
        return ls_ok();
    }
    if (!reads || kind != 'r' || number >= n_results)
        return ls_json_error(value, "a number, \"i0\" to \"i%d\", or \"r0\" to the step before", LS_MAP_TENSORS - 2);
    *out = results[number];
    return ls_ok();
}

static ls_status read_code(ls_json_value value, ls_map_code *out) {
    const char *word = NULL;
    LS_TRY(ls_json_as_text(value, &word));
    for (ls_map_code code = LS_MAP_NUMBER + 1; code < LS_MAP_KINDS; code++) {
        *out = code;
        if (strcmp(word, ls_map_name(code)) == 0) return ls_ok();
    }
    return ls_json_error(value, "a kind of step of longspan/map.h");
}

/*
 * Reads a step [word, operands]. results[at] becomes the step's number; steps are numbered as operands, from
 * LS_MAP_TENSORS on.
 */
static ls_status read_step(ls_json_value value, int at, int *results, ls_map_params *map) {
    ls_map_step step = {0};
    int *const by[] = {&step.a, &step.b, &step.c};
    LS_TRY(ls_json_as_array(value));
    if (ls_json_count(value) == 0) return ls_json_error(value, "a kind of step and its operands");
    LS_TRY(read_code(ls_json_item(value, 0), &step.code));
    const int operands = ls_map_operands(step.code);
    if ((int)ls_json_count(value) != 1 + operands) return ls_json_error(value, "%d operands", operands);
    LS_ASSERT(operands <= (int)LS_COUNT(by));
    for (int k = 0; k < operands; k++)
        LS_TRY(read_operand(ls_json_item(value, (size_t)(1 + k)), results, at, map, by[k]));
    if (map->n_steps == LS_MAP_STEPS) return ls_json_error(value, "at most %d steps and numbers", LS_MAP_STEPS);
    results[at] = LS_MAP_TENSORS + map->n_steps;
    map->step[map->n_steps++] = step;
    return ls_ok();
}

static ls_status read_results(ls_json_value node, const int *steps, int n_steps, ls_map_params *map) {
    ls_json_value list;
    map->n_results = 1;
    map->result[0] = steps[n_steps - 1];
    if (!ls_json_has(node, "results")) return ls_ok();
    LS_TRY(ls_json_array(node, "results", &list));
    const size_t n = ls_json_count(list);
    if (n < 1 || n > LS_MAP_RESULTS) return ls_json_error(list, "an array of 1 to %d", LS_MAP_RESULTS);
    map->n_results = (int)n;
    for (size_t i = 0; i < n; i++) LS_TRY(read_operand(ls_json_item(list, i), steps, n_steps, map, &map->result[i]));
    return ls_ok();
}

/* The file's own type means T, a wider one G, as for cast. */
static ls_status read_types(ls_json_value node, const char *dtype, ls_map_params *map) {
    ls_json_value list;
    if (!ls_json_has(node, "dtypes")) return ls_ok();
    LS_TRY(ls_json_array(node, "dtypes", &list));
    if ((int)ls_json_count(list) != map->n_results) return ls_json_error(list, "an array of %d", map->n_results);
    for (int i = 0; i < map->n_results; i++) {
        bool wide = false;
        LS_TRY(ls_imported_read_type(ls_json_item(list, (size_t)i), dtype, &wide));
        map->wide |= (unsigned)wide << i;
    }
    return ls_ok();
}

static const char *const map_fields[] = {"program", "results", "dtypes", NULL};
static ls_status read_map(ls_json_value node, const char *dtype, ls_imported_params *out) {
    ls_json_value list;
    int steps[LS_MAP_STEPS];
    LS_TRY(ls_json_array(node, "program", &list));
    const int n = (int)ls_json_count(list);
    if (n < 1 || n > LS_MAP_STEPS) return ls_json_error(list, "an array of 1 to %d steps", LS_MAP_STEPS);
    for (int i = 0; i < n; i++) LS_TRY(read_step(ls_json_item(list, (size_t)i), i, steps, &out->map));
    LS_TRY(read_results(node, steps, n, &out->map));
    return read_types(node, dtype, &out->map);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Whether `dim` is the last dimension of x; if not, the graph gets an error. */
static bool is_last(ls_imported_call *c, ls_tensor x) {
    if (!ls_graph_has(c->g, x)) return false;
    const int ndim = ls_graph_tensor(c->g, x)->shape.ndim;
    if (c->params->dim == ndim - 1) return true;
    ls_graph_fail(
        c->g, ls_error(LS_UNSUPPORTED, "op softmax: dim is %d, expected the last one, %d", c->params->dim, ndim - 1));
    return false;
}

static void call_softmax(ls_imported_call *c) {
    if (is_last(c, c->in[0])) c->out[0] = ls_softmax(c->g, c->in[0]);
}

static void call_permute(ls_imported_call *c) {
    if (!ls_graph_has(c->g, c->in[0])) return;
    const int ndim = ls_graph_tensor(c->g, c->in[0])->shape.ndim;
    if (c->params->ndim == ndim)
        c->out[0] = ls_permute_dims(c->g, c->in[0], c->params->order);
    else
        ls_graph_fail(c->g,
                      ls_error(LS_INVALID, "op permute: an order of %d for %d dimensions", c->params->ndim, ndim));
}

static void call_slice(ls_imported_call *c) {
    const ls_imported_params *p = c->params;
    c->out[0] = ls_slice(c->g, c->in[0], p->dim, p->start, p->length, p->step);
}

static void call_concat(ls_imported_call *c) { c->out[0] = ls_concat(c->g, c->params->dim, c->n_in, c->in); }

static void call_contract(ls_imported_call *c) { c->out[0] = ls_einsum(c->g, c->params->equation, c->in[0], c->in[1]); }

static void call_take_along(ls_imported_call *c) { c->out[0] = ls_take_along(c->g, c->in[0], c->in[1]); }

static void call_topk(ls_imported_call *c) { c->out[0] = ls_topk(c->g, c->in[0], c->params->length, &c->out[1]); }

/*
 * The index of each token in its sequence. This is the position that the host supplies if positions do not start again
 * at each document.
 */
static void call_iota(ls_imported_call *c) {
    if (c->lm->positions.id == 0) c->lm->positions = ls_input_like(c->g, "positions", c->lm->tokens);
    c->out[0] = c->lm->positions;
}

static void call_reduce(ls_imported_call *c) {
    const ls_imported_params *p = c->params;
    c->out[0] = p->kind == LS_IMPORTED_MAX    ? ls_reduce_max(c->g, c->in[0], p->over, p->keep, p->shared)
                : p->kind == LS_IMPORTED_MEAN ? ls_reduce_mean(c->g, c->in[0], p->over, p->keep)
                                              : ls_reduce_sum(c->g, c->in[0], p->over, p->keep);
}

/* Operands in the file are inputs below LS_MAP_TENSORS, and steps from LS_MAP_TENSORS on. */
static void call_map(ls_imported_call *c) {
    ls_map_params map = c->params->map;
    if (map.n_results != c->n_out) {
        ls_graph_fail(c->g, ls_error(LS_INVALID, "op map: %d results for %d that are named", map.n_results, c->n_out));
        return;
    }
    const int moved = LS_MAP_TENSORS - c->n_in;
    for (int i = 0; i < map.n_steps; i++) {
        int *const by[] = {&map.step[i].a, &map.step[i].b, &map.step[i].c};
        const int operands = ls_map_operands(map.step[i].code);
        LS_ASSERT(operands <= (int)LS_COUNT(by));
        for (int k = 0; k < operands; k++) {
            if (*by[k] < LS_MAP_TENSORS && *by[k] >= c->n_in) {
                ls_graph_fail(c->g, ls_error(LS_INVALID, "op map: input i%d of %d inputs", *by[k], c->n_in));
                return;
            }
            if (*by[k] >= LS_MAP_TENSORS) *by[k] -= moved;
        }
    }
    for (int o = 0; o < map.n_results; o++)
        if (map.result[o] >= LS_MAP_TENSORS) map.result[o] -= moved;
    const ls_expression e = {map.step, map.n_steps, map.result, map.n_results, map.wide};
    const ls_tensor y = ls_map(c->g, c->in, c->n_in, &e);
    for (int o = 0; o < map.n_results && y.id != 0; o++) c->out[o] = ls_map_result(c->g, y, o);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

const ls_imported_op ls_imported_general_ops[] = {
    LS_IMPORTED_TAKES("slice", slice, 1, 1, slice_fields, read_slice),
    LS_IMPORTED_TAKES("concat", concat, 2, LS_IMPORTED_INPUTS, dim_fields, read_along),
    LS_IMPORTED_TAKES("permute", permute, 1, 1, permute_fields, read_permute),
    LS_IMPORTED_TAKES("iota", iota, 0, 0, iota_fields, read_iota),
    LS_IMPORTED_TAKES("reduce", reduce, 1, 1, reduce_fields, read_reduce),
    LS_IMPORTED_TAKES("softmax", softmax, 1, 1, dim_fields, read_along),
    LS_IMPORTED_TAKES("contract", contract, 2, 2, contract_fields, read_contract),
    LS_IMPORTED_PLAIN("take_along", take_along, 2, 2),
    {.name = "topk",
     .least_in = 1,
     .most_in = 1,
     .n_out = 2,
     .fields = topk_fields,
     .read = read_topk,
     .call = call_topk},
    LS_IMPORTED_SEVERAL("map", map, 1, LS_MAP_TENSORS - 1, map_fields, read_map),
};

const size_t ls_n_imported_general_ops = LS_COUNT(ls_imported_general_ops);
