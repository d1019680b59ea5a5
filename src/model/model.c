/* Opens a model: finds its kind, its text, and the source of its weights. */
#include "model/model_impl.h"

#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

static const ls_model_kind *const kinds[] = {&ls_model_kind_config, &ls_model_kind_graph};

const char *ls_model_file(int index) { return index >= 0 && index < (int)LS_COUNT(kinds) ? kinds[index]->file : NULL; }

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* The kind that the field "format" of a document names; a document without that field is a config.json. */
static const ls_model_kind *kind_of(ls_json_value root) {
    const char *format = NULL;
    if (ls_json_text_or(root, "format", NULL, &format).code != LS_OK || format == NULL) return &ls_model_kind_config;
    for (size_t i = 0; i < LS_COUNT(kinds); i++)
        if (kinds[i]->format != NULL && strcmp(kinds[i]->format, format) == 0) return kinds[i];
    return &ls_model_kind_config;
}

/* Errors call the text `name`. If model->kind is NULL, the text decides. */
static ls_status read_text(const char *name, ls_model *model) {
    ls_json *document = NULL;
    LS_TRY(ls_json_parse(name, model->text, strlen(model->text), &document));
    if (model->kind == NULL) model->kind = kind_of(ls_json_root(document));
    return model->kind->read(document, model);
}

static ls_status read_file(const char *path, ls_model *model) {
    size_t bytes = 0, most = 0;
    for (size_t i = 0; i < LS_COUNT(kinds); i++)
        if (model->kind == NULL || model->kind == kinds[i])
            most = kinds[i]->most_bytes > most ? kinds[i]->most_bytes : most;
    LS_TRY(ls_file_read(path, most, &model->text, &bytes));
    if (strlen(model->text) != bytes) return ls_error(LS_INVALID, "%s holds a byte 0; expected text", path);
    return read_text(path, model);
}

/*
 * Finds the path and the kind of the model's file in a folder. If there is no such file, the path is that of a
 * config.json.
 */
static ls_status find_file(const char *folder, const ls_model_kind **kind, char **out) {
    const ls_model_kind *found = NULL;
    for (size_t i = 0; i < LS_COUNT(kinds); i++) {
        LS_PATH path = NULL;
        LS_TRY(ls_path_join(folder, kinds[i]->file, &path));
        if (!ls_file_exists(path)) continue;
        if (found != NULL)
            return ls_error(LS_USAGE, "%s holds both %s and %s; expected one, or the path of one of them", folder,
                            found->file, kinds[i]->file);
        found = kinds[i];
    }
    *kind = found != NULL ? found : kinds[0];
    return ls_path_join(folder, (*kind)->file, out);
}

static bool changes_rope(const ls_rope_change *change) {
    return change != NULL && ((change->scaling != NULL && change->scaling[0] != 0) || change->theta != 0);
}

/* If the folder has an adapter, *out becomes the folder of the model that the adapter is for, otherwise NULL. */
static ls_status find_base(const char *folder, char **out) {
    LS_PATH config = NULL;
    ls_json *document = NULL;
    const char *base = NULL;
    LS_TRY(ls_path_join(folder, LS_ADAPTER_CONFIG, &config));
    if (!ls_file_exists(config)) return ls_ok();
    LS_TRY(ls_json_read(config, LS_JSON_MOST_BYTES, &document));
    const ls_json_value root = ls_json_root(document);
    ls_status status = ls_json_text_or(root, "base_model_name_or_path", NULL, &base);
    if (status.code == LS_OK && (base == NULL || !ls_file_is_folder(base)))
        status = ls_json_error(ls_json_field(root, "base_model_name_or_path"),
                               "a folder that exists; or --model FOLDER --adapter %s", folder);
    if (status.code == LS_OK) status = ls_path_print(out, "%s", base);
    ls_json_free(document);
    return status;
}

/*
 * Finds the model's file of an adapter: in the adapter's own folder, as in a checkpoint, or else in the folder of its
 * base.
 */
static ls_status find_adapted(const char *folder, const char *base, const ls_model_kind **kind, char **out) {
    LS_TRY(find_file(folder, kind, out));
    return ls_file_exists(*out) ? ls_ok() : find_file(base, kind, out);
}

