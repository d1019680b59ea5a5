/* Lowercase: each character becomes its lower case. */
#include "text/characters.h"
#include "text/steps_impl.h"

static ls_status normalize(const void *state, ls_match_scratch *scratch, size_t most, ls_text_piece *piece,
                           ls_text *out) {
    int length;
    (void)state, (void)scratch, (void)most;
    for (size_t at = 0; at < piece->bytes; at += (size_t)length) {
        uint32_t code = 0, lower[2];
        length = ls_utf8_decode(piece->text + at, piece->bytes - at, &code);
        ls_lower_case(code, lower);
        if (!ls_text_reserve(out, 8)) return ls_no_memory(piece->bytes);
        out->count += (size_t)ls_utf8_encode(lower[0], out->byte + out->count);
        if (lower[1]) out->count += (size_t)ls_utf8_encode(lower[1], out->byte + out->count);
    }
    piece->text = out->byte;
    piece->bytes = out->count;
    return ls_ok();
}

const ls_step_kind ls_step_lowercase = {.type = "Lowercase", .normalize = normalize};
