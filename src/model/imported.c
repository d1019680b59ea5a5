/*
 * The row of models that are written as a graph.json: checks the graph as a whole, builds it, and gives its weights and
 * its description.
 */
#include "model/imported_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- building ----------------------------------------------------------------------------------------------------- */

typedef struct building {
    const ls_imported *m;
    ls_graph *g;
    ls_tensor *tensors; /* by the tensor's number in the file */
    ls_language_model lm;
} building;

static void declare_input(building *b, int i) {
    const ls_imported_input *input = &b->m->inputs[i];
    ls_tensor *known[] = {
        [LS_INPUT_TOKENS] = &b->lm.tokens, [LS_INPUT_LABELS] = &b->lm.labels, [LS_INPUT_POSITIONS] = &b->lm.positions};
    static const char *const names[] = {[LS_INPUT_LABELS] = "labels", [LS_INPUT_POSITIONS] = "positions"};
    ls_tensor *to = &b->tensors[1 + i];
    if (input->role == LS_INPUT_OTHER)
        *to = ls_input_typed(b->g, input->name, input->dtype == LS_I32 ? LS_I32 : b->g->accumulator, b->lm.tokens);
    else if (input->role != LS_INPUT_TOKENS)
        *to = *known[input->role] = ls_input_like(b->g, names[input->role], b->lm.tokens);
    else
        *to = b->lm.tokens;
}

static ls_status declare_leaves(building *b, const ls_model_lengths *lengths) {
    const ls_imported *m = b->m;
    b->lm.tokens = ls_tokens(b->g, "tokens", lengths->B, lengths->S);
    for (int i = 0; i < m->n_inputs; i++) declare_input(b, i);
    for (int i = 0; i < m->n_parameters; i++) {
        const ls_imported_parameter *p = &m->parameters[i];
        const ls_tensor made = ls_parameter(b->g, p->name, p->ndim, p->size);
        if (made.id != 0) b->g->tensors[made.id].frozen = p->frozen;
        b->tensors[1 + m->n_inputs + i] = made;
    }
    return ls_error_in(ls_graph_status(b->g), "%s", m->file);
}

static ls_status add_node(building *b, int node, const ls_model_lengths *lengths) {
    const ls_imported_node *n = &b->m->nodes[node];
    ls_imported_call c = {
        .g = b->g, .lengths = lengths, .params = n->params, .n_in = n->n_in, .n_out = n->n_out, .lm = &b->lm};
    for (int i = 0; i < n->n_in; i++) c.in[i] = b->tensors[n->in[i]];
    const int before = b->g->n_tensors;
    n->op->call(&c);
    const ls_status status = ls_graph_status(b->g);
    if (status.code != LS_OK)
        return ls_imported_in_node(b->m, node, ls_error_in(status, "%s: nodes[%d]", b->m->file, node));
    for (int i = 0; i < n->n_out; i++) {
        b->tensors[n->out[i]] = c.out[i];
        /* An input that an op has declared keeps the name that the host knows. */
        if (c.out[i].id >= before && ls_graph_producer(b->g, c.out[i]) != NULL)
            (void)ls_named(b->g, c.out[i], "%s", b->m->names[n->out[i]]);
    }
    return ls_ok();
}

/* Writes a shape and its type, as messages of ops show them. */
static void describe(const building *b, int tensor, char *out, size_t room) {
    const ls_tensor_info *info = ls_graph_tensor(b->g, b->tensors[tensor]);
    char shape[64];
    ls_shape_print(&info->shape, shape, sizeof shape);
    ls_print(out, room, "\"%s\", %s%s", b->m->names[tensor], ls_dtype_name(info->dtype), shape);
}