static ls_status open_model(const char *path, const ls_rope_change *change, ls_model *model) {
    LS_PATH file = NULL;
    LS_PATH base = NULL;
    if (ls_file_is_folder(path)) LS_TRY(find_base(path, &base));
    if (base != NULL)
        LS_TRY(find_adapted(path, base, &model->kind, &file));
    else if (ls_file_is_folder(path))
        LS_TRY(find_file(path, &model->kind, &file));
    else
        LS_TRY(ls_path_print(&file, "%s", path));
    const char *slash = strrchr(file, '/'), *name = slash != NULL ? slash + 1 : file;
    for (size_t i = 0; i < LS_COUNT(kinds); i++) /* a file with another name: its contents decide */
        if (strcmp(name, kinds[i]->file) == 0) model->kind = kinds[i];
    LS_TRY(base != NULL ? ls_path_print(&model->folder, "%s", base) : ls_path_parent(file, &model->folder));
    LS_TRY(read_file(file, model));
    if (changes_rope(change)) LS_TRY(model->kind->change_rope(path, change, model));
    return base != NULL ? ls_model_adapt(model, &(ls_adapter_choice){.folder = path}) : ls_ok();
}

static ls_status open_text(const char *name, const char *text, ls_model *model) {
    model->text = strdup(text);
    if (model->text == NULL) return ls_error(LS_NO_MEMORY, "no memory for %s", name);
    return read_text(name, model);
}

/* If text is NULL, reads the file at path. */
static ls_status create(const char *path, const char *text, const ls_rope_change *change, ls_model **out) {
    if (path == NULL)
        return ls_error(LS_USAGE, "--model is missing; expected a config.json, a graph.json, or the folder of one");
    ls_model *model = calloc(1, sizeof *model);
    if (model == NULL) return ls_error(LS_NO_MEMORY, "no memory to open the model %s", path);
    model->kept = model->stored = LS_DTYPES;
    const ls_status status = text != NULL ? open_text(path, text, model) : open_model(path, change, model);
    if (status.code != LS_OK) {
        ls_model_close(model);
        return status;
    }
    *out = model;
    return ls_ok();
}

ls_status ls_model_open(const char *path, ls_model **out) { return create(path, NULL, NULL, out); }

ls_status ls_model_open_changed(const char *path, const ls_rope_change *change, ls_model **out) {
    return create(path, NULL, change, out);
}

ls_status ls_model_open_text(const char *name, const char *text, ls_model **out) {
    return create(name, text, NULL, out);
}

void ls_model_close(ls_model *model) {
    if (model == NULL) return;
    if (model->kind != NULL) model->kind->free(model);
    ls_adapter_close(model->adapter);
    free(model->adapter_text);
    free(model->folder);
    free(model->text);
    free(model->teacher_inputs);
    free(model);
}

/* --- description -------------------------------------------------------------------------------------------------- */

ls_model_sizes ls_model_describe(const ls_model *model) { return model->sizes; }
ls_model_inputs ls_model_takes(const ls_model *model) { return model->inputs; }
const char *ls_model_architecture(const ls_model *model) { return model->kind->name(model); }
const char *ls_model_folder(const ls_model *model) { return model->folder != NULL ? model->folder : ""; }
ls_model_text ls_model_written(const ls_model *model) {
    return (ls_model_text){model->kind->file, model->text, model->adapter_text, model->base};
}
int64_t ls_model_parameters(const ls_model *model) { return model->parameters; }

void ls_model_print(const ls_model *model, char *out, size_t room) { model->kind->print(model, out, room); }

void ls_model_put(const ls_model *model, ls_json_writer *w) {
    ls_json_put_text(w, "architecture", ls_model_architecture(model));
    ls_json_put_int(w, "parameters", model->parameters);
    model->kind->put(model, w);
}

const ls_weight_copy *ls_model_copy(const ls_model *model, int index) {
    const ls_weight_rules rules = model->kind->rules(model);
    return index >= 0 && index < rules.n_copies ? &rules.copies[index] : NULL;
}

ls_status ls_model_lengthen(ls_model *model, int64_t S, bool *longer) {
    *longer = false;
    return model->kind->lengthen(model, S, longer);
}

/* --- what the model supports -------------------------------------------------------------------------------------- */

int ls_marks_find(const ls_marks *marks, const int32_t *tokens, int64_t S, int32_t *ends) {
    const int64_t behind = marks->kind == LS_MARK_LAST;
    int n = 0;
    ends[n++] = 0;
    for (int64_t i = 1; i < S; i++)
        if (tokens[i - behind] == marks->id) ends[n++] = (int32_t)i;
    ends[n++] = (int32_t)S;
    return n;
}

