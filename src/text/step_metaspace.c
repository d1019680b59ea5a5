/* Metaspace: replaces spaces by a printable character, and cuts words before it. */
#include "base/base.h"
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

typedef enum scheme { FIRST, NEVER, ALWAYS, N_SCHEMES } scheme;
static const char *const schemes[N_SCHEMES] = {[FIRST] = "first", [NEVER] = "never", [ALWAYS] = "always"};

typedef struct metaspace {
    char mark[4]; /* the UTF-8 of the character that replaces a space */
    size_t bytes; /* of mark */
    uint32_t code;
    scheme prepend;
    bool split;
} metaspace;

static ls_status read_scheme(ls_json_value step, scheme *out) {
    const char *name;
    bool prefix;
    LS_TRY(ls_json_text_or(step, "prepend_scheme", "always", &name));
    LS_TRY(ls_json_bool_or(step, "add_prefix_space", true, &prefix));
    *out = FIRST;
    while (*out < N_SCHEMES && strcmp(schemes[*out], name) != 0) ++*out;
    if (*out == N_SCHEMES) return ls_json_error(ls_json_field(step, "prepend_scheme"), "first, never or always");
    if (!prefix && ls_json_has(step, "prepend_scheme") && *out != NEVER)
        return ls_json_error(ls_json_field(step, "add_prefix_space"), "true with prepend_scheme \"%s\"", name);
    if (!prefix) *out = NEVER;
    return ls_ok();
}

static ls_status read(ls_json_value step, void **state) {
    metaspace *m = *state = calloc(1, sizeof *m);
    const char *text;
    if (!m) return ls_no_memory(0);
    LS_TRY(ls_json_text(step, "replacement", &text));
    m->bytes = (size_t)ls_utf8_decode(text, strlen(text), &m->code);
    if (m->bytes == 0 || text[m->bytes] != 0) return ls_json_error(ls_json_field(step, "replacement"), "one character");
    memcpy(m->mark, text, m->bytes);
    LS_TRY(read_scheme(step, &m->prepend));
    return ls_json_bool_or(step, "split", true, &m->split);
}

static bool starts_with_mark(const metaspace *m, ls_text_piece piece) {
    return piece.text[0] == ' ' || (piece.bytes >= m->bytes && memcmp(piece.text, m->mark, m->bytes) == 0);
}

static bool is_mark(uint32_t code, const void *context) { return code == *(const uint32_t *)context; }

static bool split(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    const metaspace *m = state;
    ls_text *out = &chain->buffer[chain->at - 1];
    const bool prepends = !piece.rest && (m->prepend == ALWAYS || (m->prepend == FIRST && piece.first));
    out->count = 0;
    bool room = !prepends || starts_with_mark(m, piece) || ls_text_append(out, m->mark, m->bytes);
    for (size_t at = 0; room && at < piece.bytes;) {
        const char *space = memchr(piece.text + at, ' ', piece.bytes - at);
        const size_t until = space ? (size_t)(space - piece.text) : piece.bytes;
        room = ls_text_append(out, piece.text + at, until - at) && (!space || ls_text_append(out, m->mark, m->bytes));
        at = until + (space != NULL);
    }
    if (!room) return ls_split_no_memory(chain, piece.bytes);
    const ls_text_piece changed = {out->byte, out->count, piece.first, piece.rest};
    if (!m->split) return ls_split_next(chain, changed);
    return ls_split_characters(chain, changed, is_mark, &m->code, ls_behaviour_merged_with_next);
}

static ls_cut cut(const void *state, ls_boundary *boundary) {
    const metaspace *m = state;
    if (boundary->left == ' ') boundary->left = m->code;
    if (boundary->right == ' ') boundary->right = m->code;
    return m->split && boundary->right == m->code ? LS_CUT_APART : LS_CUT_SAME;
}

/* Each mark becomes a space again, except in the first token when encoding puts a mark before the text. */
static ls_status decode(const void *state, const ls_strings *in, ls_strings *out) {
    const metaspace *m = state;
    for (size_t i = 0, start = 0; i < in->count; start = in->end[i++]) {
        const bool drops = i == 0 && m->prepend != NEVER;
        for (size_t at = start; at < in->end[i];) {
            const char *found = ls_text_find(in->all.byte + at, in->end[i] - at, m->mark, m->bytes);
            const size_t until = found ? (size_t)(found - in->all.byte) : in->end[i];
            if (!ls_text_append(&out->all, in->all.byte + at, until - at)) return ls_no_memory(in->all.count);
            if (found && !drops && !ls_text_append(&out->all, " ", 1)) return ls_no_memory(in->all.count);
            at = found ? until + m->bytes : until;
        }
        if (!ls_strings_end(out)) return ls_no_memory(in->all.count);
    }
    return ls_ok();
}

const ls_step_kind ls_step_metaspace = {.type = "Metaspace", .read = read, .free = free, .split = split, .cut = cut};
const ls_step_kind ls_step_metaspace_decoder = {.type = "Metaspace", .read = read, .free = free, .decode = decode};
