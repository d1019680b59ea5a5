/* Python's operators: a table has one row for each. */
#include "jinja/run_impl.h"

#include <math.h>
#include <string.h>

struct jinja_operator {
    const char *text;
    jinja_value (*operate)(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b);
    int64_t (*whole)(jinja_run *r, int64_t a, int64_t b); /* for integers; NULL: no arithmetic */
    double (*real)(double a, double b);
};

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static int64_t too_wide(jinja_run *r) {
    jinja_fail(r, LS_UNSUPPORTED, "an integer of more than 64 bits");
    return 0;
}

static int64_t add_whole(jinja_run *r, int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? too_wide(r) : sum;
}

static int64_t subtract_whole(jinja_run *r, int64_t a, int64_t b) {
    int64_t difference;
    return __builtin_sub_overflow(a, b, &difference) ? too_wide(r) : difference;
}

static int64_t multiply_whole(jinja_run *r, int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? too_wide(r) : product;
}

/* Rounded down, as Python divides. */
static int64_t divide_whole(jinja_run *r, int64_t a, int64_t b) {
    if (b == -1) return subtract_whole(r, 0, a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t remain_whole(jinja_run *r, int64_t a, int64_t b) {
    (void)r;
    if (b == -1) return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static double add_real(double a, double b) { return a + b; }
static double subtract_real(double a, double b) { return a - b; }
static double multiply_real(double a, double b) { return a * b; }
static double remain_real(double a, double b) {
    const double rest = fmod(a, b);
    if (rest == 0) return copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}
/* CPython's algorithm, which keeps a == (a // b) * b + a % b as nearly as possible. */
static double divide_real(double a, double b) {
    const double quotient = (a - remain_real(a, b)) / b;
    if (quotient == 0) return copysign(0.0, a / b);
    const double down = floor(quotient);
    return quotient - down > 0.5 ? down + 1 : down;
}

static int64_t whole_of(jinja_value v) { return v.kind == JINJA_INT ? v.integer : v.truth; }

static jinja_value arithmetic(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    if (!jinja_is_number(a) || !jinja_is_number(b)) return jinja_refuse_operands(r, op->text, a, b);
    if (a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT) return jinja_real(op->real(jinja_as_real(a), jinja_as_real(b)));
    return jinja_int(op->whole(r, whole_of(a), whole_of(b)));
}

static jinja_value division(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    if (!jinja_is_number(a) || !jinja_is_number(b)) return jinja_refuse_operands(r, op->text, a, b);
    if (jinja_as_real(b) == 0) return jinja_fail(r, LS_INVALID, "division by zero");
    return op->whole != NULL ? arithmetic(r, op, a, b) : jinja_real(jinja_as_real(a) / jinja_as_real(b));
}

static jinja_value power(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    if (!jinja_is_number(a) || !jinja_is_number(b)) return jinja_refuse_operands(r, op->text, a, b);
    if (jinja_as_real(a) == 0 && jinja_as_real(b) < 0) return jinja_fail(r, LS_INVALID, "zero to a negative power");
    if (a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT || whole_of(b) < 0) {
        const double result = pow(jinja_as_real(a), jinja_as_real(b));
        if (isnan(result) || isinf(result)) return jinja_fail(r, LS_UNSUPPORTED, "a power that is not a real number");
        return jinja_real(result);
    }
    int64_t result = 1;
    for (int64_t i = 0; i < whole_of(b) && !r->failed; i++) {
        result = multiply_whole(r, result, whole_of(a));
        if (result == 0 || result == 1 || !jinja_step(r, 1)) break;
        if (result == -1) return jinja_int(whole_of(b) % 2 != 0 ? -1 : 1);
    }
    return jinja_int(result);
}

/* --- texts and lists ---------------------------------------------------------------------------------------------- */

static jinja_value joined(jinja_run *r, jinja_value a, jinja_value b) {
    jinja_list *list = jinja_new_list(r, a.list->n + b.list->n);
    for (size_t i = 0; i < a.list->n && !r->failed; i++) jinja_add(r, list, a.list->item[i]);
    for (size_t i = 0; i < b.list->n && !r->failed; i++) jinja_add(r, list, b.list->item[i]);
    return jinja_of_list(a.kind, list);
}

/* A text that is joined to one from the filter `safe` is escaped for HTML, as Python's markupsafe.Markup does. */
static void put_safe(jinja_run *r, jinja_buffer *b, jinja_text text, bool escapes) {
    static const char *const escaped[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"};
    if (!escapes) jinja_put(r, b, text);
    for (size_t i = 0; escapes && i < text.n && !r->failed; i++) {
        const uint32_t code = text.at[i] & JINJA_CODE;
        if (code < 128 && escaped[code] != NULL)
            jinja_put_ascii(r, b, escaped[code]);
        else
            jinja_put_char(r, b, text.at[i]);
    }
}

static jinja_value sum(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    if (a.kind == JINJA_TEXT && b.kind == JINJA_TEXT) {
        jinja_buffer both = {0};
        const bool safe = a.safe || b.safe;
        put_safe(r, &both, a.text, safe && !a.safe);
        put_safe(r, &both, b.text, safe && !b.safe);
        jinja_value result = jinja_buffer_value(&both);
        result.safe = safe;
        return result;
    }
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE)) return joined(r, a, b);
    return arithmetic(r, op, a, b);
}

static jinja_value repeated(jinja_run *r, jinja_value of, int64_t times) {
    if (of.kind == JINJA_TEXT) {
        jinja_buffer b = {0};
        for (int64_t i = 0; i < times && of.text.n > 0 && !r->failed; i++) jinja_put(r, &b, of.text);
        return jinja_buffer_value(&b);
    }
    jinja_list *list = jinja_new_list(r, 0);
    for (int64_t i = 0; i < times && of.list->n > 0 && !r->failed; i++)
        for (size_t k = 0; k < of.list->n && !r->failed; k++) jinja_add(r, list, of.list->item[k]);
    return jinja_of_list(of.kind, list);
}

static bool repeats(jinja_value v) { return v.kind == JINJA_TEXT || v.kind == JINJA_LIST || v.kind == JINJA_TUPLE; }

static jinja_value product(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    const bool a_counts = a.kind == JINJA_INT || a.kind == JINJA_BOOL;
    const bool b_counts = b.kind == JINJA_INT || b.kind == JINJA_BOOL;
    if (repeats(a) && b_counts) return repeated(r, a, whole_of(b));
    if (repeats(b) && a_counts) return repeated(r, b, whole_of(a));
    return arithmetic(r, op, a, b);
}

static jinja_value remainder_or_format(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    if (a.kind != JINJA_TEXT) return division(r, op, a, b);
    if (a.safe) return jinja_fail(r, LS_UNSUPPORTED, "%% of a text from the filter safe is not supported");
    jinja_arguments values = {.value = &b, .n = 1};
    if (b.kind == JINJA_TUPLE) values = (jinja_arguments){.value = b.list->item, .n = b.list->n};
    return jinja_format(r, a.text, &values);
}

/* --- comparisons -------------------------------------------------------------------------------------------------- */

static jinja_value equal(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    (void)op;
    return jinja_bool(jinja_equal(r, a, b));
}

static jinja_value unequal(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    return jinja_bool(!jinja_true(equal(r, op, a, b)));
}

static jinja_value ordered(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    const int order = jinja_order(r, a, b);
    const bool or_equal = op->text[1] == '=';
    if ((a.kind == JINJA_FLOAT && isnan(a.real)) || (b.kind == JINJA_FLOAT && isnan(b.real))) return jinja_bool(false);
    return jinja_bool(op->text[0] == '<' ? order < or_equal : order > -(int)or_equal);
}

static jinja_value in(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    (void)op;
    return jinja_bool(jinja_contains(r, b, a));
}

static jinja_value not_in(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    return jinja_bool(!jinja_true(in(r, op, a, b)));
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const jinja_operator operators[] = {
    {"+", sum, add_whole, add_real},
    {"-", arithmetic, subtract_whole, subtract_real},
    {"*", product, multiply_whole, multiply_real},
    {"/", division, NULL, NULL},
    {"//", division, divide_whole, divide_real},
    {"%", remainder_or_format, remain_whole, remain_real},
    {"**", power, NULL, NULL},
    {"==", equal, NULL, NULL},
    {"!=", unequal, NULL, NULL},
    {"<", ordered, NULL, NULL},
    {"<=", ordered, NULL, NULL},
    {">", ordered, NULL, NULL},
    {">=", ordered, NULL, NULL},
    {"in", in, NULL, NULL},
    {"not in", not_in, NULL, NULL},
};

const jinja_operator *jinja_find_operator(const char *text) {
    for (size_t i = 0; i < LS_COUNT(operators); i++)
        if (strcmp(text, operators[i].text) == 0) return &operators[i];
    return NULL;
}

jinja_value jinja_operate(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b) {
    return op->operate(r, op, a, b);
}