/* Finds the loss. If it is the sum of terms [B,S] (batch, sequence), these terms are the losses of the tokens. */
static ls_status find_loss(building *b) {
    const ls_tensor loss = b->tensors[b->m->loss];
    const ls_tensor_info *info = ls_graph_tensor(b->g, loss);
    char text[320];
    describe(b, b->m->loss, text, sizeof text);
    if (info->dtype != b->g->accumulator || info->shape.ndim != 1 || info->shape.dim[0].size != 1)
        return ls_error(LS_INVALID, "%s: loss is %s, expected a sum over the tokens, %s[1]", b->m->file, text,
                        ls_dtype_name(b->g->accumulator));
    b->lm.loss = ls_named(b->g, loss, "loss");
    const ls_node *sum = ls_graph_producer(b->g, loss);
    if (sum == NULL || sum->op != &ls_op_sum) return ls_ok();
    const ls_shape *terms = &ls_graph_tensor(b->g, sum->in[0])->shape;
    if (terms->ndim == 2 && terms->dim[0].factor == LS_FACTOR_BATCH && terms->dim[1].factor == LS_FACTOR_SEQUENCE &&
        ls_graph_producer(b->g, sum->in[0]) != NULL)
        b->lm.token_loss = ls_named(b->g, sum->in[0], "token_loss");
    return ls_ok();
}

static ls_status find_logits(building *b) {
    if (b->m->logits == 0) return ls_ok();
    const ls_tensor logits = b->tensors[b->m->logits];
    const ls_tensor_info *info = ls_graph_tensor(b->g, logits);
    char text[320];
    describe(b, b->m->logits, text, sizeof text);
    if (ls_graph_producer(b->g, logits) == NULL || info->dtype != b->g->accumulator || info->shape.ndim != 3 ||
        info->shape.dim[0].factor != LS_FACTOR_BATCH || info->shape.dim[1].factor != LS_FACTOR_SEQUENCE)
        return ls_error(LS_INVALID, "%s: logits is %s, expected the result of a node, %s[B,S,V]", b->m->file, text,
                        ls_dtype_name(b->g->accumulator));
    b->lm.logits = ls_named(b->g, logits, "logits");
    return ls_ok();
}

static ls_status build(const ls_model *model, ls_graph *g, const ls_model_lengths *lengths, ls_language_model *out) {
    const ls_imported *m = model->imported;
    building b = {.m = m, .g = g, .tensors = LS_NEW_ARRAY(g->arena, ls_tensor, m->n_tensors + 1)};
    if (model->sizes.learned && lengths->S > model->sizes.longest)
        return ls_error(LS_USAGE,
                        "a sequence of %lld tokens; expected at most %lld, as %s looks positions up in a table",
                        (long long)lengths->S, (long long)model->sizes.longest, m->file);
    LS_TRY(declare_leaves(&b, lengths));
    for (int i = 0; i < m->n_nodes; i++) LS_TRY(add_node(&b, i, lengths));
    LS_TRY(find_loss(&b));
    LS_TRY(find_logits(&b));
    LS_TRY(ls_graph_status(g));
    *out = b.lm;
    return ls_ok();
}

/* --- the graph as a whole ----------------------------------------------------------------------------------------- */

/* Marks the tensors that the loss depends on. */
static void find_used(const ls_imported *m, bool *used) {
    used[m->loss] = true;
    for (int n = m->n_nodes - 1; n >= 0; n--) {
        const ls_imported_node *node = &m->nodes[n];
        bool any = false;
        for (int i = 0; i < node->n_out; i++) any |= used[node->out[i]];
        for (int i = 0; any && i < node->n_in; i++) used[node->in[i]] = true;
    }
}

static ls_status check_used(const ls_imported *m) {
    bool *used = LS_NEW_ARRAY(m->arena, bool, m->n_tensors + 1), trained = false;
    find_used(m, used);
    for (int i = 0; i < m->n_parameters; i++) {
        const ls_imported_parameter *p = &m->parameters[i];
        if (!used[1 + m->n_inputs + i])
            return ls_error(LS_INVALID,
                            "%s: parameters[%d].name is \"%s\", expected a parameter that the loss depends on", m->file,
                            i, p->name);
        trained |= !p->frozen;
    }
    for (int i = 0; i < m->n_inputs; i++)
        if (!used[1 + i])
            return ls_error(LS_INVALID, "%s: inputs[%d].name is \"%s\", expected an input that the loss depends on",
                            m->file, i, m->inputs[i].name);
    return trained ? ls_ok()
                   : ls_error(LS_INVALID, "%s: parameters has none that is trained, expected one at least", m->file);
}

