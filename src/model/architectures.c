/* The table of architectures, and the choice of one of them by a config.json. */
#include "model/model_impl.h"

#include <stdio.h>
#include <string.h>

#define ROW(name) &ls_architecture_##name
static const ls_architecture *const architectures[] = {LS_ARCHITECTURES(ROW)};

static void print_names(char *out, size_t room) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < LS_COUNT(architectures) && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? " or " : "", architectures[i]->name);
}

static ls_status unknown(ls_json_value field) {
    char known[240];
    print_names(known, sizeof known);
    ls_status status = ls_json_error(field, "%s", known);
    status.code = LS_UNSUPPORTED;
    return status;
}

const ls_architecture *ls_architecture_of_type(const char *type) {
    for (size_t i = 0; i < LS_COUNT(architectures); i++)
        if (strcmp(architectures[i]->model_type, type) == 0) return architectures[i];
    return NULL;
}

/*
 * Longspan reads a model with a scoring head only if the head gives one number for a text, that is, has one label. A
 * config without labels means two labels in the library.
 */
static ls_status check_labels(ls_json_value root, const char *name) {
    const ls_json_value labels = ls_json_field(root, "id2label");
    ls_json_value object;
    if (ls_json_object(root, "id2label", &object).code == LS_OK && ls_json_count(object) == 1) return ls_ok();
    ls_status status = ls_json_error(labels, "one label, since a \"%s\" is read as a head that scores", name);
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status find_named(ls_json_value root, const ls_architecture **out, bool *scored) {
    ls_json_value list;
    const char *name = NULL;
    LS_TRY(ls_json_array(root, "architectures", &list));
    if (ls_json_count(list) != 1) return ls_json_error(list, "an array with one name");
    const ls_json_value item = ls_json_item(list, 0);
    LS_TRY(ls_json_as_text(item, &name));
    for (size_t i = 0; i < LS_COUNT(architectures); i++)
        if (strcmp(architectures[i]->name, name) == 0) *out = architectures[i];
    for (size_t i = 0; i < LS_COUNT(architectures) && *out == NULL; i++) {
        if (architectures[i]->scored == NULL || strcmp(architectures[i]->scored, name) != 0) continue;
        *out = architectures[i];
        *scored = true;
        return check_labels(root, name);
    }
    return *out == NULL ? unknown(item) : ls_ok();
}

ls_status ls_architecture_find(ls_json_value root, const ls_architecture **out, bool *scored) {
    const ls_architecture *found = NULL;
    const char *type = NULL;
    const bool named = ls_json_has(root, "architectures");
    *scored = false;
    if (named) LS_TRY(find_named(root, &found, scored));
    if (!named || ls_json_has(root, "model_type")) {
        if (!ls_json_has(root, "model_type")) return unknown(ls_json_field(root, "architectures"));
        LS_TRY(ls_json_text(root, "model_type", &type));
        if (ls_architecture_of_type(type) == NULL) return unknown(ls_json_field(root, "model_type"));
        if (found != NULL && ls_architecture_of_type(type) != found)
            return ls_json_error(ls_json_field(root, "model_type"), "\"%s\", as architectures says", found->model_type);
        found = ls_architecture_of_type(type);
    }
    *out = found;
    return ls_ok();
}
