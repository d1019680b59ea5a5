/* text: what characters are, as the reference library has it (character_tables.h). */
#ifndef LS_TEXT_CHARACTERS_H
#define LS_TEXT_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

bool ls_is_space(uint32_t code);       /* White_Space */
bool ls_is_number(uint32_t code);      /* Nd, Nl, No */
bool ls_is_word(uint32_t code);        /* alphabetic, marks, decimal digits, connectors, the two joiners */
bool ls_is_punctuation(uint32_t code); /* P, and what ASCII has besides */

/* Whether normal forms leave it alone because it came after their Unicode (later.c). */
bool ls_is_later(uint32_t code);

/* Lower case by itself; U+0130 alone becomes two characters, out[1] is 0 for the others. */
void ls_lower_case(uint32_t code, uint32_t out[2]);

/* Upper and title case: up to three characters, by letter_cases.c; their number. */
int ls_upper_case(uint32_t code, uint32_t out[3]);
int ls_title_case(uint32_t code, uint32_t out[3]);

/* The general category: 'L', 'M', 'N', 'P', 'S', 'Z' or 'C', and its second letter ("Lu", "Nd", "Cn"). */
const char *ls_category(uint32_t code);

/* The UTF-8 of a character; its length. */
int ls_utf8_encode(uint32_t code, char out[4]);

#endif
