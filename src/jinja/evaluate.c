/* Evaluates expressions: a table has one row for each kind of node. */
#include "jinja/run_impl.h"

enum { DEEPEST = 400, DEEPEST_VALUE = 3000 };

static jinja_value evaluate_constant(jinja_run *r, const jinja_node *node) {
    (void)r;
    return node->value;
}

static jinja_value evaluate_name(jinja_run *r, const jinja_node *node) { return jinja_look_up(r, node->name); }

/* --- collections -------------------------------------------------------------------------------------------------- */

static jinja_list *evaluate_all(jinja_run *r, const jinja_node *first) {
    jinja_list *list = jinja_new_list(r, 0);
    for (const jinja_node *n = first; n != NULL && !r->failed; n = n->next) jinja_add(r, list, jinja_evaluate(r, n));
    return list;
}

static jinja_value evaluate_list(jinja_run *r, const jinja_node *node) {
    return jinja_of_list(JINJA_LIST, evaluate_all(r, node->first));
}

static jinja_value evaluate_tuple(jinja_run *r, const jinja_node *node) {
    return jinja_of_list(JINJA_TUPLE, evaluate_all(r, node->first));
}

static jinja_value evaluate_dict(jinja_run *r, const jinja_node *node) {
    jinja_dict *dict = jinja_dict_new(r->arena);
    for (const jinja_node *n = node->first; n != NULL && !r->failed; n = n->next->next) {
        const jinja_value key = jinja_evaluate(r, n), value = jinja_evaluate(r, n->next);
        if (!r->failed) jinja_set(r, dict, key, value);
    }
    return jinja_of_dict(dict);
}

/* --- logic -------------------------------------------------------------------------------------------------------- */

static jinja_value evaluate_choice(jinja_run *r, const jinja_node *node) {
    if (jinja_true(jinja_evaluate(r, node->a))) return jinja_evaluate(r, node->b);
    return node->c != NULL ? jinja_evaluate(r, node->c) : jinja_undefined((jinja_text){0});
}

static jinja_value evaluate_or(jinja_run *r, const jinja_node *node) {
    const jinja_value a = jinja_evaluate(r, node->a);
    return jinja_true(a) ? a : jinja_evaluate(r, node->b);
}

static jinja_value evaluate_and(jinja_run *r, const jinja_node *node) {
    const jinja_value a = jinja_evaluate(r, node->a);
    return jinja_true(a) ? jinja_evaluate(r, node->b) : a;
}

static jinja_value evaluate_not(jinja_run *r, const jinja_node *node) {
    return jinja_bool(!jinja_true(jinja_evaluate(r, node->a)));
}

/* a < b < c is a < b and b < c, where b is evaluated once. */
static jinja_value evaluate_compare(jinja_run *r, const jinja_node *node) {
    jinja_value left = jinja_evaluate(r, node->a), result = jinja_bool(true);
    for (const jinja_node *n = node->first; n != NULL && jinja_true(result) && !r->failed; n = n->next) {
        const jinja_value right = jinja_evaluate(r, n->a);
        result = jinja_operate(r, n->op, left, right);
        left = right;
    }
    return result;
}

/* --- arithmetic --------------------------------------------------------------------------------------------------- */

static jinja_value evaluate_binary(jinja_run *r, const jinja_node *node) {
    const jinja_value a = jinja_evaluate(r, node->a), b = jinja_evaluate(r, node->b);
    return r->failed ? a : jinja_operate(r, node->op, a, b);
}

static jinja_value evaluate_concat(jinja_run *r, const jinja_node *node) {
    jinja_buffer b = {0};
    for (const jinja_node *n = node->first; n != NULL && !r->failed; n = n->next) {
        const jinja_value part = jinja_evaluate(r, n);
        if (!r->failed) jinja_put(r, &b, jinja_to_text(r, part));
    }
    return jinja_buffer_value(&b);
}

static jinja_value with_sign(jinja_run *r, jinja_value v, bool negative) {
    if (v.kind == JINJA_FLOAT) return jinja_real(negative ? -v.real : v.real);
    if (!jinja_is_number(v))
        return jinja_fail(r, LS_INVALID, "a + or - before a %s, expected a number", jinja_type_name(v));
    const int64_t i = v.kind == JINJA_INT ? v.integer : v.truth;
    if (negative && i == INT64_MIN) return jinja_fail(r, LS_UNSUPPORTED, "an integer of more than 64 bits");
    return jinja_int(negative ? -i : i);
}

static jinja_value evaluate_negative(jinja_run *r, const jinja_node *node) {
    return with_sign(r, jinja_evaluate(r, node->a), true);
}

