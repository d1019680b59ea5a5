/*
 * Oniguruma's regular expressions in PCRE2's words. The classes are written out, because the two do not agree on
 * them: \s is Unicode's White_Space, \w letters, marks, digits, connectors and what else is alphabetic, \d Nd.
 * A construct that is not known to mean the same in both is refused.
 */
#include "text/pattern.h"

#include <stdlib.h>
#include <string.h>

static const char space[] =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
static const char word[] =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
    "\\x{1f170}-\\x{1f189}";

typedef struct translation {
    ls_json_value where;
    const char *at;
    ls_text *out;
    bool in_class;
} translation;

static ls_status put(translation *t, const char *text, size_t bytes) {
    return ls_text_append(t->out, text, bytes) ? ls_ok() : ls_no_memory(bytes);
}

static ls_status put_text(translation *t, const char *text) { return put(t, text, strlen(text)); }

/* Copies n characters of the expression. */
static ls_status copy(translation *t, size_t n) {
    LS_TRY(put(t, t->at, n));
    t->at += n;
    return ls_ok();
}

static ls_status refuse(const translation *t, int n) {
    char shown[16];
    ls_utf8_printable(t->at, strnlen(t->at, (size_t)n), shown, sizeof shown);
    return ls_error(LS_UNSUPPORTED, "%s: %s holds \"%s\", which has no rule here for a regular expression",
                    t->where.file, t->where.path, shown);
}

/* Members of a class for what a property has gained since the Unicode of PCRE2. */
static ls_status put_later(translation *t, const char *name, size_t bytes) {
    return ls_pattern_later(name, bytes, t->out) ? ls_ok() : ls_no_memory(bytes);
}

/* \s and its like: the members, in brackets of their own where they are not in any. `later`: properties in them. */
static ls_status put_members(translation *t, const char *members, const char *later, bool negated) {
    if (t->in_class && negated) return refuse(t, 2);
    t->at += 2;
    if (!t->in_class) LS_TRY(put_text(t, negated ? "[^" : "["));
    LS_TRY(put_text(t, members));
    for (size_t n; *later; later += n + (later[n] != 0)) {
        n = strcspn(later, " ");
        LS_TRY(put_later(t, later, n));
    }
    return t->in_class ? ls_ok() : put_text(t, "]");
}

/* \p{L}, \P{Han}: names of more than two letters are scripts. Out of a class it becomes one, for the later members. */
static ls_status put_property(translation *t) {
    const char *name = t->at + 2;
    if (*name != '{') return refuse(t, 3);
    name++;
    const bool negated = (t->at[1] == 'P') != (*name == '^');
    if (*name == '^') name++;
    const size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
    if (length == 0 || name[length] != '}') return refuse(t, 12);
    if (!t->in_class) LS_TRY(put_text(t, negated ? "[^" : "["));
    LS_TRY(put_text(t, t->in_class && negated ? "\\P{" : "\\p{"));
    if (length > 2) LS_TRY(put_text(t, "sc:"));
    LS_TRY(put(t, name, length + 1));
    if (!t->in_class || !negated) LS_TRY(put_later(t, name, length));
    t->at = name + length + 1;
    return t->in_class ? ls_ok() : put_text(t, "]");
}

/* \x{2581}, \x41 (above 7f, Oniguruma takes it as a byte), \u2581. */
static ls_status put_number(translation *t) {
    static const char hex[] = "0123456789abcdefABCDEF";
    const char *digits = t->at + 2;
    const size_t n = strspn(digits, hex);
    if (t->at[1] == 'x' && *digits == '{') {
        const size_t inner = strspn(digits + 1, hex);
        return inner > 0 && inner <= 6 && digits[1 + inner] == '}' ? copy(t, inner + 4) : refuse(t, 10);
    }
    if (t->at[1] == 'x') return n >= 2 && digits[0] < '8' ? copy(t, 4) : refuse(t, 4);
    if (n < 4) return refuse(t, 6);
    LS_TRY(put_text(t, "\\x{"));
    LS_TRY(put(t, digits, 4));
    t->at += 6;
    return put_text(t, "}");
}

static ls_status put_escape(translation *t) {
    const char c = t->at[1];
    switch (c) {
    case 's':
        return put_members(t, space, "", false);
    case 'S':
        if (!t->in_class) return put_members(t, space, "", true);
        return copy(t, 2);
    case 'w':
        return put_members(t, word, "L M Nd Nl Pc", false);
    case 'W':
        return put_members(t, word, "L M Nd Nl Pc", true);
    case 'd':
        return put_members(t, "\\p{Nd}", "Nd", false);
    case 'D':
        if (!t->in_class) return put_members(t, "\\p{Nd}", "Nd", true);
        return copy(t, 2);
    case 'v':
        t->at += 2;
        return put_text(t, "\\x0b");
    case 'p':
    case 'P':
        return put_property(t);
    case 'x':
    case 'u':
        return put_number(t);
    case 'n':
    case 'r':
    case 't':
    case 'f':
    case 'a':
    case 'e':
        return copy(t, 2);
    case 'A':
    case 'z':
    case 'Z':
        return t->in_class ? refuse(t, 2) : copy(t, 2);
    default:
        break;
    }
    const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    return letter || (unsigned char)c >= 0x80 || c == 0 ? refuse(t, 2) : copy(t, 2);
}

/* "(?:", "(?i:", "(?=", "(?<!" and the like: groups that mean the same in both. */
static ls_status put_group(translation *t) {
    static const char *const known[] = {"(?:", "(?i:", "(?-i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (t->at[1] == '*') return refuse(t, 4);
    if (t->at[1] != '?') return copy(t, 1);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(t->at, known[i], strlen(known[i])) == 0) return copy(t, strlen(known[i]));
    return refuse(t, 4);
}

/* "{1,3}"; after it, "+" is another repetition to Oniguruma. */
static ls_status put_repetition(translation *t) {
    const char *end = t->at + 1 + strspn(t->at + 1, "0123456789,");
    if (*end != '}' || t->at[1] == ',' || end == t->at + 1) return refuse(t, 6);
    if (end[1] == '+') return refuse(t, (int)(end - t->at) + 2);
    return copy(t, (size_t)(end - t->at) + 1);
}

static ls_status put_in_class(translation *t) {
    if (*t->at == '[' || strncmp(t->at, "&&", 2) == 0) return refuse(t, 2);
    if (*t->at == ']') t->in_class = false;
    return copy(t, 1);
}

static ls_status open_class(translation *t) {
    t->in_class = true;
    LS_TRY(copy(t, t->at[1] == '^' ? 2 : 1));
    return *t->at == ']' ? refuse(t, 1) : ls_ok();
}

ls_status ls_pattern_translate(ls_json_value where, const char *regex, ls_text *out) {
    translation t = {.where = where, .at = regex, .out = out};
    while (*t.at) {
        const char c = *t.at;
        ls_status (*const rule)(translation *) = c == '\\'    ? put_escape
                                                 : t.in_class ? put_in_class
                                                 : c == '['   ? open_class
                                                 : c == '('   ? put_group
                                                 : c == '{'   ? put_repetition
                                                              : NULL;
        LS_TRY(rule ? rule(&t) : copy(&t, 1));
    }
    return ls_ok();
}
