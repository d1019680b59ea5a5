/*
 * Filters of lists and dicts: a table has one row for each. Results that are generators in Jinja can be read only once
 * here too.
 */
#include "jinja/run_impl.h"

#include <string.h>

static jinja_value generator(jinja_list *list) { return jinja_of_list(JINJA_GENERATOR, list); }

/* --- attributes and keys ------------------------------------------------------------------------------------------ */

/* item.a.b for the path "a.b"; a part of digits is an index. */
static jinja_value by_path(jinja_run *r, jinja_value item, jinja_value path) {
    if (!jinja_given(path)) return item;
    if (path.kind == JINJA_INT) return jinja_item(r, item, path);
    const jinja_text text = jinja_need_text(r, path, "an attribute");
    jinja_step_text(r, text.n);
    for (size_t from = 0, to; from <= text.n && jinja_step(r, 1); from = to + 1) {
        int64_t index = 0;
        bool digits = true;
        for (to = from; to < text.n && (text.at[to] & JINJA_CODE) != '.'; to++) {
            const uint32_t code = text.at[to] & JINJA_CODE;
            digits &= code >= '0' && code <= '9' && to - from < 18;
            if (digits) index = index * 10 + (int64_t)code - '0';
        }
        const bool is_index = digits && to > from;
        item = jinja_item(r, item, is_index ? jinja_int(index) : jinja_of_text(jinja_part(text, from, to)));
    }
    return item;
}

/* The key by which items are compared. Texts are compared in lower case unless case_sensitive. */
static jinja_value key_of(jinja_run *r, jinja_value item, jinja_value path, jinja_value case_sensitive) {
    const jinja_value key = by_path(r, item, path);
    return key.kind == JINJA_TEXT && !jinja_true(case_sensitive) ? jinja_text_in_case(r, key.text, JINJA_LOWER) : key;
}

/* --- sorting ------------------------------------------------------------------------------------------------------ */

/* The items of a list, each with its key. NULL: the rendering has failed. */
static struct jinja_pair *with_keys(jinja_run *r, const jinja_list *list, jinja_value path,
                                    jinja_value case_sensitive) {
    if (!jinja_has_room(r, list->n, sizeof(struct jinja_pair))) return NULL;
    struct jinja_pair *pairs = LS_NEW_ARRAY(r->arena, struct jinja_pair, list->n);
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++)
        pairs[i] = (struct jinja_pair){key_of(r, list->item[i], path, case_sensitive), list->item[i]};
    return r->failed ? NULL : pairs;
}

static jinja_value sorted(jinja_run *r, struct jinja_pair *pairs, size_t n, bool reverse) {
    jinja_list *out = jinja_new_list(r, n);
    jinja_sort(r, pairs, n, reverse);
    for (size_t i = 0; i < n && !r->failed; i++) jinja_add(r, out, pairs[i].value);
    return jinja_of_list(JINJA_LIST, out);
}

static jinja_value filter_sort(JINJA_ARGUMENTS) {
    const jinja_list *list = jinja_iterate(r, of);
    if (arg[2].kind == JINJA_TEXT) {
        const jinja_char comma = ',';
        if (jinja_find(r, arg[2].text, (jinja_text){&comma, 1}, 0, arg[2].text.n) != SIZE_MAX)
            return jinja_fail(r, LS_UNSUPPORTED, "sort by several attributes is not supported");
    }
    struct jinja_pair *pairs = with_keys(r, list, arg[2], arg[1]);
    return pairs == NULL ? of : sorted(r, pairs, list->n, jinja_true(arg[0]));
}

