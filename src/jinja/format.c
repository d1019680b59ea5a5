/* Texts made by a form: `text % values`, and dates. */
#include "jinja/run_impl.h"
#include "text/text.h"

#include <string.h>

/* --- text % values ---------------------------------------------------------------------------------------------------------- */

/* %[flags][width][.precision]conversion, as C has it but for the conversion. */
typedef struct form {
    char text[40];
    size_t n;
    uint32_t conversion;
} form;

static bool read_form(jinja_text text, size_t *at, form *out) {
    *out = (form){.text = "%", .n = 1};
    for (; *at < text.n; ++*at) {
        const uint32_t code = text.at[*at] & JINJA_CODE;
        if (code > 127 || code == 0 || strchr("-+ #0.123456789", (int)code) == NULL) break;
        if (out->n > 8) return false; /* a width of few digits */
        out->text[out->n++] = (char)code;
    }
    if (*at == text.n) return false;
    out->conversion = text.at[(*at)++] & JINJA_CODE;
    return true;
}

static void put_real(jinja_run *r, jinja_buffer *b, form *f, jinja_value value) {
    char text[600];
    if (!jinja_is_number(value)) {
        jinja_fail(r, LS_INVALID, "%%%c of a %s", (char)f->conversion, jinja_type_name(value));
        return;
    }
    f->text[f->n] = (char)f->conversion;
    f->text[f->n + 1] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, f->text, jinja_as_real(value));
#pragma GCC diagnostic pop
    jinja_put_ascii(r, b, text);
}

static void put_whole(jinja_run *r, jinja_buffer *b, form *f, jinja_value value) {
    char text[600];
    if (!jinja_is_number(value) || jinja_as_real(value) >= 0x1p63 || jinja_as_real(value) < -0x1p63) {
        jinja_fail(r, LS_INVALID, "%%%c of a %s", (char)f->conversion, jinja_type_name(value));
        return;
    }
    const long long whole = value.kind == JINJA_FLOAT ? (long long)value.real
                            : value.kind == JINJA_INT ? (long long)value.integer
                                                      : value.truth;
    if (f->conversion != 'd' && f->conversion != 'i' && whole < 0) {
        jinja_fail(r, LS_UNSUPPORTED, "%%%c of a negative number is not supported", (char)f->conversion);
        return;
    }
    snprintf(f->text + f->n, sizeof f->text - f->n, "ll%c", (char)f->conversion);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, f->text, whole);
#pragma GCC diagnostic pop
    jinja_put_ascii(r, b, text);
}

static void put_text(jinja_run *r, jinja_buffer *b, form *f, jinja_value value) {
    jinja_buffer repr = {0};
    if (f->n > 1) {
        jinja_fail(r, LS_UNSUPPORTED, "%%%c with a width is not supported", (char)f->conversion);
        return;
    }
    if (f->conversion == 'r') jinja_put_repr(r, &repr, value);
    jinja_put(r, b, f->conversion == 'r' ? jinja_buffer_value(&repr).text : jinja_to_text(r, value));
}

static const struct {
    char conversion;
    void (*put)(jinja_run *r, jinja_buffer *b, form *f, jinja_value value);
} forms[] = {
    {'s', put_text},  {'r', put_text},  {'d', put_whole}, {'i', put_whole}, {'x', put_whole},
    {'X', put_whole}, {'o', put_whole}, {'f', put_real},  {'F', put_real},  {'e', put_real},
    {'E', put_real},  {'g', put_real},  {'G', put_real},
};

static void put_form(jinja_run *r, jinja_buffer *b, form *f, const jinja_arguments *values, size_t *next) {
    for (size_t i = 0; i < LS_COUNT(forms); i++) {
        if (f->conversion != (unsigned char)forms[i].conversion) continue;
        if (*next == values->n)
            jinja_fail(r, LS_INVALID, "a form with more places than its %zu values", values->n);
        else
            forms[i].put(r, b, f, values->value[(*next)++]);
        return;
    }
    jinja_fail(r, LS_UNSUPPORTED,
               "a form with other places than %%s, %%r, %%d, %%x, %%f, %%e, %%g is not supported");
}

