/*
 * Jinja as transformers renders it: stored templates with the text of the reference
 * (tests/reference/compare_jinja.py), refusals, bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "jinja/jinja.h"
#include "text/text.h"

static char *to_utf8(jinja_text text) {
    char *utf8 = malloc(4 * text.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) n += (size_t)ls_utf8_encode(text.at[i] & JINJA_CODE, utf8 + n);
    utf8[n] = 0;
    return utf8;
}

static ls_status render(const char *source, size_t bytes, ls_json_value variables, char **out) {
    ls_jinja *jinja = NULL;
    jinja_text text;
    const ls_jinja_options options = {.today = {.tm_year = 125, .tm_mon = 6, .tm_mday = 9, .tm_wday = 3}};
    LS_TRY(ls_jinja_read("t.jinja", source, bytes, &jinja));
    ls_arena *arena = ls_arena_create();
    const jinja_value values = jinja_of_json(arena, variables, JINJA_FROM_DATA);
    const ls_status status =
        ls_jinja_render(jinja, arena, values.kind == JINJA_DICT ? values.dict : jinja_dict_new(arena), &options, &text);
    if (status.code == LS_OK) *out = to_utf8(text);
    ls_arena_destroy(arena);
    ls_jinja_free(jinja);
    return status;
}

static void is_what_the_reference_makes(void **state) {
    ls_json *document = NULL;
    ls_json_value cases;
    size_t texts = 0, refused = 0;
    (void)state;
    assert_ok(ls_json_read(LS_TEST_REFERENCE "/jinja/cases.json", LS_JSON_MOST_BYTES, &document));
    assert_ok(ls_json_array(ls_json_root(document), "cases", &cases));
    const ls_json_value variables = ls_json_field(ls_json_root(document), "variables");
    for (size_t i = 0; i < ls_json_count(cases); i++) {
        const ls_json_value c = ls_json_item(cases, i);
        const char *source = NULL, *expected = NULL;
        char *text = NULL;
        assert_ok(ls_json_text(c, "template", &source));
        const ls_status status = render(source, strlen(source), variables, &text);
        if (ls_json_has(c, "text")) {
            assert_ok(ls_json_text(c, "text", &expected));
            if (status.code != LS_OK && strstr(status.text, "not supported") == NULL)
                fail_msg("%s: %s", source, status.text);
            if (status.code == LS_OK && strcmp(text, expected) != 0)
                fail_msg("%s: \"%s\", expected \"%s\"", source, text, expected);
            texts += status.code == LS_OK;
        } else {
            if (status.code == LS_OK) fail_msg("%s: \"%s\", expected an error", source, text);
            refused++;
        }
        free(text);
    }
    assert_true(texts > 250 && refused > 10);
    ls_json_free(document);
}

static void refuses_by_line_and_name(void **state) {
    static const struct {
        const char *source, *what;
        ls_code code;
    } cases[] = {
        {"a\n{% include 'x' %}", "t.jinja:2: block 'include' is not supported", LS_UNSUPPORTED},
        {"{% import 'x' as y %}", "block 'import' is not supported", LS_UNSUPPORTED},
        {"{% extends 'x' %}", "block 'extends' is not supported", LS_UNSUPPORTED},
        {"{% for a in b recursive %}{% endfor %}", "recursive is not supported", LS_UNSUPPORTED},
        {"{{ a | urlize }}", "filter 'urlize' is not supported", LS_UNSUPPORTED},
        {"{{ a is odder }}", "test 'odder' is not supported", LS_UNSUPPORTED},
        {"{{ lipsum() }}", "lipsum are not supported", LS_UNSUPPORTED},
        {"{{ 9223372036854775807 + 1 }}", "an integer of more than 64 bits", LS_UNSUPPORTED},
        {"{{ [1].append(2) }}", "templates cannot change values", LS_UNSUPPORTED},
        {"x\n\n{{ messages[0].role }}", "t.jinja:3: 'messages' is undefined, so it has no", LS_INVALID},
        {"{{ raise_exception('no\nway') }}", "t.jinja:1: the template refuses: no way", LS_INVALID},
        {"{% if a %}", "the end of the template, expected endif", LS_INVALID},
        {"{% endif %}", "'endif' begins no block here", LS_INVALID},
        {"{{ a", "{{ has no }}", LS_INVALID},
        {"{% if a", "{% has no %}", LS_INVALID},
        {"{# a", "a comment has no end", LS_INVALID},
        {"{{ 'a }}", "a string has no end", LS_INVALID},
        {"{{ (1] }}", "unexpected ']'", LS_INVALID},
        {"{{ 1 ? 2 }}", "unexpected character '?'", LS_INVALID},
        {"{% break %}", "outside of a loop", LS_INVALID},
        {"{{ 'a' * 1000000000 }}", "more than", LS_INVALID},
        {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "the most there may be",
         LS_INVALID},
        {"{{ range(100001) }}", "a range of more than 100000", LS_INVALID},
        {"{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "nested deeper", LS_INVALID},
        {"{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}", "a list of lists",
         LS_INVALID},
    };
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char *text = NULL;
        const ls_status status =
            render(cases[i].source, strlen(cases[i].source), (ls_json_value){.file = "none"}, &text);
        assert_error(status, cases[i].code, "t.jinja:", cases[i].what);
        free(text);
    }
    char *deep = malloc(200001), *text = NULL;
    memset(deep, '(', 200000);
    deep[0] = deep[1] = '{';
    deep[200000] = 0;
    assert_error(render(deep, 200000, (ls_json_value){.file = "none"}, &text), LS_INVALID, "t.jinja:1", "deep");
    free(deep);
}

/* Which characters came from the values, and which a generation block wrote. */
static void knows_where_characters_come_from(void **state) {
    static const char source[] =
        "<{{ m | trim ~ 'x' }}{% generation %}{{ (m.replace('b', 'c'))[1:].upper() }}!{% endgeneration %}>";
    static const char line[] = "{\"m\": \" abc\"}";
    ls_json *document = NULL;
    ls_jinja *jinja = NULL;
    jinja_text text = {0};
    const ls_jinja_options options = {0};
    ls_arena *arena = ls_arena_create();
    (void)state;
    assert_ok(ls_json_parse("line", line, strlen(line), &document));
    assert_ok(ls_jinja_read("t", source, strlen(source), &jinja));
    assert_true(ls_jinja_generates(jinja) && ls_jinja_names(jinja, "m") && !ls_jinja_names(jinja, "n"));
    const jinja_value values = jinja_of_json(arena, ls_json_root(document), JINJA_FROM_DATA);
    assert_ok(ls_jinja_render(jinja, arena, values.dict, &options, &text));
    /* < a b c x A c C ! >: the c that replaced the b is the template's */
    static const char said[] = "0111010100", generated[] = "0000011110";
    static const char letters[] = "<abcxACC!>";
    assert_int_equal(text.n, strlen(said));
    for (size_t i = 0; i < text.n; i++) {
        assert_int_equal(text.at[i] & JINJA_CODE, letters[i]);
        assert_int_equal((text.at[i] & JINJA_FROM_DATA) != 0, said[i] - '0');
        assert_int_equal((text.at[i] & JINJA_GENERATED) != 0, generated[i] - '0');
    }
    ls_arena_destroy(arena);
    ls_jinja_free(jinja);
    ls_json_free(document);
}

static void says_the_day_that_it_is_told(void **state) {
    static const char source[] = "{{ strftime_now('%d %b %Y %A') }}";
    char *text = NULL;
    (void)state;
    assert_ok(render(source, strlen(source), (ls_json_value){.file = "none"}, &text));
    assert_string_equal(text, "09 Jul 2025 Wednesday");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_what_the_reference_makes),
        cmocka_unit_test(refuses_by_line_and_name),
        cmocka_unit_test(knows_where_characters_come_from),
        cmocka_unit_test(says_the_day_that_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
