/*
 * Comparing values: ==, <, in, and the keys of dicts. A list may contain another list twice, that one a third list
 * twice, and so on: comparing values of a few hundred bytes may take any number of steps. So each part that is looked
 * at counts as a step.
 */
#include "jinja/run_impl.h"

#include <string.h>

/* --- equality ----------------------------------------------------------------------------------------------------- */

static int order_texts(jinja_run *r, jinja_text a, jinja_text b) {
    const size_t n = jinja_common_length(a, b);
    jinja_step_text(r, n);
    if (n == a.n || n == b.n) return a.n < b.n ? -1 : a.n > b.n;
    return (a.at[n] & JINJA_CODE) < (b.at[n] & JINJA_CODE) ? -1 : 1;
}

static bool numbers_equal(jinja_value a, jinja_value b) {
    if (a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT) return jinja_as_real(a) == jinja_as_real(b);
    return (a.kind == JINJA_INT ? a.integer : a.truth) == (b.kind == JINJA_INT ? b.integer : b.truth);
}

/* As in Python, a list is equal to itself whatever its items are, and so is a dict. */
static bool lists_equal(jinja_run *r, const jinja_list *a, const jinja_list *b) {
    if (a == b || a->n != b->n) return a == b;
    for (size_t i = 0; i < a->n && jinja_step(r, 1); i++)
        if (!jinja_equal(r, a->item[i], b->item[i])) return false;
    return true;
}

static bool dicts_equal(jinja_run *r, const jinja_dict *a, const jinja_dict *b) {
    if (a == b || a->n != b->n) return a == b;
    for (size_t i = 0; i < a->n && jinja_step(r, 1); i++) {
        const jinja_value *other = jinja_find_key(r, b, a->pair[i].key);
        if (other == NULL || !jinja_equal(r, a->pair[i].value, *other)) return false;
    }
    return true;
}

bool jinja_text_equal(jinja_run *r, jinja_text a, jinja_text b) { return a.n == b.n && order_texts(r, a, b) == 0; }

bool jinja_equal(jinja_run *r, jinja_value a, jinja_value b) {
    if (jinja_is_number(a) && jinja_is_number(b)) return numbers_equal(a, b);
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_TEXT:
        return jinja_text_equal(r, a.text, b.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
        return lists_equal(r, a.list, b.list);
    case JINJA_DICT:
        return dicts_equal(r, a.dict, b.dict);
    default:
        return a.list == b.list; /* objects that define no ==: identity */
    }
}

/* --- keys of dicts ------------------------------------------------------------------------------------------------ */

/* Whether Python can hash the value. */
static bool may_be_key(jinja_run *r, jinja_value v) {
    const bool plain = jinja_is_number(v) || v.kind == JINJA_TEXT || v.kind == JINJA_NONE || v.kind == JINJA_UNDEFINED;
    if (v.kind != JINJA_TUPLE) return plain || v.kind > JINJA_NAMESPACE;
    for (size_t i = 0; i < v.list->n && jinja_step(r, 1); i++)
        if (!may_be_key(r, v.list->item[i])) return false;
    return true;
}

static bool need_key(jinja_run *r, jinja_value key) {
    if (!may_be_key(r, key))
        jinja_fail(r, LS_INVALID, "a value of type %s cannot be a key of a dict", jinja_type_name(key));
    return !r->failed;
}

jinja_value *jinja_find_key(jinja_run *r, const jinja_dict *dict, jinja_value key) {
    jinja_value *found = NULL;
    size_t i = 0;
    for (; i < dict->n && found == NULL && !r->failed; i++)
        if (jinja_equal(r, dict->pair[i].key, key)) found = &dict->pair[i].value;
    return jinja_step(r, i / 8) ? found : NULL;
}

void jinja_set(jinja_run *r, jinja_dict *dict, jinja_value key, jinja_value value) {
    if (!need_key(r, key)) return;
    jinja_value *found = jinja_find_key(r, dict, key);
    if (r->failed || (dict->n == dict->capacity && !jinja_has_room(r, 2 * dict->n, sizeof *dict->pair))) return;
    if (found == NULL) {
        jinja_dict_append(r->arena, dict, key, value);
        return;
    }
    *found = value;
    dict->depth = (int)ls_max(dict->depth, jinja_depth(value));
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static int order_lists(jinja_run *r, const jinja_list *a, const jinja_list *b) {
    for (size_t i = 0; i < a->n && i < b->n && jinja_step(r, 1); i++)
        if (!jinja_equal(r, a->item[i], b->item[i])) return jinja_order(r, a->item[i], b->item[i]);
    return a->n < b->n ? -1 : a->n > b->n;
}

int jinja_order(jinja_run *r, jinja_value a, jinja_value b) {
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT)
            return jinja_as_real(a) < jinja_as_real(b) ? -1 : jinja_as_real(a) > jinja_as_real(b);
        const int64_t x = a.kind == JINJA_INT ? a.integer : a.truth, y = b.kind == JINJA_INT ? b.integer : b.truth;
        return x < y ? -1 : x > y;
    }
    if (a.kind == JINJA_TEXT && b.kind == JINJA_TEXT) return order_texts(r, a.text, b.text);
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE)) return order_lists(r, a.list, b.list);
    jinja_refuse_operands(r, "<", a, b);
    return 0;
}

/* A stable bottom-up merge sort. */
void jinja_sort(jinja_run *r, struct jinja_pair *pairs, size_t n, bool reverse) {
    if (!jinja_has_room(r, n, sizeof *pairs)) return;
    const int sign = reverse ? -1 : 1;
    struct jinja_pair *room = LS_NEW_ARRAY(r->arena, struct jinja_pair, n);
    for (size_t width = 1; width < n && !r->failed; width *= 2)
        for (size_t from = 0; from + width < n && jinja_step(r, 1); from += 2 * width) {
            const size_t middle = from + width, end = middle + width < n ? middle + width : n;
            size_t a = from, b = middle, at = from;
            memcpy(room + from, pairs + from, (end - from) * sizeof *pairs);
            while (at < end && jinja_step(r, 1)) {
                const bool left = b == end || (a < middle && sign * jinja_order(r, room[b].key, room[a].key) >= 0);
                pairs[at++] = left ? room[a++] : room[b++];
            }
        }
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static bool text_contains(jinja_run *r, jinja_text in, jinja_value value) {
    char shown[80];
    if (value.kind == JINJA_TEXT) return jinja_find(r, in, value.text, 0, in.n) != SIZE_MAX;
    jinja_fail(r, LS_INVALID, "the left side of 'in' is a %s%s%s, expected a text as on the right side",
               jinja_type_name(value), value.kind == JINJA_UNDEFINED ? " value " : "",
               value.kind == JINJA_UNDEFINED ? jinja_printable(value.text, shown, sizeof shown) : "");
    return false;
}

bool jinja_contains(jinja_run *r, jinja_value in, jinja_value value) {
    if (in.kind == JINJA_TEXT) return text_contains(r, in.text, value);
    if (in.kind == JINJA_DICT) return need_key(r, value) && jinja_find_key(r, in.dict, value) != NULL;
    const jinja_list *list = jinja_iterate(r, in);
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++)
        if (jinja_equal(r, list->item[i], value)) return true;
    return false;
}
