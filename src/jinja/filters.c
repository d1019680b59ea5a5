/* Filters of texts and numbers, as `x | trim`: a table has one row for each. Filters of lists are in filters_list.c. */
#include "jinja/run_impl.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t int_or(jinja_run *r, jinja_value v, int64_t other, const char *what) {
    return jinja_given(v) ? jinja_need_int(r, v, what) : other;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static jinja_value filter_trim(JINJA_ARGUMENTS) {
    const jinja_text text = jinja_to_text(r, of);
    if (!jinja_given(arg[0])) return jinja_of_text(jinja_strip(r, text, NULL, JINJA_BOTH));
    const jinja_text drop = jinja_need_text(r, arg[0], "the argument of trim");
    return jinja_of_text(jinja_strip(r, text, &drop, JINJA_BOTH));
}

static jinja_value filter_upper(JINJA_ARGUMENTS) { return jinja_text_in_case(r, jinja_to_text(r, of), JINJA_UPPER); }
static jinja_value filter_lower(JINJA_ARGUMENTS) { return jinja_text_in_case(r, jinja_to_text(r, of), JINJA_LOWER); }
static jinja_value filter_capitalize(JINJA_ARGUMENTS) { return jinja_capitalized(r, jinja_to_text(r, of)); }
static jinja_value filter_center(JINJA_ARGUMENTS) {
    return jinja_centered(r, jinja_to_text(r, of), jinja_given(arg[0]) ? arg[0] : jinja_int(80));
}

/* Jinja's own rule, not str.title: a word begins after white space and after - ( { [ <. */
static jinja_value filter_title(JINJA_ARGUMENTS) {
    const jinja_text text = jinja_to_text(r, of);
    jinja_buffer b = {0};
    bool begins = true;
    for (size_t i = 0; i < text.n && !r->failed; i++) {
        jinja_char chars[3];
        const uint32_t code = text.at[i] & JINJA_CODE;
        const bool parts = jinja_is_space(code) || (code < 128 && code > 0 && strchr("-({[<", (int)code) != NULL);
        const int n = jinja_in_case(text, i, begins ? JINJA_UPPER : JINJA_LOWER, chars);
        for (int k = 0; k < n; k++) jinja_put_char(r, &b, chars[k]);
        begins = parts;
    }
    return jinja_buffer_value(&b);
}

static jinja_value filter_string(JINJA_ARGUMENTS) { return jinja_of_text(jinja_to_text(r, of)); }

static jinja_value filter_replace(JINJA_ARGUMENTS) {
    const int64_t most = int_or(r, arg[2], -1, "the count of replace");
    const jinja_text text = jinja_to_text(r, of), old = jinja_to_text(r, arg[0]), new = jinja_to_text(r, arg[1]);
    return r->failed ? of : jinja_replaced(r, text, old, new, most);
}

static jinja_value filter_indent(JINJA_ARGUMENTS) {
    const jinja_text text = jinja_need_text(r, of, "the operand of indent");
    const bool first = jinja_true(arg[1]), blank = jinja_true(arg[2]);
    jinja_buffer spaces = {0}, all_lines = {0}, b = {0};
    if (arg[0].kind == JINJA_TEXT)
        jinja_put(r, &spaces, arg[0].text);
    else
        for (int64_t i = int_or(r, arg[0], 4, "a width"); i > 0 && !r->failed; i--) jinja_put_char(r, &spaces, ' ');
    jinja_put(r, &all_lines, text);
    jinja_put_char(r, &all_lines, '\n');
    if (r->failed) return of;
    const jinja_text indent = jinja_buffer_value(&spaces).text;
    const jinja_list *lines = jinja_lines(r, jinja_buffer_value(&all_lines).text, false);
    for (size_t i = 0; i < lines->n && !r->failed; i++) {
        if (i > 0) jinja_put_char(r, &b, '\n');
        if (i == 0 ? first : blank || lines->item[i].text.n > 0) jinja_put(r, &b, indent);
        jinja_put(r, &b, lines->item[i].text);
    }
    return jinja_buffer_value(&b);
}

static jinja_value filter_truncate(JINJA_ARGUMENTS) {
    if (of.kind == JINJA_UNDEFINED) return of;
    const jinja_text text = jinja_need_text(r, of, "the operand of truncate");
    const jinja_text end =
        jinja_given(arg[2]) ? jinja_need_text(r, arg[2], "the end of truncate") : jinja_text_of_ascii(r->arena, "...");
    const int64_t length = int_or(r, arg[0], 255, "the length of truncate"),
                  leeway = int_or(r, arg[3], 5, "the leeway of truncate");
    jinja_buffer b = {0};
    if (length < (int64_t)end.n || leeway < 0)
        return jinja_fail(r, LS_INVALID, "truncate to %lld characters, which are fewer than those of its end",
                          (long long)length);
    if ((int64_t)text.n - leeway <= length) return of;
    jinja_text kept = jinja_part(text, 0, (size_t)length - end.n);
    const jinja_char space = ' ';
    const size_t last = jinja_find_last(r, kept, (jinja_text){&space, 1}, 0, kept.n);
    if (!jinja_true(arg[1]) && last != SIZE_MAX) kept.n = last;
    jinja_put(r, &b, kept);
    jinja_put(r, &b, end);
    return jinja_buffer_value(&b);
}

