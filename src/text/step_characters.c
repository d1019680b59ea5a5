/*
 * Pre-tokenizers that cut at a class of characters: Digits, WhitespaceSplit, Whitespace, Punctuation,
 * CharDelimiterSplit.
 */
#include "text/characters.h"
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

static bool is_number(uint32_t code, const void *context) { return (void)context, ls_is_number(code); }
static bool is_space(uint32_t code, const void *context) { return (void)context, ls_is_space(code); }
static bool is_same(uint32_t code, const void *context) { return code == *(const uint32_t *)context; }

/* ---- Digits ---- */

static ls_status read_digits(ls_json_value step, void **state) {
    bool *individual = *state = malloc(sizeof *individual);
    return individual ? ls_json_bool(step, "individual_digits", individual) : ls_no_memory(0);
}

static bool split_digits(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    const bool *individual = state;
    return ls_split_characters(chain, piece, is_number, NULL,
                               *individual ? ls_behaviour_isolated : ls_behaviour_contiguous);
}

/* ---- WhitespaceSplit: the texts between white space; Whitespace: words, and sequences of other characters ---- */

static bool split_space(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    (void)state;
    return ls_split_characters(chain, piece, is_space, NULL, ls_behaviour_removed);
}

typedef enum sort { SPACE, WORD, OTHER } sort;

static sort sort_of(uint32_t code) { return ls_is_space(code) ? SPACE : ls_is_word(code) ? WORD : OTHER; }

static bool split_words(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    sort run = SPACE;
    size_t start = 0;
    (void)state;
    for (size_t at = 0; at <= piece.bytes;) {
        uint32_t code = ' ';
        const int length = ls_utf8_decode(piece.text + at, piece.bytes - at, &code);
        const sort next = at < piece.bytes ? sort_of(code) : SPACE;
        if (next != run) {
            const ls_text_piece part = {piece.text + start, at - start, piece.first && start == 0,
                                        piece.rest && start == 0};
            if (run != SPACE && !ls_split_next(chain, part)) return false;
            run = next;
            start = at;
        }
        at += at < piece.bytes ? (size_t)length : 1;
    }
    return true;
}

/* ---- Punctuation ---- */

static bool is_punctuation(uint32_t code, const void *context) { return (void)context, ls_is_punctuation(code); }

static ls_status read_punctuation(ls_json_value step, void **state) {
    const ls_behaviour **behaviour = *state = malloc(sizeof *behaviour);
    if (!behaviour) return ls_no_memory(0);
    *behaviour = ls_behaviour_isolated;
    return ls_json_has(step, "behavior") ? ls_behaviour_read(step, "behavior", behaviour) : ls_ok();
}

static bool split_punctuation(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    const ls_behaviour *const *behaviour = state;
    return ls_split_characters(chain, piece, is_punctuation, NULL, *behaviour);
}

/* ---- CharDelimiterSplit ---- */

static ls_status read_delimiter(ls_json_value step, void **state) {
    uint32_t *code = *state = malloc(sizeof *code);
    const char *text;
    if (!code) return ls_no_memory(0);
    LS_TRY(ls_json_text(step, "delimiter", &text));
    const int length = ls_utf8_decode(text, strlen(text), code);
    return length > 0 && text[length] == 0 ? ls_ok() : ls_json_error(ls_json_field(step, "delimiter"), "one character");
}

static bool split_delimiter(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    return ls_split_characters(chain, piece, is_same, state, ls_behaviour_removed);
}

const ls_step_kind ls_step_digits = {.type = "Digits", .read = read_digits, .free = free, .split = split_digits};
const ls_step_kind ls_step_whitespace_split = {.type = "WhitespaceSplit", .split = split_space};
const ls_step_kind ls_step_whitespace = {.type = "Whitespace", .split = split_words};
const ls_step_kind ls_step_punctuation = {
    .type = "Punctuation", .read = read_punctuation, .free = free, .split = split_punctuation};
const ls_step_kind ls_step_delimiter = {
    .type = "CharDelimiterSplit", .read = read_delimiter, .free = free, .split = split_delimiter};
