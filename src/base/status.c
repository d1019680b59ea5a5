/* Errors: statuses with their messages, and the panic that ends the process on a broken invariant. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_MESSAGE = 6000 }; /* before it is cut: room for the longest path (4,096) and a sentence about it */

/* A message that is too long loses its middle: its start says what was done, and its end says why that failed. */
static ls_status make_status(ls_code code, const char *whole) {
    static const char gap[] = "...";
    ls_status status = {.code = code};
    const size_t length = strlen(whole), room = sizeof status.text, begin = room / 3;
    if (length < room) {
        memcpy(status.text, whole, length + 1);
    } else {
        const size_t end = room - begin - sizeof gap;
        memcpy(status.text, whole, begin);
        memcpy(status.text + begin, gap, sizeof gap - 1);
        memcpy(status.text + begin + sizeof gap - 1, whole + length - end, end + 1);
    }
    ls_printable_line(status.text);
    return status;
}

ls_status ls_error(ls_code code, const char *format, ...) {
    char whole[LONGEST_MESSAGE];
    va_list args;
    va_start(args, format);
    whole[0] = 0;
    if (format != NULL) ls_vprint(whole, sizeof whole, format, args);
    va_end(args);
    return make_status(code, whole);
}

ls_status ls_error_in(ls_status inner, const char *format, ...) {
    if (inner.code == LS_OK) return inner;
    char whole[LONGEST_MESSAGE];
    va_list args;
    va_start(args, format);
    whole[0] = 0;
    const int written = format != NULL ? ls_vprint(whole, sizeof whole, format, args) : 0;
    va_end(args);
    const size_t used = written < 0 ? 0 : written < LONGEST_MESSAGE ? (size_t)written : LONGEST_MESSAGE - 1;
    snprintf(whole + used, sizeof whole - used, ": %s", inner.text);
    return make_status(inner.code, whole);
}

int ls_severity(ls_code code) {
    if (code == LS_OK) return 0;
    if (code == LS_INTERRUPTED) return 1;
    return code == LS_PEER ? 2 : 3;
}

const char *ls_code_name(ls_code code) {
    static const char *const names[] = {
        [LS_OK] = "ok",
        [LS_USAGE] = "usage",
        [LS_INVALID] = "invalid",
        [LS_IO] = "io",
        [LS_NO_MEMORY] = "no_memory",
        [LS_UNSUPPORTED] = "unsupported",
        [LS_PEER] = "peer",
        [LS_INTERRUPTED] = "interrupted",
        [LS_DIVERGED] = "diverged",
        [LS_FAULT] = "fault",
    };
    const size_t i = (size_t)code;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}

void ls_panic(const char *file, int line, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    ls_vprint(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "longspan: %s:%d: %s (this is a fault of Longspan, not of your input)\n", file, line, text);
    abort();
}