ls_status ls_model_check_apart(const ls_model *model, int64_t S) { return model->kind->check_apart(model, S); }

ls_status ls_model_check_fed(const ls_model *model) {
    if (model->inputs.n_others == 0) return ls_ok();
    const char *name = model->inputs.others[0].name;
    return ls_error(LS_UNSUPPORTED,
                    "%s: input \"%s\" is neither tokens nor labels nor positions, and no data has it; expected a graph "
                    "without it, or longspan grad --input %s=FILE.npy",
                    model->kind->file, name, name);
}

ls_status ls_model_need_logits(const ls_model *model, const ls_language_model *lm, const char *what) {
    if (lm->logits.id != 0) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s: logits is null, and %s needs them; expected a graph that names its logits",
                    model->kind->file, what);
}

ls_status ls_model_need_token_loss(const ls_model *model, const ls_language_model *lm, const char *what) {
    if (lm->token_loss.id != 0 && lm->labels.id != 0) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "%s: %s, and %s needs the loss of each label; expected a loss that is the sum of a tensor [B,S]",
                    model->kind->file, lm->labels.id == 0 ? "no input is labels" : "the loss is no sum over tokens",
                    what);
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* Builds the model alone, and then again with its adapter. */
static ls_status build_adapted(const ls_model *model, ls_graph *g, const ls_model_lengths *lengths,
                               ls_language_model *lm) {
    ls_graph *plain = ls_graph_create(g->dtype);
    ls_status status = model->kind->build(model, plain, lengths, lm);
    ls_tensor *map = LS_NEW_ARRAY(g->arena, ls_tensor, plain->n_tensors);
    if (status.code == LS_OK) status = ls_adapter_apply(model->adapter, plain, g, map);
    ls_graph_destroy(plain);
    if (status.code != LS_OK) return ls_graph_fail(g, status), status;
    ls_tensor *const tensors[] = {&lm->tokens, &lm->labels, &lm->positions, &lm->logits, &lm->token_loss, &lm->loss};
    for (size_t i = 0; i < LS_COUNT(tensors); i++) *tensors[i] = map[tensors[i]->id];
    return ls_ok();
}

static ls_status build(const ls_model *model, ls_graph *g, const ls_model_lengths *lengths, ls_language_model *out) {
    ls_language_model lm = {0};
    LS_TRY(model->adapter != NULL ? build_adapted(model, g, lengths, &lm) : model->kind->build(model, g, lengths, &lm));
    LS_TRY(ls_base_keep(model, g, lm.logits));
    LS_TRY(ls_graph_accumulate_loss(g, lm.loss));
    lm.forward_nodes = g->n_nodes;
    *out = lm;
    return ls_ok();
}

ls_status ls_model_build(const ls_model *model, ls_graph *g, int64_t B, int64_t S, bool gradients,
                         ls_language_model *out) {
    LS_TRY(build(model, g, &(ls_model_lengths){B, S, 0}, out));
    return gradients ? ls_graph_differentiate_loss(g, out->loss) : ls_ok();
}

