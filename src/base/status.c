#include "longspan/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line: names and values from outside may hold line breaks and other control characters. */
static void keep_one_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127) *text = '?';
}

ls_status ls_error(ls_code code, const char *format, ...) {
    ls_status status;
    status.code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(status.text, sizeof status.text, format, args);
    va_end(args);
    keep_one_line(status.text);
    return status;
}

ls_status ls_error_in(ls_status inner, const char *format, ...) {
    if (inner.code == LS_OK) return inner;
    ls_status status;
    status.code = inner.code;
    va_list args;
    va_start(args, format);
    const int written = vsnprintf(status.text, sizeof status.text, format, args);
    va_end(args);
    const size_t used = written < 0 ? 0 : (size_t)written;
    if (used < sizeof status.text)
        snprintf(status.text + used, sizeof status.text - used, ": %s", inner.text);
    keep_one_line(status.text);
    return status;
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
