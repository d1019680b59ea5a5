/*
 * The ops of graph.json: a row for each, with the reader of its params and the call of its public function, which
 * checks shapes and types. To add an op: its fields, a reader if it has any, a call, and a row.
 */
#include "model/imported_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- readers of params -------------------------------------------------------------------------------------------- */

#define MOST 0x1p40 /* far above any size, and small enough that a few of them do not overflow */
enum { MOST_TOKENS = 1 << 30 };

/* Reads a number above 0. */
static ls_status read_positive(ls_json_value node, const char *key, double *out) {
    LS_TRY(ls_json_double(node, key, -INFINITY, INFINITY, out));
    return *out > 0 ? ls_ok() : ls_json_error(ls_json_field(node, key), "a number above 0");
}

static const char *const embedding_fields[] = {"padding", NULL};
static ls_status read_embedding(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return ls_json_int_or(node, "padding", -1, 0, INT32_MAX, &out->padding);
}

static const char *const norm_fields[] = {"epsilon", NULL};
static ls_status read_norm(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return ls_json_double(node, "epsilon", 0, 1, &out->epsilon);
}

static const char *const rmsnorm_fields[] = {"epsilon", "offset", NULL};
static ls_status read_rmsnorm(ls_json_value node, const char *dtype, ls_imported_params *out) {
    LS_TRY(read_norm(node, dtype, out));
    return ls_json_double_or(node, "offset", 0, -MOST, MOST, &out->offset);
}

static const char *const rope_table_fields[] = {"D", "rope", NULL};
static const char *const rope_fields[] = {
    "theta",     "scaling",         "factor", "low_factor",     "high_factor", "length",           "beta_fast",
    "beta_slow", "original_length", "mscale", "mscale_all_dim", "untruncated", "attention_factor", NULL};
static ls_status read_rope_table(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    ls_rope *rope = &out->rope;
    ls_json_value object;
    const struct {
        const char *key;
        double *to;
    } numbers[] = {{"factor", &rope->factor},           {"low_factor", &rope->low_factor},
                   {"high_factor", &rope->high_factor}, {"original_length", &rope->original_length},
                   {"length", &rope->length},           {"beta_fast", &rope->beta_fast},
                   {"beta_slow", &rope->beta_slow},     {"attention_factor", &rope->attention_factor},
                   {"mscale", &rope->mscale},           {"mscale_all_dim", &rope->mscale_all_dim}};
    LS_TRY(ls_json_int(node, "D", 2, MOST_TOKENS, &out->D));
    LS_TRY(ls_json_object(node, "rope", &object));
    LS_TRY(ls_imported_known(object, rope_fields, NULL));
    LS_TRY(read_positive(object, "theta", &rope->theta));
    LS_TRY(ls_json_text_or(object, "scaling", NULL, &rope->scaling));
    for (size_t i = 0; i < LS_COUNT(numbers); i++)
        LS_TRY(ls_json_double_or(object, numbers[i].key, 0, 0, MOST, numbers[i].to));
    return ls_json_bool_or(object, "untruncated", false, &rope->untruncated);
}

static const char *const mask_kinds[] = {[LS_MASK_CAUSAL] = "causal",
                                         [LS_MASK_WINDOW] = "window",
                                         [LS_MASK_PREFIX] = "prefix",
                                         [LS_MASK_DOCUMENTS] = "documents"};

static ls_status read_term(ls_json_value value, ls_mask_term *out) {
    static const char *const plain[] = {"kind", NULL}, *const window[] = {"kind", "window", "first", NULL},
                             *const prefix[] = {"kind", "first", NULL};
    static const char *const *const fields[] = {
        [LS_MASK_CAUSAL] = plain, [LS_MASK_WINDOW] = window, [LS_MASK_PREFIX] = prefix, [LS_MASK_DOCUMENTS] = plain};
    const char *kind = NULL;
    LS_TRY(ls_json_as_object(value));
    LS_TRY(ls_json_text(value, "kind", &kind));
    size_t k = 0;
    while (k < LS_COUNT(mask_kinds) && strcmp(kind, mask_kinds[k]) != 0) k++;
    if (k == LS_COUNT(mask_kinds))
        return ls_json_error(ls_json_field(value, "kind"), "causal, window, prefix or documents");
    LS_TRY(ls_imported_known(value, fields[k], NULL));
    *out = (ls_mask_term){.kind = (ls_mask_kind)k};
    if (k == LS_MASK_WINDOW) {
        LS_TRY(ls_json_int_or(value, "first", 0, 0, MOST_TOKENS, &out->first));
        return ls_json_int(value, "window", out->first > 0 ? 0 : 1, MOST_TOKENS, &out->window);
    }
    return k == LS_MASK_PREFIX ? ls_json_int(value, "first", 0, MOST_TOKENS, &out->first) : ls_ok();
}

