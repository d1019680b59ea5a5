/* Runs the steps of a tokenizer, one after the other. */
#include "base/base.h"
#include "text/steps_impl.h"

#include <stdlib.h>

ls_status ls_normalize(const ls_steps *steps, ls_match_scratch *scratch, ls_allowance *allowance, ls_text buffer[2],
                       ls_text_piece *piece) {
    const size_t most = allowance->most - allowance->made;
    for (size_t i = 0, to = 0; i < steps->count; i++) {
        const char *before = piece->text;
        buffer[to].count = 0;
        LS_TRY(steps->step[i].kind->normalize(steps->step[i].state, scratch, most, piece, &buffer[to]));
        if (piece->bytes > most)
            return ls_error(LS_INVALID, "the normalizers of the tokenizer turn a text into more than %zu bytes",
                            allowance->most);
        if (piece->text != before && piece->text == buffer[to].byte)
            to = !to; /* the next step writes into the other buffer */
    }
    allowance->made += piece->bytes;
    return ls_ok();
}

bool ls_steps_may_cut(const ls_steps *steps) {
    for (size_t i = 0; i < steps->count; i++)
        if (!steps->step[i].kind->cut) return false;
    return true;
}

/*
 * A word boundary that a step before the last one sets is not certain: after a cut, the next step would take the part
 * after the boundary for a separate text.
 */
ls_cut ls_steps_cut(const ls_steps *steps, ls_boundary *boundary) {
    ls_cut cut = LS_CUT_SAME;
    for (size_t i = 0; i < steps->count && cut == LS_CUT_SAME; i++) {
        cut = steps->step[i].kind->cut(steps->step[i].state, boundary);
        if (cut == LS_CUT_APART && i + 1 < steps->count) cut = LS_CUT_UNKNOWN;
    }
    return cut;
}

bool ls_split_no_memory(ls_split_chain *chain, size_t bytes) {
    chain->status = ls_no_memory(bytes);
    return false;
}

static bool end_chain(ls_split_chain *chain, ls_text_piece piece) {
    if (piece.bytes <= INT32_MAX)
        return chain->word(chain->context, piece.text, piece.bytes) || ls_split_no_memory(chain, piece.bytes);
    chain->status = ls_error(LS_UNSUPPORTED, "a word of %zu bytes, expected at most %d", piece.bytes, INT32_MAX);
    return false;
}

bool ls_split_next(ls_split_chain *chain, ls_text_piece piece) {
    if (piece.bytes == 0) return true;
    if (chain->at == chain->steps->count) return end_chain(chain, piece);
    const ls_text_step *step = &chain->steps->step[chain->at++];
    const bool done = step->kind->split(step->state, chain, piece);
    chain->at--;
    return done;
}

bool ls_strings_end(ls_strings *texts) {
    void *items = texts->end;
    const bool room = ls_reserve(&items, texts->count, &texts->capacity, 1, sizeof *texts->end);
    texts->end = items;
    if (room) texts->end[texts->count++] = texts->all.count;
    return room;
}

void ls_strings_free(ls_strings *texts) {
    free(texts->all.byte);
    free(texts->end);
    *texts = (ls_strings){0};
}

static ls_status join_with_spaces(ls_strings *texts) {
    ls_strings out = {0};
    bool room = true;
    for (size_t i = 0, start = 0; i < texts->count && room; start = texts->end[i++])
        room = (i == 0 || ls_text_append(&out.all, " ", 1)) &&
               ls_text_append(&out.all, texts->all.byte + start, texts->end[i] - start);
    ls_strings_free(texts);
    *texts = out;
    return room ? ls_ok() : ls_no_memory(out.all.count);
}

ls_status ls_decode(const ls_steps *steps, ls_strings *texts) {
    if (steps->count == 0) return join_with_spaces(texts);
    for (size_t i = 0; i < steps->count; i++) {
        ls_strings out = {0};
        ls_status status = steps->step[i].kind->decode(steps->step[i].state, texts, &out);
        ls_strings_free(texts);
        *texts = out;
        if (status.code != LS_OK) return status;
    }
    return ls_ok();
}