jinja_value jinja_format(jinja_run *r, jinja_text text, const jinja_arguments *values) {
    jinja_buffer b = {0};
    size_t next = 0;
    form f;
    for (size_t i = 0; i < text.n && !r->failed;) {
        const jinja_char c = text.at[i++];
        if ((c & JINJA_CODE) != '%')
            jinja_put_char(r, &b, c);
        else if (!read_form(text, &i, &f))
            jinja_fail(r, LS_INVALID, "a form that is none of Python's behind %%");
        else if (f.conversion == '%')
            jinja_put_char(r, &b, '%');
        else
            put_form(r, &b, &f, values, &next);
    }
    if (next < values->n && !r->failed)
        return jinja_fail(r, LS_INVALID, "a form with fewer places than its values");
    return jinja_buffer_value(&b);
}

/* --- text.format(values) ---------------------------------------------------------------------------------------------------- */

/* The value of {}, {1} or {name}; a place that says more (an attribute, a form of numbers) has no rule. */
static jinja_value value_at(jinja_run *r, jinja_text place, const jinja_arguments *values, size_t *next) {
    size_t at = 0;
    bool digits = true;
    for (size_t i = 0; i < place.n; i++) {
        const uint32_t code = place.at[i] & JINJA_CODE;
        if (!jinja_is_word(code))
            return jinja_fail(r, LS_UNSUPPORTED,
                              "format with other places than {}, {1}, {name} is not supported");
        digits &= code >= '0' && code <= '9' && i < 6;
        if (digits) at = at * 10 + code - '0';
    }
    if (place.n > 0 && !digits) {
        const jinja_value *named = jinja_dict_find(&values->named, jinja_of_text(place));
        return named != NULL ? *named : jinja_fail(r, LS_INVALID, "format lacks a value");
    }
    if (place.n == 0) at = (*next)++;
    return at < values->n ? values->value[at] : jinja_fail(r, LS_INVALID, "format lacks a value");
}

jinja_value jinja_format_braces(jinja_run *r, jinja_text text, const jinja_arguments *values) {
    jinja_buffer b = {0};
    size_t next = 0;
    for (size_t i = 0; i < text.n && !r->failed; i++) {
        const uint32_t code = text.at[i] & JINJA_CODE,
                       behind = i + 1 < text.n ? text.at[i + 1] & JINJA_CODE : 0;
        if ((code == '{' || code == '}') && behind == code) {
            jinja_put_char(r, &b, text.at[i++]);
        } else if (code == '{') {
            size_t end = i + 1;
            while (end < text.n && (text.at[end] & JINJA_CODE) != '}') end++;
            if (end == text.n) return jinja_fail(r, LS_INVALID, "format has a { without a }");
            const jinja_value value = value_at(r, jinja_part(text, i + 1, end), values, &next);
            if (!r->failed) jinja_put(r, &b, jinja_to_text(r, value));
            i = end;
        } else if (code == '}') {
            return jinja_fail(r, LS_INVALID, "format has a } without a {");
        } else {
            jinja_put_char(r, &b, text.at[i]);
        }
    }
    return jinja_buffer_value(&b);
}

/* --- dates ------------------------------------------------------------------------------------------------------------------ */

/* English names whatever the locale is. */
jinja_value jinja_strftime(jinja_run *r, jinja_text text) {
    char utf8[400], out[2000];
    size_t n = 0;
    for (size_t i = 0; i < text.n && n + 4 < sizeof utf8; i++)
        n += (size_t)ls_utf8_encode(text.at[i] & JINJA_CODE, utf8 + n);
    utf8[n] = 0;
    if (r->failed || n == 0) return jinja_of_text((jinja_text){0});
    if (n + 4 >= sizeof utf8)
        return jinja_fail(r, LS_INVALID, "the form of a date is longer than %zu bytes", n);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t length = strftime(out, sizeof out, utf8, &r->options->today);
#pragma GCC diagnostic pop
    return jinja_of_text(jinja_text_of_utf8(r->arena, out, length, 0));
}
