#include "data/cut.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum { AROUND = 400, PLACES = 200 }; /* bytes on each side that are encoded; places that are looked at */

static bool continues(char c) { return ((unsigned char)c & 0xc0) == 0x80; } /* inside a character */

/* Ids of text[from, to) appended. */
static ls_status add(const ls_tokenizer *tokenizer, const char *text, size_t from, size_t to,
                     ls_token_list *out) {
    return (from > 0 ? ls_tokenizer_encode_rest : ls_tokenizer_encode)(tokenizer, text + from, to - from,
                                                                       out);
}

static ls_status may_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t at,
                         ls_token_list room[2], bool *out) {
    size_t from = at > AROUND ? at - AROUND : 0, to = bytes - at > AROUND ? at + AROUND : bytes;
    while (from < at && continues(text[from])) from++;
    while (to > at && to < bytes && continues(text[to])) to--;
    room[0].count = room[1].count = 0;
    LS_TRY(add(tokenizer, text, from, to, &room[0]));
    LS_TRY(add(tokenizer, text, from, at, &room[1]));
    LS_TRY(add(tokenizer, text, at, to, &room[1]));
    *out = room[0].count == room[1].count &&
           (room[0].count == 0 || memcmp(room[0].id, room[1].id, room[0].count * sizeof *room[0].id) == 0);
    return ls_ok();
}

ls_status ls_text_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t wanted,
                      size_t *out) {
    if (ls_tokenizer_cut(tokenizer, text, bytes, wanted, out)) return ls_ok();
    ls_token_list room[2] = {{0}, {0}};
    ls_status status = ls_ok();
    bool found = false;
    size_t at = wanted < bytes ? wanted : bytes;
    for (int i = 0; i < PLACES && !found && status.code == LS_OK; i++) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        if (newline == NULL || newline + 1 == text + bytes) break;
        at = (size_t)(newline - text) + 1;
        status = may_cut(tokenizer, text, bytes, at, room, &found);
    }
    free(room[0].id);
    free(room[1].id);
    *out = found ? at : 0;
    return status;
}
