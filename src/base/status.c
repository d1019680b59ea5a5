#include "longspan/status.h"

#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer than a path and what is said of it. */
enum { WHOLE = 6000 };

/* What has no room is left out of the middle: a message begins with what was done and ends with the reason. */
static ls_status status_of(ls_code code, const char *whole) {
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
    char whole[WHOLE];
    va_list args;
    va_start(args, format);
    whole[0] = 0;
    if (format != NULL) vsnprintf(whole, sizeof whole, format, args);
    va_end(args);
    return status_of(code, whole);
}

ls_status ls_error_in(ls_status inner, const char *format, ...) {
    if (inner.code == LS_OK) return inner;
    char whole[WHOLE];
    va_list args;
    va_start(args, format);
    whole[0] = 0;
    const int written = format != NULL ? vsnprintf(whole, sizeof whole, format, args) : 0;
    va_end(args);
    const size_t used = written < 0 ? 0 : written < WHOLE ? (size_t)written : WHOLE - 1;
    snprintf(whole + used, sizeof whole - used, ": %s", inner.text);
    return status_of(inner.code, whole);
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
    };
    const size_t i = (size_t)code;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown";
}
