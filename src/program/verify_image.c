/*
 * Checks of an image before its programs run: where its buffers and words lie, and which of them the host accesses.
 * Both verifiers use them.
 */
#include "program/verify_impl.h"

static ls_status buffer_fault(int rank, const ls_buffer *b, const char *where) {
    return ls_error(LS_INVALID, "program rejected: rank %d, \"%s\" (%zu bytes at %zu of the %s) lies where %s", rank,
                    b->name, b->bytes, b->offset, ls_space_texts[b->space].title, where);
}

/*
 * Checks that a buffer lies in its arena, and that persistent buffers do not overlap: programs have no names for what
 * the host writes there.
 */
static ls_status check_buffers(const ls_image *image, int rank, ls_arena *arena) {
    ls_intervals persistent[LS_SPACES] = {0};
    ls_interval_list met = {.arena = arena};
    ls_interval *places = LS_NEW_ARRAY(arena, ls_interval, image->n_buffers + 1);
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        const bool untouched = b->program >= 0 && b->first < 0; /* by this rank: it has no place here */
        if (b->bytes == 0 || untouched) continue;
        if (b->bytes > image->bytes[b->space] || b->offset > image->bytes[b->space] - b->bytes)
            return buffer_fault(rank, b, "its arena has ended");
        if (b->program >= 0) continue;
        ls_intervals_find(&persistent[b->space], b->offset, b->offset + b->bytes, &met);
        if (met.n > 0) return buffer_fault(rank, b, "another buffer persists");
        places[i] = (ls_interval){.from = b->offset, .past = b->offset + b->bytes};
        ls_intervals_add(&persistent[b->space], &places[i]);
    }
    return ls_ok();
}

/* Checks that no two channels share a word, and that each word is one of the image's. */
static ls_status check_words(const ls_image *image, int rank, ls_arena *arena) {
    bool *taken = LS_NEW_ARRAY(arena, bool, image->words + 1);
    for (int p = 0; p < image->n_programs; p++) {
        const ls_program *program = &image->programs[p];
        for (int w = 0; w < 2 * program->n_channels; w++) {
            const int word = ls_channel_word(program, w / 2, w % 2 == 1);
            const bool is = word >= 0 && word < image->words;
            if (!is || taken[word])
                return ls_error(LS_INVALID, "program rejected: rank %d, %s: word %d of \"%s\" is %s", rank,
                                program->name, word, program->channels[w / 2].name,
                                is ? "that of another channel, too" : "not there");
            taken[word] = true;
        }
    }
    return ls_ok();
}

/* Whether an operand that the host accesses is empty or lies in a persistent buffer. */
static bool is_bound(const ls_image *image, const ls_operand *o) {
    return ls_operand_is_empty(o) || (image->buffers[o->buffer].program < 0 && ls_operand_is_inside(image, o));
}

static ls_status check_bindings(const ls_image *image, int rank) {
    bool bound = is_bound(image, &image->positions);
    for (int i = 0; i < image->n_masks; i++) bound = bound && is_bound(image, &image->masks[i].spans);
    for (int i = 0; i < image->n_rows; i++) bound = bound && is_bound(image, &image->rows[i].rows);
    if (!bound)
        return ls_error(LS_INVALID, "program rejected: rank %d: a table of the host lies outside of its buffer", rank);
    for (int i = 0; i < image->n_bindings; i++)
        if (image->bindings[i].elsewhere ? image->bindings[i].operand.buffer >= 0
                                         : !is_bound(image, &image->bindings[i].operand))
            return ls_error(LS_INVALID,
                            "program rejected: rank %d: what the host has as \"%s\" lies outside of its buffer", rank,
                            image->bindings[i].name);
    return ls_ok();
}

ls_status ls_image_check(const ls_image *image, int rank) {
    ls_arena *scratch = ls_arena_create();
    ls_status status = check_buffers(image, rank, scratch);
    if (status.code == LS_OK) status = check_words(image, rank, scratch);
    if (status.code == LS_OK) status = check_bindings(image, rank);
    ls_arena_destroy(scratch);
    return status;
}
