/* Shared by the readers of a graph.json: unknown fields, the source line of a node, types and sizes. */
#include "model/imported_impl.h"

#include <stdio.h>
#include <string.h>

static bool is_among(const char *key, const char *const *list) {
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(key, *list) == 0) return true;
    return false;
}

static size_t print_list(const char *const *list, char *out, size_t room, size_t used) {
    for (; list != NULL && *list != NULL && used < room; list++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? " " : "", *list);
    return used;
}

ls_status ls_imported_known(ls_json_value object, const char *const *fields, const char *const *more) {
    void *cursor = NULL;
    const char *key;
    ls_json_value value;
    while (ls_json_next(object, &cursor, &key, &value)) {
        if (is_among(key, fields) || is_among(key, more)) continue;
        char known[200] = "";
        (void)print_list(more, known, sizeof known, print_list(fields, known, sizeof known, 0));
        return ls_json_error(value, "no such field; known are %s", known);
    }
    return ls_ok();
}

ls_status ls_imported_in_node(const ls_imported *m, int node, ls_status status) {
    const ls_imported_node *n = &m->nodes[node];
    if (status.code == LS_OK) return status;
    char where[160] = "";
    if (n->at >= 0) {
        const ls_imported_source *s = &m->sources[n->at];
        ls_print(where, sizeof where, " at %s:%lld: %s", s->file, (long long)s->line, s->code);
    }
    return ls_error(status.code, "%s (%s%s)", status.text, n->op->name, where);
}

/* Reads "T", "G" or the name of a type: the file's own type means T, a wider one G. */
ls_status ls_imported_read_type(ls_json_value value, const char *dtype, bool *is_wide) {
    const char *text = NULL;
    LS_TRY(ls_json_as_text(value, &text));
    const char *wide = strcmp(dtype, "f64") == 0 ? "f64" : "f32";
    const bool own = strcmp(text, "T") == 0 || strcmp(text, dtype) == 0;
    *is_wide = !own;
    if (own || strcmp(text, "G") == 0 || strcmp(text, wide) == 0) return ls_ok();
    return ls_json_error(value, "T (%s here) or G (%s)", dtype, wide);
}

ls_status ls_imported_read_size(ls_json_value value, ls_imported_size *out) {
    static const char *const words[] = {[LS_SIZE_B] = "B", [LS_SIZE_S] = "S"};
    const char *text = NULL;
    *out = (ls_imported_size){.unit = LS_SIZE_NUMBER};
    if (!ls_json_is_text(value)) return ls_json_as_int(value, 1, INT64_C(1) << 40, &out->number);
    LS_TRY(ls_json_as_text(value, &text));
    for (ls_imported_unit u = LS_SIZE_B; u <= LS_SIZE_S; u++)
        if (strcmp(text, words[u]) == 0) out->unit = u;
    return out->unit != LS_SIZE_NUMBER ? ls_ok() : ls_json_error(value, "a number, \"B\" or \"S\"");
}
