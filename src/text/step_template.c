/* TemplateProcessing: puts ids before and after a text. Its template for pairs of texts is not used. */
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct template {
    ls_token_list before, after;
}
template;

static void free_state(void *state) {
    template *t = state;
    if (!t) return;
    free(t->before.id);
    free(t->after.id);
    free(t);
}

static ls_status add(ls_token_list *list, const int32_t *id, size_t n) {
    if (!ls_token_list_reserve(list, n)) return ls_no_memory(0);
    if (n > 0) memcpy(list->id + list->count, id, n * sizeof *id);
    list->count += n;
    return ls_ok();
}

/* The ids of a piece {"SpecialToken": {"id": NAME}}, from special_tokens.NAME.ids. */
static ls_status add_special(ls_json_value step, ls_json_value special, ls_token_list *list) {
    const char *name;
    ls_json_value tokens, token, ids;
    LS_TRY(ls_json_text(special, "id", &name));
    LS_TRY(ls_json_object(step, "special_tokens", &tokens));
    LS_TRY(ls_json_object(tokens, name, &token));
    LS_TRY(ls_json_array(token, "ids", &ids));
    for (size_t i = 0; i < ls_json_count(ids); i++) {
        int64_t id;
        LS_TRY(ls_json_as_int(ls_json_item(ids, i), 0, INT32_MAX, &id));
        LS_TRY(add(list, &(int32_t){(int32_t)id}, 1));
    }
    return ls_ok();
}

static ls_status read(ls_json_value step, void **state) {
    template *t = *state = calloc(1, sizeof *t);
    ls_json_value pieces, inner;
    bool seen = false;
    if (!t) return ls_no_memory(0);
    LS_TRY(ls_json_array(step, "single", &pieces));
    for (size_t i = 0; i < ls_json_count(pieces); i++) {
        const ls_json_value piece = ls_json_item(pieces, i);
        if (ls_json_has(piece, "SpecialToken")) {
            LS_TRY(ls_json_object(piece, "SpecialToken", &inner));
            LS_TRY(add_special(step, inner, seen ? &t->after : &t->before));
            continue;
        }
        const char *id;
        LS_TRY(ls_json_object(piece, "Sequence", &inner));
        LS_TRY(ls_json_text(inner, "id", &id));
        if (seen || strcmp(id, "A") != 0) return ls_json_error(ls_json_field(inner, "id"), "\"A\", once");
        seen = true;
    }
    return seen ? ls_ok() : ls_json_error(pieces, "a list with the Sequence \"A\"");
}

static ls_status frame(const void *state, ls_token_list *before, ls_token_list *after) {
    const template *t = state;
    LS_TRY(add(before, t->before.id, t->before.count));
    if (before->count > t->before.count) { /* the ids of an earlier step stay nearer to the text */
        const size_t old = before->count - t->before.count;
        memmove(before->id + t->before.count, before->id, old * sizeof *before->id);
        memcpy(before->id, t->before.id, t->before.count * sizeof *before->id);
    }
    return add(after, t->after.id, t->after.count);
}

const ls_step_kind ls_step_template = {.type = "TemplateProcessing", .read = read, .free = free_state, .frame = frame};
