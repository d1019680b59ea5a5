/*
 * Reads a graph.json: every field, and which tensor each name means. Shapes are not in the file; building the graph
 * finds them. A file is not trusted: each wrong value is refused with the name of its field, and no number in the file
 * is the size of an allocation.
 */
#include "model/imported_impl.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 200, MOST_NODES = 1 << 16 };

/* --- values ------------------------------------------------------------------------------------------------------- */

/* The items of an array of objects. A missing array has none. */
static ls_status read_list(ls_json_value root, const char *key, ls_json_value *list, int *n) {
    *list = ls_json_field(root, key);
    *n = 0;
    if (!ls_json_has(root, key)) return ls_ok();
    LS_TRY(ls_json_as_array(*list));
    *n = (int)ls_json_count(*list); /* at most as many as the document has bytes */
    return ls_ok();
}

static ls_status read_choice(ls_json_value object, const char *key, const char *const *choices, int n, int *out) {
    const char *text = NULL;
    char known[120] = "";
    size_t used = 0;
    LS_TRY(ls_json_text(object, key, &text));
    for (*out = 0; *out < n; ++*out)
        if (strcmp(choices[*out], text) == 0) return ls_ok();
    for (int i = 0; i < n && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? " or " : "", choices[i]);
    return ls_json_error(ls_json_field(object, key), "%s", known);
}

/* --- names: a hash table with open addressing, at most half full -------------------------------------------------- */

typedef struct named {
    const char *name; /* NULL: free */
    int tensor;
} named;

typedef struct names {
    ls_imported *m;
    named *slots;
    size_t n_slots;
} names;

static void make_names(names *t, ls_imported *m, int most) {
    t->m = m;
    for (t->n_slots = 64; t->n_slots < 2 * (size_t)most + 2;) t->n_slots *= 2;
    t->slots = LS_NEW_ARRAY(m->arena, named, t->n_slots);
    m->names = LS_NEW_ARRAY(m->arena, const char *, most + 1);
}

/* The slot that holds the name, or a free slot. */
static named *find_slot(const names *t, const char *name) {
    size_t slot = ls_rng_stream(name) & (t->n_slots - 1);
    while (t->slots[slot].name != NULL && strcmp(t->slots[slot].name, name) != 0) slot = (slot + 1) & (t->n_slots - 1);
    return &t->slots[slot];
}

/* From now on the name in `value` means `tensor`. *name, if name is not NULL, becomes the name. */
static ls_status add_name(names *t, ls_json_value value, int tensor, const char **name) {
    const char *text = NULL;
    LS_TRY(ls_json_as_text(value, &text));
    const size_t length = strlen(text);
    if (length < 1 || length > LONGEST_NAME) return ls_json_error(value, "a name of 1 to %d bytes", LONGEST_NAME);
    named *slot = find_slot(t, text);
    if (slot->name != NULL) return ls_json_error(value, "a name that no tensor has yet");
    *slot = (named){text, tensor};
    if (name != NULL) *name = text;
    return ls_ok();
}

/* A new tensor with the name in `value`. */
static ls_status add_tensor(names *t, ls_json_value value, const char **name, int *tensor) {
    const int made = ++t->m->n_tensors;
    LS_TRY(add_name(t, value, made, &t->m->names[made]));
    if (name != NULL) *name = t->m->names[made];
    if (tensor != NULL) *tensor = made;
    return ls_ok();
}

