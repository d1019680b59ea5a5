/*
 * Rewrites Oniguruma's regular expressions for PCRE2. The two disagree on classes, so these are written out: \s is
 * Unicode's White_Space; \w letters, marks, digits, connectors and other alphabetic characters; \d category Nd. A
 * construct that is not known to mean the same in both is refused.
 */
#include "base/base.h"
#include "text/pattern_impl.h"
#include "text/pattern_tables_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

static const char space[] =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"
static const char word[] = WORD;
/* Outside of brackets, \w of the library has ² ³ ¹ ¼ ½ ¾ too */
static const char word_alone[] = WORD "\\xb2\\xb3\\xb9\\xbc-\\xbe";

/* --- names in \p{...}, and characters whose class differs between PCRE2 and the library (pattern_tables_impl.h) --- */

/* What \p{...} names: a category or a script. name NULL: an unknown name. */
typedef struct property {
    const char *name;
    bool script;
} property;

/* Whether names are equal apart from case and _. */
static bool same_name(const char *known, const char *name, size_t bytes) {
    for (size_t i = 0;; known++) {
        while (*known == '_') known++;
        while (i < bytes && name[i] == '_') i++;
        if (i == bytes || *known == 0) return i == bytes && *known == 0;
        if (strncasecmp(known, name + i++, 1) != 0) return false;
    }
}

static const char *known_among(const char *const *known, size_t n, const char *name, size_t bytes) {
    for (size_t i = 0; i < n; i++)
        if (same_name(known[i], name, bytes)) return known[i];
    return NULL;
}

static property find_property(const char *name, size_t bytes) {
    const char *category = known_among(categories, LS_COUNT(categories), name, bytes);
    if (category) return (property){category, false};
    return (property){known_among(scripts, LS_COUNT(scripts), name, bytes), true};
}

/* Whether a row of the table is about a class. Rows of added characters for "Lu" are about "L" too. */
static bool concerns(const char *row, bool gone, const char *name) {
    return strcmp(row, name) == 0 || (!gone && name[1] == 0 && row[0] == name[0] && row[2 - (row[1] == 0)] == 0);
}

/*
 * Appends, as members of a class in brackets, the characters that the library's class has and PCRE2's has not; gone:
 * the other way round.
 */
static bool append_differences(const char *name, bool gone, ls_text *out) {
    bool room = true;
    for (size_t i = 0; i < LS_COUNT(differences) && room; i++) {
        char range[32];
        if (differences[i].gone != gone || !concerns(differences[i].name, gone, name)) continue;
        const int n = snprintf(range, sizeof range, "\\x{%x}-\\x{%x}", differences[i].first, differences[i].last);
        room = ls_text_append(out, range, (size_t)n);
    }
    return room;
}

/* ---- translation ---- */

/*
 * The class in brackets that is being read. `members` go into one pair of brackets for PCRE2. `others` are alternatives
 * to that pair, each with a | before it: a class without some of its characters, which PCRE2 cannot express inside
 * brackets.
 */
typedef struct bracket {
    bool open, negated;
    ls_text members, others;
} bracket;

typedef struct translation {
    ls_json_value where;
    const char *at;
    ls_text *out;
    bracket in;
    int depth;    /* number of open groups */
    int caseless; /* the depth of the group from which on matching is caseless; 0: none */
} translation;

static ls_status append(ls_text *out, const char *text, size_t bytes) {
    return ls_text_append(out, text, bytes) ? ls_ok() : ls_no_memory(bytes);
}

static ls_status append_text(ls_text *out, const char *text) { return append(out, text, strlen(text)); }

static ls_status put(translation *t, const char *text, size_t bytes) {
    return append(t->in.open ? &t->in.members : t->out, text, bytes);
}

static ls_status put_text(translation *t, const char *text) { return put(t, text, strlen(text)); }

/* Copies n bytes of the expression. */
static ls_status copy(translation *t, size_t n) {
    LS_TRY(put(t, t->at, n));
    t->at += n;
    return ls_ok();
}

static ls_status refuse(const translation *t, int n) {
    char shown[16];
    ls_utf8_printable(t->at, strnlen(t->at, (size_t)n), shown, sizeof shown);
    return ls_error(LS_UNSUPPORTED, "%s: %s has \"%s\", which is not supported in a regular expression", t->where.file,
                    t->where.path, shown);
}

