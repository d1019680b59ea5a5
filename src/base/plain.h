/*
 * Numbers and dates as text in the C locale, with a point before the decimals. A program that uses the library may have
 * set another locale, in which snprintf writes a comma and strtod expects one. Everything but plain.c reads and prints
 * real numbers by these functions only (tools/check-words.py checks it).
 */
#ifndef LS_BASE_PLAIN_H
#define LS_BASE_PLAIN_H

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "longspan/status.h"

/* As snprintf, vsnprintf, fprintf, strtod and strftime (with English names). */
int ls_print(char *out, size_t room, const char *format, ...) LS_PRINTF(3, 4);
int ls_vprint(char *out, size_t room, const char *format, va_list values);
char *ls_vprint_new(const char *format, va_list values); /* as vasprintf; the caller frees it; NULL: no memory */
int ls_vprint_to(FILE *out, const char *format, va_list values);
int ls_print_to(FILE *out, const char *format, ...) LS_PRINTF(2, 3);
size_t ls_print_date(char *out, size_t room, const char *format, const struct tm *date);
double ls_real_of(const char *text, char **end);

#endif
