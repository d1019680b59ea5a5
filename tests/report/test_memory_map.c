/* The peak of a rank's memory against a count over every instruction, and the picture of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "program/program.h"
#include "report/report.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/scratch.h"
#include "support/svg.h"

/* Bytes live at an instruction, from the operands that the program still uses and those it has used. */
static size_t count_live(const ls_image *image, ls_space space, int program, int instr) {
    size_t sum = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        const bool own = b->program == program && b->first >= 0 && b->first <= instr && b->last >= instr;
        if (b->space == space && (b->program < 0 || own)) sum += b->bytes;
    }
    return sum;
}

static void peak_is_the_most_of_all_instructions(void **state) {
    (void)state;
    const ls_saving saving = {.offload = LS_OFFLOAD_ALL, .offload_state = true};
    image_set set = images_of_saving(mesh_of(1, 2, 2), "usp", 3, &saving, NULL);
    for (int s = 0; s < LS_COMMON; s++) {
        const ls_image *image = set.image[1];
        const ls_peak peak = ls_image_peak(image, (ls_space)s);
        size_t most = 0, kinds = 0;
        for (int p = 0; p < image->n_programs; p++) {
            for (int i = 0; i < image->programs[p].n_instrs; i++) {
                const size_t live = count_live(image, (ls_space)s, p, i);
                most = live > most ? live : most;
            }
        }
        assert_int_equal(peak.bytes, most);
        assert_int_equal(count_live(image, (ls_space)s, peak.program, peak.instr), most);
        for (int k = 0; k < LS_BUFFER_KINDS; k++) kinds += peak.kind_bytes[k];
        assert_int_equal(kinds, most);
        assert_true(most <= image->least[s] && image->least[s] <= image->bytes[s]);
        assert_true(image->least[s] < most + 64 * (size_t)image->n_buffers); /* apart by rounding alone */
        int largest[4];
        const int n = ls_image_largest(image, (ls_space)s, &peak, largest, 4);
        assert_in_range(n, 2, 4);
        for (int i = 0; i < image->n_buffers; i++) {
            bool listed = false;
            for (int k = 0; k < n; k++) listed = listed || largest[k] == i;
            const ls_buffer *b = &image->buffers[i];
            const bool live = b->space == (ls_space)s && ls_buffer_is_live(b, peak.program, peak.instr);
            assert_true(!listed || live);
            assert_true(listed || !live || (n == 4 && b->bytes <= image->buffers[largest[3]].bytes));
        }
        for (int k = 1; k < n; k++)
            assert_true(image->buffers[largest[k - 1]].bytes >= image->buffers[largest[k]].bytes);
    }
    free_images(&set);
}

/* common: a buffer that persists lies in memory that ranks have in common. */
static void check_map(void **state, bool common) {
    const ls_saving saving = {.offload = LS_OFFLOAD_ALL, .offload_state = true};
    image_set set = images_of_saving(mesh_of(1, 2, 1), "ring", 2, &saving, NULL);
    ls_image *image = set.image[1];
    const int spaces = common ? LS_SPACES : LS_COMMON;
    for (int i = 0; i < image->n_buffers && common; i++) {
        ls_buffer *b = &image->buffers[i];
        if (b->kind != LS_BUFFER_PARAMETER || b->program >= 0) continue;
        b->space = LS_COMMON;
        b->offset = 0;
        image->bytes[LS_COMMON] = image->least[LS_COMMON] = b->bytes;
        image->sharers = 2;
    }
    const char *path = scratch_path(state, "map.svg");
    assert_ok(ls_memory_map_write(image, 1, "a <model> & more", path));
    char *text, words[64], bytes[LS_BYTES_TEXT];
    size_t length;
    assert_ok(ls_file_read(path, 16 << 20, &text, &length));
    assert_well_formed(text);
    int placed = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        placed += b->bytes > 0 && (b->program < 0 || b->first >= 0);
    }
    assert_int_equal(occurrences(text, "<rect class=\"box "), placed);
    assert_non_null(strstr(text, ">a &lt;model&gt; &amp; more · rank 1 of 2 · ring 2 · ring<"));
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    assert_int_equal(occurrences(text, "class=\"mark\""), LS_COMMON); /* what ranks have in common has no peak */
    for (int s = 0; s < spaces; s++) {
        snprintf(words, sizeof words, ">mapped %s", ls_bytes_text((double)image->bytes[s], bytes));
        assert_non_null(strstr(text, words));
        const ls_peak peak = ls_image_peak(image, (ls_space)s);
        snprintf(words, sizeof words, ">peak: %s live<", ls_bytes_text((double)peak.bytes, bytes));
        assert_non_null(strstr(text, words));
    }
    assert_int_equal(occurrences(text, "lower bound"), spaces);
    free(text);
    free_images(&set);
}

static void map_shows_every_buffer(void **state) {
    check_map(state, false);
    check_map(state, true);
}

static void a_lower_bound_below_stands_apart(void **state) {
    image_set set = images_of_network(mesh_of(1, 1, 1), "local", LS_LAYOUT_CONTIGUOUS, 32, 1);
    set.image[0]->least[LS_PRIVATE] = set.image[0]->bytes[LS_PRIVATE] / 2;
    const char *path = scratch_path(state, "apart.svg");
    assert_ok(ls_memory_map_write(set.image[0], 0, "m", path));
    char *text;
    size_t length;
    assert_ok(ls_file_read(path, 16 << 20, &text, &length));
    assert_well_formed(text);
    assert_int_equal(occurrences(text, ">lower bound "), 1);
    assert_int_equal(occurrences(text, "the lower bound itself"), 1); /* of the heap */
    free(text);
    free_images(&set);
}

static void errors_name_the_file(void **state) {
    image_set set = images_of_network(mesh_of(1, 1, 1), "local", LS_LAYOUT_CONTIGUOUS, 16, 1);
    assert_error(ls_memory_map_write(set.image[0], 0, "m", scratch_path(state, "no/map.svg")), LS_IO, "no/map.svg",
                 "No such file");
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_is_the_most_of_all_instructions),
        cmocka_unit_test(map_shows_every_buffer),
        cmocka_unit_test(a_lower_bound_below_stands_apart),
        cmocka_unit_test(errors_name_the_file),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