/* A class of the library: PCRE2's class `base`, the characters that it has in addition, and those that it lacks. */
typedef struct members {
    const char *base;
    ls_text more, gone;
} members;

/* Appends "[...]" with base and more; open is "[" or "[^". */
static ls_status append_brackets(ls_text *out, const char *open, const members *m) {
    LS_TRY(append_text(out, open));
    LS_TRY(append_text(out, m->base));
    LS_TRY(append(out, m->more.byte, m->more.count));
    return append_text(out, "]");
}

/*
 * Appends an expression for one character of the class: in base or more, and not in gone; negated: any other character.
 */
static ls_status append_alternatives(ls_text *out, const members *m, bool negated) {
    LS_TRY(append_text(out, negated ? "[" : "(?!["));
    LS_TRY(append(out, m->gone.byte, m->gone.count));
    LS_TRY(append_text(out, negated ? "]|" : "])"));
    return append_brackets(out, negated ? "[^" : "[", m);
}

/* Writes a class outside of brackets. */
static ls_status put_alone(translation *t, const members *m, bool negated) {
    if (m->gone.count == 0) return append_brackets(t->out, negated ? "[^" : "[", m);
    LS_TRY(put_text(t, "(?>"));
    LS_TRY(append_alternatives(t->out, m, negated));
    return put_text(t, ")");
}

/* Writes a class inside brackets. */
static ls_status put_inside(translation *t, const members *m, bool negated) {
    if (!negated && m->gone.count == 0) {
        LS_TRY(put_text(t, m->base));
        return put(t, m->more.byte, m->more.count);
    }
    LS_TRY(append_text(&t->in.others, "|"));
    if (m->gone.count == 0) return append_brackets(&t->in.others, "[^", m);
    return append_alternatives(&t->in.others, m, negated);
}

/* name: the rows of differences that apply; NULL: none. */
static ls_status put_class(translation *t, const char *base, const char *name, bool negated) {
    members m = {.base = base};
    ls_status status = ls_ok();
    if (name && (!append_differences(name, false, &m.more) || !append_differences(name, true, &m.gone)))
        status = ls_no_memory(0);
    if (status.code == LS_OK) status = t->in.open ? put_inside(t, &m, negated) : put_alone(t, &m, negated);
    free(m.more.byte);
    free(m.gone.byte);
    return status;
}

/* \p{L}, \P{Han}, \p{^L}. */
static ls_status put_property(translation *t) {
    enum { LONGEST = 64 };
    const char *name = t->at + 2;
    char base[LONGEST];
    if (*name != '{') return refuse(t, 3);
    name++;
    const bool negated = (t->at[1] == 'P') != (*name == '^');
    if (*name == '^') name++;
    const size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
    if (length == 0 || name[length] != '}') return refuse(t, 12);
    const property class = find_property(name, length);
    if (!class.name || (t->in.open && t->caseless > 0))
        return refuse(t, 12); /* in a caseless bracket, the library includes the other cases too */
    snprintf(base, sizeof base, class.script ? "\\p{sc:%s}" : "\\p{%s}", class.name);
    t->at = name + length + 1;
    return put_class(t, base, class.name, negated);
}

/* A class of one letter: \w, \d, \s ... */
static ls_status put_short(translation *t, const char *base, const char *name, bool negated) {
    t->at += 2;
    return put_class(t, base, name, negated);
}

/* \x{2581}, \x41, \u2581. \x80 and above are refused: they are bytes to Oniguruma. */
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
    case 'S':
        return put_short(t, space, NULL, c == 'S');
    case 'w':
    case 'W':
        return put_short(t, t->in.open ? word : word_alone, "w", c == 'W');
    case 'd':
    case 'D':
        return put_short(t, "\\p{Nd}", "Nd", c == 'D');
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
        return t->in.open ? refuse(t, 2) : copy(t, 2);
    default:
        break;
    }
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    return alphanumeric || (unsigned char)c >= 0x80 || c == 0 ? refuse(t, 2) : copy(t, 2);
}