static const char *const attention_fields[] = {"mask", "scale", "softcap", NULL};
static ls_status read_attention(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    ls_json_value terms;
    out->has_mask = true;
    LS_TRY(ls_json_array(node, "mask", &terms));
    if (ls_json_count(terms) > LS_MASK_TERMS) return ls_json_error(terms, "an array of at most %d", LS_MASK_TERMS);
    for (; out->mask.n < (int)ls_json_count(terms); out->mask.n++)
        LS_TRY(read_term(ls_json_item(terms, (size_t)out->mask.n), &out->mask.term[out->mask.n]));
    LS_TRY(read_positive(node, "scale", &out->scale));
    return ls_json_double_or(node, "softcap", 0, 0, MOST, &out->softcap);
}

static const char *const softcap_fields[] = {"cap", NULL};
static ls_status read_softcap(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return read_positive(node, "cap", &out->cap);
}

static const char *const scale_fields[] = {"factor", NULL};
static ls_status read_scale(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return ls_json_double(node, "factor", -INFINITY, INFINITY, &out->factor);
}

/* "T" and "G", or a type: the file's own means T, a wider one G. */
static ls_status read_type(ls_json_value value, const char *dtype, bool *is_wide) {
    const char *text = NULL;
    LS_TRY(ls_json_as_text(value, &text));
    const char *wide = strcmp(dtype, "f64") == 0 ? "f64" : "f32";
    const bool own = strcmp(text, "T") == 0 || strcmp(text, dtype) == 0;
    *is_wide = !own;
    if (own || strcmp(text, "G") == 0 || strcmp(text, wide) == 0) return ls_ok();
    return ls_json_error(value, "T (%s here) or G (%s)", dtype, wide);
}

static const char *const cast_fields[] = {"dtype", NULL};
static ls_status read_cast(ls_json_value node, const char *dtype, ls_imported_params *out) {
    return read_type(ls_json_field(node, "dtype"), dtype, &out->wide);
}

static const char *const shift_fields[] = {"tokens", NULL};
static ls_status read_shift(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return ls_json_int(node, "tokens", -MOST_TOKENS, MOST_TOKENS, &out->tokens);
}

static ls_status read_size(ls_json_value value, ls_imported_size *out) {
    static const char *const words[] = {[LS_SIZE_B] = "B", [LS_SIZE_S] = "S"};
    const char *text = NULL;
    *out = (ls_imported_size){.unit = LS_SIZE_NUMBER};
    if (!ls_json_is_text(value)) return ls_json_as_int(value, 1, (int64_t)MOST, &out->number);
    LS_TRY(ls_json_as_text(value, &text));
    for (ls_imported_unit u = LS_SIZE_B; u <= LS_SIZE_S; u++)
        if (strcmp(text, words[u]) == 0) out->unit = u;
    return out->unit != LS_SIZE_NUMBER ? ls_ok() : ls_json_error(value, "a number, \"B\" or \"S\"");
}

static const char *const size_fields[] = {"size", NULL};
static ls_status read_sizes(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    ls_json_value list;
    LS_TRY(ls_json_array(node, "size", &list));
    const size_t n = ls_json_count(list);
    if (n < 1 || n > LS_MAX_DIMS) return ls_json_error(list, "an array of 1 to %d", LS_MAX_DIMS);
    for (size_t i = 0; i < n; i++) LS_TRY(read_size(ls_json_item(list, i), &out->size[i]));
    out->ndim = (int)n;
    return ls_ok();
}

static const char *const slice_fields[] = {"dim", "start", "length", "step", NULL};
static ls_status read_slice(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    int64_t dim, step;
    LS_TRY(ls_json_int(node, "dim", 0, LS_MAX_DIMS - 1, &dim));
    LS_TRY(ls_json_int_or(node, "step", 1, 1, 1, &step));
    LS_TRY(ls_json_int(node, "start", 0, MOST_TOKENS, &out->start));
    LS_TRY(ls_json_int(node, "length", 1, MOST_TOKENS, &out->length));
    out->dim = (int)dim;
    return ls_ok();
}

static const char *const concat_fields[] = {"dim", NULL};
static ls_status read_concat(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    int64_t dim;
    LS_TRY(ls_json_int(node, "dim", 0, LS_MAX_DIMS - 1, &dim));
    out->dim = (int)dim;
    return ls_ok();
}

