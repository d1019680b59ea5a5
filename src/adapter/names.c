/* The names of adapters' tensors, in memory and in files. */
#include "adapter/adapter_impl.h"

#include <string.h>

const char *const ls_adapter_endings[LS_ADAPTER_PARTS] = {[LS_ADAPTER_A] = ".lora_A.weight",
                                                          [LS_ADAPTER_B] = ".lora_B.weight",
                                                          [LS_ADAPTER_TABLE_A] = ".lora_embedding_A",
                                                          [LS_ADAPTER_TABLE_B] = ".lora_embedding_B",
                                                          [LS_ADAPTER_MAGNITUDE] = ".lora_magnitude_vector"};

/* --- names in files ----------------------------------------------------------------------------------------------- */

bool ls_adapter_has(const ls_flat *flat) { return !flat->borrowed; }

/* The last one is for models that handle more than text. */
static const ls_weight_spelling spellings[] = {
    {"", LS_ADAPTER_PREFIX}, {"model.", LS_ADAPTER_PREFIX "model.language_model."}, {NULL, NULL}};
/* Copies of the model's own matrices, which peft writes beside the adapters of tables and heads. */
static const char *const copies_of_own[] = {".base_layer.weight", ".base_layer.bias", NULL};
const ls_weight_rules ls_adapter_files = {.spellings = spellings, .has = ls_adapter_has, .derived = copies_of_own};

bool ls_adapter_is_copy(const char *name) {
    bool is = false;
    for (const char *const *end = copies_of_own; *end != NULL; end++)
        is |= strlen(name) > strlen(*end) && strcmp(name + strlen(name) - strlen(*end), *end) == 0;
    return is;
}

const char *ls_adapter_plain_name(ls_arena *arena, const char *name) {
    const char *found = name;
    for (const ls_weight_spelling *s = spellings; s->model != NULL; s++) {
        const size_t n = strlen(s->files);
        if (strncmp(name, s->files, n) == 0) found = ls_arena_printf(arena, "%s%s", s->model, name + n);
    }
    return found;
}

const char *ls_adapter_module_of(ls_arena *arena, const char *name, ls_adapter_part *part) {
    const size_t length = strlen(name);
    for (int i = 0; i < LS_ADAPTER_PARTS; i++) {
        const size_t end = strlen(ls_adapter_endings[i]);
        if (length <= end || strcmp(name + length - end, ls_adapter_endings[i]) != 0) continue;
        *part = (ls_adapter_part)i;
        return ls_arena_printf(arena, "%.*s", (int)(length - end), name);
    }
    return NULL;
}

/* --- names of parameters ------------------------------------------------------------------------------------------ */

static bool is_of(const ls_adapted *module, const char *ending, const char *name) {
    const size_t n = strlen(module->name);
    return strncmp(name, module->name, n) == 0 && strcmp(name + n, ending) == 0;
}

const ls_adapted *ls_adapter_of(const ls_adapter *a, const char *parameter) {
    for (int i = 0; i < a->n_modules; i++)
        if (is_of(&a->modules[i], ".weight", parameter)) return &a->modules[i];
    return NULL;
}

const ls_flat *ls_adapter_flat(const ls_image *image, const ls_adapted *module, const char *ending) {
    for (int i = 0; i < image->n_flats; i++)
        if (is_of(module, ending, image->flats[i].name)) return &image->flats[i];
    return NULL;
}

bool ls_adapter_saves(const ls_adapter *a, const char *parameter) {
    for (int i = 0; i < a->n_saved; i++)
        if (strcmp(a->saved[i], parameter) == 0) return true;
    return false;
}
