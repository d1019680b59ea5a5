#include "base/base.h"

#include <locale.h>
#include <stdlib.h>

/* The locales of this thread: the C locale, and the one before it. */
typedef struct locales {
    locale_t plain, before;
} locales;

static locales enter(void) {
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* needs no memory in glibc and musl */
    LS_ASSERT(plain != (locale_t)0);
    return (locales){plain, uselocale(plain)};
}

static void leave(locales l) {
    uselocale(l.before);
    freelocale(l.plain);
}

int ls_vprint(char *out, size_t room, const char *format, va_list values) {
    const locales l = enter();
    const int written = vsnprintf(out, room, format, values);
    leave(l);
    return written;
}

char *ls_vprint_new(const char *format, va_list values) {
    const locales l = enter();
    char *text = NULL;
    const int written = vasprintf(&text, format, values);
    leave(l);
    return written < 0 ? NULL : text;
}

int ls_print(char *out, size_t room, const char *format, ...) {
    va_list values;
    va_start(values, format);
    const int written = ls_vprint(out, room, format, values);
    va_end(values);
    return written;
}

int ls_vprint_to(FILE *out, const char *format, va_list values) {
    const locales l = enter();
    const int written = vfprintf(out, format, values);
    leave(l);
    return written;
}

int ls_print_to(FILE *out, const char *format, ...) {
    va_list values;
    va_start(values, format);
    const int written = ls_vprint_to(out, format, values);
    va_end(values);
    return written;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
size_t ls_print_date(char *out, size_t room, const char *format, const struct tm *date) {
    const locales l = enter();
    const size_t written = strftime(out, room, format, date);
    leave(l);
    return written;
}
#pragma GCC diagnostic pop

double ls_real_of(const char *text, char **end) {
    const locales l = enter();
    const double value = strtod(text, end);
    leave(l);
    return value;
}
