/* Classes and cases of characters, as Python's str defines them. */
#ifndef LS_JINJA_CHARACTERS_H
#define LS_JINJA_CHARACTERS_H

#include "jinja/value.h"

/* `code` is a code point without marks. */
bool jinja_is_space(uint32_t code);     /* str.isspace */
bool jinja_is_word(uint32_t code);      /* \w of Python's re */
bool jinja_is_printable(uint32_t code); /* str.isprintable */
bool jinja_is_line_end(uint32_t code);  /* ends a line of str.splitlines; \r\n is one end */

jinja_text jinja_part(jinja_text text, size_t from, size_t to); /* text[from, to), not copied */

/* Character `at` of a text in another case: writes up to three characters with its marks and returns their number. */
typedef enum jinja_case { JINJA_LOWER, JINJA_UPPER, JINJA_TITLE } jinja_case;
int jinja_in_case(jinja_text text, size_t at, jinja_case to, jinja_char out[3]);
bool jinja_is_case(uint32_t code, jinja_case which); /* JINJA_TITLE: whether it has a case at all */
bool jinja_is_alphabetic(uint32_t code);             /* str.isalpha */
bool jinja_is_decimal(uint32_t code);                /* str.isdecimal */
bool jinja_is_digit(uint32_t code); /* str.isdigit, for decimal digits, superscripts and subscripts only */

#endif
