/*
 * The row of models that are written as a config.json: reads it, changes it, and gives its weights and its description.
 */
#include "graph/graph.h"
#include "model/model_impl.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

/* --- reading ------------------------------------------------------------------------------------------------------ */

static ls_status read_document(const ls_json *document, ls_model *model) {
    const ls_json_value root = ls_json_root(document);
    LS_TRY(ls_json_as_object(root));
    bool scored;
    LS_TRY(ls_architecture_find(root, &model->architecture, &scored));
    LS_TRY(ls_config_read(root, model->architecture, &model->config));
    model->config.scored = scored;
    model->config.sizes.outputs = model->config.sizes.V;
    model->sizes = model->config.sizes;
    model->inputs = (ls_model_inputs){.labels = true, .positions = true, .documents = true, .mean = LS_MEAN_LABELS};
    return ls_ok();
}

static ls_status parse_config(const char *name, ls_model *model) {
    ls_json *document = NULL;
    LS_TRY(ls_json_parse(name, model->text, strlen(model->text), &document));
    const ls_status status = read_document(document, model);
    ls_json_free(document);
    return status;
}

/* Counts in the smallest possible graph, because only the builder knows the parameters. */
static ls_status count_parameters(ls_model *model) {
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model smallest;
    const ls_status status = ls_layers_build(model, g, &(ls_model_lengths){1, 1, 0}, &smallest);
    model->parameters = 0;
    for (int t = 1; t < g->n_tensors; t++)
        if (g->tensors[t].role == LS_ROLE_PARAMETER) model->parameters += ls_shape_elements(&g->tensors[t].shape);
    ls_graph_destroy(g);
    return status;
}

