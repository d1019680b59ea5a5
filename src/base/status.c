#include "longspan/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * Bytes of the character at `at`; 0 where it is none to print: a control character (C1 are two bytes), a mark that reorders a line,
 * or no UTF-8.
 */
static size_t printable(const unsigned char *at) {
    static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000};
    if (at[0] < 0x80) return at[0] >= 32 && at[0] != 127;
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    const size_t n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    uint32_t code = at[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0; /* the text's end too */
        code = code << 6 | (at[i] & 0x3f);
    }
    const bool reorders = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return code >= least[n] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) && !reorders ? n : 0;
}

/* A message is one line of UTF-8: names and values from outside may hold line breaks and other control characters, or be cut. */
static void keep_one_line(char *text) {
    for (size_t n; *text; text += n) {
        n = printable((const unsigned char *)text);
        if (n > 0) continue;
        *text = '?';
        n = 1;
    }
}

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
    keep_one_line(status.text);
    return status;
}

ls_status ls_error(ls_code code, const char *format, ...) {
    char whole[WHOLE];
    va_list args;
    va_start(args, format);
    vsnprintf(whole, sizeof whole, format != NULL ? format : "", args);
    va_end(args);
    return status_of(code, whole);
}

ls_status ls_error_in(ls_status inner, const char *format, ...) {
    if (inner.code == LS_OK) return inner;
    char whole[WHOLE];
    va_list args;
    va_start(args, format);
    const int written = vsnprintf(whole, sizeof whole, format != NULL ? format : "", args);
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