/*
 * If documents do not see each other, every mask is told about them, so either all masks or none must have the term
 * documents.
 */
static ls_status check_documents(const ls_imported *m, bool documents) {
    for (int n = 0; n < m->n_nodes; n++) {
        const ls_imported_params *params = m->nodes[n].params;
        if (params == NULL || !params->has_mask) continue;
        bool term = false;
        for (int i = 0; i < params->mask.n; i++) term |= params->mask.term[i].kind == LS_MASK_DOCUMENTS;
        if (term == documents) continue;
        return ls_imported_in_node(m, n,
                                   ls_error(LS_INVALID, "%s: nodes[%d].mask has %s, expected %s, as documents is %s",
                                            m->file, n, term ? "the term documents" : "no term documents",
                                            term ? "none" : "it", documents ? "true" : "false"));
    }
    return ls_ok();
}

/* Finds the most tokens up to which no table of rotations depends on the length of the sequence. */
static void find_rope_limit(ls_imported *m) {
    m->rope_limit = INT64_MAX;
    for (int n = 0; n < m->n_nodes; n++) {
        const ls_imported_params *params = m->nodes[n].params;
        ls_rope_scaling scaling = LS_ROPE_PLAIN;
        if (params == NULL || params->rope.scaling == NULL || params->rope.length > 0) continue;
        if (ls_rope_find(params->rope.scaling, &scaling).code != LS_OK) continue; /* building reports the error */
        if (ls_rope_by_length(&(ls_rope_params){.scaling = scaling}))
            m->rope_limit = ls_min(m->rope_limit, (int64_t)params->rope.original_length);
    }
}

static ls_status find_sizes(const ls_graph *g, const ls_language_model *lm, ls_model *model) {
    ls_model_sizes *n = &model->sizes;
    model->imported->counts = lm->positions.id != 0 && !model->inputs.positions;
    n->V = ls_graph_id_range(g, lm->tokens).count;
    if (n->V == INT64_MAX)
        return ls_error(LS_INVALID, "%s: tokens are looked up in no table, expected an embedding of them",
                        model->imported->file);
    n->outputs = n->V;
    if (lm->logits.id != 0)
        n->outputs = ls_graph_tensor(g, lm->logits)->shape.dim[2].size;
    else if (lm->labels.id != 0)
        n->outputs = ls_min(ls_graph_id_range(g, lm->labels).count, INT32_MAX);
    const int64_t positions = lm->positions.id != 0 ? ls_graph_id_range(g, lm->positions).count : INT64_MAX;
    n->learned = positions != INT64_MAX;
    n->longest = ls_min(positions, INT32_MAX);
    return ls_ok();
}

/* Builds a small graph: checks that shapes and types fit, and finds the model's sizes. */
static ls_status check_graph(ls_model *model) {
    enum { B = 2, S = 16 };
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm = {0};
    ls_status status = build(model, g, &(ls_model_lengths){B, S, 0}, &lm);
    if (status.code == LS_OK) status = find_sizes(g, &lm, model);
    if (status.code == LS_OK)
        status = ls_error_in(ls_graph_differentiate_loss(g, lm.loss), "%s", model->imported->file);
    ls_graph_destroy(g);
    return status;
}

static ls_status count_parameters(const ls_imported *m, int64_t *out) {
    const int64_t most = INT64_C(1) << 58;
    for (int i = 0; i < m->n_parameters; i++) {
        int64_t elements = 1; /* at most 2^48: the reader has checked it */
        for (int d = 0; d < m->parameters[i].ndim; d++) elements *= m->parameters[i].size[d];
        *out += elements;
        if (*out > most)
            return ls_error(LS_INVALID,
                            "%s: parameters has more than 2^58 elements with parameters[%d], expected fewer", m->file,
                            i);
    }
    return ls_ok();
}