/* Groups that mean the same in both: "(?:", "(?i:", "(?=", "(?<!" ... */
static ls_status put_group(translation *t) {
    static const char *const known[] = {"(?:", "(?i:", "(?-i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (t->at[1] == '*') return refuse(t, 4);
    t->depth++;
    if (t->at[1] != '?') return copy(t, 1);
    if (t->caseless == 0 && t->at[2] == 'i') t->caseless = t->depth;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(t->at, known[i], strlen(known[i])) == 0) return copy(t, strlen(known[i]));
    return refuse(t, 4);
}

static ls_status end_group(translation *t) {
    if (t->depth == t->caseless) t->caseless = 0;
    t->depth--;
    return copy(t, 1);
}

/*
 * Whether a caseless match means different things: the library matches "ss" with the one character whose case folds to
 * it, and the other way round; PCRE2 does not.
 */
static bool folds_to_several(const char *at) {
    static const char *const pairs[] = {"ss", "ff", "fi", "fl", "st"};
    utf8proc_int32_t parts[4];
    uint32_t code;
    int last = 0;
    for (size_t i = 0; i < LS_COUNT(pairs); i++)
        if (strncasecmp(at, pairs[i], 2) == 0) return true;
    return ls_utf8_decode(at, strnlen(at, 4), &code) > 1 &&
           utf8proc_decompose_char((utf8proc_int32_t)code, parts, LS_COUNT(parts), UTF8PROC_CASEFOLD, &last) != 1;
}

static ls_status put_plain(translation *t) {
    return t->caseless > 0 && folds_to_several(t->at) ? refuse(t, 2) : copy(t, 1);
}

/* "{1,3}". A "+" after it is refused: to Oniguruma it is another repetition. */
static ls_status put_repetition(translation *t) {
    const char *end = t->at + 1 + strspn(t->at + 1, "0123456789,");
    if (*end != '}' || t->at[1] == ',' || end == t->at + 1) return refuse(t, 6);
    if (end[1] == '+') return refuse(t, (int)(end - t->at) + 2);
    return copy(t, (size_t)(end - t->at) + 1);
}

/*
 * Ends "[...]". An atomic group holds the alternatives: each matches one character, so there is nothing to backtrack
 * to.
 */
static ls_status close_class(translation *t) {
    bracket *in = &t->in;
    const bool plain = in->others.count == 0;
    in->open = false;
    t->at++;
    if (!plain) LS_TRY(put_text(t, in->negated ? "(?>(?!" : "(?>"));
    if (in->members.count > 0) {
        LS_TRY(put_text(t, plain && in->negated ? "[^" : "["));
        LS_TRY(put(t, in->members.byte, in->members.count));
        LS_TRY(put_text(t, "]"));
    }
    if (plain) return ls_ok();
    const size_t bar = in->members.count == 0;
    LS_TRY(put(t, in->others.byte + bar, in->others.count - bar));
    return put_text(t, in->negated ? ")(?s:.))" : ")");
}

static ls_status put_in_class(translation *t) {
    if (*t->at == '[' || strncmp(t->at, "&&", 2) == 0) return refuse(t, 2);
    return *t->at == ']' ? close_class(t) : put_plain(t);
}

static ls_status open_class(translation *t) {
    t->in.open = true;
    t->in.negated = t->at[1] == '^';
    t->in.members.count = t->in.others.count = 0;
    t->at += t->in.negated ? 2 : 1;
    return *t->at == ']' ? refuse(t, 1) : ls_ok();
}

static ls_status translate(translation *t) {
    while (*t->at) {
        const char c = *t->at;
        ls_status (*const rule)(translation *) = c == '\\'    ? put_escape
                                                 : t->in.open ? put_in_class
                                                 : c == '['   ? open_class
                                                 : c == '('   ? put_group
                                                 : c == ')'   ? end_group
                                                 : c == '{'   ? put_repetition
                                                              : put_plain;
        LS_TRY(rule(t));
    }
    if (!t->in.open) return ls_ok();
    t->in.open = false; /* PCRE2 reports the missing ] */
    LS_TRY(put_text(t, "["));
    return put(t, t->in.members.byte, t->in.members.count);
}

ls_status ls_pattern_translate(ls_json_value where, const char *regex, ls_text *out) {
    translation t = {.where = where, .at = regex, .out = out};
    const ls_status status = translate(&t);
    free(t.in.members.byte);
    free(t.in.others.byte);
    return status;
}
