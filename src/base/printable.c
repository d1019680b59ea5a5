#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* C0, DEL and C1, and the marks that reorder a line. */
static bool is_printed(uint32_t code) {
    return code >= 0x20 && (code < 0x7f || code >= 0xa0) && !(code >= 0x202a && code <= 0x202e) &&
           !(code >= 0x2066 && code <= 0x2069);
}

size_t ls_printable_at(const char *text, size_t bytes) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (bytes == 0) return 0;
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) return is_printed(at[0]);
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    const size_t n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (bytes < n) return 0;
    uint32_t code = at[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    return code >= least[n] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) && is_printed(code) ? n
                                                                                                        : 0;
}

void ls_printable_line(char *text) {
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        n = ls_printable_at(text, left);
        if (n > 0) continue;
        *text = '?';
        n = 1;
    }
}

void ls_print_line(FILE *out, const char *format, ...) {
    char *line = NULL;
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&line, format, args);
    va_end(args);
    if (length < 0) return; /* no memory for a line: what it would have said is lost */
    ls_printable_line(line);
    fprintf(out, "%s\n", line);
    free(line);
}
