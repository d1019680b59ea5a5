/*
 * Models that handle more than text, whose config.json has the config of their text model in text_config: a table, and
 * the config of the text model alone, which is trained and exported without the rest.
 */
#include "model/model_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_wrapper wrappers[] = {
    {.name = "Gemma3ForConditionalGeneration", .model_type = "gemma3", .text_type = "gemma3_text", .tied = true},
    {.name = "Qwen3_5ForConditionalGeneration", .model_type = "qwen3_5", .text_type = "qwen3_5_text", .tied = false},
    {.name = "Mistral3ForConditionalGeneration", .model_type = "mistral3", .text_type = "mistral", .tied = false},
};

/* Names in files since version 4.52 of the Hugging Face library, and the library's names of modules since then. */
const ls_weight_spelling ls_wrapped_spellings[] = {
    {"", "language_model."}, {"model.", "model.language_model."}, {NULL, NULL}};
const char *const ls_wrapped_left_out[] = {"vision_tower.",
                                           "multi_modal_projector.",
                                           "model.vision_tower.",
                                           "model.multi_modal_projector.",
                                           "model.visual.",
                                           "visual.",
                                           "mtp.",
                                           NULL};

static const ls_wrapper *find_wrapper(ls_json_value root) {
    const char *type = NULL;
    if (!ls_json_has(root, "text_config") || ls_json_text_or(root, "model_type", NULL, &type).code != LS_OK)
        return NULL;
    for (size_t i = 0; i < LS_COUNT(wrappers) && type != NULL; i++)
        if (strcmp(wrappers[i].model_type, type) == 0) return &wrappers[i];
    return NULL;
}

static ls_status check_name(ls_json_value root, const ls_wrapper *wrapper) {
    ls_json_value list;
    const char *name = NULL;
    if (!ls_json_has(root, "architectures")) return ls_ok();
    LS_TRY(ls_json_array(root, "architectures", &list));
    if (ls_json_count(list) != 1) return ls_json_error(list, "an array with one name");
    LS_TRY(ls_json_as_text(ls_json_item(list, 0), &name));
    if (strcmp(name, wrapper->name) == 0) return ls_ok();
    return ls_json_error(ls_json_item(list, 0), "\"%s\", as model_type says", wrapper->name);
}

/* Finds the architecture's row of the text model. */
static ls_status find_inner(ls_json_value root, const ls_wrapper *wrapper, const ls_architecture **out) {
    ls_json_value inner;
    const char *type = wrapper->text_type;
    LS_TRY(ls_json_object(root, "text_config", &inner));
    LS_TRY(ls_json_text_or(inner, "model_type", type, &type));
    *out = ls_architecture_of_type(type);
    if (*out != NULL) return ls_ok();
    ls_status status = ls_json_error(ls_json_field(inner, "model_type"), "\"%s\"", wrapper->text_type);
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status set_member(char **text, const char *key, const char *value) {
    char *made = NULL;
    LS_TRY(ls_json_set_member(*text, key, value, &made));
    free(*text);
    *text = made;
    return ls_ok();
}

/* A copy of a member's value; NULL: there is none, or null. */
static ls_status copy_member(const char *text, const char *key, char **out) {
    size_t from = 0, to = 0;
    *out = NULL;
    if (!ls_json_find_member(text, key, &from, &to) || strncmp(text + from, "null", 4) == 0) return ls_ok();
    *out = strndup(text + from, to - from);
    return *out != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for %s", key);
}

/* Sets a member of *inner that is missing to the value in `outer`. If neither has the member, it stays missing. */
static ls_status inherit(const char *outer, const char *key, char **inner) {
    char *own = NULL, *given = NULL;
    ls_status status = copy_member(*inner, key, &own);
    if (status.code == LS_OK) status = copy_member(outer, key, &given);
    if (status.code == LS_OK && own == NULL && given != NULL) status = set_member(inner, key, given);
    free(own);
    free(given);
    return status;
}

/* The library reads whether the head is tied from the outer config alone, which has a default of its own. */
static ls_status inherit_tie(const char *outer, const ls_wrapper *wrapper, char **inner) {
    static const char key[] = "tie_word_embeddings";
    char *given = NULL;
    ls_status status = copy_member(outer, key, &given);
    if (status.code == LS_OK) status = set_member(inner, key, given != NULL ? given : wrapper->tied ? "true" : "false");
    free(given);
    return status;
}

/* Adds what the library takes from the outer config, and what the config of a text model needs when it stands alone. */
static ls_status complete(const char *outer, const ls_wrapper *wrapper, const ls_architecture *architecture,
                          char **inner) {
    char name[96], type[64];
    snprintf(name, sizeof name, "[\"%s\"]", architecture->name);
    snprintf(type, sizeof type, "\"%s\"", architecture->model_type);
    LS_TRY(set_member(inner, "architectures", name));
    LS_TRY(set_member(inner, "model_type", type));
    LS_TRY(inherit_tie(outer, wrapper, inner));
    LS_TRY(inherit(outer, "eos_token_id", inner));
    LS_TRY(inherit(outer, "torch_dtype", inner));
    return inherit(outer, "dtype", inner);
}

/* The library's wrapped models have no soft cap. */
static ls_status check_uncapped(ls_json_value root) {
    static const ls_config_rule rules[] = {
        {"final_logit_softcapping", LS_RULE_ABSENT, 0,
         "null: in a model with more than text the library has no such cap"},
        {NULL, LS_RULE_ABSENT, 0, NULL},
    };
    ls_json_value inner;
    LS_TRY(ls_json_object(root, "text_config", &inner));
    return ls_config_check(inner, rules);
}

ls_status ls_config_unwrap(ls_json_value root, char **text, const ls_wrapper **wrapper) {
    const ls_architecture *architecture = NULL;
    char *inner = NULL;
    *wrapper = NULL;
    const ls_wrapper *found = find_wrapper(root);
    if (found == NULL) return ls_ok();
    LS_TRY(check_name(root, found));
    LS_TRY(check_uncapped(root));
    LS_TRY(find_inner(root, found, &architecture));
    LS_TRY(copy_member(*text, "text_config", &inner));
    const ls_status status = complete(*text, found, architecture, &inner);
    if (status.code != LS_OK) {
        free(inner);
        return status;
    }
    ls_log("%s: the text model of a %s alone is read, and exported as a %s", root.file, found->name,
           architecture->name);
    free(*text);
    *text = inner;
    *wrapper = found;
    return ls_ok();
}
