/* Texts in UTF-8: their ends, validation and repair. */
#include "text/utf8.h"
#include "base/base.h"
#include "text/text_impl.h"

#include <string.h>

int ls_utf8_last(const char *text, size_t bytes, uint32_t *code) {
    size_t length = 1;
    if (bytes == 0) return 0;
    while (length < bytes && length < 4 && (text[bytes - length] & 0xc0) == 0x80) length++;
    return ls_utf8_decode(text + bytes - length, length, code);
}

bool ls_utf8_holds(const char *text, uint32_t code) {
    const size_t bytes = strlen(text);
    uint32_t found;
    for (size_t at = 0; at < bytes;) {
        const int length = ls_utf8_decode(text + at, bytes - at, &found);
        if (length > 0 && found == code) return true;
        at += length > 0 ? (size_t)length : 1;
    }
    return false;
}

size_t ls_utf8_valid_prefix(const char *text, size_t bytes) {
    size_t at = 0; /* no bytes may be NULL */
    for (int n; at < bytes && (n = ls_utf8_decode(text + at, bytes - at, NULL)) > 0;) at += (size_t)n;
    return at;
}

size_t ls_utf8_printable(const char *text, size_t bytes, char *out, size_t room) {
    static const char replacement[] = "\xef\xbf\xbd";
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        const int length = ls_utf8_decode(text + at, bytes - at, NULL);
        const bool good = text[at] == '\n' || text[at] == '\t' || ls_printable_at(text + at, bytes - at) > 0;
        const size_t size = good ? (size_t)length : 3;
        if (used + size >= room) break;
        memcpy(out + used, good ? text + at : replacement, size);
        used += size;
        at += length > 0 ? (size_t)length : 1;
    }
    out[used] = 0;
    return used;
}

/* ---- repair, as Python's bytes.decode("utf-8", errors="replace") ---- */

size_t ls_utf8_valid_run(const char *text, size_t bytes) {
    size_t at = 0;
    if (bytes == 0) return 0; /* text may be NULL */
    for (;;) {
        for (uint64_t eight; bytes - at >= 8; at += 8) {
            memcpy(&eight, text + at, 8);
            if (eight & 0x8080808080808080u) break;
        }
        int n = ls_utf8_decode(text + at, bytes - at, NULL);
        if (n == 0) return at;
        at += (size_t)n;
    }
}

/*
 * For a text that does not begin with a valid character: the number of bytes at its start that one U+FFFD replaces.
 * These are the longest beginning of a character (Unicode's "maximal subpart"), or one byte.
 */
static size_t wrong_run(const unsigned char *p, size_t bytes) {
    size_t length = p[0] < 0xc2 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 1;
    if (length < 3 || bytes < 2) return 1;
    const unsigned char least = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < least || p[1] > most) return 1;
    return length == 4 && bytes > 2 && (p[2] & 0xc0) == 0x80 ? 3 : 2;
}

bool ls_utf8_repair(const char *text, size_t bytes, ls_text *out) {
    out->count = 0;
    for (size_t at = 0; at < bytes;) {
        size_t good = ls_utf8_valid_run(text + at, bytes - at);
        if (!ls_text_append(out, text + at, good)) return false;
        at += good;
        if (at == bytes) break;
        if (!ls_text_append(out, "\xef\xbf\xbd", 3)) return false;
        at += wrong_run((const unsigned char *)text + at, bytes - at);
    }
    return true;
}
