/* Formatting: `text % values`, text.format(values), dates. */
#include "jinja/run_impl.h"
#include "text/text.h"

#include <string.h>

/* --- text % values ------------------------------------------------------------------------------------------------ */

/*
 * One conversion of a format: %[flags][width][.precision]conversion. `text` is its beginning in C's format, up to the
 * precision. A width or precision of more than MOST_PLACES would exceed the buffers.
 */
enum { MOST_PLACES = 500, LONGEST_NUMBER = 1000 };
typedef struct conversion {
    char text[40];
    size_t n;
    uint32_t letter;
} conversion;

static bool read_conversion(jinja_text text, size_t *at, conversion *out) {
    int places = 0;
    *out = (conversion){.text = "%", .n = 1};
    for (; *at < text.n; ++*at) {
        const uint32_t code = text.at[*at] & JINJA_CODE;
        if (code > 127 || code == 0 || strchr("-+ #0.123456789", (int)code) == NULL) break;
        places = code >= '0' && code <= '9' ? 10 * places + (int)code - '0' : 0;
        if (out->n > 20 || places > MOST_PLACES) return false;
        out->text[out->n++] = (char)code;
    }
    if (*at == text.n) return false;
    out->letter = text.at[(*at)++] & JINJA_CODE;
    return true;
}

static void put_real(jinja_run *r, jinja_buffer *b, conversion *f, jinja_value value) {
    char text[LONGEST_NUMBER];
    if (!jinja_is_number(value)) {
        jinja_fail(r, LS_INVALID, "%%%c of a %s, expected a number", (char)f->letter, jinja_type_name(value));
        return;
    }
    f->text[f->n] = (char)f->letter;
    f->text[f->n + 1] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    ls_print(text, sizeof text, f->text, jinja_as_real(value));
#pragma GCC diagnostic pop
    jinja_put_ascii(r, b, text);
}

static void put_whole(jinja_run *r, jinja_buffer *b, conversion *f, jinja_value value) {
    char text[LONGEST_NUMBER];
    if (!jinja_is_number(value) || jinja_as_real(value) >= 0x1p63 || jinja_as_real(value) < -0x1p63) {
        jinja_fail(r, LS_INVALID, "%%%c of a %s, expected a number", (char)f->letter, jinja_type_name(value));
        return;
    }
    const long long whole = value.kind == JINJA_FLOAT ? (long long)value.real
                            : value.kind == JINJA_INT ? (long long)value.integer
                                                      : value.truth;
    if (f->letter != 'd' && f->letter != 'i' && whole < 0) {
        jinja_fail(r, LS_UNSUPPORTED, "%%%c of a negative number is not supported", (char)f->letter);
        return;
    }
    snprintf(f->text + f->n, sizeof f->text - f->n, "ll%c", (char)f->letter);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    ls_print(text, sizeof text, f->text, whole);
#pragma GCC diagnostic pop
    jinja_put_ascii(r, b, text);
}

static void put_text(jinja_run *r, jinja_buffer *b, conversion *f, jinja_value value) {
    jinja_buffer repr = {0};
    if (f->n > 1) {
        jinja_fail(r, LS_UNSUPPORTED, "%%%c with a width is not supported", (char)f->letter);
        return;
    }
    if (f->letter == 'r') jinja_put_repr(r, &repr, value);
    jinja_put(r, b, f->letter == 'r' ? jinja_buffer_value(&repr).text : jinja_to_text(r, value));
}

static const struct {
    char letter;
    void (*put)(jinja_run *r, jinja_buffer *b, conversion *f, jinja_value value);
} conversions[] = {
    {'s', put_text},  {'r', put_text},  {'d', put_whole}, {'i', put_whole}, {'x', put_whole},
    {'X', put_whole}, {'o', put_whole}, {'f', put_real},  {'F', put_real},  {'e', put_real},
    {'E', put_real},  {'g', put_real},  {'G', put_real},
};

