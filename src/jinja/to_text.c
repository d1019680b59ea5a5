/* Values as text, as Python's str() and repr() write them. */
#include "jinja/run_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/*
 * The fewest digits that read back as the same number, which is above 0: digits d.ddd times 10 to the power *exponent.
 */
static void shortest(double real, char digits[20], int *exponent) {
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        ls_print(text, sizeof text, "%.*e", precision, real);
        if (ls_real_of(text, NULL) == real) break;
    }
    size_t n = 0;
    const char *c = text;
    for (; *c != 'e'; c++)
        if (*c != '.') digits[n++] = *c;
    *exponent = atoi(c + 1);
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
}

const char *jinja_real_repr(double real, char out[40]) {
    char digits[20];
    int exponent = 0;
    const char *sign = signbit(real) ? "-" : "";
    if (isnan(real)) return "nan";
    if (isinf(real)) return real < 0 ? "-inf" : "inf";
    if (real == 0) return signbit(real) ? "-0.0" : "0.0";
    shortest(fabs(real), digits, &exponent);
    const int n = (int)strlen(digits);
    if (exponent < -4 || exponent >= 16)
        snprintf(out, 40, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    else if (exponent < 0)
        snprintf(out, 40, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    else if (n <= exponent + 1)
        snprintf(out, 40, "%s%s%.*s.0", sign, digits, exponent + 1 - n, "0000000000000000");
    else
        snprintf(out, 40, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
    return out;
}

void jinja_put_number(jinja_run *r, jinja_buffer *b, jinja_value value) {
    char text[40];
    if (value.kind == JINJA_FLOAT) {
        jinja_put_ascii(r, b, jinja_real_repr(value.real, text));
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)value.integer);
    jinja_put_ascii(r, b, value.kind == JINJA_INT ? text : value.truth ? "True" : "False");
}

/* --- repr --------------------------------------------------------------------------------------------------------- */

static void put_escaped(jinja_run *r, jinja_buffer *b, uint32_t code) {
    char text[16];
    snprintf(text, sizeof text, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    jinja_put_ascii(r, b, text);
}

static void put_quoted(jinja_run *r, jinja_buffer *b, jinja_text text) {
    bool single = false, both = false;
    for (size_t i = 0; i < text.n; i++) {
        single |= (text.at[i] & JINJA_CODE) == '\'';
        both |= (text.at[i] & JINJA_CODE) == '"';
    }
    const uint32_t quote = single && !both ? '"' : '\'';
    jinja_put_char(r, b, quote);
    for (size_t i = 0; i < text.n && !r->failed; i++) {
        const uint32_t code = text.at[i] & JINJA_CODE;
        if (code == '\n' || code == '\r' || code == '\t') {
            jinja_put_ascii(r, b, code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t");
        } else if (!jinja_is_printable(code)) {
            put_escaped(r, b, code);
        } else {
            if (code == quote || code == '\\') jinja_put_char(r, b, '\\');
            jinja_put_char(r, b, text.at[i]);
        }
    }
    jinja_put_char(r, b, quote);
}

static void put_items(jinja_run *r, jinja_buffer *b, const char *begin, const jinja_list *list, const char *end) {
    jinja_put_ascii(r, b, begin);
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++) {
        if (i > 0) jinja_put_ascii(r, b, ", ");
        jinja_put_repr(r, b, list->item[i]);
    }
    jinja_put_ascii(r, b, end);
}

static void put_dict(jinja_run *r, jinja_buffer *b, const jinja_dict *dict) {
    jinja_put_ascii(r, b, "{");
    for (size_t i = 0; i < dict->n && jinja_step(r, 1); i++) {
        if (i > 0) jinja_put_ascii(r, b, ", ");
        jinja_put_repr(r, b, dict->pair[i].key);
        jinja_put_ascii(r, b, ": ");
        jinja_put_repr(r, b, dict->pair[i].value);
    }
    jinja_put_ascii(r, b, "}");
}

static void put_range(jinja_run *r, jinja_buffer *b, const jinja_list *list) {
    char text[100];
    const int64_t first = list->n > 0 ? list->item[0].integer : 0;
    const int64_t step = list->n > 1 ? list->item[1].integer - first : 1;
    if (step != 1) { /* Python prints the end as written, which the items do not show */
        jinja_fail(r, LS_UNSUPPORTED, "printing a range with a step is not supported");
        return;
    }
    snprintf(text, sizeof text, "range(%lld, %lld)", (long long)first, (long long)first + (long long)list->n);
    jinja_put_ascii(r, b, text);
}

void jinja_put_repr(jinja_run *r, jinja_buffer *b, jinja_value v) {
    switch (v.kind) {
    case JINJA_UNDEFINED:
        jinja_put_ascii(r, b, "Undefined");
        break;
    case JINJA_NONE:
        jinja_put_ascii(r, b, "None");
        break;
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        jinja_put_number(r, b, v);
        break;
    case JINJA_TEXT:
        put_quoted(r, b, v.text);
        break;
    case JINJA_LIST:
        put_items(r, b, "[", v.list, "]");
        break;
    case JINJA_TUPLE:
        put_items(r, b, "(", v.list, v.list->n == 1 ? ",)" : ")");
        break;
    case JINJA_RANGE:
        put_range(r, b, v.list);
        break;
    case JINJA_VIEW:
        jinja_put_ascii(r, b, v.list->shown);
        put_items(r, b, "([", v.list, "])");
        break;
    case JINJA_DICT:
        put_dict(r, b, v.dict);
        break;
    default:
        jinja_fail(r, LS_UNSUPPORTED, "printing a %s is not supported", jinja_type_name(v));
    }
}

jinja_text jinja_to_text(jinja_run *r, jinja_value value) {
    jinja_buffer b = {0};
    if (value.kind == JINJA_TEXT) return value.text;
    if (value.kind != JINJA_UNDEFINED) jinja_put_repr(r, &b, value);
    return jinja_buffer_value(&b).text;
}
