/*
 * The ops of graph.json. Each op is a row with a reader of its params and a call of its public function, which checks
 * shapes and types. To add an op, add its fields, a reader if it has any, a call, and a row.
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

static const char *const gated_norm_fields[] = {"epsilon", "gate_first", NULL};
static ls_status read_gated_norm(ls_json_value node, const char *dtype, ls_imported_params *out) {
    LS_TRY(read_norm(node, dtype, out));
    return ls_json_bool_or(node, "gate_first", false, &out->gate_first);
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

static const char *const cast_fields[] = {"dtype", NULL};
static ls_status read_cast(ls_json_value node, const char *dtype, ls_imported_params *out) {
    return ls_imported_read_type(ls_json_field(node, "dtype"), dtype, &out->wide);
}

static const char *const shift_fields[] = {"tokens", NULL};
static ls_status read_shift(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    return ls_json_int(node, "tokens", -MOST_TOKENS, MOST_TOKENS, &out->tokens);
}

static const char *const size_fields[] = {"size", NULL};
static ls_status read_sizes(ls_json_value node, const char *dtype, ls_imported_params *out) {
    (void)dtype;
    ls_json_value list;
    LS_TRY(ls_json_array(node, "size", &list));
    const size_t n = ls_json_count(list);
    if (n < 1 || n > LS_MAX_DIMS) return ls_json_error(list, "an array of 1 to %d", LS_MAX_DIMS);
    for (size_t i = 0; i < n; i++) LS_TRY(ls_imported_read_size(ls_json_item(list, i), &out->size[i]));
    out->ndim = (int)n;
    return ls_ok();
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
CALL(ls_gated_norm, (c->g, c->in[0], c->in[1], c->in[2], c->params->epsilon, c->params->gate_first))
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

/*
 * If the params give no length, the table is for the length of the sequence or, in generation, the number of tokens
 * before the first generated one.
 */
static void call_ls_rope_table(ls_imported_call *c) {
    ls_rope rope = c->params->rope;
    if (!(rope.length > 0)) rope.length = (double)(c->lengths->known > 0 ? c->lengths->known : c->lengths->S);
    c->out[0] = ls_rope_table(c->g, c->in[0], c->params->D, &rope);
}

/*
 * The mask of a node for sequences of S tokens. Every window is causal; one at least as long as the sequence becomes a
 * causal mask. The term documents is left out, because masks get the documents of the batch when there are any.
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

/* Integers become real numbers by a map without steps. */
static void call_ls_cast(ls_imported_call *c) {
    static const int itself = 0;
    const ls_dtype to = c->params->wide ? c->g->accumulator : c->g->dtype;
    const bool has = ls_graph_has(c->g, c->in[0]);
    const ls_dtype is = has ? ls_graph_tensor(c->g, c->in[0])->dtype : to;
    const ls_expression e = {.result = &itself, .n_results = 1, .wide = c->params->wide};
    c->out[0] = has && is == to ? c->in[0] : is == LS_I32 ? ls_map(c->g, c->in, 1, &e) : ls_cast(c->g, c->in[0], to);
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

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const ls_imported_op ops[] = {
    LS_IMPORTED_TAKES("embedding", ls_embedding_padded, 2, 2, embedding_fields, read_embedding),
    LS_IMPORTED_PLAIN("linear", ls_linear, 2, 3),
    LS_IMPORTED_PLAIN("linear_transposed", ls_linear_transposed, 2, 3),
    LS_IMPORTED_PLAIN("linear_wide", ls_linear_wide, 2, 2),
    LS_IMPORTED_TAKES("rmsnorm", ls_rmsnorm_offset, 2, 2, rmsnorm_fields, read_rmsnorm),
    LS_IMPORTED_TAKES("gated_norm", ls_gated_norm, 3, 3, gated_norm_fields, read_gated_norm),
    LS_IMPORTED_TAKES("layernorm", ls_layernorm, 2, 3, norm_fields, read_norm),
    LS_IMPORTED_TAKES("rope_table", ls_rope_table, 1, 1, rope_table_fields, read_rope_table),
    LS_IMPORTED_PLAIN("rotate", ls_rotate, 2, 2),
    LS_IMPORTED_TAKES("attention", ls_attention, 3, 4, attention_fields, read_attention),
    LS_IMPORTED_PLAIN("swiglu", ls_swiglu, 2, 2),
    LS_IMPORTED_PLAIN("gelu", ls_gelu, 1, 1),
    LS_IMPORTED_PLAIN("gelu_tanh", ls_gelu_tanh, 1, 1),
    LS_IMPORTED_PLAIN("relu", ls_relu, 1, 1),
    LS_IMPORTED_PLAIN("silu", ls_silu, 1, 1),
    LS_IMPORTED_TAKES("softcap", ls_softcap, 1, 1, softcap_fields, read_softcap),
    LS_IMPORTED_PLAIN("add", ls_add, 2, 2),
    LS_IMPORTED_PLAIN("mul", ls_mul, 2, 2),
    LS_IMPORTED_TAKES("scale", ls_scale, 1, 1, scale_fields, read_scale),
    LS_IMPORTED_TAKES("cast", ls_cast, 1, 1, cast_fields, read_cast),
    LS_IMPORTED_TAKES("shift", ls_shift, 1, 1, shift_fields, read_shift),
    LS_IMPORTED_PLAIN("conv", ls_conv, 2, 2),
    LS_IMPORTED_PLAIN("recurrence", ls_recurrence, 2, 2),
    LS_IMPORTED_TAKES("reshape", ls_reshape, 1, 1, size_fields, read_sizes),
    LS_IMPORTED_PLAIN("cross_entropy", ls_cross_entropy, 2, 2),
    LS_IMPORTED_PLAIN("sum", ls_sum, 1, 1),
    LS_IMPORTED_SEVERAL("split", ls_split, 1, 1, size_fields, read_sizes),
};

/* Row i of the two tables taken together; NULL past the end. */
static const ls_imported_op *op_at(size_t i) {
    if (i < LS_COUNT(ops)) return &ops[i];
    return i - LS_COUNT(ops) < ls_n_imported_general_ops ? &ls_imported_general_ops[i - LS_COUNT(ops)] : NULL;
}

ls_status ls_imported_op_find(ls_json_value node, const ls_imported_op **out) {
    const char *name = NULL;
    char known[320];
    size_t used = 0;
    LS_TRY(ls_json_text(node, "op", &name));
    for (size_t i = 0; op_at(i) != NULL; i++) {
        if (strcmp(name, op_at(i)->name) == 0) {
            *out = op_at(i);
            return ls_ok();
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? " " : "", op_at(i)->name);
    }
    ls_status status = ls_json_error(ls_json_field(node, "op"), "%s", known);
    status.code = LS_UNSUPPORTED;
    return status;
}
