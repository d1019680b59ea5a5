/*
 * Cuts a template into tokens. The text between tags loses the white space that trim_blocks and lstrip_blocks remove.
 */
#include "jinja/characters.h"
#include "jinja/tree_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BRACKETS = 200 };

typedef struct lexer {
    ls_arena *arena;
    const char *file;
    jinja_text source;
    size_t at;
    int line;
    bool line_begins; /* the last character that was read is a newline */
    jinja_tokens *out;
} lexer;

static uint32_t code_at(const lexer *l, size_t at) { return at < l->source.n ? l->source.at[at] & JINJA_CODE : 0; }

static bool looks_at(const lexer *l, size_t at, const char *ascii) {
    for (; *ascii != 0; ascii++, at++)
        if (at >= l->source.n || code_at(l, at) != (unsigned char)*ascii) return false;
    return true;
}

static jinja_text part(const lexer *l, size_t from, size_t to) { return (jinja_text){l->source.at + from, to - from}; }

static size_t skip_space(const lexer *l, size_t at) {
    while (at < l->source.n && jinja_is_space(code_at(l, at))) at++;
    return at;
}

static ls_status wrong(const lexer *l, const char *what) {
    return ls_error(LS_INVALID, "%s:%d: %s", l->file, l->line, what);
}

static void add(lexer *l, jinja_token_kind kind, jinja_text text) {
    l->out->token[l->out->n++] = (jinja_token){.kind = kind, .line = l->line, .text = text};
}

static void advance(lexer *l, size_t to) {
    for (size_t i = l->at; i < to; i++) l->line += code_at(l, i) == '\n';
    l->line_begins = to > l->at ? code_at(l, to - 1) == '\n' : l->line_begins;
    l->at = to;
}

/* Makes all newlines \n and drops one newline at the end of the file, as Jinja does. */
static jinja_text with_plain_newlines(ls_arena *arena, jinja_text source) {
    jinja_char *chars = LS_NEW_ARRAY(arena, jinja_char, source.n);
    size_t n = 0;
    for (size_t i = 0; i < source.n; i++) {
        if (source.at[i] == '\r' && i + 1 < source.n && source.at[i + 1] == '\n') continue;
        chars[n++] = source.at[i] == '\r' ? '\n' : source.at[i];
    }
    if (n > 0 && chars[n - 1] == '\n') n--;
    return (jinja_text){chars, n};
}

/* --- between tags ------------------------------------------------------------------------------------------------- */

/*
 * The text before a tag whose opening has this sign. '-' strips all white space at its end. Otherwise a block or a
 * comment (not a print tag) that is the first thing on its line drops the white space before it; '+' keeps it.
 */
static jinja_text stripped(const lexer *l, size_t from, size_t to, uint32_t sign, bool print) {
    size_t end = to;
    while (end > from && jinja_is_space(code_at(l, end - 1)) && (sign == '-' || code_at(l, end - 1) != '\n')) end--;
    if (sign == '-') return part(l, from, end);
    if (sign == '+' || print) return part(l, from, to);
    const bool begins = end > from ? code_at(l, end - 1) == '\n' : l->line_begins;
    return part(l, from, begins ? end : to);
}

/*
 * Whether the block at `at` has this word alone, as in `{%- raw -%}`; *end is the index after it. trims: a newline
 * after %} belongs to it.
 */
static bool is_word_block(const lexer *l, size_t at, const char *word, bool trims, size_t *end) {
    if (!looks_at(l, at, "{%")) return false;
    at += 2;
    if (code_at(l, at) == '-' || code_at(l, at) == '+') at++;
    at = skip_space(l, at);
    if (!looks_at(l, at, word)) return false;
    at = skip_space(l, at + strlen(word));
    if (looks_at(l, at, "-%}"))
        *end = skip_space(l, at + 3);
    else if (looks_at(l, at, "%}"))
        *end = at + 2 + (trims && code_at(l, at + 2) == '\n');
    else if (trims && looks_at(l, at, "+%}"))
        *end = at + 3;
    else
        return false;
    return true;
}

