/* Rendered letters to text with its special tokens and what is learnt. */
#include "base/base.h"
#include "data/chat.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

/* The letters as UTF-8, and a byte of marks for each byte of it. */
typedef struct spelled {
    char *text;
    uint8_t *marks;
    size_t n;
} spelled;

enum { SAID = 1, LEARNT = 2 };

static ls_status spell(jinja_text letters, spelled *out) {
    out->text = malloc(4 * letters.n + 1);
    out->marks = malloc(4 * letters.n + 1);
    if (out->text == NULL || out->marks == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a conversation of %zu letters", letters.n);
    for (size_t i = 0; i < letters.n; i++) {
        const jinja_char letter = letters.at[i];
        const uint8_t marks = (letter & JINJA_FROM_DATA ? SAID : 0) | (letter & JINJA_GENERATED ? LEARNT : 0);
        for (int k = ls_utf8_encode(letter & JINJA_CODE, out->text + out->n); k > 0; k--)
            out->marks[out->n++] = marks;
    }
    return ls_ok();
}

/* A run of equal marks at a time. `alone`: each is encoded by itself, where the tokenizer allows that. */
static ls_status append(const spelled *s, size_t from, size_t to, bool alone, ls_marked_text *out) {
    for (size_t end; from < to; from = end) {
        const bool learnt = s->marks[from] & LEARNT;
        for (end = from; end < to && (bool)(s->marks[end] & LEARNT) == learnt;) end++;
        if (alone)
            LS_TRY(ls_marked_append_token(out, s->text + from, end - from, learnt, -1));
        else
            LS_TRY(ls_marked_append(out, s->text + from, end - from, learnt));
    }
    return ls_ok();
}

static bool is_said(const spelled *s, size_t from, size_t to) {
    while (from < to && !(s->marks[from] & SAID)) from++;
    return from < to;
}

/* White space that the template writes behind the token which ends an answer is learnt no more: whoever generates has stopped there. */
static void end_with_token(spelled *s, size_t end) {
    size_t to = end;
    while (to < s->n && s->marks[to] == LEARNT &&
           (s->text[to] == ' ' || s->text[to] == '\n' || s->text[to] == '\r'))
        to++;
    if (to == s->n || !(s->marks[to] & LEARNT)) memset(s->marks + end, 0, to - end);
}

static ls_status append_all(const ls_chat *chat, spelled *s, bool generates, ls_marked_text *out) {
    const bool alone = ls_tokenizer_piece(chat->tokenizer) < SIZE_MAX;
    size_t done = 0, from = 0;
    for (ls_special_place m; ls_tokenizer_next_special(chat->tokenizer, s->text, s->n, from, done, &m);) {
        from = m.to;
        if (is_said(s, m.from, m.to)) continue;
        if (!generates) end_with_token(s, m.end);
        LS_TRY(append(s, done, m.start, alone, out));
        LS_TRY(
            ls_marked_append_token(out, s->text + m.start, m.end - m.start, s->marks[m.from] & LEARNT, m.id));
        done = m.end;
        if (from < done) from = done;
    }
    return append(s, done, s->n, alone, out);
}

ls_status ls_chat_letters(const ls_chat *chat, jinja_text letters, bool generates, ls_marked_text *out) {
    spelled s = {0};
    ls_status status = spell(letters, &s);
    if (status.code == LS_OK) status = append_all(chat, &s, generates, out);
    free(s.text);
    free(s.marks);
    return status;
}
