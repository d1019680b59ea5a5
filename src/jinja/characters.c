#include "jinja/characters.h"
#include "text/text.h"

#include <string.h>

/* --- classes ------------------------------------------------------------------------------------------------------ */

bool jinja_is_space(uint32_t code) { return ls_is_space(code) || (code >= 0x1c && code <= 0x1f); }

bool jinja_is_alphabetic(uint32_t code) { return ls_category(code)[0] == 'L'; }

bool jinja_is_decimal(uint32_t code) { return strcmp(ls_category(code), "Nd") == 0; }

bool jinja_is_digit(uint32_t code) {
    return jinja_is_decimal(code) || code == 0xb2 || code == 0xb3 || code == 0xb9 || code == 0x2070 ||
           (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089);
}

bool jinja_is_word(uint32_t code) {
    const char kind = ls_category(code)[0];
    return kind == 'L' || kind == 'N' || code == '_';
}

bool jinja_is_printable(uint32_t code) {
    const char kind = ls_category(code)[0];
    return code == ' ' || (kind != 'C' && kind != 'Z');
}

bool jinja_is_line_end(uint32_t code) {
    return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
           code == 0x2029;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

jinja_text jinja_part(jinja_text text, size_t from, size_t to) {
    /* Text.at may be NULL */
    return (jinja_text){from > 0 ? text.at + from : text.at, to > from ? to - from : 0};
}

static uint32_t code_of(jinja_text text, size_t i) { return text.at[i] & JINJA_CODE; }

/* --- cases -------------------------------------------------------------------------------------------------------- */

bool jinja_is_case(uint32_t code, jinja_case which) {
    const char *category = ls_category(code);
    if (category[0] != 'L') return false;
    if (which == JINJA_TITLE) return category[1] == 'l' || category[1] == 'u' || category[1] == 't';
    return category[1] == (which == JINJA_LOWER ? 'l' : 'u');
}

/* Unicode's Case_Ignorable: characters that may stand within a word. */
static bool is_ignorable(uint32_t code) {
    const char *c = ls_category(code);
    return strcmp(c, "Mn") == 0 || strcmp(c, "Me") == 0 || strcmp(c, "Cf") == 0 || strcmp(c, "Lm") == 0 ||
           strcmp(c, "Sk") == 0 || code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x2019;
}

/* Whether the character ends a word: a capital sigma there has another lower case. */
static bool ends_word(jinja_text text, size_t at) {
    size_t before = at, after = at + 1;
    while (before > 0 && is_ignorable(code_of(text, before - 1))) before--;
    while (after < text.n && is_ignorable(code_of(text, after))) after++;
    return before > 0 && jinja_is_case(code_of(text, before - 1), JINJA_TITLE) &&
           !(after < text.n && jinja_is_case(code_of(text, after), JINJA_TITLE));
}

int jinja_in_case(jinja_text text, size_t at, jinja_case to, jinja_char out[3]) {
    const uint32_t code = code_of(text, at), marks = text.at[at] & ~JINJA_CODE;
    int n = 1;
    if (to == JINJA_UPPER) {
        n = ls_upper_case(code, out);
    } else if (to == JINJA_TITLE) {
        n = ls_title_case(code, out);
    } else if (code == 0x3a3) {
        out[0] = ends_word(text, at) ? 0x3c2 : 0x3c3;
    } else {
        ls_lower_case(code, out);
        n = out[1] != 0 ? 2 : 1;
    }
    for (int i = 0; i < n; i++) out[i] |= marks;
    return n;
}
