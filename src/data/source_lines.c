/* JSONL: a record is a line. */
#include "data/source_impl.h"

#include <string.h>

static bool blank(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}

static ls_status take(ls_source *s) {
    ls_source_pass_mark(s);
    while (s->n < LS_SOURCE_RECORDS && s->begin < s->filled) {
        const char *at = s->buffer + s->begin, *newline = memchr(at, '\n', s->filled - s->begin);
        if (newline == NULL && (!s->ended || s->broken[0] != 0)) return ls_ok();
        const size_t bytes = newline != NULL ? (size_t)(newline - at) : s->filled - s->begin;
        const size_t skip = newline != NULL;
        if (blank(at, bytes))
            ls_source_pass(s, bytes + skip);
        else
            ls_source_take(s, bytes, skip, true);
        s->place.line++;
    }
    return ls_ok();
}

/* The buffer is full of a line without an end: it is passed over. */
static ls_status too_long(ls_source *s) {
    const char *newline = NULL;
    const ls_place at = s->place;
    while (newline == NULL && s->begin < s->filled) {
        newline = memchr(s->buffer + s->begin, '\n', s->filled - s->begin);
        ls_source_pass(s,
                       newline != NULL ? (size_t)(newline - s->buffer) + 1 - s->begin : s->filled - s->begin);
        if (newline != NULL) break;
        s->begin = s->filled = 0;
        LS_TRY(ls_source_fill(s));
    }
    s->place.line++;
    s->records[s->n++] = (ls_text_record){"", 0, at, true, s->why, false, false};
    return ls_ok();
}

const ls_source_kind ls_source_lines = {NULL, take, too_long};