static uint32_t sign_at(const lexer *l, size_t at) {
    const uint32_t code = code_at(l, at);
    return code == '-' || code == '+' ? code : 0;
}

static ls_status lex_raw(lexer *l, size_t begin) {
    advance(l, begin);
    for (size_t at = begin, end; at < l->source.n; at++) {
        if (!is_word_block(l, at, "endraw", true, &end)) continue;
        add(l, JINJA_T_DATA, stripped(l, begin, at, sign_at(l, at + 2), false));
        advance(l, end);
        return ls_ok();
    }
    return wrong(l, "raw has no endraw");
}

static ls_status lex_comment(lexer *l) {
    for (size_t at = l->at + 2; at < l->source.n; at++) {
        size_t end = 0;
        if (looks_at(l, at, "+#}")) end = at + 3;
        if (looks_at(l, at, "-#}")) end = skip_space(l, at + 3);
        if (looks_at(l, at, "#}")) end = at + 2 + (code_at(l, at + 2) == '\n');
        if (end == 0) continue;
        advance(l, end);
        return ls_ok();
    }
    return wrong(l, "a comment has no end");
}

/* --- inside tags -------------------------------------------------------------------------------------------------- */

static bool is_digit(uint32_t code) { return code >= '0' && code <= '9'; }

static int digit_value(uint32_t c) {
    return is_digit(c) ? (int)c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (int)(c | 32) - 'a' + 10 : 99;
}

/* The index after the digits of a base that begin at `at`. One _ may stand between two digits. */
static size_t skip_digits(const lexer *l, size_t at, int base) {
    while (digit_value(code_at(l, at)) < base ||
           (code_at(l, at) == '_' && at > 0 && digit_value(code_at(l, at - 1)) < base &&
            digit_value(code_at(l, at + 1)) < base))
        at++;
    return at;
}

/* The index after a fraction and an exponent at `at`; `at` itself when there is neither. */
static size_t skip_fraction(const lexer *l, size_t at) {
    if (code_at(l, at) == '.' && is_digit(code_at(l, at + 1))) at = skip_digits(l, at + 1, 10);
    if ((code_at(l, at) | 32) != 'e') return at;
    const size_t sign = at + 1 + (code_at(l, at + 1) == '-' || code_at(l, at + 1) == '+');
    return is_digit(code_at(l, sign)) ? skip_digits(l, sign, 10) : at;
}

/* The base that the number at `at` is written in. */
static int base_at(const lexer *l, size_t at) {
    static const struct {
        const char *begins;
        int base;
    } bases[] = {{"0x", 16}, {"0X", 16}, {"0o", 8}, {"0O", 8}, {"0b", 2}, {"0B", 2}};
    for (size_t i = 0; i < LS_COUNT(bases); i++)
        if (looks_at(l, at, bases[i].begins) && digit_value(code_at(l, at + 2)) < bases[i].base) return bases[i].base;
    return 10;
}

const char *jinja_number_of(jinja_text text, jinja_value *out) {
    const lexer l = {.source = text};
    const int base = base_at(&l, 0);
    const size_t from = base == 10 ? 0 : 2;
    const bool is_real = skip_digits(&l, from, base) < text.n;
    char digits[100];
    size_t n = 0;
    for (size_t i = from; i < text.n && n + 1 < sizeof digits; i++)
        if (code_at(&l, i) != '_') digits[n++] = (char)code_at(&l, i);
    digits[n] = 0;
    if (n + 1 == sizeof digits) return "a number of more than 98 digits";
    errno = 0;
    *out = is_real ? jinja_real(ls_real_of(digits, NULL)) : jinja_int(strtoll(digits, NULL, base));
    if (errno == ERANGE && !is_real) return "an integer of more than 64 bits";
    if (!is_real && base == 10 && digits[0] == '0' && strspn(digits, "0") != n) return "an integer that begins with 0";
    return NULL;
}

