/* Finds parts of texts, and removes characters at the ends. Each character that is looked at counts as a step. */
#include "jinja/run_impl.h"

/* A text as it is read: from its beginning, or back from its end. */
typedef struct reading {
    jinja_text text;
    bool back;
} reading;

static uint32_t code_at(reading s, size_t i) { return s.text.at[s.back ? s.text.n - 1 - i : i] & JINJA_CODE; }

static bool is_at(jinja_run *r, reading in, reading part, size_t at) {
    size_t i = 0;
    while (i < part.text.n && code_at(in, at + i) == code_at(part, i)) i++;
    return jinja_step(r, 1 + i / JINJA_STEP_CHARACTERS) && i == part.text.n;
}

/*
 * The first place of a part, by a rolling hash (Rabin-Karp), which keeps the search linear even in repetitive texts.
 * The comparisons count as steps, because a text may be made so that hashes are equal although the parts are not.
 */
static size_t find(jinja_run *r, reading in, reading part) {
    static const uint64_t factor = 0x9e3779b97f4a7c15ull;
    const size_t n = part.text.n;
    uint64_t wanted = 0, hash = 0, power = 1;
    size_t at = 0, found = SIZE_MAX;
    if (n > in.text.n) return SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        wanted = wanted * factor + code_at(part, i) + 1;
        hash = hash * factor + code_at(in, i) + 1;
        if (i > 0) power *= factor;
    }
    for (; found == SIZE_MAX && !r->failed; at++) {
        if (hash == wanted && is_at(r, in, part, at)) found = at;
        if (at + n == in.text.n) break;
        hash = (hash - power * (code_at(in, at) + 1)) * factor + code_at(in, at + n) + 1;
    }
    jinja_step_text(r, at + 2 * n);
    return found;
}

size_t jinja_find(jinja_run *r, jinja_text text, jinja_text part, size_t from, size_t to) {
    if (to > text.n) to = text.n;
    if (from > to) return SIZE_MAX;
    const size_t found = find(r, (reading){jinja_part(text, from, to), false}, (reading){part, false});
    return found == SIZE_MAX ? found : from + found;
}

size_t jinja_find_last(jinja_run *r, jinja_text text, jinja_text part, size_t from, size_t to) {
    if (to > text.n) to = text.n;
    if (from > to) return SIZE_MAX;
    const size_t found = find(r, (reading){jinja_part(text, from, to), true}, (reading){part, true});
    return found == SIZE_MAX ? found : to - found - part.n;
}

static bool is_dropped(jinja_run *r, uint32_t code, const jinja_text *drop) {
    if (drop == NULL) return jinja_is_space(code);
    jinja_step_text(r, drop->n);
    for (size_t i = 0; i < drop->n && !r->failed; i++)
        if ((drop->at[i] & JINJA_CODE) == code) return true;
    return false;
}

jinja_text jinja_strip(jinja_run *r, jinja_text text, const jinja_text *drop, jinja_side side) {
    size_t from = 0, to = text.n;
    while ((side & JINJA_LEFT) && from < to && is_dropped(r, text.at[from] & JINJA_CODE, drop)) from++;
    while ((side & JINJA_RIGHT) && to > from && is_dropped(r, text.at[to - 1] & JINJA_CODE, drop)) to--;
    jinja_step_text(r, text.n - (to - from));
    return jinja_part(text, from, to);
}