static jinja_value filter_dictsort(JINJA_ARGUMENTS) {
    if (of.kind != JINJA_DICT)
        return jinja_fail(r, LS_INVALID, "dictsort of a %s, expected a dict", jinja_type_name(of));
    const bool by_value = jinja_given(arg[1]) && jinja_is(jinja_need_text(r, arg[1], "by"), "value");
    if (jinja_given(arg[1]) && !by_value && !jinja_is(arg[1].text, "key"))
        return jinja_fail(r, LS_INVALID, "the argument by of dictsort is unknown, expected key or value");
    if (!jinja_has_room(r, of.dict->n, sizeof(struct jinja_pair))) return of;
    struct jinja_pair *pairs = LS_NEW_ARRAY(r->arena, struct jinja_pair, of.dict->n);
    for (size_t i = 0; i < of.dict->n && jinja_step(r, 1); i++) {
        const struct jinja_pair *pair = &of.dict->pair[i];
        pairs[i] = (struct jinja_pair){key_of(r, by_value ? pair->value : pair->key, jinja_none(), arg[0]),
                                       jinja_pair_of(r, pair->key, pair->value)};
    }
    return r->failed ? of : sorted(r, pairs, of.dict->n, jinja_true(arg[2]));
}

static jinja_value least_or_most(jinja_run *r, jinja_value of, const jinja_value *arg, int sign) {
    const jinja_list *list = jinja_iterate(r, of);
    size_t best = 0;
    if (list->n == 0) return jinja_undefined((jinja_text){0});
    const struct jinja_pair *pairs = with_keys(r, list, arg[1], arg[0]);
    for (size_t i = 1; i < list->n && jinja_step(r, 1); i++)
        if (sign * jinja_order(r, pairs[i].key, pairs[best].key) > 0) best = i;
    return list->item[best];
}

static jinja_value filter_min(JINJA_ARGUMENTS) { return least_or_most(r, of, arg, -1); }
static jinja_value filter_max(JINJA_ARGUMENTS) { return least_or_most(r, of, arg, 1); }

static jinja_value filter_unique(JINJA_ARGUMENTS) {
    const jinja_list *list = jinja_iterate(r, of);
    jinja_list *out = jinja_new_list(r, 0);
    jinja_dict *seen = jinja_dict_new(r->arena);
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++) {
        const size_t before = seen->n;
        jinja_set(r, seen, key_of(r, list->item[i], arg[1], arg[0]), jinja_none());
        if (seen->n > before) jinja_add(r, out, list->item[i]);
    }
    return generator(out);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static jinja_value filter_list(JINJA_ARGUMENTS) {
    const jinja_list *list = jinja_iterate(r, of);
    jinja_list *out = jinja_new_list(r, list->n);
    for (size_t i = 0; i < list->n && !r->failed; i++) jinja_add(r, out, list->item[i]);
    return jinja_of_list(JINJA_LIST, out);
}

static jinja_value filter_first(JINJA_ARGUMENTS) {
    if (of.kind == JINJA_GENERATOR)
        return of.list->next < of.list->n ? of.list->item[of.list->next++] : jinja_undefined((jinja_text){0});
    const jinja_list *list = jinja_iterate(r, of);
    return list->n > 0 ? list->item[0] : jinja_undefined((jinja_text){0});
}

static jinja_value filter_last(JINJA_ARGUMENTS) {
    if (of.kind == JINJA_GENERATOR)
        return jinja_fail(r, LS_INVALID, "last of a generator is not possible, expected `| list | last`");
    const jinja_list *list = jinja_iterate(r, of);
    return list->n > 0 ? list->item[list->n - 1] : jinja_undefined((jinja_text){0});
}

static jinja_value filter_reverse(JINJA_ARGUMENTS) {
    if (of.kind == JINJA_TEXT)
        return jinja_slice(r, of, (const jinja_value[]){jinja_none(), jinja_none(), jinja_int(-1)});
    const jinja_list *list = jinja_iterate(r, of);
    jinja_list *out = jinja_new_list(r, list->n);
    for (size_t i = list->n; i > 0 && !r->failed; i--) jinja_add(r, out, list->item[i - 1]);
    return of.kind == JINJA_GENERATOR ? jinja_of_list(JINJA_LIST, out) : generator(out);
}

