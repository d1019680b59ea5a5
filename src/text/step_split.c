/*
 * Cutting a piece at delimiters, which several pre-tokenizers share, and the step Split, which cuts at the matches of a
 * pattern.
 */
#include "base/base.h"
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * joins: whether a segment is appended to the part before it. `before` and `match`: whether the last segment and this
 * one are delimiters.
 */
struct ls_behaviour {
    const char *name;
    bool (*joins)(bool before, bool match);
    bool drops; /* delimiters are dropped */
};

static bool never(bool before, bool match) { return (void)before, (void)match, false; }
static bool alike(bool before, bool match) { return before == match; }
static bool to_previous(bool before, bool match) { return match && !before; }
static bool to_next(bool before, bool match) { return before && !match; }

enum { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS, N_BEHAVIOURS };
static const ls_behaviour behaviours[N_BEHAVIOURS] = {
    [REMOVED] = {"Removed", never, true},
    [ISOLATED] = {"Isolated", never, false},
    [MERGED_WITH_PREVIOUS] = {"MergedWithPrevious", to_previous, false},
    [MERGED_WITH_NEXT] = {"MergedWithNext", to_next, false},
    [CONTIGUOUS] = {"Contiguous", alike, false},
};
const ls_behaviour *const ls_behaviour_removed = &behaviours[REMOVED],
                          *const ls_behaviour_isolated = &behaviours[ISOLATED],
                          *const ls_behaviour_contiguous = &behaviours[CONTIGUOUS],
                          *const ls_behaviour_merged_with_next = &behaviours[MERGED_WITH_NEXT];

ls_status ls_behaviour_read(ls_json_value object, const char *key, const ls_behaviour **out) {
    const char *name;
    LS_TRY(ls_json_text(object, key, &name));
    for (int i = 0; i < N_BEHAVIOURS; i++) {
        if (strcmp(behaviours[i].name, name) != 0) continue;
        *out = &behaviours[i];
        return ls_ok();
    }
    return ls_json_error(ls_json_field(object, key),
                         "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

/* The part that is built from segments. */
typedef struct cutting {
    ls_split_chain *chain;
    ls_text_piece piece;
    const ls_behaviour *behaviour;
    size_t start, end;
    bool any, match; /* whether there is a part; whether its last segment is a delimiter */
} cutting;

static bool finish_part(cutting *c) {
    if (!c->any || (c->match && c->behaviour->drops)) return true;
    const ls_text_piece part = {c->piece.text + c->start, c->end - c->start, c->piece.first && c->start == 0,
                                c->piece.rest && c->start == 0};
    return ls_split_next(c->chain, part);
}

static bool segment(cutting *c, size_t start, size_t end, bool match) {
    if (c->any && c->behaviour->joins(c->match, match)) {
        c->end = end;
        c->match = match;
        return true;
    }
    if (!finish_part(c)) return false;
    c->start = start;
    c->end = end;
    c->match = match;
    c->any = true;
    return true;
}

bool ls_split_pattern(ls_split_chain *chain, ls_text_piece piece, const ls_pattern *pattern,
                      const ls_behaviour *behaviour, bool invert) {
    cutting c = {.chain = chain, .piece = piece, .behaviour = behaviour};
    ls_matches m = {pattern, chain->scratch, piece.text, piece.bytes, .last_end = SIZE_MAX};
    size_t at = 0;
    for (;;) {
        if (!ls_matches_next(&m, &chain->status)) return false;
        if (!m.found) break;
        if (m.start != at && !segment(&c, at, m.start, invert)) return false;
        if (!segment(&c, m.start, m.end, !invert)) return false;
        at = m.end;
    }
    if (at != piece.bytes && !segment(&c, at, piece.bytes, invert)) return false;
    return finish_part(&c);
}

bool ls_split_characters(ls_split_chain *chain, ls_text_piece piece, bool (*is)(uint32_t code, const void *context),
                         const void *context, const ls_behaviour *behaviour) {
    cutting c = {.chain = chain, .piece = piece, .behaviour = behaviour};
    size_t done = 0;
    int length;
    for (size_t at = 0; at < piece.bytes; at += (size_t)length) {
        uint32_t code = 0;
        length = ls_utf8_decode(piece.text + at, piece.bytes - at, &code);
        LS_ASSERT(length > 0);
        if (!is(code, context)) continue;
        if (done < at && !segment(&c, done, at, false)) return false;
        done = at + (size_t)length;
        if (!segment(&c, at, done, true)) return false;
    }
    if (done < piece.bytes && !segment(&c, done, piece.bytes, false)) return false;
    return finish_part(&c);
}

/* ---- Split ---- */

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

static bool split(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    const split_step *s = state;
    return ls_split_pattern(chain, piece, s->pattern, s->behaviour, s->invert);
}

/* A plain text cannot match across characters that it does not have. */
static ls_cut cut(const void *state, ls_boundary *boundary) {
    const split_step *s = state;
    const char *text = ls_pattern_text(s->pattern);
    if (!text || s->invert || ls_utf8_holds(text, boundary->left) || ls_utf8_holds(text, boundary->right))
        return LS_CUT_UNKNOWN;
    return LS_CUT_SAME;
}

const ls_step_kind ls_step_split = {.type = "Split", .read = read, .free = free_state, .split = split, .cut = cut};
