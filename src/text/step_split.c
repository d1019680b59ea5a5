/* Split: cut at the matches of a pattern. */
#include "text/steps.h"

#include <stdlib.h>

typedef struct split_step {
    ls_pattern *pattern;
    const ls_behaviour *behaviour;
    bool invert;
} split_step;

static void free_state(void *state) {
    split_step *s = state;
    if (s) ls_pattern_free(s->pattern);
    free(s);
}

static ls_status read(ls_json_value step, void **state) {
    split_step *s = *state = calloc(1, sizeof *s);
    if (!s) return ls_no_memory(0);
    LS_TRY(ls_pattern_read(step, "pattern", &s->pattern));
    LS_TRY(ls_behaviour_read(step, "behavior", &s->behaviour));
    return ls_json_bool(step, "invert", &s->invert);
}

static bool split(const void *state, ls_walk *walk, ls_text_piece piece) {
    const split_step *s = state;
    return ls_split_pattern(walk, piece, s->pattern, s->behaviour, s->invert);
}

/* Between characters that a plain text does not have, none is found. */
static ls_cut cut(const void *state, ls_seam *seam) {
    const split_step *s = state;
    const char *text = ls_pattern_text(s->pattern);
    if (!text || s->invert || ls_utf8_holds(text, seam->left) || ls_utf8_holds(text, seam->right))
        return LS_CUT_UNKNOWN;
    return LS_CUT_ON;
}

const ls_step_kind ls_step_split = {
    .type = "Split", .read = read, .free = free_state, .split = split, .cut = cut};