static ls_status read_graph(ls_json *document, ls_model *model) {
    model->imported = calloc(1, sizeof *model->imported);
    if (model->imported == NULL) {
        ls_json_free(document);
        return ls_error(LS_NO_MEMORY, "no memory for a graph");
    }
    ls_imported *m = model->imported;
    LS_TRY(ls_imported_read(document, &model->inputs, m));
    LS_TRY(count_parameters(m, &model->parameters));
    LS_TRY(check_used(m));
    LS_TRY(check_documents(m, model->inputs.documents));
    find_rope_limit(m);
    return check_graph(model);
}

static void free_graph(ls_model *model) {
    if (model->imported == NULL) return;
    ls_arena_destroy(model->imported->arena);
    ls_json_free(model->imported->document);
    free(model->imported);
}

/* --- what a graph.json does not support --------------------------------------------------------------------------- */

static ls_status change_rope(const char *name, const ls_rope_change *change, ls_model *model) {
    return ls_error(
        LS_USAGE,
        "%s for %s: rotary positions are part of the nodes of a %s; expected a model that was changed before "
        "it was imported",
        change->scaling != NULL ? "--rope-scaling" : "--rope-theta", name, model->kind->file);
}

/* The file has no length that could be raised. */
static ls_status lengthen(ls_model *model, int64_t S, bool *longer) {
    (void)model;
    (void)S;
    *longer = false;
    return ls_ok();
}

static ls_status check_apart(const ls_model *model, int64_t S) {
    const ls_imported *m = model->imported;
    if (!model->inputs.documents)
        return ls_error(
            LS_UNSUPPORTED,
            "%s: documents is false, so that attention sees across documents that are packed apart; expected "
            "--pack join, or a graph whose attention is told of documents",
            m->file);
    if (model->inputs.marks.kind != LS_MARK_NOT)
        return ls_error(LS_UNSUPPORTED,
                        "%s: the model finds documents in its tokens, at id %d, and would not be told of those that "
                        "are packed apart; expected --pack join",
                        m->file, model->inputs.marks.id);
    if (m->counts && !m->padding)
        return ls_error(
            LS_UNSUPPORTED,
            "%s: op iota counts the tokens of a sequence whatever its documents, and positions would begin anew in "
            "documents that are packed apart; expected --pack join, or an input that is positions",
            m->file);
    if (S <= m->rope_limit) return ls_ok();
    return ls_error(
        LS_UNSUPPORTED,
        "%s: rope scaling \"dynamic\" goes by the length of a sequence, and documents that are packed apart "
        "would get that of %lld tokens instead of their own; expected --pack join, or at most %lld tokens",
        m->file, (long long)S, (long long)m->rope_limit);
}

/* --- weights and description -------------------------------------------------------------------------------------- */

static ls_weight_rules rules_of(const ls_model *model) {
    return (ls_weight_rules){.copies = model->imported->copies, .n_copies = model->imported->n_copies};
}

static const char *name_of(const ls_model *model) {
    (void)model;
    return "imported graph";
}

static void print(const ls_model *model, char *out, size_t room) {
    const ls_imported *m = model->imported;
    ls_print(out, room, "imported graph · %.2f M parameters · %d nodes · V %lld · %s%s%s",
             (double)model->parameters / 1e6, m->n_nodes, (long long)model->sizes.V, m->dtype,
             m->made_by[0] != 0 ? " · made by " : "", m->made_by);
}

static void put(const ls_model *model, ls_json_writer *w) {
    const ls_imported *m = model->imported;
    ls_json_put_int(w, "V", model->sizes.V);
    ls_json_put_int(w, "nodes", m->n_nodes);
    ls_json_put_text(w, "dtype", m->dtype);
    ls_json_put_text(w, "made_by", m->made_by);
}

const ls_model_kind ls_model_kind_graph = {.file = "graph.json",
                                           .format = "longspan-graph",
                                           .most_bytes = (size_t)16 << 20,
                                           .read = read_graph,
                                           .change_rope = change_rope,
                                           .lengthen = lengthen,
                                           .check_apart = check_apart,
                                           .build = build,
                                           .rules = rules_of,
                                           .name = name_of,
                                           .print = print,
                                           .put = put,
                                           .free = free_graph};
