/* Attributes and items of values. */
#include "jinja/run_impl.h"

#include <string.h>

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
    if (of.kind == JINJA_UNDEFINED) return jinja_fail_undefined(r, of, name);
    const jinja_value value = own_attribute(r, of, name, &found);
    return found ? value : own_item(r, of, jinja_of_text(name), &found);
}

jinja_value jinja_item(jinja_run *r, jinja_value of, jinja_value key) {
    bool found;
    if (of.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, of, key.kind == JINJA_TEXT ? key.text : (jinja_text){0});
    const jinja_value value = own_item(r, of, key, &found);
    return found || key.kind != JINJA_TEXT ? value : own_attribute(r, of, key.text, &found);
}