static const char *const iota_fields[] = {"along", NULL};
static ls_status read_iota(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    LS_TRY(read_size(ls_json_field(node, "along"), &out->size[0]));
    return out->size[0].unit == LS_SIZE_S ? ls_ok() : ls_json_error(ls_json_field(node, "along"), "\"S\"");
}

static const char *const reduce_fields[] = {"kind", "dims", "keep", NULL};
static ls_status read_reduce(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    ls_json_value list;
    const char *kind = NULL;
    LS_TRY(ls_json_text(node, "kind", &kind));
    if (strcmp(kind, "sum") != 0) return ls_json_error(ls_json_field(node, "kind"), "sum");
    LS_TRY(ls_json_array(node, "dims", &list));
    for (size_t i = 0; i < ls_json_count(list); i++) {
        int64_t dim;
        LS_TRY(ls_json_as_int(ls_json_item(list, i), 0, LS_MAX_DIMS - 1, &dim));
        out->over |= 1U << dim;
    }
    if (out->over == 0) return ls_json_error(list, "at least one dimension");
    return ls_json_bool_or(node, "keep", false, &out->keep);
}

/* An operand: "i0", an input, "r0", the result of a step, or a number, which becomes a step of its own. */
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

/* A step [word, operands]. Its number is noted in results[at]; operands are numbered from LS_MAP_TENSORS on. */
static ls_status read_step(ls_json_value value, int at, int *results, ls_map_params *map) {
    ls_map_step step = {0};
    int *const by[] = {&step.a, &step.b, &step.c};
    LS_TRY(ls_json_as_array(value));
    if (ls_json_count(value) == 0) return ls_json_error(value, "a kind of step and its operands");
    LS_TRY(read_code(ls_json_item(value, 0), &step.code));
    const int operands = ls_map_operands(step.code);
    if ((int)ls_json_count(value) != 1 + operands) return ls_json_error(value, "%d operands", operands);
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

/* The file's own type means T, a wider one G, as in cast. */
static ls_status read_types(ls_json_value node, const char *dtype, ls_map_params *map) {
    ls_json_value list;
    if (!ls_json_has(node, "dtypes")) return ls_ok();
    LS_TRY(ls_json_array(node, "dtypes", &list));
    if ((int)ls_json_count(list) != map->n_results) return ls_json_error(list, "an array of %d", map->n_results);
    for (int i = 0; i < map->n_results; i++) {
        bool wide = false;
        LS_TRY(read_type(ls_json_item(list, (size_t)i), dtype, &wide));
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

#define CALL(function, arguments) \
    static void call_##function(ls_imported_call *c) { c->out[0] = function arguments; }
#define UNARY(function) CALL(function, (c->g, c->in[0]))
#define BINARY(function) CALL(function, (c->g, c->in[0], c->in[1]))
#define TERNARY(function) CALL(function, (c->g, c->in[0], c->in[1], c->in[2]))

CALL(ls_embedding_padded, (c->g, c->in[0], c->in[1], c->params->padding))
TERNARY(ls_linear)
TERNARY(ls_linear_transposed)
BINARY(ls_linear_wide)
CALL(ls_rmsnorm_offset, (c->g, c->in[0], c->in[1], c->params->epsilon, c->params->offset))
CALL(ls_layernorm, (c->g, c->in[0], c->in[1], c->in[2], c->params->epsilon))
BINARY(ls_rotate)
BINARY(ls_swiglu)
UNARY(ls_gelu)
UNARY(ls_gelu_tanh)
UNARY(ls_relu)
UNARY(ls_silu)
CALL(ls_softcap, (c->g, c->in[0], c->params->cap))
BINARY(ls_add)
BINARY(ls_mul)
CALL(ls_scale, (c->g, c->in[0], c->params->factor))
CALL(ls_shift, (c->g, c->in[0], c->params->tokens))
BINARY(ls_conv)
BINARY(ls_recurrence)
BINARY(ls_cross_entropy)
UNARY(ls_sum)

/* Without a length of its own, a table is for the sequence, or for the tokens before the first that is generated. */
static void call_ls_rope_table(ls_imported_call *c) {
    ls_rope rope = c->params->rope;
    if (!(rope.length > 0)) rope.length = (double)(c->lengths->known > 0 ? c->lengths->known : c->lengths->S);
    c->out[0] = ls_rope_table(c->g, c->in[0], c->params->D, &rope);
}

/*
 * A window at least as long as the sequence is a causal mask, and every window is causal by itself. Documents are those
 * of the batch, which masks are told when it is there.
 */
static ls_mask mask_of(const ls_mask *given, int64_t S) {
    ls_mask mask = {.n = 0};
    bool causal = false, window = false;
    for (int i = 0; i < given->n; i++) {
        const ls_mask_term *term = &given->term[i];
        const bool short_window = term->kind == LS_MASK_WINDOW && term->window < S;
        causal |= term->kind == LS_MASK_CAUSAL || (term->kind == LS_MASK_WINDOW && !short_window);
        window |= short_window;
        if (short_window || term->kind == LS_MASK_PREFIX) mask.term[mask.n++] = *term;
    }
    if (causal && !window) mask.term[mask.n++] = (ls_mask_term){.kind = LS_MASK_CAUSAL};
    return mask;
}

static void call_ls_attention(ls_imported_call *c) {
    const ls_mask mask = mask_of(&c->params->mask, c->lengths->S);
    c->out[0] = ls_attention_with_sink(c->g, c->in[0], c->in[1], c->in[2], c->in[3], &mask, c->params->scale,
                                       c->params->softcap);
}

static void call_ls_cast(ls_imported_call *c) {
    const ls_dtype to = c->params->wide ? c->g->accumulator : c->g->dtype;
    const bool is = ls_graph_has(c->g, c->in[0]) && ls_graph_tensor(c->g, c->in[0])->dtype == to;
    c->out[0] = is ? c->in[0] : ls_cast(c->g, c->in[0], to);
}

static int64_t size_of(const ls_imported_call *c, int i) {
    const ls_imported_size *size = &c->params->size[i];
    return size->unit == LS_SIZE_B ? c->lengths->B : size->unit == LS_SIZE_S ? c->lengths->S : size->number;
}

static void call_ls_reshape(ls_imported_call *c) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < c->params->ndim; i++) size[i] = size_of(c, i);
    c->out[0] = ls_reshape(c->g, c->in[0], c->params->ndim, size);
}

static void call_ls_split(ls_imported_call *c) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < c->params->ndim; i++) size[i] = size_of(c, i);
    if (c->params->ndim != c->n_out)
        ls_graph_fail(c->g, ls_error(LS_INVALID, "op split: %d results for %d sizes", c->n_out, c->params->ndim));
    else
        ls_split(c->g, c->in[0], c->n_out, size, c->out);
}

