/*
 * Images whose memory or words are laid out wrong: both verifiers reject them with the same words, whatever the
 * programs do. Where memory is what is wrong, the interpreter finds other values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"
#include "run/interpret.h"
#include "support/images.h"

/* The nth buffer of the space that a program has, or that persists and is written by the host. */
static ls_buffer *nth(ls_image *image, ls_space space, bool persists, int n) {
    for (int i = 0; i < image->n_buffers; i++) {
        ls_buffer *b = &image->buffers[i];
        const bool wanted = persists ? b->program < 0 && b->kind <= LS_BUFFER_PARAMETER : b->program >= 0;
        if (b->space == space && b->bytes > 0 && wanted && n-- == 0) return b;
    }
    fail_msg("there is no such buffer");
    return NULL;
}

static void beyond_the_end(ls_image *image) {
    ls_buffer *b = nth(image, LS_PRIVATE, false, 3);
    b->offset = image->bytes[LS_PRIVATE] - b->bytes + 64;
}
static void far_away(ls_image *image) { nth(image, LS_SYMMETRIC, false, 0)->offset = SIZE_MAX - 63; }
static void too_small_an_arena(ls_image *image) { image->bytes[LS_SYMMETRIC] -= 64; }
static void persistent_on_another(ls_image *image) {
    nth(image, LS_PRIVATE, true, 1)->offset = nth(image, LS_PRIVATE, true, 0)->offset;
}
static void a_word_for_two(ls_image *image) { image->programs[1].first_word = image->programs[0].first_word; }
static void a_word_too_few(ls_image *image) { image->words--; }
static void words_of_its_own(ls_image *image) {
    image->words += 2;
    for (int p = 0; p < image->n_programs; p++) image->programs[p].own_word += 2;
}
static void common_words_of_its_own(ls_image *image) {
    const int words = image->words;
    image->words += 2 * image->programs[0].n_common;
    image->programs[0].first_word = words;
}
static void bound_elsewhere(ls_image *image) {
    ls_operand *o = &image->bindings[0].operand;
    o->offset += image->buffers[o->buffer].bytes;
}
static void bound_to_a_program(ls_image *image) {
    image->bindings[0].operand.buffer = (int)(nth(image, LS_PRIVATE, false, 0) - image->buffers);
}
static void spans_elsewhere(ls_image *image) {
    image->masks[0].spans.offset += image->buffers[image->masks[0].spans.buffer].bytes;
}

static const struct {
    const char *name;
    void (*edit)(ls_image *image); /* of rank 1 */
    const char *says;
    bool is_memory; /* and every arena has room for it */
} edits[] = {
    {"a buffer beyond the end", beyond_the_end, "its arena has ended", true},
    {"a buffer beyond all numbers", far_away, "its arena has ended", false},
    {"too small an arena", too_small_an_arena, "its arena has ended", false},
    {"two persistent buffers in one place", persistent_on_another, "another buffer persists", true},
    {"a word for two channels", a_word_for_two, "that of another channel", false},
    {"a word too few", a_word_too_few, "not there", false},
    {"other words than its peer within a stage", words_of_its_own, "", false},
    {"other words than its peer in another stage", common_words_of_its_own, "", false},
    {"a binding behind its buffer", bound_elsewhere, "lies outside of its buffer", false},
    {"a binding to a program's buffer", bound_to_a_program, "lies outside of its buffer", false},
    {"spans behind their buffer", spans_elsewhere, "lies outside of its buffer", false},
};

static ls_interpreter *interpret(const image_set *set, ls_interpreter_result *out) {
    ls_interpreter *in = ls_interpreter_create((const ls_image *const *)set->image, set->ranks);
    *out = ls_interpreter_run(in, 0);
    return in;
}

static void test_both_reject(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(edits); i++) {
        image_set set = images_of_stages("pp=2,ring=2", "ring", "1f1b", &ls_shard_modes[LS_SHARD_GRADIENTS]);
        ls_interpreter_result right, edited;
        ls_interpreter *unedited = edits[i].is_memory ? interpret(&set, &right) : NULL;
        edits[i].edit(set.image[1]);
        const ls_status play = ls_verify((const ls_image *const *)set.image, set.ranks),
                        local = ls_verify_local((const ls_image *const *)set.image, set.ranks);
        print_message("%s: %s\n%s\n", edits[i].name, local.text, play.text);
        assert_int_equal(play.code, LS_INVALID);
        assert_int_equal(local.code, LS_INVALID);
        assert_non_null(strstr(play.text, edits[i].says));
        assert_non_null(strstr(local.text, edits[i].says[0] != 0 ? edits[i].says : "their signal words"));
        if (edits[i].is_memory) {
            ls_interpreter *in = interpret(&set, &edited);
            assert_false(ls_interpreter_same(&right, &edited));
            ls_interpreter_destroy(in);
        }
        ls_interpreter_destroy(unedited);
        free_images(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_reject)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
