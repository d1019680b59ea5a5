/* JSON: a record is an item of the array that the file is, or one of the values that stand in it one after the other. */
#include "data/source_impl.h"

#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* Where it goes on behind its beginning it is read from there all the same: what may stand at a place follows from what stands before it. */
static ls_status begin(ls_source *s) {
    s->from = s->place.offset;
    s->place = (ls_place){s->place.input, 0, 1};
    s->next = LS_OPENING;
    return ls_ok();
}

static void pass_space(ls_source *s) {
    size_t n = 0;
    for (const char *at = s->buffer + s->begin; s->begin + n < s->filled && is_space(at[n]); n++)
        s->place.line += at[n] == '\n';
    ls_source_pass(s, n);
}

/* The end of the string that begins here, or NULL: it goes on behind the text. */
static const char *end_of_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : NULL;
}

/* The end of the value that begins here; NULL: it goes on behind the text. Whether it is a value is seen where it is parsed. */
static const char *end_of_value(const char *at, const char *end, bool ended) {
    int64_t depth = 0;
    while (at < end) {
        const char c = *at;
        const bool closes = c == ']' || c == '}';
        if (depth == 0 && (closes || c == ',' || is_space(c))) return at;
        if (c == '"') {
            at = end_of_string(at, end);
            if (at == NULL) return NULL;
        } else {
            depth += c == '[' || c == '{';
            depth -= closes;
            at++;
        }
        if (depth == 0 && (c == '"' || closes)) return at;
    }
    return ended && depth == 0 ? end : NULL;
}

/* Whether a value may begin here; passes over what stands before it in an array. */
static bool may_begin(ls_source *s) {
    const char c = s->buffer[s->begin];
    if (c == '[' && s->next == LS_OPENING)
        s->next = LS_VALUE_OR_END;
    else if (c == ',' && s->next == LS_COMMA_OR_END)
        s->next = LS_VALUE;
    else if (c == ']' && (s->next == LS_COMMA_OR_END || s->next == LS_VALUE_OR_END))
        s->next = LS_CLOSED;
    else
        return c != ',' && c != ']' && s->next != LS_COMMA_OR_END && s->next != LS_CLOSED;
    ls_source_pass(s, 1);
    return true;
}

/* Up to the next value. False: there is none, or none yet. */
static bool find_value(ls_source *s) {
    for (pass_space(s); s->begin < s->filled; pass_space(s)) {
        const size_t at = s->begin;
        if (s->next == LS_OPENING) s->array = s->buffer[at] == '[';
        if (!s->array) return true;
        if (!may_begin(s)) {
            ls_source_drop(s, s->place,
                           s->next == LS_CLOSED ? "something stands behind the end of its array"
                           : s->next == LS_VALUE || s->next == LS_VALUE_OR_END
                               ? "expected a value in its array"
                               : "expected a comma or the end of its array",
                           false);
            return false;
        }
        if (s->begin == at) return true;
    }
    return false;
}

static ls_status take(ls_source *s) {
    ls_source_pass_mark(s);
    while (s->n + 1 < LS_SOURCE_RECORDS && find_value(s)) { /* one is left for an error at the end */
        const char *at = s->buffer + s->begin, *limit = s->buffer + s->filled;
        const char *end = end_of_value(at, limit, s->ended && s->broken[0] == 0);
        if (end == NULL) break;
        if (end == at) end++; /* a bracket or comma that does not belong there: no JSON */
        int64_t lines = 0;
        for (const char *c = at; (c = memchr(c, '\n', (size_t)(end - c))) != NULL; c++) lines++;
        if (s->place.offset < s->from)
            ls_source_pass(s, (size_t)(end - at));
        else
            ls_source_take(s, (size_t)(end - at), 0, true);
        s->place.line += lines;
        s->next = LS_COMMA_OR_END;
    }
    const bool full = s->n + 1 >= LS_SOURCE_RECORDS;
    const bool cut = s->begin < s->filled || (s->array && s->next != LS_OPENING && s->next != LS_CLOSED);
    if (s->ended && s->broken[0] == 0 && cut && !full && !s->dropped)
        ls_source_drop(s, s->place, s->array ? "ends inside of its array" : "ends inside of a value", false);
    return ls_ok();
}

static ls_status too_long(ls_source *s) {
    ls_source_drop(s, s->place, s->why, false);
    return ls_ok();
}

const ls_source_kind ls_source_values = {begin, take, too_long};
