/* The decoders ByteFallback, which turns tokens like <0x0A> into text, and Fuse, which joins all texts. */
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static int byte_of(const char *token, size_t bytes) {
    if (bytes != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') return -1;
    const int high = hex_digit(token[3]), low = hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Ends a sequence of byte tokens: one text when the bytes are UTF-8, else U+FFFD for each byte. */
static bool end_run(ls_text *run, ls_strings *out) {
    bool room = true;
    if (run->count == 0) return true;
    if (ls_utf8_valid_run(run->byte, run->count) == run->count) {
        room = ls_text_append(&out->all, run->byte, run->count) && ls_strings_end(out);
    } else {
        for (size_t i = 0; i < run->count && room; i++)
            room = ls_text_append(&out->all, "\xef\xbf\xbd", 3) && ls_strings_end(out);
    }
    run->count = 0;
    return room;
}

static ls_status decode(const void *state, const ls_strings *in, ls_strings *out) {
    (void)state;
    ls_text run = {0};
    bool room = true;
    for (size_t i = 0, start = 0; i < in->count && room; start = in->end[i++]) {
        const char *token = in->all.byte + start;
        const size_t bytes = in->end[i] - start;
        const int byte = byte_of(token, bytes);
        if (byte >= 0)
            room = ls_text_append(&run, &(char){(char)byte}, 1);
        else
            room = end_run(&run, out) && ls_text_append(&out->all, token, bytes) && ls_strings_end(out);
    }
    room = room && end_run(&run, out);
    free(run.byte);
    return room ? ls_ok() : ls_no_memory(in->all.count);
}

static ls_status fuse(const void *state, const ls_strings *in, ls_strings *out) {
    (void)state;
    const bool room = ls_text_append(&out->all, in->all.byte, in->all.count) && ls_strings_end(out);
    return room ? ls_ok() : ls_no_memory(in->all.count);
}

const ls_step_kind ls_step_byte_fallback = {.type = "ByteFallback", .decode = decode};
const ls_step_kind ls_step_fuse = {.type = "Fuse", .decode = fuse};