static jinja_value evaluate_positive(jinja_run *r, const jinja_node *node) {
    return with_sign(r, jinja_evaluate(r, node->a), false);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static jinja_value evaluate_attribute(jinja_run *r, const jinja_node *node) {
    const jinja_value of = jinja_evaluate(r, node->a);
    r->line = node->line;
    return r->failed ? of : jinja_attribute(r, of, node->name);
}

static jinja_value evaluate_item(jinja_run *r, const jinja_node *node) {
    const jinja_value of = jinja_evaluate(r, node->a);
    if (node->b->kind != JINJA_N_SLICE) {
        const jinja_value key = jinja_evaluate(r, node->b);
        return r->failed ? of : jinja_item(r, of, key);
    }
    const jinja_node *const parts[] = {node->b->a, node->b->b, node->b->c};
    jinja_value bounds[3];
    for (size_t i = 0; i < 3; i++) bounds[i] = parts[i] != NULL ? jinja_evaluate(r, parts[i]) : jinja_none();
    return r->failed ? of : jinja_slice(r, of, bounds);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static void spread(jinja_run *r, jinja_value dict, jinja_arguments *out) {
    if (dict.kind != JINJA_DICT) jinja_fail(r, LS_INVALID, "** before a %s, expected a dict", jinja_type_name(dict));
    for (size_t i = 0; !r->failed && i < dict.dict->n; i++)
        if (jinja_step(r, 1)) jinja_set(r, &out->named, dict.dict->pair[i].key, dict.dict->pair[i].value);
}

void jinja_arguments_of(jinja_run *r, const jinja_node *first, jinja_arguments *out) {
    jinja_list *list = jinja_new_list(r, 0);
    *out = (jinja_arguments){0};
    for (const jinja_node *n = first; n != NULL && !r->failed; n = n->next) {
        const jinja_value value = jinja_evaluate(r, n->a);
        const jinja_list *several = n->stars == 1 ? jinja_iterate(r, value) : NULL;
        if (n->stars == 2)
            spread(r, value, out);
        else if (several != NULL)
            for (size_t i = 0; i < several->n && !r->failed; i++) jinja_add(r, list, several->item[i]);
        else if (n->name.n > 0)
            jinja_set(r, &out->named, jinja_of_text(n->name), value);
        else
            jinja_add(r, list, value);
    }
    out->value = list->item;
    out->n = list->n;
}

static jinja_value evaluate_call(jinja_run *r, const jinja_node *node) {
    jinja_arguments given;
    const jinja_value callee = jinja_evaluate(r, node->a);
    jinja_arguments_of(r, node->first, &given);
    r->line = node->line;
    return r->failed ? callee : jinja_call(r, callee, &given);
}

static jinja_value call_named(jinja_run *r, const jinja_node *node, const char *kind) {
    jinja_arguments given;
    char shown[80];
    r->line = node->line;
    if (node->function == NULL)
        return jinja_fail(r, LS_UNSUPPORTED, "%s '%s' is not supported", kind,
                          jinja_printable(node->name, shown, sizeof shown));
    const jinja_value of = node->a != NULL ? jinja_evaluate(r, node->a) : r->said;
    jinja_arguments_of(r, node->first, &given);
    r->line = node->line;
    return r->failed ? of : jinja_call_function(r, node->function, kind, of, &given);
}

static jinja_value evaluate_filter(jinja_run *r, const jinja_node *node) { return call_named(r, node, "filter"); }

static jinja_value evaluate_test(jinja_run *r, const jinja_node *node) { return call_named(r, node, "test"); }

/* --- the table ---------------------------------------------------------------------------------------------------- */

static jinja_value (*const expressions[JINJA_N_KINDS])(jinja_run *r, const jinja_node *node) = {
    [JINJA_N_CONSTANT] = evaluate_constant,
    [JINJA_N_NAME] = evaluate_name,
    [JINJA_N_LIST] = evaluate_list,
    [JINJA_N_TUPLE] = evaluate_tuple,
    [JINJA_N_DICT] = evaluate_dict,
    [JINJA_N_CHOICE] = evaluate_choice,
    [JINJA_N_OR] = evaluate_or,
    [JINJA_N_AND] = evaluate_and,
    [JINJA_N_NOT] = evaluate_not,
    [JINJA_N_COMPARE] = evaluate_compare,
    [JINJA_N_BINARY] = evaluate_binary,
    [JINJA_N_CONCAT] = evaluate_concat,
    [JINJA_N_NEGATIVE] = evaluate_negative,
    [JINJA_N_POSITIVE] = evaluate_positive,
    [JINJA_N_ATTRIBUTE] = evaluate_attribute,
    [JINJA_N_ITEM] = evaluate_item,
    [JINJA_N_CALL] = evaluate_call,
    [JINJA_N_FILTER] = evaluate_filter,
    [JINJA_N_TEST] = evaluate_test,
};

jinja_value jinja_evaluate(jinja_run *r, const jinja_node *node) {
    if (!jinja_step(r, 1)) return jinja_undefined((jinja_text){0});
    if (r->depth == DEEPEST) return jinja_fail(r, LS_INVALID, "nested deeper than %d calls", DEEPEST);
    r->depth++;
    const jinja_value value = expressions[node->kind](r, node);
    r->depth--;
    if (jinja_depth(value) > DEEPEST_VALUE)
        return jinja_fail(r, LS_INVALID, "a list of lists, nested deeper than %d", DEEPEST_VALUE);
    return value;
}