ls_status ls_model_build_growing(const ls_model *model, ls_graph *g, int64_t known, int64_t S, ls_language_model *out) {
    return build(model, g, &(ls_model_lengths){1, S, known}, out);
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

static bool is_score(const ls_flat *flat) { return strcmp(flat->name, LS_SCORE_WEIGHT) == 0; }
static bool in_own_files(const ls_flat *flat) { return !flat->added; }
static bool in_files_without_score(const ls_flat *flat) { return in_own_files(flat) && !is_score(flat); }

/* Opens the model's own weights, without those of its adapter. If there are no files, out->context is NULL. */
static ls_status open_own(const ls_model *model, const ls_image *image, ls_weight_source *out) {
    ls_weight_rules rules = model->kind->rules(model);
    rules.has = model->head_apart ? in_files_without_score : in_own_files;
    return ls_weights_open_folder(ls_model_folder(model), image, &rules, out);
}

static ls_status untrained(const ls_model *model, const char *why) {
    return ls_error(LS_INVALID, "%s has no *.safetensors beside its %s; expected the parameters: %s",
                    ls_model_folder(model), model->kind->file, why);
}

/* The scoring head gets random numbers; all other parameters are in the files. */
static ls_status add_score(const ls_model *model, uint64_t seed, ls_weight_source *source) {
    ls_weight_source head = {.context = NULL}, files = *source;
    const ls_status status = model->kind->random(model, seed, &head);
    if (status.code == LS_OK) return ls_weights_compose(&files, &head, is_score, source);
    ls_weights_close(source);
    return status;
}

ls_status ls_model_weights(const ls_model *model, const ls_image *image, uint64_t seed, ls_weight_source *out) {
    ls_weight_source source;
    LS_TRY(open_own(model, image, &source));
    if (source.context == NULL && model->adapter != NULL) return untrained(model, "they are what an adapter is on");
    if (source.context == NULL && model->kind->random == NULL)
        return untrained(model, "nothing says how random ones are made");
    if (source.context == NULL)
        LS_TRY(model->kind->random(model, seed, &source));
    else if (model->head_apart)
        LS_TRY(add_score(model, seed, &source));
    if (model->adapter != NULL) return ls_adapter_weights(model->adapter, image, seed, &source, out);
    *out = source;
    return ls_ok();
}

ls_status ls_model_weights_with(const ls_model *model, const ls_image *image, const ls_weight_source *own,
                                ls_weight_source *out) {
    ls_weight_source base = {.context = NULL}, mine = *own;
    if (model->adapter == NULL) {
        *out = *own;
        return ls_ok();
    }
    ls_status status = open_own(model, image, &base);
    if (status.code == LS_OK && base.context == NULL) status = untrained(model, "they are what an adapter is on");
    if (status.code == LS_OK) return ls_weights_compose(&base, own, ls_adapter_has, out);
    ls_weights_close(&mine);
    return status;
}

/* --- an adapter --------------------------------------------------------------------------------------------------- */

/*
 * A hash that tells the model's files of weights from others, made of their names, their sizes and some of their bytes.
 * 0: no files.
 */
static ls_status identify(const ls_model *model, uint64_t *out) {
    static const char end[] = ".safetensors";
    ls_file_names names;
    LS_TRY(ls_file_list(ls_model_folder(model), &names));
    ls_status status = ls_ok();
    *out = 0;
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) {
        LS_PATH path = NULL;
        int64_t bytes = 0;
        uint64_t hash = 0;
        const size_t length = strlen(names.name[i]);
        if (length < sizeof end || strcmp(names.name[i] + length - (sizeof end - 1), end) != 0) continue;
        status = ls_path_join(ls_model_folder(model), names.name[i], &path);
        if (status.code == LS_OK) status = ls_file_identify(path, &bytes, &hash);
        const uint64_t both[] = {(uint64_t)bytes, hash, ls_hash_bytes(names.name[i], length)};
        *out += ls_hash_bytes(both, sizeof both); /* a sum, so that the order of the files does not matter */
    }
    ls_file_names_free(&names);
    return status;
}

/* Finds the adapter's modules in a small graph. */
static ls_status resolve(const ls_model *model, ls_adapter *adapter) {
    const int64_t S = model->sizes.learned ? ls_min(model->sizes.longest, 16) : 16;
    const ls_weight_rules rules = model->kind->rules(model);
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm = {0};
    ls_status status = model->kind->build(model, g, &(ls_model_lengths){2, S, 0}, &lm);
    if (status.code == LS_OK) status = ls_adapter_resolve(adapter, g, lm.logits, rules.copies, rules.n_copies);
    ls_graph_destroy(g);
    return status;
}

static ls_status adapt(ls_model *model, const ls_adapter *adapter) {
    LS_PATH base = realpath(ls_model_folder(model), NULL);
    LS_TRY(identify(model, &model->base));
    return ls_adapter_text(adapter, base != NULL ? base : ls_model_folder(model), &model->adapter_text);
}

/* what: the part of the model that the caller wants to change. */
static ls_status need_config(const ls_model *model, const char *what) {
    if (model->architecture != NULL) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s: the %s part of its nodes; expected a config.json for another one",
                    ls_model_folder(model), what);
}

ls_status ls_model_weigh(ls_model *model) {
    static const ls_model_input weights = {.name = LS_MODEL_WEIGHTS, .dtype = LS_F32, .of_loss = true};
    LS_TRY(need_config(model, "loss is"));
    model->weighted = true;
    model->inputs.others = &weights;
    model->inputs.n_others = 1;
    model->inputs.mean = LS_MEAN_NOTHING;
    return ls_ok();
}

ls_status ls_model_smooth(ls_model *model, double smoothing, double z) {
    if (smoothing != 0 || z != 0) LS_TRY(need_config(model, "loss is"));
    model->smoothing = smoothing;
    model->z = z;
    return ls_ok();
}

