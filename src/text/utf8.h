/* Texts in UTF-8; base/utf8.h has the characters. */
#ifndef LS_TEXT_UTF8_H
#define LS_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Decodes the last character of a text; 0 for an empty text too. */
int ls_utf8_last(const char *text, size_t bytes, uint32_t *code);
/* Whether a string has this character. */
bool ls_utf8_holds(const char *text, uint32_t code);

/* Length of the longest valid prefix; `bytes` when the whole text is valid. */
size_t ls_utf8_valid_prefix(const char *text, size_t bytes);

/*
 * Copies a text for printing on a terminal: wrong bytes and control characters (except newline and tab) become U+FFFD.
 * Writes whole characters of at most room - 1 bytes, and a 0 byte; returns the number of bytes without the 0. room >=
 * 1; 3 * bytes + 1 is always enough.
 */
size_t ls_utf8_printable(const char *text, size_t bytes, char *out, size_t room);

#endif