static jinja_value filter_wordcount(JINJA_ARGUMENTS) {
    const jinja_text text = jinja_to_text(r, of);
    int64_t words = 0;
    bool inside = false;
    jinja_step_text(r, text.n);
    for (size_t i = 0; i < text.n && !r->failed; i++) {
        const bool word = jinja_is_word(text.at[i] & JINJA_CODE);
        words += word && !inside;
        inside = word;
    }
    return jinja_int(words);
}

static jinja_value filter_format(JINJA_ARGUMENTS) {
    if (all->named.n > 0) return jinja_fail(r, LS_UNSUPPORTED, "filter format with names is not supported");
    return jinja_format(r, jinja_to_text(r, of), all);
}

static jinja_value filter_safe(JINJA_ARGUMENTS) {
    jinja_value text = jinja_of_text(jinja_to_text(r, of));
    text.safe = true;
    return text;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/*
 * Copies a number that Python's int() or float() would read into a string that strtod reads: white space around it and
 * _ between digits are dropped. False: it is no number in ASCII.
 */
static bool number_text(jinja_run *r, jinja_text text, char out[400]) {
    const jinja_text stripped = jinja_strip(r, text, NULL, JINJA_BOTH);
    size_t n = 0;
    for (size_t i = 0; i < stripped.n; i++) {
        const uint32_t c = stripped.at[i] & JINJA_CODE, next = i + 1 < stripped.n ? stripped.at[i + 1] & JINJA_CODE : 0;
        if (c == '_' && n > 0 && out[n - 1] >= '0' && out[n - 1] <= '9' && next >= '0' && next <= '9') continue;
        if (c >= 127 || c == 'x' || c == 'X' || c == 'p' || c == 'P' || c == '(' || n + 1 == 400) return false;
        out[n++] = (char)c;
    }
    out[n] = 0;
    return n > 0;
}

static bool read_real(jinja_run *r, jinja_text text, double *out) {
    char digits[400], *end;
    if (!number_text(r, text, digits)) return false;
    *out = ls_real_of(digits, &end);
    return *end == 0;
}

static jinja_value whole(jinja_run *r, double real, jinja_value other) {
    if (isnan(real) || isinf(real)) return other;
    if (real >= 0x1p63 || real < -0x1p63) return jinja_fail(r, LS_UNSUPPORTED, "an integer of more than 64 bits");
    return jinja_int((int64_t)real);
}

static bool is_whole_text(const char *digits) {
    if (*digits == '-' || *digits == '+') digits++;
    return *digits != 0 && strspn(digits, "0123456789") == strlen(digits);
}

static jinja_value filter_int(JINJA_ARGUMENTS) {
    const jinja_value other = arg[0].kind == JINJA_MISSING ? jinja_int(0) : arg[0];
    char digits[400];
    double real;
    if (jinja_given(arg[1]) && jinja_need_int(r, arg[1], "a base") != 10)
        return jinja_fail(r, LS_UNSUPPORTED, "filter int with another base than 10 is not supported");
    if (of.kind == JINJA_INT || of.kind == JINJA_BOOL) return jinja_int(of.kind == JINJA_INT ? of.integer : of.truth);
    if (of.kind == JINJA_FLOAT) return whole(r, of.real, other);
    if (of.kind == JINJA_UNDEFINED)
        return jinja_fail(r, LS_INVALID, "filter int of an undefined value, expected a number or a text");
    if (of.kind != JINJA_TEXT) return other;
    if (number_text(r, of.text, digits) && is_whole_text(digits)) {
        if (strlen(digits) > 18 && strlen(digits + strspn(digits, "+-0")) > 18)
            return jinja_fail(r, LS_UNSUPPORTED, "an integer of more than 18 digits");
        return jinja_int(strtoll(digits, NULL, 10));
    }
    return read_real(r, of.text, &real) ? whole(r, real, other) : other;
}

static jinja_value filter_float(JINJA_ARGUMENTS) {
    double real;
    if (jinja_is_number(of)) return jinja_real(jinja_as_real(of));
    if (of.kind == JINJA_UNDEFINED)
        return jinja_fail(r, LS_INVALID, "filter float of an undefined value, expected a number or a text");
    if (of.kind == JINJA_TEXT && read_real(r, of.text, &real)) return jinja_real(real);
    return arg[0].kind == JINJA_MISSING ? jinja_real(0) : arg[0];
}

static jinja_value filter_abs(JINJA_ARGUMENTS) {
    if (of.kind == JINJA_FLOAT) return jinja_real(fabs(of.real));
    if (!jinja_is_number(of)) return jinja_fail(r, LS_INVALID, "abs of a %s, expected a number", jinja_type_name(of));
    const int64_t i = of.kind == JINJA_INT ? of.integer : of.truth;
    return i == INT64_MIN ? jinja_fail(r, LS_UNSUPPORTED, "an integer of more than 64 bits")
                          : jinja_int(i < 0 ? -i : i);
}

static jinja_value round_down_or_up(jinja_run *r, jinja_value of, int64_t precision, bool up) {
    const double scale = pow(10, (double)precision), scaled = jinja_as_real(of) * scale;
    const double rounded = up ? ceil(scaled) : floor(scaled);
    return fabs(scaled) < 0x1p53
               ? jinja_real(rounded / scale)
               : jinja_fail(r, LS_UNSUPPORTED,
                            "round by ceil or floor is not supported for numbers from 2 to the power 53 on");
}

static jinja_value filter_round(JINJA_ARGUMENTS) {
    const int64_t precision = int_or(r, arg[0], 0, "the digits of round");
    char digits[500];
    if (!jinja_is_number(of)) return jinja_fail(r, LS_INVALID, "round of a %s, expected a number", jinja_type_name(of));
    if (precision < 0 || precision > 100)
        return jinja_fail(r, LS_UNSUPPORTED, "round to %lld digits is not supported", (long long)precision);
    const jinja_text method = jinja_given(arg[1]) ? jinja_need_text(r, arg[1], "the method of round")
                                                  : jinja_text_of_ascii(r->arena, "common");
    if (jinja_is(method, "ceil")) return round_down_or_up(r, of, precision, true);
    if (jinja_is(method, "floor")) return round_down_or_up(r, of, precision, false);
    if (!jinja_is(method, "common"))
        return jinja_fail(r, LS_INVALID, "the method of round is unknown, expected common, ceil or floor");
    if (of.kind != JINJA_FLOAT) return jinja_int(of.kind == JINJA_INT ? of.integer : of.truth);
    /* Rounds the exact value, halves to even */
    ls_print(digits, sizeof digits, "%.*f", (int)precision, of.real);
    return jinja_real(ls_real_of(digits, NULL));
}

static jinja_value filter_default(JINJA_ARGUMENTS) {
    const bool takes = of.kind == JINJA_UNDEFINED || (jinja_true(arg[1]) && !jinja_true(of));
    if (!takes) return of;
    return arg[0].kind == JINJA_MISSING ? jinja_of_text((jinja_text){0}) : arg[0];
}

static jinja_value filter_length(JINJA_ARGUMENTS) { return jinja_int(jinja_length(r, of)); }

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const jinja_function filters[] = {
    {"trim", filter_trim, 0, {"chars"}, false},
    {"upper", filter_upper, 0, {NULL}, false},
    {"lower", filter_lower, 0, {NULL}, false},
    {"capitalize", filter_capitalize, 0, {NULL}, false},
    {"title", filter_title, 0, {NULL}, false},
    {"center", filter_center, 0, {"width"}, false},
    {"string", filter_string, 0, {NULL}, false},
    {"replace", filter_replace, 2, {"old", "new", "count"}, false},
    {"indent", filter_indent, 0, {"width", "first", "blank"}, false},
    {"truncate", filter_truncate, 0, {"length", "killwords", "end", "leeway"}, false},
    {"wordcount", filter_wordcount, 0, {NULL}, false},
    {"format", filter_format, 0, {NULL}, true},
    {"safe", filter_safe, 0, {NULL}, false},
    {"tojson", jinja_to_json, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}, false},
    {"int", filter_int, 0, {"default", "base"}, false},
    {"float", filter_float, 0, {"default"}, false},
    {"abs", filter_abs, 0, {NULL}, false},
    {"round", filter_round, 0, {"precision", "method"}, false},
    {"default", filter_default, 0, {"default_value", "boolean"}, false},
    {"d", filter_default, 0, {"default_value", "boolean"}, false},
    {"length", filter_length, 0, {NULL}, false},
    {"count", filter_length, 0, {NULL}, false},
};

const jinja_function *jinja_find_filter(jinja_text name) {
    for (size_t i = 0; i < LS_COUNT(filters); i++)
        if (jinja_is(name, filters[i].name)) return &filters[i];
    return jinja_find_list_filter(name);
}