static jinja_value filter_items(JINJA_ARGUMENTS) {
    jinja_list *out = jinja_new_list(r, 0);
    if (of.kind != JINJA_DICT && of.kind != JINJA_UNDEFINED)
        return jinja_fail(r, LS_INVALID, "items of a %s, expected a dict", jinja_type_name(of));
    for (size_t i = 0; of.kind == JINJA_DICT && i < of.dict->n && !r->failed; i++)
        jinja_add(r, out, jinja_pair_of(r, of.dict->pair[i].key, of.dict->pair[i].value));
    return generator(out);
}

static jinja_value filter_join(JINJA_ARGUMENTS) {
    const jinja_list *list = jinja_iterate(r, of);
    const jinja_text between = arg[0].kind == JINJA_MISSING ? (jinja_text){0} : jinja_to_text(r, arg[0]);
    jinja_buffer b = {0};
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++) {
        if (i > 0) jinja_put(r, &b, between);
        const jinja_value item = by_path(r, list->item[i], arg[1]);
        if (!r->failed) jinja_put(r, &b, jinja_to_text(r, item));
    }
    return jinja_buffer_value(&b);
}

static jinja_value filter_sum(JINJA_ARGUMENTS) {
    const jinja_list *list = jinja_iterate(r, of);
    const jinja_operator *plus = jinja_find_operator("+");
    jinja_value total = arg[1].kind == JINJA_MISSING ? jinja_int(0) : arg[1];
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++)
        total = jinja_operate(r, plus, total, by_path(r, list->item[i], arg[0]));
    return total;
}

static jinja_value filter_batch(JINJA_ARGUMENTS) {
    const jinja_list *list = jinja_iterate(r, of);
    const int64_t size = jinja_need_int(r, arg[0], "the size of a batch");
    jinja_list *out = jinja_new_list(r, 0), *batch = NULL;
    if (size < 1) return jinja_fail(r, LS_INVALID, "batches of %lld items", (long long)size);
    for (size_t i = 0; i < list->n && !r->failed; i++) {
        if (i % (size_t)size == 0) batch = jinja_new_list(r, 0);
        jinja_add(r, batch, list->item[i]);
        const bool last = i + 1 == list->n;
        while (last && jinja_given(arg[1]) && (int64_t)batch->n < size && !r->failed) jinja_add(r, batch, arg[1]);
        if (last || (int64_t)batch->n == size) jinja_add(r, out, jinja_of_list(JINJA_LIST, batch));
    }
    return generator(out);
}

/* --- each item ---------------------------------------------------------------------------------------------------- */

/* The arguments after the first n positional ones. */
static jinja_arguments without_first(const jinja_arguments *all, size_t n) {
    return (jinja_arguments){all->value + n, all->n - n, all->named};
}

static const jinja_value *named(jinja_run *r, const jinja_arguments *all, const char *name) {
    return jinja_step(r, all->named.n / 8) ? jinja_dict_find_ascii(&all->named, name) : NULL;
}

static jinja_value map_attribute(jinja_run *r, const jinja_list *list, const jinja_arguments *all, jinja_value path) {
    const jinja_value *other = named(r, all, "default");
    jinja_list *out = jinja_new_list(r, 0);
    if (all->named.n > 1u + (other != NULL)) return jinja_fail(r, LS_INVALID, "map has too many arguments");
    for (size_t i = 0; i < list->n && !r->failed; i++) {
        const jinja_value value = by_path(r, list->item[i], path);
        jinja_add(r, out, value.kind == JINJA_UNDEFINED && other != NULL && jinja_given(*other) ? *other : value);
    }
    return generator(out);
}