/* Whether `dim` is the last dimension of a tensor; otherwise the graph has a mistake. */
static bool is_last(ls_imported_call *c, const char *op, ls_tensor x) {
    if (!ls_graph_has(c->g, x)) return false;
    const int ndim = ls_graph_tensor(c->g, x)->shape.ndim;
    if (c->params->dim == ndim - 1) return true;
    ls_graph_fail(
        c->g, ls_error(LS_UNSUPPORTED, "op %s: dim is %d, expected the last one, %d", op, c->params->dim, ndim - 1));
    return false;
}

/* The part of a split that is not the ends. */
static void call_slice(ls_imported_call *c) {
    if (!is_last(c, "slice", c->in[0])) return;
    const ls_shape *shape = &ls_graph_tensor(c->g, c->in[0])->shape;
    const int64_t all = shape->dim[shape->ndim - 1].size, start = c->params->start, length = c->params->length;
    const int64_t ends[] = {start, length, all - start - length};
    int64_t size[LS_NODE_OUTPUTS];
    ls_tensor part[LS_NODE_OUTPUTS];
    int n = 0, wanted = 0;
    if (ends[2] < 0) {
        ls_graph_fail(c->g, ls_error(LS_INVALID, "op slice: elements %lld to %lld of %lld", (long long)start,
                                     (long long)(start + length - 1), (long long)all));
        return;
    }
    for (int i = 0; i < (int)LS_COUNT(ends); i++) {
        if (i == 1) wanted = n;
        if (ends[i] > 0) size[n++] = ends[i];
    }
    c->out[0] = c->in[0];
    if (n == 1) return;
    ls_split(c->g, c->in[0], n, size, part);
    c->out[0] = part[wanted];
}

static void call_concat(ls_imported_call *c) {
    if (is_last(c, "concat", c->in[0])) c->out[0] = ls_join(c->g, c->n_in, c->in);
}

/* The index of each token in its sequence is what the host gives as its position where documents do not begin anew. */
static void call_iota(ls_imported_call *c) {
    if (c->lm->positions.id == 0) c->lm->positions = ls_input_like(c->g, "positions", c->lm->tokens);
    c->out[0] = c->lm->positions;
}