static ls_status lex_number(lexer *l) {
    const int base = base_at(l, l->at);
    jinja_value value;
    size_t end = skip_digits(l, l->at + (base == 10 ? 0 : 2), base);
    if (base == 10 && !(l->at > 0 && code_at(l, l->at - 1) == '.')) end = skip_fraction(l, end);
    const char *problem = jinja_number_of(part(l, l->at, end), &value);
    if (problem != NULL) return wrong(l, problem);
    add(l, JINJA_T_NUMBER, part(l, l->at, end));
    advance(l, end);
    return ls_ok();
}

/* Reads the digits of \x41, \u0041 or \U00000041. False: they are no code point. */
static bool read_hex(const lexer *l, size_t at, int digits, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < digits; i++) {
        const int value = digit_value(code_at(l, at + (size_t)i));
        if (value > 15) return false;
        *code = *code * 16 + (uint32_t)value;
    }
    return *code < 0x110000 && (*code < 0xd800 || *code > 0xdfff);
}

/*
 * Reads the escape after a backslash, *at, and appends its character, if any: an escaped newline has none. False:
 * Python has no such escape.
 */
static bool read_escape(const lexer *l, size_t *at, jinja_char *chars, size_t *n) {
    static const char plain[] = "\\'\"abfnrtv", meaning[] = "\\'\"\a\b\f\n\r\t\v";
    const uint32_t code = code_at(l, *at);
    uint32_t value = 0;
    const char *found = code > 0 && code < 128 ? strchr(plain, (int)code) : NULL;
    if (found != NULL) {
        chars[(*n)++] = (unsigned char)meaning[found - plain];
        *at += 1;
    } else if (code == '\n') {
        *at += 1;
    } else if (code == 'x' || code == 'u' || code == 'U') {
        const int digits = code == 'x' ? 2 : code == 'u' ? 4 : 8;
        if (!read_hex(l, *at + 1, digits, &value)) return false;
        chars[(*n)++] = value;
        *at += 1 + (size_t)digits;
    } else if (code >= '0' && code <= '7') {
        for (int i = 0; i < 3 && code_at(l, *at) >= '0' && code_at(l, *at) <= '7'; i++)
            value = value * 8 + code_at(l, (*at)++) - '0';
        chars[(*n)++] = value;
    } else if (code == 'N') {
        return false; /* \N{name} */
    } else {
        chars[(*n)++] = '\\';
    }
    return true;
}

static ls_status lex_string(lexer *l) {
    const uint32_t quote = code_at(l, l->at);
    size_t end = l->at + 1, n = 0;
    while (end < l->source.n && code_at(l, end) != quote) end += code_at(l, end) == '\\' ? 2 : 1;
    if (end >= l->source.n) return wrong(l, "a string has no end");
    jinja_char *chars = LS_NEW_ARRAY(l->arena, jinja_char, end - l->at);
    for (size_t at = l->at + 1; at < end;) {
        const uint32_t code = code_at(l, at++);
        if (code != '\\')
            chars[n++] = code;
        else if (!read_escape(l, &at, chars, &n))
            return wrong(l, "a string has an escape that Python does not know (\\N{name} is not supported)");
    }
    add(l, JINJA_T_STRING, (jinja_text){chars, n});
    advance(l, end + 1);
    return ls_ok();
}

static ls_status lex_operator(lexer *l, char *brackets, int *depth) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    static const char opening[] = "([{", closing[] = ")]}";
    for (size_t i = 0; i < LS_COUNT(operators); i++) {
        if (!looks_at(l, l->at, operators[i])) continue;
        const char first = operators[i][0];
        const char *opens = strchr(opening, first), *closes = strchr(closing, first);
        if (opens != NULL && *depth == MOST_BRACKETS) return wrong(l, "brackets are nested too deep");
        if (opens != NULL) brackets[(*depth)++] = closing[opens - opening];
        if (closes != NULL && (*depth == 0 || brackets[--*depth] != first))
            return ls_error(LS_INVALID, "%s:%d: unexpected '%c'", l->file, l->line, first);
        add(l, JINJA_T_OPERATOR, part(l, l->at, l->at + strlen(operators[i])));
        advance(l, l->at + strlen(operators[i]));
        return ls_ok();
    }
    char shown[40];
    return ls_error(LS_INVALID, "%s:%d: unexpected character '%s'", l->file, l->line,
                    jinja_printable(part(l, l->at, l->at + 1), shown, sizeof shown));
}

