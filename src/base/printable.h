/*
 * What may reach a terminal of texts that others wrote (files, names, model output): no control characters, which could move the cursor, change the
 * window's title or answer in the user's name; no marks that reorder a line; no bytes that are not UTF-8. Every message and every page
 * that holds such a text goes through here.
 */
#ifndef LS_BASE_PRINTABLE_H
#define LS_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

#include "longspan/status.h"

/* Bytes of the character that text[0, bytes) begins with; 0: it is none, or not to be printed. Newline and tab are not. */
size_t ls_printable_at(const char *text, size_t bytes);

/* Puts '?' in the place of each byte that is not to be printed, so that a message is one line. */
void ls_printable_line(char *text);

/* Prints a line by printf's rules, made printable, with a newline behind it. */
void ls_print_line(FILE *out, const char *format, ...) LS_PRINTF(2, 3);

#endif