static void call_reduce(ls_imported_call *c) {
    c->out[0] = ls_reduce_sum(c->g, c->in[0], c->params->over, c->params->keep);
}

/* Operands of the file are inputs, and steps behind LS_MAP_TENSORS. */
static void call_map(ls_imported_call *c) {
    ls_map_params map = c->params->map;
    if (map.n_results != c->n_out) {
        ls_graph_fail(c->g, ls_error(LS_INVALID, "op map: %d results for %d that are named", map.n_results, c->n_out));
        return;
    }
    const int moved = LS_MAP_TENSORS - c->n_in;
    for (int i = 0; i < map.n_steps; i++) {
        int *const by[] = {&map.step[i].a, &map.step[i].b, &map.step[i].c};
        for (int k = 0; k < ls_map_operands(map.step[i].code); k++) {
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

#define PLAIN(text, function, from, to) \
    { .name = text, .least_in = from, .most_in = to, .n_out = 1, .call = call_##function }
#define TAKES(text, function, from, to, names, reader)                                              \
    {                                                                                               \
        .name = text, .least_in = from, .most_in = to, .n_out = 1, .fields = names, .read = reader, \
        .call = call_##function                                                                     \
    }

#define SEVERAL(text, function, from, to, names, reader) \
    { .name = text, .least_in = from, .most_in = to, .fields = names, .read = reader, .call = call_##function }

static const ls_imported_op ops[] = {
    TAKES("embedding", ls_embedding_padded, 2, 2, embedding_fields, read_embedding),
    PLAIN("linear", ls_linear, 2, 3),
    PLAIN("linear_transposed", ls_linear_transposed, 2, 3),
    PLAIN("linear_wide", ls_linear_wide, 2, 2),
    TAKES("rmsnorm", ls_rmsnorm_offset, 2, 2, rmsnorm_fields, read_rmsnorm),
    TAKES("layernorm", ls_layernorm, 2, 3, norm_fields, read_norm),
    TAKES("rope_table", ls_rope_table, 1, 1, rope_table_fields, read_rope_table),
    PLAIN("rotate", ls_rotate, 2, 2),
    TAKES("attention", ls_attention, 3, 4, attention_fields, read_attention),
    PLAIN("swiglu", ls_swiglu, 2, 2),
    PLAIN("gelu", ls_gelu, 1, 1),
    PLAIN("gelu_tanh", ls_gelu_tanh, 1, 1),
    PLAIN("relu", ls_relu, 1, 1),
    PLAIN("silu", ls_silu, 1, 1),
    TAKES("softcap", ls_softcap, 1, 1, softcap_fields, read_softcap),
    PLAIN("add", ls_add, 2, 2),
    PLAIN("mul", ls_mul, 2, 2),
    TAKES("scale", ls_scale, 1, 1, scale_fields, read_scale),
    TAKES("cast", ls_cast, 1, 1, cast_fields, read_cast),
    TAKES("shift", ls_shift, 1, 1, shift_fields, read_shift),
    PLAIN("conv", ls_conv, 2, 2),
    PLAIN("recurrence", ls_recurrence, 2, 2),
    TAKES("reshape", ls_reshape, 1, 1, size_fields, read_sizes),
    PLAIN("cross_entropy", ls_cross_entropy, 2, 2),
    PLAIN("sum", ls_sum, 1, 1),
    SEVERAL("split", ls_split, 1, 1, size_fields, read_sizes),
    TAKES("slice", slice, 1, 1, slice_fields, read_slice),
    TAKES("concat", concat, 2, LS_NODE_OUTPUTS, concat_fields, read_concat),
    TAKES("iota", iota, 0, 0, iota_fields, read_iota),
    TAKES("reduce", reduce, 1, 1, reduce_fields, read_reduce),
    SEVERAL("map", map, 1, LS_MAP_TENSORS - 1, map_fields, read_map),
};

ls_status ls_imported_op_find(ls_json_value node, const ls_imported_op **out) {
    const char *name = NULL;
    char known[240];
    size_t used = 0;
    LS_TRY(ls_json_text(node, "op", &name));
    for (size_t i = 0; i < LS_COUNT(ops); i++) {
        if (strcmp(name, ops[i].name) == 0) {
            *out = &ops[i];
            return ls_ok();
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? " " : "", ops[i].name);
    }
    ls_status status = ls_json_error(ls_json_field(node, "op"), "%s", known);
    status.code = LS_UNSUPPORTED;
    return status;
}
