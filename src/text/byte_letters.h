/*
 * text: the letters that byte-level vocabularies write bytes as (GPT-2's): a byte that prints is itself, the
 * others are U+0100 and on, in order.
 */
#ifndef LS_TEXT_BYTE_LETTERS_H
#define LS_TEXT_BYTE_LETTERS_H

#include <stddef.h>
#include <stdint.h>

#include "text/utf8.h"

static inline int ls_byte_prints(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

/* The UTF-8 of a byte's letter: its length, 1 or 2. */
static inline size_t ls_byte_letter(int byte, char out[2]) {
    int code = byte;
    if (!ls_byte_prints(byte)) code = 0x100 + (byte <= ' ' ? byte : byte == 0xad ? 67 : byte - 0x7f + 33);
    if (code < 0x80) return out[0] = (char)code, 1;
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

/* The byte of the letter at the start of text; its length, or 0 when it is no letter for a byte. */
static inline int ls_letter_byte(const char *text, size_t bytes, char *out) {
    uint32_t code;
    int length = ls_utf8_decode(text, bytes, &code);
    if (length == 0 || code > 0x143) return 0;
    if (code >= 0x100)
        code = code == 0x143 ? 0xad : code - 0x100 <= ' ' ? code - 0x100 : code - 0x100 - 33 + 0x7f;
    else if (!ls_byte_prints((int)code))
        return 0;
    *out = (char)(unsigned char)code;
    return length;
}

#endif
