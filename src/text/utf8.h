/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef LS_TEXT_UTF8_H
#define LS_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes the character at the start of text[0, bytes): its length 1..4, or 0 when the bytes are not one
 * (wrong, or cut short). *code is set only when the length is not 0 (code may be NULL).
 */
int ls_utf8_decode(const char *text, size_t bytes, uint32_t *code);

/* The same for the last character; 0 of no text. */
int ls_utf8_last(const char *text, size_t bytes, uint32_t *code);
/* Whether a text that ends with a 0 has this character. */
bool ls_utf8_holds(const char *text, uint32_t code);

/* Bytes of the longest valid prefix: equal to `bytes` when the whole is valid. */
size_t ls_utf8_valid_prefix(const char *text, size_t bytes);

/*
 * A copy that is safe to print on a terminal: wrong bytes and control characters (but for newline and tab)
 * become U+FFFD. Writes at most room - 1 bytes and a 0 byte, never half a character; returns the bytes
 * written without the 0. room >= 1. 3 * bytes + 1 is always room enough.
 */
size_t ls_utf8_printable(const char *text, size_t bytes, char *out, size_t room);

#endif
