/* Tests, as `x is defined`: a table has one row for each. */
#include "jinja/run_impl.h"

#include <string.h>

/* --- kinds -------------------------------------------------------------------------------------------------------- */

static jinja_value is_defined(JINJA_ARGUMENTS) { return jinja_bool(of.kind != JINJA_UNDEFINED); }
static jinja_value is_undefined(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_UNDEFINED); }
static jinja_value is_none(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_NONE); }
static jinja_value is_boolean(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_BOOL); }
static jinja_value is_true(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_BOOL && of.truth); }
static jinja_value is_false(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_BOOL && !of.truth); }
static jinja_value is_integer(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_INT); }
static jinja_value is_float(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_FLOAT); }
static jinja_value is_number(JINJA_ARGUMENTS) { return jinja_bool(jinja_is_number(of)); }
static jinja_value is_string(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_TEXT); }
static jinja_value is_mapping(JINJA_ARGUMENTS) { return jinja_bool(of.kind == JINJA_DICT); }
static jinja_value is_sequence(JINJA_ARGUMENTS) {
    return jinja_bool(of.kind == JINJA_TEXT || of.kind == JINJA_LIST || of.kind == JINJA_TUPLE ||
                      of.kind == JINJA_RANGE || of.kind == JINJA_DICT || of.kind == JINJA_UNDEFINED);
}
static jinja_value is_iterable(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_has_list(of) || of.kind == JINJA_TEXT || of.kind == JINJA_DICT ||
                      of.kind == JINJA_UNDEFINED || of.kind == JINJA_LOOP);
}
static jinja_value is_callable(JINJA_ARGUMENTS) {
    return jinja_bool(of.kind == JINJA_MACRO || of.kind == JINJA_METHOD || of.kind == JINJA_GLOBAL ||
                      of.kind == JINJA_UNDEFINED || of.kind == JINJA_LOOP);
}
static jinja_value is_escaped(JINJA_ARGUMENTS) { return jinja_bool(false); }

/* --- values ------------------------------------------------------------------------------------------------------- */

static jinja_value remainder_by(jinja_run *r, jinja_value of, jinja_value by) {
    return jinja_operate(r, jinja_find_operator("%"), of, by);
}
static jinja_value is_odd(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_equal(r, remainder_by(r, of, jinja_int(2)), jinja_int(1)));
}
static jinja_value is_even(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_equal(r, remainder_by(r, of, jinja_int(2)), jinja_int(0)));
}
static jinja_value is_divisible(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_equal(r, remainder_by(r, of, arg[0]), jinja_int(0)));
}
static jinja_value is_lower(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_text_is_case(r, jinja_to_text(r, of), JINJA_LOWER));
}
static jinja_value is_upper(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_text_is_case(r, jinja_to_text(r, of), JINJA_UPPER));
}

/* --- two values --------------------------------------------------------------------------------------------------- */

/* Python's `is`. Texts and numbers are refused, because here they have no identity apart from their value. */
static jinja_value is_same(JINJA_ARGUMENTS) {
    if (of.kind != arg[0].kind) return jinja_bool(false);
    if (of.kind == JINJA_NONE) return jinja_bool(true);
    if (of.kind == JINJA_BOOL) return jinja_bool(of.truth == arg[0].truth);
    if (of.kind == JINJA_TEXT || jinja_is_number(of))
        return jinja_fail(r, LS_UNSUPPORTED, "sameas of a %s is not supported", jinja_type_name(of));
    return jinja_bool(of.list == arg[0].list);
}

static jinja_value by_operator(jinja_run *r, const char *op, jinja_value a, jinja_value b) {
    return jinja_operate(r, jinja_find_operator(op), a, b);
}
static jinja_value is_equal(JINJA_ARGUMENTS) { return by_operator(r, "==", of, arg[0]); }
static jinja_value is_unequal(JINJA_ARGUMENTS) { return by_operator(r, "!=", of, arg[0]); }
static jinja_value is_greater(JINJA_ARGUMENTS) { return by_operator(r, ">", of, arg[0]); }
static jinja_value is_at_least(JINJA_ARGUMENTS) { return by_operator(r, ">=", of, arg[0]); }
static jinja_value is_less(JINJA_ARGUMENTS) { return by_operator(r, "<", of, arg[0]); }
static jinja_value is_at_most(JINJA_ARGUMENTS) { return by_operator(r, "<=", of, arg[0]); }
static jinja_value is_in(JINJA_ARGUMENTS) { return by_operator(r, "in", of, arg[0]); }

/* --- names -------------------------------------------------------------------------------------------------------- */

static jinja_value is_filter(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_find_filter(jinja_need_text(r, of, "a filter's name")) != NULL);
}
static jinja_value is_test(JINJA_ARGUMENTS) {
    return jinja_bool(jinja_find_test(jinja_need_text(r, of, "a test's name")) != NULL);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const jinja_function tests[] = {
    {"defined", is_defined, 0, {NULL}, false},
    {"undefined", is_undefined, 0, {NULL}, false},
    {"none", is_none, 0, {NULL}, false},
    {"boolean", is_boolean, 0, {NULL}, false},
    {"true", is_true, 0, {NULL}, false},
    {"false", is_false, 0, {NULL}, false},
    {"integer", is_integer, 0, {NULL}, false},
    {"float", is_float, 0, {NULL}, false},
    {"number", is_number, 0, {NULL}, false},
    {"string", is_string, 0, {NULL}, false},
    {"mapping", is_mapping, 0, {NULL}, false},
    {"sequence", is_sequence, 0, {NULL}, false},
    {"iterable", is_iterable, 0, {NULL}, false},
    {"callable", is_callable, 0, {NULL}, false},
    {"escaped", is_escaped, 0, {NULL}, false},
    {"odd", is_odd, 0, {NULL}, false},
    {"even", is_even, 0, {NULL}, false},
    {"divisibleby", is_divisible, 1, {"num"}, false},
    {"lower", is_lower, 0, {NULL}, false},
    {"upper", is_upper, 0, {NULL}, false},
    {"sameas", is_same, 1, {"other"}, false},
    {"==", is_equal, 1, {"other"}, false},
    {"eq", is_equal, 1, {"other"}, false},
    {"equalto", is_equal, 1, {"other"}, false},
    {"!=", is_unequal, 1, {"other"}, false},
    {"ne", is_unequal, 1, {"other"}, false},
    {">", is_greater, 1, {"other"}, false},
    {"gt", is_greater, 1, {"other"}, false},
    {"greaterthan", is_greater, 1, {"other"}, false},
    {">=", is_at_least, 1, {"other"}, false},
    {"ge", is_at_least, 1, {"other"}, false},
    {"<", is_less, 1, {"other"}, false},
    {"lt", is_less, 1, {"other"}, false},
    {"lessthan", is_less, 1, {"other"}, false},
    {"<=", is_at_most, 1, {"other"}, false},
    {"le", is_at_most, 1, {"other"}, false},
    {"in", is_in, 1, {"seq"}, false},
    {"filter", is_filter, 0, {NULL}, false},
    {"test", is_test, 0, {NULL}, false},
};

const jinja_function *jinja_find_test(jinja_text name) {
    for (size_t i = 0; i < LS_COUNT(tests); i++)
        if (jinja_is(name, tests[i].name)) return &tests[i];
    return NULL;
}
