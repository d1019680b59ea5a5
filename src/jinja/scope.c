/* Scopes: the names that a template can use at a place. */
#include "jinja/run_impl.h"

void jinja_scope_enter(jinja_run *r, jinja_scope *outer) {
    r->scope = LS_NEW(r->arena, jinja_scope);
    r->scope->outer = outer;
}

jinja_value jinja_look_up(jinja_run *r, jinja_text name) {
    const jinja_value key = jinja_of_text(name);
    const jinja_value *found = NULL;
    for (const jinja_scope *s = r->scope; s != NULL && found == NULL; s = s->outer) {
        jinja_step(r, 1);
        found = jinja_find_key(r, &s->names, key);
    }
    if (found == NULL) found = jinja_find_key(r, r->variables, key);
    if (found != NULL) return *found;
    const jinja_function *global = jinja_find_global(name);
    if (global != NULL) return (jinja_value){.kind = JINJA_GLOBAL, .global = global};
    return jinja_undefined(name);
}
