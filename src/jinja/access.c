/* Parts of values: iteration, attributes, items, slices. */
#include "jinja/run_impl.h"

#include <string.h>

/* --- iteration and types ------------------------------------------------------------------------------------------ */

static jinja_list *characters(jinja_run *r, jinja_text text) {
    jinja_list *list = jinja_new_list(r, text.n);
    for (size_t i = 0; i < text.n && !r->failed; i++) jinja_add(r, list, jinja_of_text((jinja_text){text.at + i, 1}));
    return list;
}

static jinja_list *keys(jinja_run *r, const jinja_dict *dict) {
    jinja_list *list = jinja_new_list(r, dict->n);
    for (size_t i = 0; i < dict->n && !r->failed; i++) jinja_add(r, list, dict->pair[i].key);
    return list;
}

static jinja_list *rest_of(jinja_run *r, jinja_list *generator) {
    jinja_list *list = jinja_new_list(r, 0);
    if (generator->n > 0) list->item = generator->item + generator->next;
    list->n = list->capacity = generator->n - generator->next;
    list->depth = generator->depth;
    generator->next = generator->n;
    return list;
}

jinja_list *jinja_iterate(jinja_run *r, jinja_value value) {
    if (value.kind == JINJA_GENERATOR) return rest_of(r, value.list);
    if (jinja_has_list(value)) return value.list;
    if (value.kind == JINJA_TEXT) return characters(r, value.text);
    if (value.kind == JINJA_DICT) return keys(r, value.dict);
    if (value.kind != JINJA_UNDEFINED) jinja_fail(r, LS_INVALID, "a %s has no items", jinja_type_name(value));
    return jinja_new_list(r, 0);
}

jinja_value jinja_pair_of(jinja_run *r, jinja_value a, jinja_value b) {
    jinja_list *pair = jinja_new_list(r, 2);
    jinja_add(r, pair, a);
    jinja_add(r, pair, b);
    return jinja_of_list(JINJA_TUPLE, pair);
}

int64_t jinja_length(jinja_run *r, jinja_value value) {
    if (value.kind == JINJA_TEXT) return (int64_t)value.text.n;
    if (value.kind == JINJA_DICT) return (int64_t)value.dict->n;
    if (value.kind == JINJA_UNDEFINED) return 0;
    if (value.kind == JINJA_LOOP) return (int64_t)value.loop->n;
    if (jinja_has_list(value) && value.kind != JINJA_GENERATOR) return (int64_t)value.list->n;
    jinja_fail(r, LS_INVALID, "a %s has no length", jinja_type_name(value));
    return 0;
}

jinja_text jinja_need_text(jinja_run *r, jinja_value value, const char *what) {
    if (value.kind == JINJA_TEXT) return value.text;
    jinja_fail(r, LS_INVALID, "%s is of type %s, expected a text", what, jinja_type_name(value));
    return (jinja_text){0};
}

int64_t jinja_need_int(jinja_run *r, jinja_value value, const char *what) {
    if (value.kind == JINJA_INT) return value.integer;
    if (value.kind == JINJA_BOOL) return value.truth;
    jinja_fail(r, LS_INVALID, "%s is of type %s, expected an integer", what, jinja_type_name(value));
    return 0;
}

/* --- loops -------------------------------------------------------------------------------------------------------- */

static jinja_value loop_index(const jinja_loop *l) { return jinja_int((int64_t)l->at + 1); }
static jinja_value loop_index0(const jinja_loop *l) { return jinja_int((int64_t)l->at); }
static jinja_value loop_first(const jinja_loop *l) { return jinja_bool(l->at == 0); }
static jinja_value loop_last(const jinja_loop *l) { return jinja_bool(l->at + 1 >= l->n); }
static jinja_value loop_length(const jinja_loop *l) { return jinja_int((int64_t)l->n); }
static jinja_value loop_revindex(const jinja_loop *l) { return jinja_int((int64_t)(l->n - l->at)); }
static jinja_value loop_revindex0(const jinja_loop *l) { return jinja_int((int64_t)(l->n - l->at) - 1); }
static jinja_value loop_depth(const jinja_loop *l) {
    (void)l;
    return jinja_int(1); /* recursive loops are not supported */
}
static jinja_value loop_depth0(const jinja_loop *l) {
    (void)l;
    return jinja_int(0);
}
static jinja_value loop_previous(const jinja_loop *l) {
    return l->at > 0 ? l->item[l->at - 1] : jinja_undefined((jinja_text){0});
}
static jinja_value loop_next(const jinja_loop *l) {
    return l->at + 1 < l->n ? l->item[l->at + 1] : jinja_undefined((jinja_text){0});
}

static const struct {
    const char *name;
    jinja_value (*get)(const jinja_loop *l);
} loop_attributes[] = {
    {"index", loop_index},   {"index0", loop_index0},     {"first", loop_first},         {"last", loop_last},
    {"length", loop_length}, {"revindex", loop_revindex}, {"revindex0", loop_revindex0}, {"previtem", loop_previous},
    {"nextitem", loop_next}, {"depth", loop_depth},       {"depth0", loop_depth0},
};

/* --- attributes and items ----------------------------------------------------------------------------------------- */

static jinja_value fail_undefined(jinja_run *r, jinja_value of, jinja_text name) {
    char shown[80], part[80];
    return jinja_fail(r, LS_INVALID, "'%s' is undefined, so it has no '%s'",
                      jinja_printable(of.text, shown, sizeof shown), jinja_printable(name, part, sizeof part));
}