ls_status ls_model_distil(ls_model *model, const ls_distillation *distillation) {
    const int k = distillation->k;
    LS_TRY(need_config(model, "loss is"));
    LS_ASSERT(distillation->weight > 0 && distillation->weight <= 1 && distillation->temperature > 0);
    LS_ASSERT(k >= 1 && k <= LS_MOST_TEACHER && model->teacher_inputs == NULL);
    ls_teacher_inputs *t = calloc(1, sizeof *t);
    if (t == NULL) return ls_error(LS_NO_MEMORY, "no memory for the inputs of a teacher");
    for (int i = 0; i < 2 * k; i++) {
        const bool ids = i < k;
        snprintf(t->name[i], sizeof t->name[i], "%s.%d", ids ? LS_MODEL_TEACHER_IDS : LS_MODEL_TEACHER_LOGPROBS, i % k);
        t->input[i] =
            (ls_model_input){.name = t->name[i], .dtype = ids ? LS_I32 : LS_F32, .words = ids ? model->sizes.V : 0};
    }
    model->teacher = *distillation;
    model->teacher_inputs = t;
    model->inputs.others = t->input;
    model->inputs.n_others = 2 * k;
    return ls_ok();
}

ls_status ls_model_noise(ls_model *model, double alpha) {
    if (alpha != 0) LS_TRY(need_config(model, "lookup of tokens is"));
    model->noise = alpha;
    return ls_ok();
}

ls_status ls_model_score(ls_model *model) {
    if (model->config.scored) return ls_ok();
    if (model->adapter != NULL)
        return ls_error(LS_UNSUPPORTED,
                        "--model is an adapter of a language model; expected the folder of a model, which checkpoint "
                        "export --merge makes of both");
    if (model->architecture == NULL || model->wrapper != NULL || model->architecture->scored == NULL)
        return ls_error(LS_UNSUPPORTED, "%s: %s has no form with a head that scores in the Hugging Face library",
                        ls_model_folder(model), ls_model_architecture(model));
    return model->kind->score(model);
}

bool ls_model_head_apart(const ls_model *model) { return model->head_apart; }

ls_status ls_model_check_words(const ls_model *model) {
    if (!model->config.scored) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s: a %s scores texts, and predicts no words; expected a language model",
                    ls_model_folder(model), ls_model_architecture(model));
}

ls_status ls_model_adapt(ls_model *model, const ls_adapter_choice *choice) {
    ls_adapter *adapter = NULL;
    if (choice->base != NULL) LS_TRY(ls_base_parse(choice->base, &model->kept));
    if (choice->folder == NULL && choice->lora == NULL) return ls_ok();
    if (model->adapter != NULL)
        return ls_error(LS_USAGE, "--model is an adapter already; expected the folder of a model beside --adapter or "
                                  "--lora");
    LS_TRY(ls_adapter_open(choice, &adapter));
    const bool scores = model->architecture != NULL && ls_adapter_holds(adapter, LS_SCORE_WEIGHT);
    ls_status status = scores ? ls_model_score(model) : ls_ok();
    model->head_apart |= scores;
    if (model->config.scored) ls_adapter_score(adapter, LS_SCORE_WEIGHT);
    if (status.code == LS_OK) status = resolve(model, adapter);
    if (status.code == LS_OK) status = adapt(model, adapter);
    if (status.code == LS_OK && model->kept == LS_DTYPES) model->kept = model->stored;
    if (status.code == LS_OK)
        model->adapter = adapter;
    else
        ls_adapter_close(adapter);
    return status;
}

void ls_model_keep(ls_model *model, ls_dtype type) { model->kept = type; }

ls_status ls_model_check_trained(const ls_model *model) {
    if (model->adapter != NULL || model->kept == LS_DTYPES) return ls_ok();
    return ls_error(LS_USAGE,
                    "--base %s: matrices in that type are not trained; expected --lora or --adapter beside it",
                    ls_dtype_name(model->kept));
}

bool ls_model_print_adapter(const ls_model *model, char *out, size_t room) {
    if (model->adapter == NULL) return false;
    ls_adapter_print(model->adapter, out, room);
    return true;
}

ls_status ls_model_merged(const ls_model *model, const ls_image *image, const ls_weight_source *with,
                          ls_weight_source *out) {
    ls_weight_source mine = *with;
    if (model->adapter != NULL) return ls_adapter_merged(model->adapter, image, with, out);
    ls_weights_close(&mine);
    return ls_error(LS_USAGE, "the model has no adapter; expected one to merge");
}