static ls_status find_name(const names *t, ls_json_value value, const char *expected, int *tensor) {
    const char *text = NULL;
    LS_TRY(ls_json_as_text(value, &text));
    const named *slot = find_slot(t, text);
    *tensor = slot->tensor;
    return slot->name != NULL ? ls_ok() : ls_json_error(value, "%s", expected);
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static const char *const role_names[] = {
    [LS_INPUT_TOKENS] = "tokens", [LS_INPUT_LABELS] = "labels", [LS_INPUT_POSITIONS] = "positions"};

static ls_status read_input(names *t, ls_json_value value, const char *tokens, ls_model_inputs *inputs,
                            ls_imported_input *out) {
    static const char *const fields[] = {"name", "dtype", "is", "shift", NULL}, *const is[] = {"labels", "positions"},
                             *const types[] = {"i32", "f32"};
    int type, role = 0;
    int64_t shift;
    LS_TRY(ls_json_as_object(value));
    LS_TRY(ls_imported_known(value, fields, NULL));
    LS_TRY(add_tensor(t, ls_json_field(value, "name"), &out->name, NULL));
    LS_TRY(read_choice(value, "dtype", types, LS_COUNT(types), &type));
    out->dtype = type == 0 ? LS_I32 : LS_F32;
    out->role = strcmp(out->name, tokens) == 0 ? LS_INPUT_TOKENS : LS_INPUT_OTHER;
    if (ls_json_has(value, "is")) {
        if (out->role == LS_INPUT_TOKENS) return ls_json_error(ls_json_field(value, "is"), "nothing: it is the tokens");
        LS_TRY(read_choice(value, "is", is, LS_COUNT(is), &role));
        out->role = role == 0 ? LS_INPUT_LABELS : LS_INPUT_POSITIONS;
        bool *there = role == 0 ? &inputs->labels : &inputs->positions;
        if (*there) return ls_json_error(ls_json_field(value, "is"), "one input that is %s", is[role]);
        *there = true;
    }
    if (out->role != LS_INPUT_OTHER && out->dtype != LS_I32) return ls_json_error(ls_json_field(value, "dtype"), "i32");
    for (size_t r = 0; r < LS_COUNT(role_names); r++) /* the names that inputs with a meaning have everywhere else */
        if (out->role == LS_INPUT_OTHER && strcmp(out->name, role_names[r]) == 0)
            return ls_json_error(ls_json_field(value, "name"), "another name, or \"is\" for what it is");
    LS_TRY(ls_json_int_or(value, "shift", 0, 0, 1, &shift));
    if (shift != 0 && out->role != LS_INPUT_LABELS)
        return ls_json_error(ls_json_field(value, "shift"), "an input that is labels");
    inputs->shifts |= shift != 0;
    return ls_ok();
}

static ls_status read_inputs(names *t, ls_json_value root, ls_json_value list, ls_model_inputs *inputs) {
    ls_imported *m = t->m;
    const char *tokens = NULL;
    bool found = false;
    LS_TRY(ls_json_text(root, "tokens", &tokens));
    for (int i = 0; i < m->n_inputs; i++) {
        LS_TRY(read_input(t, ls_json_item(list, (size_t)i), tokens, inputs, &m->inputs[i]));
        found |= m->inputs[i].role == LS_INPUT_TOKENS;
        if (m->inputs[i].role == LS_INPUT_OTHER)
            m->others[inputs->n_others++] = (ls_model_input){.name = m->inputs[i].name, .dtype = m->inputs[i].dtype};
    }
    inputs->others = m->others;
    return found ? ls_ok() : ls_json_error(ls_json_field(root, "tokens"), "the name of an input");
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

static ls_status read_shape(ls_json_value value, ls_imported_parameter *out) {
    ls_json_value list;
    double elements = 1;
    LS_TRY(ls_json_array(value, "shape", &list));
    const size_t n = ls_json_count(list);
    if (n < 1 || n > LS_MAX_DIMS) return ls_json_error(list, "an array of 1 to %d", LS_MAX_DIMS);
    for (size_t i = 0; i < n; i++) {
        LS_TRY(ls_json_as_int(ls_json_item(list, i), 1, INT64_C(1) << 40, &out->size[i]));
        elements *= (double)out->size[i];
    }
    if (elements > 0x1p48) return ls_json_error(list, "at most 2^48 elements");
    out->ndim = (int)n;
    return ls_ok();
}

/* Other names of a parameter. No tensor has such a name, so it always means the parameter. */
static ls_status read_also(names *t, ls_json_value value, int parameter, ls_imported_parameter *out) {
    ls_imported *m = t->m;
    ls_json_value list;
    int n;
    LS_TRY(read_list(value, "also", &list, &n));
    for (int i = 0; i < n; i++) {
        const char *name = NULL;
        LS_TRY(add_name(t, ls_json_item(list, (size_t)i), parameter, &name));
        m->copies[m->n_copies++] = (ls_weight_copy){name, out->name};
    }
    return ls_ok();
}

static ls_status read_parameter(names *t, ls_json_value value, ls_imported_parameter *out) {
    static const char *const fields[] = {"name", "shape", "frozen", "buffer", "also", NULL};
    bool buffer;
    int tensor;
    LS_TRY(ls_json_as_object(value));
    LS_TRY(ls_imported_known(value, fields, NULL));
    LS_TRY(add_tensor(t, ls_json_field(value, "name"), &out->name, &tensor));
    LS_TRY(read_shape(value, out));
    LS_TRY(ls_json_bool_or(value, "frozen", false, &out->frozen));
    LS_TRY(ls_json_bool_or(value, "buffer", false, &buffer));
    if (buffer && !out->frozen) return ls_json_error(ls_json_field(value, "frozen"), "true, as it is a buffer");
    return read_also(t, value, tensor, out);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static ls_status read_ins(names *t, ls_json_value value, ls_imported_node *out) {
    ls_json_value list;
    LS_TRY(ls_json_array(value, "in", &list));
    const int n = (int)ls_json_count(list);
    if (n < out->op->least_in || n > out->op->most_in)
        return out->op->least_in == out->op->most_in
                   ? ls_json_error(list, "an array of %d", out->op->least_in)
                   : ls_json_error(list, "an array of %d to %d", out->op->least_in, out->op->most_in);
    for (int i = 0; i < n; i++) {
        const ls_json_value item = ls_json_item(list, (size_t)i);
        if (ls_json_plain_of(item).kind == LS_JSON_NULL && i >= out->op->least_in) continue;
        LS_TRY(find_name(t, item, "an input, a parameter, or a result of an earlier node", &out->in[i]));
    }
    out->n_in = n;
    return ls_ok();
}

static ls_status read_outs(names *t, ls_json_value value, ls_imported_node *out) {
    ls_json_value list;
    LS_TRY(ls_json_array(value, "out", &list));
    out->n_out = (int)ls_json_count(list);
    if (out->op->n_out > 0 && out->n_out != out->op->n_out)
        return ls_json_error(list, "an array of %d", out->op->n_out);
    if (out->n_out < 1 || out->n_out > LS_NODE_OUTPUTS)
        return ls_json_error(list, "an array of 1 to %d", LS_NODE_OUTPUTS);
    for (int i = 0; i < out->n_out; i++) LS_TRY(add_tensor(t, ls_json_item(list, (size_t)i), NULL, &out->out[i]));
    return ls_ok();
}

static ls_status read_known_op(names *t, ls_json_value value, ls_imported_node *out) {
    static const char *const fields[] = {"op", "in", "out", "at", NULL};
    LS_TRY(ls_imported_known(value, fields, out->op->fields));
    LS_TRY(read_ins(t, value, out));
    if (out->op->read != NULL) {
        ls_imported_params *params = LS_NEW(t->m->arena, ls_imported_params);
        LS_TRY(out->op->read(value, t->m->dtype, params));
        out->params = params;
    }
    return read_outs(t, value, out);
}

static ls_status read_node(names *t, ls_json_value value, int node) {
    ls_imported *m = t->m;
    ls_imported_node *out = &m->nodes[node];
    int64_t at;
    LS_TRY(ls_json_as_object(value));
    LS_TRY(ls_imported_op_find(value, &out->op));
    out->at = -1;
    LS_TRY(ls_imported_in_node(m, node, ls_json_int_or(value, "at", -1, 0, m->n_sources - 1, &at)));
    out->at = (int)at;
    return ls_imported_in_node(m, node, read_known_op(t, value, out));
}

/* --- the whole file ----------------------------------------------------------------------------------------------- */

static ls_status read_source(ls_json_value value, ls_imported_source *out) {
    static const char *const fields[] = {"file", "line", "code", NULL};
    LS_TRY(ls_json_as_object(value));
    LS_TRY(ls_imported_known(value, fields, NULL));
    LS_TRY(ls_json_text(value, "file", &out->file));
    LS_TRY(ls_json_text_or(value, "code", "", &out->code));
    return ls_json_int(value, "line", 0, INT32_MAX, &out->line);
}

/* How the user's program finds documents. */
enum { BY_NUMBERS, BY_PADDING, BY_FIRST, BY_LAST };

/*
 * Reads whether attention is told about documents, and, if the field is an object, how the user's program finds
 * documents.
 */
static ls_status read_documents(ls_json_value root, ls_imported *m, ls_model_inputs *inputs) {
    static const char *const fields[] = {"input", "is", "number", "ignored", NULL};
    static const char *const is[] = {
        [BY_NUMBERS] = "numbers", [BY_PADDING] = "padding", [BY_FIRST] = "first", [BY_LAST] = "last"};
    static const ls_mark_kind kinds[] = {[BY_FIRST] = LS_MARK_FIRST, [BY_LAST] = LS_MARK_LAST};
    const ls_json_value value = ls_json_field(root, "documents");
    const char *input, *tokens;
    bool ignored;
    int choice;
    int64_t number = 0;
    if (!ls_json_has(root, "documents") || ls_json_plain_of(value).kind != LS_JSON_OBJECT)
        return ls_json_bool_or(root, "documents", false, &inputs->documents);
    LS_TRY(ls_imported_known(value, fields, NULL));
    LS_TRY(ls_json_text(value, "input", &input));
    LS_TRY(read_choice(value, "is", is, LS_COUNT(is), &choice));
    LS_TRY(ls_json_bool_or(value, "ignored", false, &ignored));
    if (choice == BY_FIRST || choice == BY_LAST) LS_TRY(ls_json_int(value, "number", INT32_MIN, INT32_MAX, &number));
    LS_TRY(ls_json_text(root, "tokens", &tokens));
    inputs->documents = true;
    m->padding = choice == BY_PADDING;
    if (strcmp(input, tokens) == 0) inputs->marks = (ls_marks){kinds[choice], (int32_t)number};
    if (strcmp(input, tokens) == 0 && inputs->marks.kind == LS_MARK_NOT)
        return ls_json_error(ls_json_field(value, "is"), "first or last, as the input is the tokens");
    return ls_ok();
}

static ls_status read_head(ls_json_value root, ls_imported *m, ls_model_inputs *inputs) {
    static const char *const fields[] = {"format",    "version",    "made_by",   "dtype",     "tokens",
                                         "inputs",    "parameters", "constants", "nodes",     "loss",
                                         "mean_over", "logits",     "sources",   "documents", NULL};
    static const char *const formats[] = {"longspan-graph"}, *const types[] = {"f32", "f64", "f16", "bf16"},
                             *const means[] = {[LS_MEAN_LABELS] = "labels", [LS_MEAN_TOKENS] = "tokens"};
    int choice;
    int64_t version;
    LS_TRY(ls_json_as_object(root));
    LS_TRY(read_choice(root, "format", formats, LS_COUNT(formats), &choice));
    LS_TRY(ls_json_int(root, "version", 1, 1, &version));
    LS_TRY(ls_imported_known(root, fields, NULL));
    LS_TRY(ls_json_text_or(root, "made_by", "", &m->made_by));
    LS_TRY(read_choice(root, "dtype", types, LS_COUNT(types), &choice));
    m->dtype = types[choice];
    LS_TRY(read_documents(root, m, inputs));
    inputs->mean = LS_MEAN_NOTHING;
    if (ls_json_plain_of(ls_json_field(root, "mean_over")).kind == LS_JSON_OBJECT) inputs->mean = LS_MEAN_WEIGHTS;
    if (!ls_json_has(root, "mean_over") || inputs->mean == LS_MEAN_WEIGHTS) return ls_ok();
    LS_TRY(read_choice(root, "mean_over", means, LS_COUNT(means), &choice));
    inputs->mean = (ls_mean)choice;
    return ls_ok();
}

/* The lists of the document. find_lists allocates an array of the same length for each of them. */
typedef struct lists {
    ls_json_value inputs, parameters, nodes, sources;
} lists;

static ls_status find_lists(ls_json_value root, ls_imported *m, lists *out) {
    ls_json_value constants;
    int n_constants;
    LS_TRY(read_list(root, "constants", &constants, &n_constants));
    if (n_constants > 0) return ls_json_error(constants, "an empty array: constants are frozen parameters");
    LS_TRY(read_list(root, "inputs", &out->inputs, &m->n_inputs));
    LS_TRY(read_list(root, "parameters", &out->parameters, &m->n_parameters));
    LS_TRY(read_list(root, "nodes", &out->nodes, &m->n_nodes));
    if (m->n_nodes > MOST_NODES) return ls_json_error(out->nodes, "an array of at most %d", MOST_NODES);
    LS_TRY(read_list(root, "sources", &out->sources, &m->n_sources));
    m->inputs = LS_NEW_ARRAY(m->arena, ls_imported_input, m->n_inputs + 1);
    m->others = LS_NEW_ARRAY(m->arena, ls_model_input, m->n_inputs + 1);
    m->parameters = LS_NEW_ARRAY(m->arena, ls_imported_parameter, m->n_parameters + 1);
    m->nodes = LS_NEW_ARRAY(m->arena, ls_imported_node, m->n_nodes + 1);
    m->sources = LS_NEW_ARRAY(m->arena, ls_imported_source, m->n_sources + 1);
    return ls_ok();
}

/* The most names that the document can have, found from the lengths of the lists. */
static int most_names(const lists *l, const ls_imported *m, int *also) {
    int n = m->n_inputs + m->n_parameters;
    *also = 0;
    for (int i = 0; i < m->n_nodes; i++)
        n += (int)ls_json_count(ls_json_field(ls_json_item(l->nodes, (size_t)i), "out"));
    for (int i = 0; i < m->n_parameters; i++)
        *also += (int)ls_json_count(ls_json_field(ls_json_item(l->parameters, (size_t)i), "also"));
    return n + *also;
}

/* Reads one factor of the product whose sum over the tokens is the divisor of a weighted mean. */
static ls_status read_weight(const ls_imported *m, const ls_model_inputs *inputs, ls_json_value value,
                             struct ls_mean_weight *out) {
    static const char *const fields[] = {"input", "shift", NULL};
    const char *name;
    LS_TRY(ls_json_as_object(value));
    LS_TRY(ls_imported_known(value, fields, NULL));
    LS_TRY(ls_json_text(value, "input", &name));
    LS_TRY(ls_json_int_or(value, "shift", 0, INT32_MIN, INT32_MAX, &out->shift));
    for (out->input = 0; out->input < inputs->n_others; out->input++)
        if (strcmp(m->others[out->input].name, name) == 0) return ls_ok();
    return ls_json_error(ls_json_field(value, "input"), "an input without a meaning of its own");
}

static ls_status read_weights(ls_json_value value, const ls_imported *m, ls_model_inputs *inputs) {
    static const char *const fields[] = {"product", "labels", "least", "plus", NULL};
    ls_mean_weights *w = &inputs->weights;
    ls_json_value product;
    LS_TRY(ls_imported_known(value, fields, NULL));
    LS_TRY(read_list(value, "product", &product, &w->n));
    if (w->n < 1 || w->n > LS_MOST_WEIGHTS) return ls_json_error(product, "1 to %d inputs", LS_MOST_WEIGHTS);
    for (int i = 0; i < w->n; i++) LS_TRY(read_weight(m, inputs, ls_json_item(product, (size_t)i), &w->of[i]));
    LS_TRY(ls_json_bool_or(value, "labels", false, &w->labels));
    if (w->labels && !inputs->labels)
        return ls_json_error(ls_json_field(value, "labels"), "false, as no input is labels");
    LS_TRY(ls_json_double_or(value, "least", -DBL_MAX, -DBL_MAX, DBL_MAX, &w->least));
    return ls_json_double_or(value, "plus", 0, -DBL_MAX, DBL_MAX, &w->plus);
}

static ls_status read_ends(const names *t, ls_json_value root, ls_model_inputs *inputs) {
    static const char expected[] = "the name of a tensor";
    if (inputs->mean == LS_MEAN_WEIGHTS) LS_TRY(read_weights(ls_json_field(root, "mean_over"), t->m, inputs));
    LS_TRY(find_name(t, ls_json_field(root, "loss"), expected, &t->m->loss));
    if (ls_json_has(root, "logits")) LS_TRY(find_name(t, ls_json_field(root, "logits"), expected, &t->m->logits));
    if (inputs->mean == LS_MEAN_LABELS && !inputs->labels)
        return ls_json_error(ls_json_field(root, "mean_over"), "tokens or null, as no input is labels");
    return ls_ok();
}

ls_status ls_imported_read(ls_json *document, ls_model_inputs *inputs, ls_imported *m) {
    const ls_json_value root = ls_json_root(document);
    lists l;
    names t;
    int also;
    m->document = document;
    m->arena = ls_arena_create();
    m->file = root.file;
    LS_TRY(read_head(root, m, inputs));
    LS_TRY(find_lists(root, m, &l));
    make_names(&t, m, most_names(&l, m, &also));
    m->copies = LS_NEW_ARRAY(m->arena, ls_weight_copy, also + 1);
    for (int i = 0; i < m->n_sources; i++) LS_TRY(read_source(ls_json_item(l.sources, (size_t)i), &m->sources[i]));
    LS_TRY(read_inputs(&t, root, l.inputs, inputs));
    for (int i = 0; i < m->n_parameters; i++)
        LS_TRY(read_parameter(&t, ls_json_item(l.parameters, (size_t)i), &m->parameters[i]));
    for (int i = 0; i < m->n_nodes; i++) LS_TRY(read_node(&t, ls_json_item(l.nodes, (size_t)i), i));
    return read_ends(&t, root, inputs);
}
