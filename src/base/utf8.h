/* Characters of UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef LS_BASE_UTF8_H
#define LS_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decodes the character at the start of text[0, bytes). Returns its length, 1 to 4, or 0 when the bytes are wrong or
 * incomplete. *code is set only when the length is not 0; code may be NULL.
 */
static inline int ls_utf8_decode(const char *text, size_t bytes, uint32_t *code) {
    const unsigned char *p = (const unsigned char *)text;
    if (bytes == 0) return 0;
    const int length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (length == 0 || (size_t)length > bytes) return 0;
    uint32_t c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    /* Two-byte forms are never overlong here: 0xc0 and 0xc1 were refused. */
    if ((length == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) || (length == 4 && (c < 0x10000 || c > 0x10ffff)))
        return 0;
    if (code) *code = c;
    return length;
}

/* Writes a character's UTF-8 and returns its length. */
static inline int ls_utf8_encode(uint32_t code, char out[4]) {
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[length] | code);
    return length;
}

#endif
