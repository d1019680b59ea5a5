/* The chart is well-formed and escaped, has round ticks, and copes with every kind of bad data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"
#include "support/svg.h"

#include <math.h>

static char *draw(void **state, const ls_chart *chart) {
    const char *path = scratch_path(state, "chart.svg");
    char *text;
    size_t bytes;
    assert_ok(ls_svg_write_chart(path, chart));
    assert_ok(ls_file_read(path, 1 << 20, &text, &bytes));
    return text;
}

static void draws_series_and_levels(void **state) {
    const double x[] = {1, 2, 3, 4, 5}, y[] = {5.5, 4.25, 3.5, 3.25, 3.0};
    const ls_chart_series series[] = {{"loss", x, y, 5, NULL}, {"eval & <more>", x, y, 2, NULL}};
    const ls_chart_level level = {"unigram", 3.2};
    const ls_chart chart = {"Loss", "step", "nats", false, series, 2, &level, 1};
    char *text = draw(state, &chart);
    assert_well_formed(text);
    assert_int_equal(occurrences(text, "<path class=\"line"), 4); /* two lines and two samples in the legend */
    assert_non_null(strstr(text, ">eval &amp; &lt;more&gt;<"));
    assert_non_null(strstr(text, ">unigram<"));
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    assert_non_null(strstr(text, ">3.0<")); /* round ticks */
    assert_non_null(strstr(text, ">5.5<"));
    /* The curve starts at the left end on the top, and ends at the right end on the bottom. */
    assert_non_null(strstr(text, "d=\"M84.0 84.0"));
    assert_non_null(strstr(text, "L920.0 472.0\""));
    free(text);
}

static void gaps_interrupt_the_line(void **state) {
    const double x[] = {1, 2, 3, 4, 5, 6}, y[] = {3, NAN, 2, 1, INFINITY, 1};
    const ls_chart_series series = {"loss", x, y, 6, NULL};
    const ls_chart chart = {.series = &series, .n_series = 1};
    char *text = draw(state, &chart);
    assert_well_formed(text);
    assert_int_equal(occurrences(text, "<path class=\"line"), 2); /* one run of two points, and the legend */
    assert_int_equal(occurrences(text, "<circle"), 2);            /* two points alone */
    free(text);
}

static void poor_data_is_drawn(void **state) {
    const double nan = NAN, one = 1, zero = 0, huge = 1e300, tiny = 1e-300;
    const ls_chart_series series[] = {{"", &one, &nan, 1, NULL},
                                      {"", &one, &zero, 1, NULL},
                                      {"", &huge, &tiny, 1, NULL},
                                      {"", &tiny, &huge, 1, NULL}};
    for (int i = -1; i < (int)LS_COUNT(series); i++) {
        const ls_chart chart = {.title = "t", .series = series + ls_max(i, 0), .n_series = i < 0 ? 0 : 1};
        char *text = draw(state, &chart);
        assert_well_formed(text);
        assert_int_equal(occurrences(text, "no data yet"), i <= 0);
        free(text);
    }
}

static void many_points_stay_small(void **state) {
    enum { N = 200000, SPIKE = 123457 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = ls_rng_uniform(1, 2, (uint64_t)i);
    }
    y[SPIKE] = 100; /* is not lost */
    const ls_chart_series series = {"loss", x, y, N, NULL};
    const ls_chart chart = {.series = &series, .n_series = 1};
    char *text = draw(state, &chart);
    assert_well_formed(text);
    assert_true(strlen(text) < 100000);
    assert_int_equal(occurrences(text, " 84.0L"), 1);
    free(text);
    free(x);
    free(y);
}

static void errors_name_the_file(void **state) {
    const ls_chart chart = {0};
    assert_error(ls_svg_write_chart(scratch_path(state, "no/chart.svg"), &chart), LS_IO, "no/chart.svg",
                 "No such file");
}

/* Powers of two as ticks, a mark for each point, a bar where there is an error. */
static void doublings_have_marks_and_bars(void **state) {
    const double x[] = {1, 3, 512, 2048}, y[] = {4, 3, 2, 1}, error[] = {0.5, NAN, 0.25, NAN};
    const ls_chart_series series = {"loss", x, y, 4, error};
    const ls_chart chart = {.title = "By position", .doubling = true, .series = &series, .n_series = 1};
    char *svg = draw(state, &chart);
    assert_well_formed(svg);
    static const char *const ticks[] = {">1</text>", ">2</text>", ">512</text>", ">1K</text>", ">2K</text>"};
    for (size_t i = 0; i < LS_COUNT(ticks); i++) assert_non_null(strstr(svg, ticks[i]));
    assert_null(strstr(svg, ">4K</text>"));
    assert_int_equal(occurrences(svg, "<circle"), 4);
    assert_int_equal(occurrences(svg, " bar\""), 2);
    free(svg);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_series_and_levels), cmocka_unit_test(gaps_interrupt_the_line),
        cmocka_unit_test(poor_data_is_drawn),      cmocka_unit_test(many_points_stay_small),
        cmocka_unit_test(errors_name_the_file),    cmocka_unit_test(doublings_have_marks_and_bars),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
