/* What the readers of a graph.json share: fields that are not known, and where a node comes from. */
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
