/* Methods of dicts, lists and loops: a table for each kind of value, and a table that says which kind has which. */
#include "jinja/run_impl.h"

/* --- dicts -------------------------------------------------------------------------------------------------------- */

static jinja_value dict_get(JINJA_ARGUMENTS) {
    const jinja_value *found = jinja_find_key(r, of.dict, arg[0]);
    return found != NULL ? *found : arg[1].kind == JINJA_MISSING ? jinja_none() : arg[1];
}

static jinja_value view(jinja_run *r, const jinja_dict *dict, const char *shown, bool keys, bool values) {
    jinja_list *list = jinja_new_list(r, dict->n);
    list->shown = shown;
    for (size_t i = 0; i < dict->n && !r->failed; i++) {
        const struct jinja_pair *pair = &dict->pair[i];
        jinja_add(r, list, keys && values ? jinja_pair_of(r, pair->key, pair->value) : keys ? pair->key : pair->value);
    }
    return jinja_of_list(JINJA_VIEW, list);
}

static jinja_value dict_items(JINJA_ARGUMENTS) { return view(r, of.dict, "dict_items", true, true); }
static jinja_value dict_keys(JINJA_ARGUMENTS) { return view(r, of.dict, "dict_keys", true, false); }
static jinja_value dict_values(JINJA_ARGUMENTS) { return view(r, of.dict, "dict_values", false, true); }

/* Values never change, so a copy is the value itself. */
static jinja_value copy(JINJA_ARGUMENTS) { return of; }

static jinja_value changes(JINJA_ARGUMENTS) {
    return jinja_fail(r, LS_UNSUPPORTED, "a method that changes a %s is not supported: templates cannot change values",
                      jinja_type_name(of));
}

static const jinja_function dict_methods[] = {
    {"get", dict_get, 1, {"key", "default"}, false},
    {"items", dict_items, 0, {NULL}, false},
    {"keys", dict_keys, 0, {NULL}, false},
    {"values", dict_values, 0, {NULL}, false},
    {"copy", copy, 0, {NULL}, false},
    {"clear", changes, 0, {NULL}, true},
    {"pop", changes, 0, {NULL}, true},
    {"popitem", changes, 0, {NULL}, true},
    {"setdefault", changes, 0, {NULL}, true},
    {"update", changes, 0, {NULL}, true},
};

/* --- lists -------------------------------------------------------------------------------------------------------- */

static jinja_value list_count(JINJA_ARGUMENTS) {
    int64_t count = 0;
    for (size_t i = 0; i < of.list->n && jinja_step(r, 1); i++) count += jinja_equal(r, of.list->item[i], arg[0]);
    return jinja_int(count);
}

static jinja_value list_index(JINJA_ARGUMENTS) {
    for (size_t i = 0; i < of.list->n && jinja_step(r, 1); i++)
        if (jinja_equal(r, of.list->item[i], arg[0])) return jinja_int((int64_t)i);
    return jinja_fail(r, LS_INVALID, "index: the list has no such item");
}

static const jinja_function list_methods[] = {
    {"count", list_count, 1, {"value"}, false}, {"index", list_index, 1, {"value"}, false},
    {"copy", copy, 0, {NULL}, false},           {"append", changes, 0, {NULL}, true},
    {"clear", changes, 0, {NULL}, true},        {"extend", changes, 0, {NULL}, true},
    {"insert", changes, 0, {NULL}, true},       {"pop", changes, 0, {NULL}, true},
    {"remove", changes, 0, {NULL}, true},       {"reverse", changes, 0, {NULL}, true},
    {"sort", changes, 0, {NULL}, true},
};
enum { N_TUPLE_METHODS = 2 }; /* tuples and ranges have the first two */

/* --- loops -------------------------------------------------------------------------------------------------------- */

static jinja_value loop_cycle(JINJA_ARGUMENTS) {
    if (all->n == 0) return jinja_fail(r, LS_INVALID, "loop.cycle needs at least one argument");
    return all->value[of.loop->at % all->n];
}

static jinja_value loop_changed(JINJA_ARGUMENTS) {
    jinja_list *now = jinja_new_list(r, all->n);
    for (size_t i = 0; i < all->n && !r->failed; i++) jinja_add(r, now, all->value[i]);
    const jinja_list *before = of.loop->changed;
    const bool same = before != NULL && before->n == now->n &&
                      jinja_equal(r, jinja_of_list(JINJA_TUPLE, (jinja_list *)before), jinja_of_list(JINJA_TUPLE, now));
    of.loop->changed = now;
    return jinja_bool(!same);
}

static const jinja_function loop_methods[] = {
    {"cycle", loop_cycle, 0, {NULL}, true},
    {"changed", loop_changed, 0, {NULL}, true},
};

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const struct {
    const jinja_function *row;
    size_t n;
} methods_of[JINJA_KINDS] = {
    [JINJA_DICT] = {dict_methods, LS_COUNT(dict_methods)}, [JINJA_LIST] = {list_methods, LS_COUNT(list_methods)},
    [JINJA_TUPLE] = {list_methods, N_TUPLE_METHODS},       [JINJA_RANGE] = {list_methods, N_TUPLE_METHODS},
    [JINJA_LOOP] = {loop_methods, LS_COUNT(loop_methods)},
};

const jinja_function *jinja_find_method(jinja_value of, jinja_text name) {
    if (of.kind == JINJA_TEXT) return jinja_find_text_method(name);
    for (size_t i = 0; i < methods_of[of.kind].n; i++)
        if (jinja_is(name, methods_of[of.kind].row[i].name)) return &methods_of[of.kind].row[i];
    return NULL;
}
