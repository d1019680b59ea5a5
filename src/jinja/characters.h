/* Letters as Python's str knows them, with Unicode's tables. */
#ifndef LS_JINJA_CHARACTERS_H
#define LS_JINJA_CHARACTERS_H

#include "jinja/value.h"

/* Of code points, without marks. */
bool jinja_is_space(uint32_t code);     /* str.isspace */
bool jinja_is_word(uint32_t code);      /* \w */
bool jinja_is_printable(uint32_t code); /* str.isprintable */
bool jinja_is_line_end(uint32_t code);  /* of str.splitlines; \r\n is one end */

/* Where `part` first stands in text[from, to), or last; SIZE_MAX: nowhere. */
size_t jinja_find(jinja_text text, jinja_text part, size_t from, size_t to);
size_t jinja_find_last(jinja_text text, jinja_text part, size_t from, size_t to);

typedef enum jinja_side { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 } jinja_side;
/* Without the letters of `drop` at these ends; drop NULL: white space. */
jinja_text jinja_strip(jinja_text text, const jinja_text *drop, jinja_side side);
jinja_text jinja_part(jinja_text text, size_t from, size_t to);

/* A letter in another case, which may be up to three; their number. Marks stay. */
typedef enum jinja_case { JINJA_LOWER, JINJA_UPPER, JINJA_TITLE } jinja_case;
int jinja_in_case(jinja_text text, size_t at, jinja_case to, jinja_char out[3]);
bool jinja_is_case(uint32_t code, jinja_case which); /* such a letter; JINJA_TITLE: a letter with any case */
bool jinja_is_alphabetic(uint32_t code);             /* str.isalpha, of one character */
bool jinja_is_decimal(uint32_t code);                /* str.isdecimal */
bool jinja_is_digit(uint32_t code); /* str.isdigit, as far as decimal digits and superscripts go */

#endif
