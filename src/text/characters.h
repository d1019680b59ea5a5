/* Classes, categories and cases of characters. The reference library is the Python package `tokenizers`. */
#ifndef LS_TEXT_CHARACTERS_H
#define LS_TEXT_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

/* Classes as the reference library has them. */
bool ls_is_space(uint32_t code);       /* White_Space */
bool ls_is_number(uint32_t code);      /* Nd, Nl, No */
bool ls_is_word(uint32_t code);        /* alphabetic, marks, decimal digits, connectors, the two joiners */
bool ls_is_punctuation(uint32_t code); /* category P, and the other punctuation of ASCII */

/*
 * Whether a character came after Unicode 9 and utf8proc's normal forms change it: those of the reference library do
 * not.
 */
bool ls_is_after_unicode_9(uint32_t code);

/* The lower case of one character. U+0130 becomes two characters; for all others out[1] is 0. */
void ls_lower_case(uint32_t code, uint32_t out[2]);

/* The upper and title case as in Python's str: writes up to three characters and returns their number. */
int ls_upper_case(uint32_t code, uint32_t out[3]);
int ls_title_case(uint32_t code, uint32_t out[3]);

/* The general category, two letters: "Lu", "Nd", "Cn" ... */
const char *ls_category(uint32_t code);

#endif
