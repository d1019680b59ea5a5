/* Pre-tokenizers that cut at a class of characters: Digits, WhitespaceSplit, Whitespace,
 * CharDelimiterSplit. */
#include "text/characters.h"
#include "text/steps.h"

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

static bool split_digits(const void *state, ls_walk *walk, ls_piece piece) {
    const bool *individual = state;
    return ls_split_characters(walk, piece, is_number, NULL,
                               *individual ? ls_behaviour_isolated : ls_behaviour_contiguous);
}

/* ---- WhitespaceSplit: what is between white space; Whitespace: words, and runs of what is neither ---- */

static bool split_space(const void *state, ls_walk *walk, ls_piece piece) {
    (void)state;
    return ls_split_characters(walk, piece, is_space, NULL, ls_behaviour_removed);
}

static void free_pattern(void *state) { ls_pattern_free(state); }

static ls_status read_words(ls_json_value step, void **state) {
    ls_pattern *pattern;
    LS_TRY(ls_pattern_compile(step, "\\w+|[^\\w\\s]+", &pattern));
    *state = pattern;
    return ls_ok();
}

static bool split_words(const void *state, ls_walk *walk, ls_piece piece) {
    return ls_split_pattern(walk, piece, state, ls_behaviour_removed, true);
}

/* ---- CharDelimiterSplit ---- */

static ls_status read_delimiter(ls_json_value step, void **state) {
    uint32_t *code = *state = malloc(sizeof *code);
    const char *text;
    if (!code) return ls_no_memory(0);
    LS_TRY(ls_json_text(step, "delimiter", &text));
    const int length = ls_utf8_decode(text, strlen(text), code);
    return length > 0 && text[length] == 0 ? ls_ok()
                                           : ls_json_error(ls_json_field(step, "delimiter"), "one character");
}

static bool split_delimiter(const void *state, ls_walk *walk, ls_piece piece) {
    return ls_split_characters(walk, piece, is_same, state, ls_behaviour_removed);
}

const ls_step_kind ls_step_digits = {
    .type = "Digits", .read = read_digits, .free = free, .split = split_digits};
const ls_step_kind ls_step_whitespace_split = {.type = "WhitespaceSplit", .split = split_space};
const ls_step_kind ls_step_whitespace = {
    .type = "Whitespace", .read = read_words, .free = free_pattern, .split = split_words};
const ls_step_kind ls_step_delimiter = {
    .type = "CharDelimiterSplit", .read = read_delimiter, .free = free, .split = split_delimiter};