static ls_status lex_word(lexer *l) {
    size_t end = l->at;
    while (end < l->source.n && jinja_is_word(code_at(l, end))) end++;
    add(l, JINJA_T_NAME, part(l, l->at, end));
    advance(l, end);
    return ls_ok();
}

/* The index after the end of a tag and the white space that it trims; 0 when the tag does not end here. */
static size_t tag_end(const lexer *l, bool print) {
    const char *end = print ? "}}" : "%}";
    const uint32_t code = code_at(l, l->at);
    if (code == '-' && looks_at(l, l->at + 1, end)) return skip_space(l, l->at + 3);
    if (code == '+' && !print && looks_at(l, l->at + 1, end)) return l->at + 3;
    if (!looks_at(l, l->at, end)) return 0;
    return l->at + 2 + (!print && code_at(l, l->at + 2) == '\n');
}

static ls_status lex_tag(lexer *l, bool print) {
    char brackets[MOST_BRACKETS];
    int depth = 0;
    add(l, print ? JINJA_T_PRINT_BEGIN : JINJA_T_BLOCK_BEGIN, part(l, l->at, l->at + 2));
    advance(l, l->at + 2 + (sign_at(l, l->at + 2) != 0));
    while (l->at < l->source.n) {
        const size_t end = depth == 0 ? tag_end(l, print) : 0;
        const uint32_t code = code_at(l, l->at);
        if (end > 0) {
            add(l, print ? JINJA_T_PRINT_END : JINJA_T_BLOCK_END, part(l, l->at, l->at));
            advance(l, end);
            return ls_ok();
        }
        if (jinja_is_space(code))
            advance(l, skip_space(l, l->at));
        else if (is_digit(code))
            LS_TRY(lex_number(l));
        else if (jinja_is_word(code))
            LS_TRY(lex_word(l));
        else if (code == '\'' || code == '"')
            LS_TRY(lex_string(l));
        else
            LS_TRY(lex_operator(l, brackets, &depth));
    }
    return wrong(l, print ? "{{ has no }}" : "{% has no %}");
}

ls_status jinja_lex(ls_arena *arena, const char *file, jinja_text source, jinja_tokens *out) {
    lexer l = {.arena = arena, .file = file, .line = 1, .line_begins = true, .out = out};
    l.source = with_plain_newlines(arena, source);
    out->token =
        LS_NEW_ARRAY(arena, jinja_token, l.source.n + 1); /* a token has at least 1 character; the last is the end */
    for (size_t at = 0, end; at < l.source.n;) {
        const bool print = looks_at(&l, at, "{{"), comment = looks_at(&l, at, "{#");
        if (!print && !comment && !looks_at(&l, at, "{%")) {
            at++;
            continue;
        }
        const jinja_text data = stripped(&l, l.at, at, sign_at(&l, at + 2), print);
        if (data.n > 0) add(&l, JINJA_T_DATA, data);
        advance(&l, at);
        if (is_word_block(&l, at, "raw", false, &end))
            LS_TRY(lex_raw(&l, end));
        else if (comment)
            LS_TRY(lex_comment(&l));
        else
            LS_TRY(lex_tag(&l, print));
        at = l.at;
    }
    if (l.at < l.source.n) add(&l, JINJA_T_DATA, part(&l, l.at, l.source.n));
    add(&l, JINJA_T_END, (jinja_text){0});
    return ls_ok();
}
