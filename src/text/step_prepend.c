/* Prepend: puts a text before a text that is not empty. */
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

static ls_status read(ls_json_value step, void **state) {
    const char *text;
    LS_TRY(ls_json_text(step, "prepend", &text));
    if (strlen(text) > LS_MOST_PATTERN)
        return ls_json_error(ls_json_field(step, "prepend"), "at most %d bytes", LS_MOST_PATTERN);
    *state = strdup(text);
    return *state ? ls_ok() : ls_no_memory(strlen(text));
}

static ls_status normalize(const void *state, ls_match_scratch *scratch, size_t most, ls_text_piece *piece,
                           ls_text *out) {
    (void)scratch, (void)most;
    if (piece->bytes == 0 || piece->rest) return ls_ok();
    if (!ls_text_append(out, state, strlen(state)) || !ls_text_append(out, piece->text, piece->bytes))
        return ls_no_memory(piece->bytes);
    piece->text = out->byte;
    piece->bytes = out->count;
    return ls_ok();
}

static ls_cut cut(const void *state, ls_boundary *boundary) { return (void)state, (void)boundary, LS_CUT_SAME; }

const ls_step_kind ls_step_prepend = {
    .type = "Prepend", .read = read, .free = free, .normalize = normalize, .cut = cut};
