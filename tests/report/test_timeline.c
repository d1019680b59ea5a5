/*
 * The picture of the queues over time: every span is drawn, or counted in a box with its neighbours, and sums are
 * those of the spans.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "report/report.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/scratch.h"
#include "support/svg.h"

enum { LEGEND = 8 /* boxes, one of each kind */, ROW_PIXELS = 912, MANY = 20000 };

typedef struct setting {
    image_set set;
    ls_timeline_rank predicted[2], measured[2];
    ls_timeline timeline;
} setting;

/* Two ranks that have done nothing yet. */
static setting *new_setting(void) {
    setting *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->set = images_of_step(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 16, 1);
    s->timeline = (ls_timeline){.model = "a <model>",
                                .images = (const ls_image *const *)s->set.image,
                                .ranks = 2,
                                .program = ls_program_find(s->set.image[0], LS_PROGRAM_STEP),
                                .predicted = s->predicted,
                                .shown = 2};
    return s;
}

static void free_setting(setting *s) {
    for (int r = 0; r < 2; r++) {
        free((void *)s->predicted[r].spans);
        free((void *)s->measured[r].spans);
    }
    free_images(&s->set);
    free(s);
}

static const ls_program *program_of(const setting *s) { return &s->set.image[0]->programs[s->timeline.program]; }

/* n spans of `seconds` without a gap, of all instructions in turn or of one. */
static ls_timeline_rank spans_of(const setting *s, size_t n, double seconds, int one) {
    ls_span_time *spans = calloc(n, sizeof *spans);
    assert_non_null(spans);
    for (size_t i = 0; i < n; i++) {
        const int instr = one >= 0 ? one : (int)(i % (size_t)program_of(s)->n_instrs);
        spans[i] = (ls_span_time){(double)i * seconds, (double)(i + 1) * seconds, s->timeline.program, instr, 0};
    }
    return (ls_timeline_rank){spans, n};
}

static char *draw(void **state, const setting *s) {
    const char *path = scratch_path(state, "timeline.svg");
    char *text;
    size_t bytes;
    assert_ok(ls_timeline_write(&s->timeline, path));
    assert_ok(ls_file_read(path, 16 << 20, &text, &bytes));
    assert_well_formed(text);
    return text;
}

static int boxes(const char *text) { return occurrences(text, "<rect class=\"k") - LEGEND; }

static int find_instr(const setting *s, const char *op) {
    for (int i = 0; i < program_of(s)->n_instrs; i++) {
        const ls_instr *instr = &program_of(s)->instrs[i];
        if (instr->kind == LS_INSTR_KERNEL && strcmp(ls_kernel_name(instr->kernel), op) == 0) return i;
    }
    fail_msg("no %s", op);
    return -1;
}

/* The sum of the numbers in front of the word. */
static int sum_before(const char *text, const char *word) {
    int sum = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p += strlen(word)) {
        const char *begin = p;
        while (begin > text && begin[-1] >= '0' && begin[-1] <= '9') begin--;
        sum += atoi(begin);
    }
    return sum;
}

static void wide_spans_have_a_box_each(void **state) {
    setting *s = new_setting();
    const int n = program_of(s)->n_instrs;
    assert_in_range(n, 20, 400); /* two pixels each at least */
    for (int r = 0; r < 2; r++) s->predicted[r] = spans_of(s, (size_t)n, 1e-3, -1);
    char *text = draw(state, s);
    assert_int_equal(boxes(text), 2 * n);
    assert_non_null(strstr(text, ">a &lt;model&gt; · 2 ranks · ring 2 · ring<"));
    assert_null(strstr(text, ">compute · measured<"));
    char tip[128];
    const int product = find_instr(s, "matmul");
    snprintf(tip, sizeof tip, "<title>%d %s · 1.000 ms</title>", product, program_of(s)->instrs[product].op);
    assert_int_equal(occurrences(text, tip), 2);
    free(text);
    free_setting(s);
}

/* Twenty spans in a pixel, of all kinds: no more boxes than pixels, and every span is counted. */
static void narrow_spans_are_joined(void **state) {
    setting *s = new_setting();
    for (int r = 0; r < 2; r++) s->predicted[r] = spans_of(s, MANY, 1e-6, -1);
    char *text = draw(state, s);
    assert_in_range(boxes(text), 10, 4 * ROW_PIXELS);
    assert_int_equal(sum_before(text, " narrow ones"), 2 * MANY);
    free(text);
    free_setting(s);
}

static void neighbours_of_one_kind_are_one_box(void **state) {
    setting *s = new_setting();
    for (int r = 0; r < 2; r++) s->predicted[r] = spans_of(s, MANY, 1e-6, find_instr(s, "matmul"));
    char *text = draw(state, s);
    assert_int_equal(boxes(text), 2);
    assert_int_equal(occurrences(text, "<title>20000 narrow ones, mostly matrix products · 20.00 ms of "), 2);
    free(text);
    free_setting(s);
}

/* Rank 1 is measured to take twice as long, and to be idle for 5 ms. */
static void measured_stands_beside_predicted(void **state) {
    setting *s = new_setting();
    const int attention = find_instr(s, "attention");
    for (int r = 0; r < 2; r++) {
        s->predicted[r] = spans_of(s, 10, 1e-3, attention);
        s->measured[r] = spans_of(s, r == 0 ? 10 : 20, 1e-3, attention);
    }
    ((ls_span_time *)s->measured[1].spans)[19] = (ls_span_time){15e-3, 20e-3, s->timeline.program, LS_SPAN_ASLEEP, 0};
    s->timeline.measured = s->measured;
    char *text = draw(state, s);
    assert_non_null(strstr(text, ">predicted 10.00 ms, by nominal rates · measured 20.00 ms, 2.00 times as long<"));
    assert_int_equal(occurrences(text, ">compute · measured<"), 2);
    assert_int_equal(occurrences(text, ">copy · predicted<"), 2);
    assert_int_equal(occurrences(text, "<title>idle · 5.000 ms</title>"), 1);
    assert_int_equal(occurrences(text, ">5.000 ms</text>"), 1); /* the sum of it */
    assert_int_equal(occurrences(text, ">10.00 ms</text>"), 3); /* works, in three rows */
    assert_int_equal(occurrences(text, ">19.00 ms</text>"), 1);
    assert_int_equal(boxes(text), 50);
    free(text);
    free_setting(s);
}

/* With many ranks a few are drawn, and the title says which. */
static void a_part_of_the_ranks(void **state) {
    setting *s = new_setting();
    for (int r = 0; r < 2; r++) s->predicted[r] = spans_of(s, 10, 1e-3, 0);
    s->timeline.first = 1;
    s->timeline.shown = 1;
    char *text = draw(state, s);
    assert_null(strstr(text, ">rank 0<"));
    assert_non_null(strstr(text, ">rank 1<"));
    assert_non_null(strstr(text, "2 ranks (1 to 1 are shown)"));
    assert_error(ls_timeline_write(&s->timeline, scratch_path(state, "no/timeline.svg")), LS_IO, "no/timeline.svg",
                 "No such file");
    free(text);
    free_setting(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_spans_have_a_box_each),
        cmocka_unit_test(narrow_spans_are_joined),
        cmocka_unit_test(neighbours_of_one_kind_are_one_box),
        cmocka_unit_test(measured_stands_beside_predicted),
        cmocka_unit_test(a_part_of_the_ranks),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
