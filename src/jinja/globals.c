/* Global functions, such as range(): one row each in the table at the end. */
#include "jinja/run_impl.h"

#include <stdlib.h>

enum { MOST_RANGE = 100000 }; /* the limit of Jinja's sandbox */

static jinja_value call_range(JINJA_ARGUMENTS) {
    const bool one = arg[1].kind == JINJA_MISSING;
    const int64_t from = one ? 0 : jinja_need_int(r, arg[0], "where a range begins");
    const int64_t to = jinja_need_int(r, arg[one ? 0 : 1], "where a range ends");
    const int64_t step = arg[2].kind == JINJA_MISSING ? 1 : jinja_need_int(r, arg[2], "the step of a range");
    jinja_list *list = jinja_new_list(r, 0);
    if (step == 0) return jinja_fail(r, LS_INVALID, "the step of a range is 0");
    for (__int128 at = from; (step > 0 ? at < to : at > to) && !r->failed; at += step) {
        if (list->n == MOST_RANGE) return jinja_fail(r, LS_INVALID, "a range of more than %d items", MOST_RANGE);
        jinja_add(r, list, jinja_int((int64_t)at));
    }
    return jinja_of_list(JINJA_RANGE, list);
}

/* Fills a dict from a dict or a list of pairs, then from the named arguments. */
static void fill(jinja_run *r, jinja_dict *dict, const jinja_arguments *all) {
    if (all->n > 1)
        jinja_fail(r, LS_INVALID, "dict() or namespace() has %zu positional arguments, expected at most 1", all->n);
    const jinja_list *pairs = NULL;
    if (all->n == 1 && all->value[0].kind == JINJA_DICT)
        for (size_t i = 0; i < all->value[0].dict->n && jinja_step(r, 1); i++)
            jinja_set(r, dict, all->value[0].dict->pair[i].key, all->value[0].dict->pair[i].value);
    else if (all->n == 1)
        pairs = jinja_iterate(r, all->value[0]);
    for (size_t i = 0; pairs != NULL && i < pairs->n && jinja_step(r, 1); i++) {
        const jinja_list *pair = jinja_iterate(r, pairs->item[i]);
        if (pair->n != 2)
            jinja_fail(r, LS_INVALID, "dict() or namespace() of a list whose items are not pairs");
        else
            jinja_set(r, dict, pair->item[0], pair->item[1]);
    }
    for (size_t i = 0; i < all->named.n && jinja_step(r, 1); i++)
        jinja_set(r, dict, all->named.pair[i].key, all->named.pair[i].value);
}

static jinja_value call_dict(JINJA_ARGUMENTS) {
    jinja_dict *dict = jinja_dict_new(r->arena);
    fill(r, dict, all);
    return jinja_of_dict(dict);
}

static jinja_value call_namespace(JINJA_ARGUMENTS) {
    jinja_dict *dict = jinja_dict_new(r->arena);
    fill(r, dict, all);
    for (size_t i = 0; i < dict->n && jinja_step(r, 1); i++)
        if (dict->pair[i].key.kind == JINJA_TEXT && dict->pair[i].key.text.n > 0 &&
            (dict->pair[i].key.text.at[0] & JINJA_CODE) == '_')
            jinja_fail(r, LS_INVALID, "a namespace has no attributes that begin with _");
    return (jinja_value){.kind = JINJA_NAMESPACE, .dict = dict};
}

static jinja_value call_raise(JINJA_ARGUMENTS) {
    char shown[300];
    const jinja_text text = jinja_to_text(r, arg[0]);
    return jinja_fail(r, LS_INVALID, "the template refuses: %s", jinja_printable(text, shown, sizeof shown));
}

static jinja_value call_strftime(JINJA_ARGUMENTS) {
    return jinja_strftime(r, jinja_need_text(r, arg[0], "the format of a date"));
}

static jinja_value refuse(JINJA_ARGUMENTS) {
    return jinja_fail(r, LS_UNSUPPORTED, "functions cycler, joiner and lipsum are not supported");
}

static const jinja_function globals[] = {
    {"range", call_range, 1, {"start", "stop", "step"}, false},
    {"dict", call_dict, 0, {NULL}, true},
    {"namespace", call_namespace, 0, {NULL}, true},
    {"raise_exception", call_raise, 1, {"message"}, false},
    {"strftime_now", call_strftime, 1, {"format"}, false},
    {"cycler", refuse, 0, {NULL}, true},
    {"joiner", refuse, 0, {NULL}, true},
    {"lipsum", refuse, 0, {NULL}, true},
};

const jinja_function *jinja_find_global(jinja_text name) {
    for (size_t i = 0; i < LS_COUNT(globals); i++)
        if (jinja_is(name, globals[i].name)) return &globals[i];
    return NULL;
}