static ls_status read_config(ls_json *document, ls_model *model) {
    LS_PATH name = NULL;
    const ls_json_value root = ls_json_root(document);
    ls_status status = ls_path_print(&name, "%s", root.file);
    if (status.code == LS_OK) status = ls_quantized_read(root, &model->stored);
    if (status.code == LS_OK) status = ls_config_unwrap(root, &model->text, &model->wrapper);
    if (status.code == LS_OK && model->wrapper == NULL) status = read_document(document, model);
    ls_json_free(document);
    LS_TRY(status);
    LS_TRY(ls_quantized_forget(&model->text));
    if (model->wrapper != NULL) LS_TRY(parse_config(name, model));
    return count_parameters(model);
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

/* Reads the changed text again; errors name the change. */
static ls_status reread(const char *path, const ls_rope_change *change, ls_model *model) {
    LS_PATH name = NULL;
    const bool scaled = change->scaling != NULL;
    LS_TRY(ls_path_print(&name, "%s with %s %s", path, scaled ? "--rope-scaling" : "--rope-theta",
                         scaled ? change->scaling : ""));
    return parse_config(name, model);
}

static ls_status change_rope(const char *path, const ls_rope_change *change, ls_model *model) {
    bool longer = false;
    if (model->config.rope.theta == 0)
        return ls_error(LS_USAGE,
                        "%s is a %s, whose positions are learned; --rope-scaling and --rope-theta are "
                        "for rotary positions",
                        path, model->architecture->name);
    LS_TRY(ls_rope_change_text(&model->config, change, &model->text));
    LS_TRY(reread(path, change, model));
    LS_TRY(ls_rope_change_length(&model->config, &longer, &model->text));
    return longer ? reread(path, change, model) : ls_ok();
}

/*
 * Whether both are equal. Some scalings are computed from max_position_embeddings, so raising that would change them.
 */
static bool same_rope(const ls_rope *a, const ls_rope *b) {
    return a->factor == b->factor && a->original_length == b->original_length;
}

static bool same_ropes(const ls_model_config *a, const ls_model_config *b) {
    return same_rope(&a->rope, &b->rope) && same_rope(&a->local_rope, &b->local_rope);
}

static ls_status lengthen(ls_model *model, int64_t S, bool *longer) {
    const ls_model_config before = model->config;
    if (before.rope.theta == 0 || S <= before.sizes.longest) return ls_ok();
    char *kept = strdup(model->text);
    if (kept == NULL) return ls_error(LS_NO_MEMORY, "no memory for a config.json");
    ls_status status = ls_config_set_longest(S, &model->text);
    if (status.code == LS_OK) status = parse_config("config.json", model);
    *longer = status.code == LS_OK && same_ropes(&before, &model->config);
    if (!*longer) {
        free(model->text);
        model->text = kept;
        model->config = before;
        model->sizes = before.sizes;
    } else
        free(kept);
    return status;
}

static ls_status check_rope_apart(const ls_rope *rope, int64_t S) {
    const double length = rope->length > 0 ? rope->length : (double)S;
    ls_rope_scaling scaling = LS_ROPE_PLAIN;
    if (rope->scaling != NULL) LS_TRY(ls_rope_find(rope->scaling, &scaling));
    if (!ls_rope_by_length(&(ls_rope_params){.scaling = scaling}) || length <= rope->original_length) return ls_ok();
    return ls_error(
        LS_UNSUPPORTED,
        "rope scaling \"%s\" goes by the length of a sequence, and documents that are packed apart would get "
        "that of --seq %lld instead of their own; expected --pack join, --seq of at most %.0f, or another "
        "--rope-scaling",
        rope->scaling, (long long)S, rope->original_length);
}

static ls_status check_apart(const ls_model *model, int64_t S) {
    LS_TRY(check_rope_apart(&model->config.rope, S));
    return check_rope_apart(&model->config.local_rope, S);
}

/* --- a scoring head ----------------------------------------------------------------------------------------------- */

static ls_status set_member(ls_model *model, const char *key, const char *value) {
    char *made = NULL;
    LS_TRY(ls_json_set_member(model->text, key, value, &made));
    free(model->text);
    model->text = made;
    return ls_ok();
}

static ls_status score(ls_model *model) {
    LS_PATH name = NULL;
    LS_TRY(ls_path_print(&name, "[\"%s\"]", model->architecture->scored));
    LS_TRY(set_member(model, "architectures", name));
    LS_TRY(set_member(model, "id2label", "{\"0\": \"LABEL_0\"}"));
    LS_TRY(set_member(model, "label2id", "{\"LABEL_0\": 0}"));
    model->config.scored = model->head_apart = true;
    return count_parameters(model);
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Heads that predict further tokens; the library does not load them either. */
static const char *const further_heads[] = {"mtp.", "model.mtp", NULL};
/*
 * The same for a model with a scoring head, which ignores lm_head too. all_heads: its scoring head is not that of the
 * files, so the latter is ignored as well.
 */
static const char *const other_heads[] = {"mtp.", "model.mtp", "lm_head.", NULL};
static const char *const all_heads[] = {"mtp.", "model.mtp", "lm_head.", LS_SCORE_WEIGHT, NULL};

static ls_weight_rules rules_of(const ls_model *model) {
    const ls_form *form = model->architecture->form;
    const bool wrapped = model->wrapper != NULL;
    const ls_weight_spelling *own = model->architecture->spellings;
    return (ls_weight_rules){.derived = form->derived,
                             .copies = &form->tie,
                             .n_copies = model->sizes.tied ? 1 : 0,
                             .spellings = wrapped       ? ls_wrapped_spellings
                                          : own != NULL ? own
                                                        : form->spellings,
                             .left_out = wrapped                ? ls_wrapped_left_out
                                         : model->head_apart    ? all_heads
                                         : model->config.scored ? other_heads
                                                                : further_heads};
}

static ls_status make_random(const ls_model *model, uint64_t seed, ls_weight_source *out) {
    return ls_weights_open_random_as(&(ls_weight_random){seed, model->sizes.initializer_range,
                                                         1 - model->config.norm_offset, model->architecture->weights},
                                     out);
}

/* --- its description ---------------------------------------------------------------------------------------------- */

static const char *name_of(const ls_model *model) {
    return model->config.scored ? model->architecture->scored : model->architecture->name;
}

static void print(const ls_model *model, char *out, size_t room) {
    const ls_model_sizes *m = &model->sizes;
    ls_print(out, room,
             "%s · %.2f M parameters · L %lld · E %lld · F %lld · V %lld%s · heads %lld, %lld of keys, of %lld",
             name_of(model), (double)model->parameters / 1e6, (long long)m->L, (long long)m->E, (long long)m->F,
             (long long)m->V, m->tied ? " (tied)" : "", (long long)m->Hq, (long long)m->Hkv, (long long)m->D);
}

static void put(const ls_model *model, ls_json_writer *w) {
    const ls_model_sizes *m = &model->sizes;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"V", m->V}, {"E", m->E}, {"F", m->F}, {"L", m->L}, {"Hq", m->Hq}, {"Hkv", m->Hkv}, {"D", m->D}};
    for (size_t i = 0; i < LS_COUNT(sizes); i++) ls_json_put_int(w, sizes[i].name, sizes[i].value);
    ls_json_put_bool(w, "tied", m->tied);
}

static void free_nothing(ls_model *model) { (void)model; }

const ls_model_kind ls_model_kind_config = {.file = "config.json",
                                            /*
                                             * far above published configs: most have a few KiB, those with long lists
                                             * of labels a few MiB
                                             */
                                            .most_bytes = (size_t)16 << 20,
                                            .read = read_config,
                                            .change_rope = change_rope,
                                            .lengthen = lengthen,
                                            .score = score,
                                            .check_apart = check_apart,
                                            .build = ls_layers_build,
                                            .rules = rules_of,
                                            .random = make_random,
                                            .name = name_of,
                                            .print = print,
                                            .put = put,
                                            .free = free_nothing};