static void put_conversion(jinja_run *r, jinja_buffer *b, conversion *f, const jinja_arguments *values, size_t *next) {
    for (size_t i = 0; i < LS_COUNT(conversions); i++) {
        if (f->letter != (unsigned char)conversions[i].letter) continue;
        if (*next == values->n)
            jinja_fail(r, LS_INVALID, "a format has more conversions than its %zu values", values->n);
        else
            conversions[i].put(r, b, f, values->value[(*next)++]);
        return;
    }
    jinja_fail(r, LS_UNSUPPORTED,
               "a format with other conversions than %%s, %%r, %%d, %%x, %%f, %%e, %%g is not supported");
}

jinja_value jinja_format(jinja_run *r, jinja_text text, const jinja_arguments *values) {
    jinja_buffer b = {0};
    size_t next = 0;
    conversion f;
    for (size_t i = 0; i < text.n && !r->failed;) {
        const jinja_char c = text.at[i++];
        if ((c & JINJA_CODE) != '%')
            jinja_put_char(r, &b, c);
        else if (!read_conversion(text, &i, &f))
            jinja_fail(r, LS_INVALID,
                       "a format has an incomplete or unknown conversion after %%, or one of more than %d places",
                       MOST_PLACES);
        else if (f.letter == '%')
            jinja_put_char(r, &b, '%');
        else
            put_conversion(r, &b, &f, values, &next);
    }
    if (next < values->n && !r->failed) return jinja_fail(r, LS_INVALID, "a format has fewer conversions than values");
    return jinja_buffer_value(&b);
}

/* --- text.format(values) ------------------------------------------------------------------------------------------ */

/* The value of a field {}, {1} or {name}. Fields with an attribute or a format are not supported. */
static jinja_value value_at(jinja_run *r, jinja_text field, const jinja_arguments *values, size_t *next) {
    size_t at = 0;
    bool digits = true;
    for (size_t i = 0; i < field.n; i++) {
        const uint32_t code = field.at[i] & JINJA_CODE;
        if (!jinja_is_word(code))
            return jinja_fail(r, LS_UNSUPPORTED, "format with other fields than {}, {1}, {name} is not supported");
        digits &= code >= '0' && code <= '9' && i < 6;
        if (digits) at = at * 10 + code - '0';
    }
    if (field.n > 0 && !digits) {
        const jinja_value *named = jinja_find_key(r, &values->named, jinja_of_text(field));
        return named != NULL ? *named : jinja_fail(r, LS_INVALID, "format lacks a value");
    }
    if (field.n == 0) at = (*next)++;
    return at < values->n ? values->value[at] : jinja_fail(r, LS_INVALID, "format lacks a value");
}

jinja_value jinja_format_braces(jinja_run *r, jinja_text text, const jinja_arguments *values) {
    jinja_buffer b = {0};
    size_t next = 0;
    for (size_t i = 0; i < text.n && !r->failed; i++) {
        const uint32_t code = text.at[i] & JINJA_CODE, behind = i + 1 < text.n ? text.at[i + 1] & JINJA_CODE : 0;
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

/* --- dates -------------------------------------------------------------------------------------------------------- */

/* As strftime; names are English. */
jinja_value jinja_strftime(jinja_run *r, jinja_text text) {
    char utf8[400], out[2000];
    size_t n = 0;
    for (size_t i = 0; i < text.n && n + 4 < sizeof utf8; i++)
        n += (size_t)ls_utf8_encode(text.at[i] & JINJA_CODE, utf8 + n);
    utf8[n] = 0;
    if (r->failed || n == 0) return jinja_of_text((jinja_text){0});
    if (n + 4 >= sizeof utf8)
        return jinja_fail(r, LS_INVALID, "the format of a date has %zu bytes or more, which is too long", n);
    const size_t length = ls_print_date(out, sizeof out, utf8, &r->options->today);
    return jinja_of_text(jinja_text_of_utf8(r->arena, out, length, 0));
}
