/* What values hold: iteration, lengths, slices. */
#include "jinja/run_impl.h"

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

jinja_value jinja_fail_undefined(jinja_run *r, jinja_value of, jinja_text name) {
    char shown[80], part[80];
    return jinja_fail(r, LS_INVALID, "'%s' is undefined, so it has no '%s'",
                      jinja_printable(of.text, shown, sizeof shown), jinja_printable(name, part, sizeof part));
}

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
    if (of.kind == JINJA_UNDEFINED) return jinja_fail_undefined(r, of, (jinja_text){0});
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
