/*
 * In a program that has set a locale with a comma before the decimals, numbers are read, and written to files and
 * messages, as in any other. localedef, a part of the C library, makes such a locale here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#include "support/svg.h"

#include "jinja/jinja.h"

#include <locale.h>

static bool there;

static int set_locale(void **state) {
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n"
                                 "LC_TIME\nday \"So\";\"Mo\";\"Di\";\"Mi\";\"Do\";\"Fr\";\"Sa\"\nEND LC_TIME\n";
    char command[1200], text[20];
    if (scratch_make(state) != 0) return -1;
    const char *path = scratch_text(state, "comma.src", source);
    /* -c: without the other categories, which it warns of and ends with 1 for */
    snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 %s/comma >%s/said 2>&1", path, (const char *)*state,
             (const char *)*state);
    if (system(command) < 0) return -1;
    setenv("LOCPATH", *state, 1);
    there = setlocale(LC_ALL, "comma") != NULL && snprintf(text, sizeof text, "%.1f", 1.5) == 3 && text[1] == ',';
    if (!there) print_message("localedef makes no locale here\n");
    return 0;
}

/* A comma before a digit in a number: 84,0. */
static void assert_points(const char *text) {
    for (const char *c = strchr(text, ','); c != NULL; c = strchr(c + 1, ','))
        if (c > text && c[-1] >= '0' && c[-1] <= '9' && c[1] >= '0' && c[1] <= '9') fail_msg("%.20s", c - 5);
}

static void trains_with_numbers_in_options(void **state) {
    if (!there) skip();
    run_paths *p = make_paths(state, "run");
    char path[600], *text;
    size_t bytes;
    ls_train_options o = tiny_options(p->model, p->data, p->out);
    o.groups = (const char *[]){"*layernorm*:lr=0.5,decay=0.25"};
    o.n_groups = 1;
    o.steps = 4;
    o.rope.scaling = "linear:1.5";
    o.rope.theta = 12345.5;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&o, &result));
    double *loss = losses_written(p->out, 4);
    assert_true(isfinite(loss[0]) && loss[0] != floor(loss[0]));
    free(loss);
    static const char *const files[] = {"loss.svg", "run.json"};
    for (size_t i = 0; i < LS_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", p->out, files[i]);
        assert_ok(ls_file_read(path, 1 << 20, &text, &bytes));
        if (i == 0) assert_well_formed(text);
        if (i == 0) assert_points(text);
        if (i == 1) assert_non_null(strstr(text, "0.25"));
        free(text);
    }
    assert_error(ls_error(LS_INVALID, "scale is %g", 0.5), LS_INVALID, "0.5", "scale");
    assert_string_equal(ls_bytes_text(1536, path), "1.5 KiB");
    free(p);
}

static void reads_options(void **state) {
    (void)state;
    if (!there) skip();
    char flag[] = "--lr", half[] = "0.5", tenth[] = "0.1";
    double lr = 0;
    const ls_option table[] = {{.name = "lr", .type = LS_OPTION_FLOAT, .metavar = "X", .least = 0.25, .most = 1}};
    assert_ok(ls_options_parse(table, 1, 2, (char *[]){flag, half}, &lr, NULL));
    assert_true(lr == 0.5);
    assert_error(ls_options_parse(table, 1, 2, (char *[]){flag, tenth}, &lr, NULL), LS_USAGE, "from 0.25 to 1", "0.1");
}

static void renders_templates(void **state) {
    static const char source[] = "{{ 1.5 }} {{ '2.5' | float + 1 }} {{ '%.2f' % 0.125 }} {{ 2.345 | round(1) }} "
                                 "{{ [0.1] | tojson }} {{ strftime_now('%a') }}";
    static const char expected[] = "1.5 3.5 0.12 2.3 [0.1] Wed";
    ls_jinja *jinja = NULL;
    jinja_text text;
    (void)state;
    if (!there) skip();
    ls_arena *arena = ls_arena_create();
    const ls_jinja_options options = {.today = {.tm_year = 125, .tm_mon = 6, .tm_mday = 9, .tm_wday = 3}};
    assert_ok(ls_jinja_read("t", source, strlen(source), &jinja));
    assert_ok(ls_jinja_render(jinja, arena, jinja_dict_new(arena), &options, &text));
    for (size_t i = 0; i < text.n; i++) assert_int_equal(text.at[i] & JINJA_CODE, expected[i]);
    assert_int_equal(text.n, strlen(expected));
    ls_arena_destroy(arena);
    ls_jinja_free(jinja);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_options),
        cmocka_unit_test(renders_templates),
        cmocka_unit_test(trains_with_numbers_in_options),
    };
    return cmocka_run_group_tests(tests, set_locale, scratch_remove);
}