static jinja_value filter_map(JINJA_ARGUMENTS) {
    if (!jinja_true(of)) return generator(jinja_new_list(r, 0));
    const jinja_list *list = jinja_iterate(r, of);
    const jinja_value *path = named(r, all, "attribute");
    if (all->n == 0 && path != NULL) return map_attribute(r, list, all, *path);
    if (all->n == 0) return jinja_fail(r, LS_INVALID, "map needs the name of a filter, or an attribute");
    const jinja_arguments rest = without_first(all, 1);
    jinja_list *out = jinja_new_list(r, 0);
    for (size_t i = 0; i < list->n && !r->failed; i++)
        jinja_add(r, out, jinja_call_filter(r, all->value[0], list->item[i], &rest));
    return generator(out);
}

/*
 * The items for which a test, or without a test the value itself, is `wanted`. attribute: the test is applied to an
 * attribute of the item.
 */
static jinja_value chosen(jinja_run *r, jinja_value of, const jinja_arguments *all, bool attribute, bool wanted) {
    if (!jinja_true(of)) return generator(jinja_new_list(r, 0));
    const jinja_list *list = jinja_iterate(r, of);
    const size_t test = attribute ? 1 : 0;
    jinja_list *out = jinja_new_list(r, 0);
    if (attribute && all->n == 0)
        return jinja_fail(r, LS_INVALID, "selectattr or rejectattr needs the name of an attribute");
    const jinja_arguments rest = all->n > test ? without_first(all, test + 1) : (jinja_arguments){0};
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++) {
        const jinja_value value = attribute ? by_path(r, list->item[i], all->value[0]) : list->item[i];
        const bool is = all->n > test ? jinja_call_test(r, all->value[test], value, &rest) : jinja_true(value);
        if (is == wanted) jinja_add(r, out, list->item[i]);
    }
    return generator(out);
}

static jinja_value filter_select(JINJA_ARGUMENTS) { return chosen(r, of, all, false, true); }
static jinja_value filter_reject(JINJA_ARGUMENTS) { return chosen(r, of, all, false, false); }
static jinja_value filter_selectattr(JINJA_ARGUMENTS) { return chosen(r, of, all, true, true); }
static jinja_value filter_rejectattr(JINJA_ARGUMENTS) { return chosen(r, of, all, true, false); }

static jinja_value filter_attr(JINJA_ARGUMENTS) {
    const jinja_text name = jinja_need_text(r, arg[0], "an attribute");
    if (of.kind == JINJA_DICT && jinja_find_method(of, name) == NULL) return jinja_undefined(name);
    return r->failed ? of : jinja_attribute(r, of, name);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const jinja_function filters[] = {
    {"list", filter_list, 0, {NULL}, false},
    {"first", filter_first, 0, {NULL}, false},
    {"last", filter_last, 0, {NULL}, false},
    {"reverse", filter_reverse, 0, {NULL}, false},
    {"items", filter_items, 0, {NULL}, false},
    {"join", filter_join, 0, {"d", "attribute"}, false},
    {"sum", filter_sum, 0, {"attribute", "start"}, false},
    {"batch", filter_batch, 1, {"linecount", "fill_with"}, false},
    {"sort", filter_sort, 0, {"reverse", "case_sensitive", "attribute"}, false},
    {"dictsort", filter_dictsort, 0, {"case_sensitive", "by", "reverse"}, false},
    {"min", filter_min, 0, {"case_sensitive", "attribute"}, false},
    {"max", filter_max, 0, {"case_sensitive", "attribute"}, false},
    {"unique", filter_unique, 0, {"case_sensitive", "attribute"}, false},
    {"map", filter_map, 0, {NULL}, true},
    {"select", filter_select, 0, {NULL}, true},
    {"reject", filter_reject, 0, {NULL}, true},
    {"selectattr", filter_selectattr, 0, {NULL}, true},
    {"rejectattr", filter_rejectattr, 0, {NULL}, true},
    {"attr", filter_attr, 1, {"name"}, false},
};

const jinja_function *jinja_find_list_filter(jinja_text name) {
    for (size_t i = 0; i < LS_COUNT(filters); i++)
        if (jinja_is(name, filters[i].name)) return &filters[i];
    return NULL;
}
