/* ByteLevel: cuts text as GPT-2 does, for a vocabulary whose characters stand for bytes (bpe_impl.h). */
#include "base/base.h"
#include "text/bpe_impl.h"
#include "text/steps_impl.h"

#include <stdlib.h>

static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct byte_level {
    bool prefix;
    ls_pattern *pattern; /* NULL: the text is not cut */
} byte_level;

static void free_state(void *state) {
    byte_level *b = state;
    if (b) ls_pattern_free(b->pattern);
    free(b);
}

static ls_status read(ls_json_value step, void **state) {
    byte_level *b = *state = calloc(1, sizeof *b);
    bool use_regex;
    if (!b) return ls_no_memory(0);
    LS_TRY(ls_json_bool(step, "add_prefix_space", &b->prefix));
    LS_TRY(ls_json_bool_or(step, "use_regex", true, &use_regex));
    return use_regex ? ls_pattern_compile(step, gpt2, &b->pattern) : ls_ok();
}

/*
 * The reference library writes bytes as characters here; Longspan keeps the bytes, and the model looks tokens up by
 * bytes.
 */
static bool split(const void *state, ls_split_chain *chain, ls_text_piece piece) {
    const byte_level *b = state;
    if (b->prefix && !piece.rest && piece.text[0] != ' ') {
        ls_text *buffer = &chain->buffer[chain->at - 1];
        buffer->count = 0;
        if (!ls_text_append(buffer, " ", 1) || !ls_text_append(buffer, piece.text, piece.bytes))
            return ls_split_no_memory(chain, piece.bytes);
        piece.text = buffer->byte;
        piece.bytes = buffer->count;
    }
    if (!b->pattern) return ls_split_next(chain, piece);
    return ls_split_pattern(chain, piece, b->pattern, ls_behaviour_isolated, false);
}

/*
 * A token whose characters all stand for bytes becomes these bytes, any other token its own text. The result is
 * repaired to UTF-8.
 */
static ls_status decode(const void *state, const ls_strings *in, ls_strings *out) {
    (void)state;
    ls_text bytes = {0};
    bool room = ls_text_reserve(&bytes, in->all.count);
    for (size_t i = 0, start = 0; room && i < in->count; start = in->end[i++]) {
        const size_t before = bytes.count;
        int length = 1;
        size_t at = start;
        for (; at < in->end[i]; at += (size_t)length)
            if ((length = ls_character_to_byte(in->all.byte + at, in->end[i] - at, bytes.byte + bytes.count)) > 0)
                bytes.count++;
            else
                break;
        if (at == in->end[i]) continue;
        bytes.count = before;
        room = ls_text_append(&bytes, in->all.byte + start, in->end[i] - start);
    }
    room = room && ls_utf8_repair(bytes.byte, bytes.count, &out->all) && ls_strings_end(out);
    free(bytes.byte);
    return room ? ls_ok() : ls_no_memory(in->all.count);
}

/* Does nothing: this post-processor changes only offsets, which Longspan does not have. */
static ls_status frame(const void *state, ls_token_list *before, ls_token_list *after) {
    (void)state, (void)before, (void)after;
    return ls_ok();
}

const ls_step_kind ls_step_byte_level = {.type = "ByteLevel", .read = read, .free = free_state, .split = split};
const ls_step_kind ls_step_byte_level_decoder = {.type = "ByteLevel", .decode = decode};
const ls_step_kind ls_step_byte_level_post = {.type = "ByteLevel", .frame = frame};