/* of.name as a method, an attribute of a loop or a name of a namespace. *found: whether there is one. */
static jinja_value own_attribute(jinja_run *r, jinja_value of, jinja_text name, bool *found) {
    *found = true;
    if (of.kind == JINJA_NAMESPACE) {
        const jinja_value *value = jinja_find_key(r, of.dict, jinja_of_text(name));
        if (value != NULL) return *value;
    }
    for (size_t i = 0; of.kind == JINJA_LOOP && i < LS_COUNT(loop_attributes); i++)
        if (jinja_is(name, loop_attributes[i].name)) return loop_attributes[i].get(of.loop);
    const jinja_function *method = jinja_find_method(of, name);
    if (method != NULL) {
        jinja_method_of *bound = LS_NEW(r->arena, jinja_method_of);
        *bound = (jinja_method_of){of, method};
        return (jinja_value){.kind = JINJA_METHOD, .method = bound};
    }
    *found = false;
    return jinja_undefined(name);
}

/* of[key]. *found: whether there is such an item. */
static jinja_value own_item(jinja_run *r, jinja_value of, jinja_value key, bool *found) {
    const bool counts = key.kind == JINJA_INT || key.kind == JINJA_BOOL;
    const bool has_places =
        of.kind == JINJA_TEXT || of.kind == JINJA_LIST || of.kind == JINJA_TUPLE || of.kind == JINJA_RANGE;
    *found = false;
    if (of.kind == JINJA_DICT) {
        const jinja_value *value = jinja_find_key(r, of.dict, key);
        *found = value != NULL;
        if (*found) return *value;
    } else if (has_places && counts) {
        const int64_t n = jinja_length(r, of);
        int64_t at = key.kind == JINJA_INT ? key.integer : key.truth;
        if (at < 0) at += n;
        *found = at >= 0 && at < n;
        if (!*found) return jinja_undefined((jinja_text){0});
        return of.kind == JINJA_TEXT ? jinja_of_text((jinja_text){of.text.at + at, 1}) : of.list->item[at];
    }
    return jinja_undefined(key.kind == JINJA_TEXT ? key.text : (jinja_text){0});
}

jinja_value jinja_attribute(jinja_run *r, jinja_value of, jinja_text name) {
    bool found;
    if (of.kind == JINJA_UNDEFINED) return fail_undefined(r, of, name);
    const jinja_value value = own_attribute(r, of, name, &found);
    return found ? value : own_item(r, of, jinja_of_text(name), &found);
}

jinja_value jinja_item(jinja_run *r, jinja_value of, jinja_value key) {
    bool found;
    if (of.kind == JINJA_UNDEFINED) return fail_undefined(r, of, key.kind == JINJA_TEXT ? key.text : (jinja_text){0});
    const jinja_value value = own_item(r, of, key, &found);
    return found || key.kind != JINJA_TEXT ? value : own_attribute(r, of, key.text, &found);
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

/*
 * A bound of a slice as Python reads it: a negative one counts from the end; limited to the sequence. absent: the value
 * of None.
 */
static int64_t bound_of(jinja_run *r, jinja_value bound, int64_t n, int64_t step, int64_t absent) {
    if (bound.kind == JINJA_NONE) return absent;
    int64_t at = jinja_need_int(r, bound, "a bound of a slice");
    if (at < 0) at = at < -n ? -1 : at + n;
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    return at < least ? least : at > most ? most : at;
}

jinja_value jinja_slice(jinja_run *r, jinja_value of, const jinja_value bounds[3]) {
    if (of.kind == JINJA_UNDEFINED) return fail_undefined(r, of, (jinja_text){0});
    if (of.kind != JINJA_TEXT && of.kind != JINJA_LIST && of.kind != JINJA_TUPLE && of.kind != JINJA_RANGE)
        return jinja_undefined((jinja_text){0});
    const int64_t n = jinja_length(r, of);
    const int64_t step = bounds[2].kind == JINJA_NONE ? 1 : jinja_need_int(r, bounds[2], "the step of a slice");
    if (step == 0) return jinja_fail(r, LS_INVALID, "the step of a slice is 0");
    const int64_t from = bound_of(r, bounds[0], n, step, step < 0 ? n - 1 : 0);
    const int64_t to = bound_of(r, bounds[1], n, step, step < 0 ? -1 : n);
    const int64_t span = step < 0 ? from - to : to - from, stride = step < -n ? n + 1 : step < 0 ? -step : step;
    const size_t count = span > 0 ? (size_t)((span - 1) / stride + 1) : 0;
    if (of.kind == JINJA_TEXT && step == 1)
        return jinja_of_text(jinja_part(of.text, (size_t)from, (size_t)from + count));
    if (of.kind == JINJA_TEXT) {
        jinja_char *chars = jinja_new_chars(r, count);
        for (size_t i = 0; chars != NULL && i < count; i++) chars[i] = of.text.at[from + (int64_t)i * step];
        return jinja_of_text((jinja_text){chars, chars != NULL ? count : 0});
    }
    jinja_list *list = jinja_new_list(r, count);
    for (size_t i = 0; i < count && !r->failed; i++) jinja_add(r, list, of.list->item[from + (int64_t)i * step]);
    return jinja_of_list(of.kind == JINJA_RANGE ? JINJA_LIST : of.kind, list);
}
