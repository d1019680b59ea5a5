/* Calls rows of tables and macros: binds positional and named arguments to parameters. */
#include "jinja/run_impl.h"

#include <string.h>

/* --- rows of tables ----------------------------------------------------------------------------------------------- */

static int parameter_of(const jinja_function *f, jinja_text name) {
    for (int i = 0; i < JINJA_PARAMETERS && f->parameter[i] != NULL; i++)
        if (jinja_is(name, f->parameter[i])) return i;
    return -1;
}

static bool bind(jinja_run *r, const jinja_function *f, const char *kind, const jinja_arguments *given,
                 jinja_value out[JINJA_PARAMETERS]) {
    char shown[80];
    int most = 0;
    while (most < JINJA_PARAMETERS && f->parameter[most] != NULL) most++;
    if (given->n > (size_t)most)
        jinja_fail(r, LS_INVALID, "%s %s has %zu arguments, expected at most %d", kind, f->name, given->n, most);
    for (int i = 0; i < most; i++)
        out[i] = (size_t)i < given->n ? given->value[i] : (jinja_value){.kind = JINJA_MISSING};
    for (size_t i = 0; i < given->named.n && jinja_step(r, 1); i++) {
        const jinja_text name = given->named.pair[i].key.text;
        const int at = parameter_of(f, name);
        if (at < 0 || out[at].kind != JINJA_MISSING)
            jinja_fail(r, LS_UNSUPPORTED, "%s %s: argument '%s' is unknown, or set twice", kind, f->name,
                       jinja_printable(name, shown, sizeof shown));
        else
            out[at] = given->named.pair[i].value;
    }
    for (int i = 0; i < f->least && !r->failed; i++)
        if (out[i].kind == JINJA_MISSING)
            jinja_fail(r, LS_INVALID, "%s %s: argument '%s' is missing", kind, f->name, f->parameter[i]);
    return !r->failed;
}

jinja_value jinja_call_function(jinja_run *r, const jinja_function *f, const char *kind, jinja_value of,
                                const jinja_arguments *given) {
    jinja_value arg[JINJA_PARAMETERS] = {{.kind = JINJA_MISSING}};
    if (r->failed || (!f->any && !bind(r, f, kind, given, arg))) return jinja_undefined((jinja_text){0});
    return f->call(r, of, arg, given);
}

static jinja_text name_of(jinja_run *r, jinja_value name) { return jinja_need_text(r, name, "a name"); }

jinja_value jinja_call_filter(jinja_run *r, jinja_value name, jinja_value of, const jinja_arguments *given) {
    char shown[80];
    const jinja_text text = name_of(r, name);
    const jinja_function *f = jinja_find_filter(text);
    if (f == NULL)
        return jinja_fail(r, LS_UNSUPPORTED, "filter '%s' is not supported",
                          jinja_printable(text, shown, sizeof shown));
    return jinja_call_function(r, f, "filter", of, given);
}

bool jinja_call_test(jinja_run *r, jinja_value name, jinja_value of, const jinja_arguments *given) {
    char shown[80];
    const jinja_text text = name_of(r, name);
    const jinja_function *f = jinja_find_test(text);
    if (f == NULL)
        jinja_fail(r, LS_UNSUPPORTED, "test '%s' is not supported", jinja_printable(text, shown, sizeof shown));
    return f != NULL && jinja_true(jinja_call_function(r, f, "test", of, given));
}

/* --- macros ------------------------------------------------------------------------------------------------------- */

static const jinja_value *named(jinja_run *r, const jinja_arguments *given, jinja_text name) {
    return jinja_find_key(r, &given->named, jinja_of_text(name));
}

/*
 * Sets a macro's parameters: from positional arguments, named arguments, defaults; else undefined. False: there are
 * more arguments.
 */
static bool bind_macro(jinja_run *r, const jinja_macro *m, const jinja_arguments *given) {
    char shown[80];
    size_t i = 0, used = 0;
    for (const jinja_node *p = m->node->first; p != NULL && jinja_step(r, 1); p = p->next, i++) {
        const jinja_value *by_name = named(r, given, p->name);
        jinja_value value = jinja_undefined(p->name);
        if (i < given->n)
            value = given->value[i];
        else if (by_name != NULL)
            value = *by_name;
        else if (p->a != NULL)
            value = jinja_evaluate(r, p->a);
        used += by_name != NULL;
        jinja_assign(r, p, value);
    }
    if (m->node->takes_caller) {
        const jinja_text name = jinja_text_of_ascii(r->arena, "caller");
        const jinja_value *caller = named(r, given, name);
        jinja_set(r, &r->scope->names, jinja_of_text(name), caller != NULL ? *caller : jinja_undefined(name));
        used += caller != NULL;
    }
    if (given->n > i || used < given->named.n)
        jinja_fail(r, LS_INVALID, "macro %s is called with too many arguments (varargs and kwargs are not supported)",
                   jinja_printable(m->node->name, shown, sizeof shown));
    return !r->failed;
}

jinja_value jinja_call_macro(jinja_run *r, jinja_macro *macro, const jinja_arguments *given) {
    jinja_scope *const scope = r->scope;
    const jinja_jump jump = r->jump;
    jinja_scope_enter(r, macro->scope);
    jinja_scope *const inner = r->scope;
    r->jump = JINJA_NO_JUMP;
    jinja_value said = jinja_undefined((jinja_text){0});
    if (bind_macro(r, macro, given)) said = jinja_capture(r, macro->node->body, inner);
    r->jump = jump;
    r->scope = scope;
    return said;
}

/* --- any value ---------------------------------------------------------------------------------------------------- */

jinja_value jinja_call(jinja_run *r, jinja_value callee, const jinja_arguments *given) {
    char shown[80];
    switch (callee.kind) {
    case JINJA_MACRO:
        return jinja_call_macro(r, callee.macro, given);
    case JINJA_GLOBAL:
        return jinja_call_function(r, callee.global, "function", jinja_none(), given);
    case JINJA_METHOD:
        return jinja_call_function(r, callee.method->function, "method", callee.method->of, given);
    case JINJA_UNDEFINED:
        return jinja_fail(r, LS_INVALID, "'%s' is undefined and cannot be called",
                          jinja_printable(callee.text, shown, sizeof shown));
    default:
        return jinja_fail(r, LS_INVALID, "a %s cannot be called", jinja_type_name(callee));
    }
}
