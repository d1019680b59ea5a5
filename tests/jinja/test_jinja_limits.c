/*
 * The limits of SECURITY.md on chat templates, with templates made to exceed them: values that double at each step, and
 * every operator, test, filter and method that looks at them, in loops. Each template is rendered, or refused by the
 * line that names the limit, in about the time that so many plain steps take, and within its memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/emulated.h"
#include "support/scratch.h"

#include "jinja/jinja.h"

#include <math.h>
#include <sys/resource.h>
#include <time.h>

enum {
    TEMPLATES = 200,
    STEPS = 200000,
    BYTES = 64 << 20,
    /*
     * Plain steps are those of arithmetic. The slowest of 4,000 generated templates takes 13 times as long (it looks
     * for the classes of characters); one with work that does not count takes thousands of times as long, or never
     * ends.
     */
    MOST_TIMES = 60
};

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What a rendering took. */
typedef struct taken {
    ls_status status;
    double seconds;
    size_t bytes;
    uint64_t steps;
} taken;

static taken render(const char *source, uint64_t steps, size_t bytes) {
    ls_jinja *jinja = NULL;
    jinja_text text;
    taken t = {.steps = 0};
    const ls_jinja_options options = {.today = {.tm_year = 125}, .steps = steps, .bytes = bytes, .taken = &t.steps};
    assert_ok(ls_jinja_read("t.jinja", source, strlen(source), &jinja));
    ls_arena *arena = ls_arena_create();
    const double begin = cpu_seconds();
    t.status = ls_jinja_render(jinja, arena, jinja_dict_new(arena), &options, &text);
    t.seconds = cpu_seconds() - begin;
    t.bytes = ls_arena_bytes(arena);
    ls_arena_destroy(arena);
    ls_jinja_free(jinja);
    return t;
}

/* ---- generated templates ---- */

/* What the values a and b are at first. */
static const char *const seeds[] = {"[]",  "[1]", "[[]]", "{'k': 1}",  "'ab'",
                                    "' '", "'.'", "(1,)", "'\\u03a3'", "[0.1]"};
/* How one grows, in terms of itself: a list or dict may hold it twice; a text or list may be joined to itself. */
static const char *const grows[] = {"[N, N]", "(N, N)", "{'p': N, 'q': N}", "N + N", "N ~ N", "[N]", "(N ~ 'b') * 2"};
static const char *const uses[] = {
    "a == b",
    "a != b",
    "a < b",
    "a >= b",
    "a in b",
    "a in [b]",
    "[a] == [b]",
    "a is eq b",
    "a is in [b, a]",
    "[a, b] | sort | length",
    "[b, a] | unique | list | length",
    "[b, a] | select('eq', a) | list | length",
    "[b, a] | reject('ne', a) | list | length",
    "[b, a] | min is defined",
    "[b, a] | max is defined",
    "[b].count(a)",
    "[b, a].index(a)",
    "{'k': 1}.get(a)",
    "{a: 1}",
    "{a: 1} == {b: 1}",
    "dict([[a, 1]])[b]",
    "a in {b: 1}",
    "loop.changed(a)",
    "a | string | length",
    "a | tojson | length",
    "a | tojson(indent='') | length",
    "a | tojson(sort_keys=true) | length",
    "a | list | length",
    "a | join | length",
    "a | join(b) | length",
    "a | reverse | list | length",
    "a | first is defined",
    "a | batch(2) | list | length",
    "a | map('string') | list | length",
    "a | map(attribute='p') | list | length",
    "a | selectattr('p') | list | length",
    "a | sum(start=[]) | length",
    "a | length",
    "a | items | list | length",
    "a | dictsort | length",
    "a | wordcount",
    "a | upper | length",
    "a | title | length",
    "a | trim | length",
    "a | trim('.b') | length",
    "a | string | trim(b | string) | length",
    "a | replace('a', b) | length",
    "a | string | replace('', 'x') | length",
    "a | indent(2) | length",
    "a | truncate(5)",
    "a | center(3000) | length",
    "a | int",
    "a | float",
    "a | capitalize | length",
    "a | format",
    "(a | string).find(b ~ 'c')",
    "(a | string).rfind('c' ~ b)",
    "(a | string).count('b')",
    "(a | string).split('b') | length",
    "(a | string).rsplit('ba') | length",
    "(a | string).rsplit('bababababababababababababababababababababababababababababababababa') | length",
    "(a | string).split() | length",
    "(a | string).partition('c') | length",
    "(a | string).rpartition('c') | length",
    "(a | string).splitlines() | length",
    "(a | string).startswith(b | string)",
    "(a | string).endswith((b | string, 'x'))",
    "(a | string).removeprefix(b ~ 'x') | length",
    "(a | string).strip('.ab') | length",
    "(a | string).isalpha()",
    "(a | string).islower()",
    "(a | string).lower() | length",
    "(a | string).format(b) | length",
    "', '.join(a)",
    "a[::-1] | length",
    "a[1:] | length",
    "a * 2",
    "'%s' % a",
    "'%500d' % 1",
    "'%.500f' % 0.1",
    "0.1 ~ a",
    "a ~ b",
    "a + b",
    "dict(a)",
    "dict(**a)",
    "namespace(**a)",
    "range(100) | list | length",
    "f(a, b)",
    "a is upper",
    "a is mapping and a is iterable",
    "strftime_now('%A %B')",
};

static const char *pick(const char *const *list, size_t n, uint64_t *at) {
    return list[ls_rng_below(35, 3, (*at)++, n)];
}

/* Writes `grow` with N as the name. */
static void put_grown(char *out, size_t room, const char *grow, const char *name) {
    size_t n = 0;
    for (; *grow != 0 && n + 8 < room; grow++)
        n += (size_t)snprintf(out + n, room - n, "%.*s", *grow == 'N' ? 3 : 1, *grow == 'N' ? name : grow);
}

static void make_template(uint64_t number, char *out, size_t room) {
    static const char *const times[] = {"4", "12", "17", "40"};
    uint64_t at = number * 8;
    char a[100], b[100];
    const char *seed = pick(seeds, LS_COUNT(seeds), &at), *grow = pick(grows, LS_COUNT(grows), &at);
    put_grown(a, sizeof a, grow, "n.a");
    put_grown(b, sizeof b, grow, "n.b");
    const char *rounds = pick(times, LS_COUNT(times), &at), *use = uses[number % LS_COUNT(uses)];
    const char *other = pick(uses, LS_COUNT(uses), &at);
    snprintf(
        out, room,
        "{%% macro f(x, y) %%}{{ x == y }}{%% endmacro %%}{%% set n = namespace(a=%s, b=%s) %%}"
        "{%% for i in range(%s) %%}{%% set n.a = %s %%}{%% set n.b = %s %%}{%% endfor %%}"
        "{%% set a = n.a %%}{%% set b = n.b %%}{%% for i in range(100000) %%}{{ %s }}{%% if i > 50000 %%}{{ %s }}{%% endif %%}"
        "{%% endfor %%}",
        seed, seed, rounds, a, b, use, other);
}

/* Whatever else the machine does makes a rendering longer, never shorter: what is measured is the least of a few. */
enum { TRIES = 5 };

/* A rendering; again, where it takes longer than `most` seconds. */
static taken render_within(const char *source, double most) {
    taken least = render(source, STEPS, BYTES);
    for (int k = 1; k < TRIES && least.seconds > most; k++) {
        const taken t = render(source, STEPS, BYTES);
        if (t.seconds < least.seconds) least = t;
    }
    return least;
}

/* The seconds of plain steps: of so many renderings that a coarse clock moves. */
static double plain_seconds(void) {
    double least = INFINITY;
    for (int k = 0; k < TRIES; k++) {
        double seconds = 0;
        int renderings = 0;
        for (; seconds < 0.05; renderings++) {
            const taken t =
                render("{% for i in range(100000) %}{{ '' if 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 < 0 }}{% endfor %}",
                       STEPS, BYTES);
            assert_error(t.status, LS_INVALID, "t.jinja:1", "200000 steps, the most there may be");
            seconds += t.seconds;
        }
        least = fmin(least, seconds / renderings);
    }
    return least;
}

static void generated_templates_end_in_time(void **state) {
    (void)state;
    const int count = is_repeated() ? TEMPLATES / 4 : TEMPLATES;
    const double plain = plain_seconds();
    double worst = 0;
    int limited = 0;
    for (int k = 0; k < count; k++) {
        char source[1500];
        make_template((uint64_t)k, source, sizeof source);
        const taken t = render_within(source, MOST_TIMES * plain);
        const double times = t.seconds / plain;
        if (times > MOST_TIMES) fail_msg("%s: %.3f s, %.0f times as long as plain steps", source, t.seconds, times);
        if (t.bytes > BYTES + (64 << 10)) fail_msg("%s: %zu bytes", source, t.bytes);
        limited += t.status.code != LS_OK && strstr(t.status.text, "the most there may be") != NULL;
        worst = fmax(worst, times);
    }
    print_message("%d templates, at most %.1f times as long as plain steps; %d reach a limit\n", count, worst, limited);
    if (limited < count / 4) fail_msg("only %d of %d templates reach a limit", limited, count);
}

/* ---- single templates ---- */

#define DOUBLED(grow)                                                                \
    "{% set n = namespace(a=(), b=()) %}{% for i in range(40) %}{% set n.a = " grow( \
        "n.a") " %}"                                                                 \
               "{% set n.b = " grow("n.b") " %}{% endfor %}{% set a = n.a %}{% set b = n.b %}"
#define AS_LIST(x) "[" x ", " x "]"
#define AS_TUPLE(x) "(" x ", " x ")"
#define AS_DICT(x) "{1: " x ", 2: " x "}"

/* Some 150 bytes that have 2 to the power 40 parts. */
static void parts_of_values_count_as_steps(void **state) {
    static const char *const sources[] = {
        DOUBLED(AS_LIST) "{{ a == b }}",
        DOUBLED(AS_LIST) "{{ a != b }}",
        DOUBLED(AS_LIST) "{{ a < b }}",
        DOUBLED(AS_LIST) "{{ a in [b] }}",
        DOUBLED(AS_LIST) "{{ [a, b] | sort }}",
        DOUBLED(AS_LIST) "{{ [a, b] | min }}",
        DOUBLED(AS_LIST) "{{ [a, b] | select('eq', b) | list }}",
        DOUBLED(AS_LIST) "{{ [b].count(a) }}",
        DOUBLED(AS_LIST) "{{ [b].index(a) }}",
        DOUBLED(AS_LIST) "{% for x in [a, b] %}{{ loop.changed(x) }}{% endfor %}",
        DOUBLED(AS_LIST) "{{ a | tojson }}",
        DOUBLED(AS_LIST) "{{ a }}",
        DOUBLED(AS_TUPLE) "{{ [a, b] | unique | list }}",
        DOUBLED(AS_TUPLE) "{{ {a: 1, b: 1} }}",
        DOUBLED(AS_TUPLE) "{{ dict([[a, 1]]) }}",
        DOUBLED(AS_TUPLE) "{{ a in {b: 1} }}",
        DOUBLED(AS_DICT) "{{ a == b }}",
    };
    (void)state;
    for (size_t i = 0; i < LS_COUNT(sources); i++) {
        const taken t = render(sources[i], STEPS, BYTES);
        if (t.status.code == LS_OK) fail_msg("%s: rendered", sources[i]);
        assert_error(t.status, LS_INVALID, "t.jinja:1", "the most there may be");
    }
    assert_ok(render(DOUBLED(AS_LIST) "{{ a == a and a in [a] }}", STEPS, BYTES).status); /* one value is itself */
}

/* Work that grows with the square of a text, or with a number in a format. */
static void long_work_counts_as_steps(void **state) {
    static const char *const sources[] = {
        "{% set a = 'ab' * 40000 %}{% for i in range(100000) %}{{ a.rsplit('ba' * 33) | length }}{% endfor %}",
        "{% set a = 'ab' * 40000 %}{% for i in range(100000) %}{{ a.strip('bcdefghijklmnoa') | length }}{% endfor %}",
        "{% set a = 'ab' * 40000 %}{% for i in range(100000) %}{{ a is lower and a.isalpha() and a | wordcount }}{% endfor %}",
        "{% set a = [''] * 40000 %}{% for i in range(100000) %}{{ a | join }}{% endfor %}",
        "{% set a = [0] * 9999 %}{% for i in range(2000) %}{% set a = a + [a] %}{{ a | tojson(indent='') | length }}{% endfor %}",
        "{% set a = 'ab' * 40000 %}{% for i in range(100000) %}{{ a.splitlines() | length + a.split() | length }}{% endfor %}",
        "{% for i in range(100000) %}{{ '%500d' % i }}{{ '%.500f' % 0.1 }}{% endfor %}",
    };
    (void)state;
    const double plain = plain_seconds();
    for (size_t i = 0; i < LS_COUNT(sources); i++) {
        const taken t = render_within(sources[i], MOST_TIMES * plain);
        assert_error(t.status, LS_INVALID, "t.jinja:1", "the most there may be");
        if (t.seconds > MOST_TIMES * plain) fail_msg("%s: %.3f s, plain steps take %.3f", sources[i], t.seconds, plain);
    }
    assert_error(render("{{ '%99999999d' % 1 }}", STEPS, BYTES).status, LS_INVALID, "t.jinja:1", "500 places");
    assert_error(render("{{ '%.99999999f' % 1 }}", STEPS, BYTES).status, LS_INVALID, "t.jinja:1", "500 places");
}

/* The limit is asked before memory is taken, and counts all that is taken. */
static void memory_stays_within_its_limit(void **state) {
    static const char *const sources[] = {
        "{% set n = namespace(a='ab') %}{% for i in range(40) %}{% set n.a = n.a ~ n.a %}{% endfor %}",
        "{% set n = namespace(a='ab') %}{% for i in range(40) %}{% set n.a = n.a * 2 %}{% endfor %}",
        "{% set n = namespace(a=[1]) %}{% for i in range(40) %}{% set n.a = n.a + n.a %}{% endfor %}",
        "{% set n = namespace(a='ab') %}{% for i in range(40) %}{% set n.a = n.a | replace('a', 'aa') %}{% endfor %}",
        "{% set n = namespace(a='ab') %}{% for i in range(40) %}{{ n.a }}{% set n.a = n.a ~ n.a %}{% endfor %}",
        "{% for i in range(100000) %}{% for k in range(100000) %}{% set a = ['a'] %}{% endfor %}{% endfor %}",
        "{% set a = range(100000) | list %}{% for i in range(1000) %}{{ a | sort | length }}{% endfor %}",
    };
    (void)state;
    for (size_t i = 0; i < LS_COUNT(sources); i++) {
        const taken t = render(sources[i], 100000000, BYTES);
        assert_error(t.status, LS_INVALID, "t.jinja:1", "64 MiB of memory, the most there may be");
        if (t.bytes > BYTES + (64 << 10)) fail_msg("%s: %zu bytes, expected at most %d", sources[i], t.bytes, BYTES);
    }
}

/* ---- parsing ---- */

static ls_status parse(const char *begin, const char *unit, const char *end, size_t bytes, size_t *taken_bytes) {
    char *source = malloc(bytes + strlen(unit) + strlen(end) + 1);
    size_t n = (size_t)sprintf(source, "%s", begin);
    while (n + strlen(unit) <= bytes) n += (size_t)sprintf(source + n, "%s", unit);
    n += (size_t)sprintf(source + n, "%s", end);
    ls_jinja *jinja = NULL;
    const ls_status status = ls_jinja_read("t.jinja", source, n, &jinja);
    if (status.code == LS_OK) {
        *taken_bytes = ls_jinja_bytes(jinja);
        if (*taken_bytes > n * LS_JINJA_BYTES_PER_BYTE + LS_JINJA_BYTES)
            fail_msg("%s: %zu bytes of %zu", unit, *taken_bytes, n);
        ls_jinja_free(jinja);
    }
    free(source);
    return status;
}

static void parsed_templates_take_so_much_for_a_byte(void **state) {
    static const char *const inside[] = {"a+", "a<a,", "''~",    "-a+",  "(a),", "a[:],",
                                         "1+", "[],",  "{a:a},", "a.b,", "a|f,"};
    static const char *const whole[] = {"{{a}}",       "{{''}}",        "x{{a<a}}",
                                        "{%set a=a%}", "{%print a,a%}", "{%if a%}{%endif%}"};
    size_t bytes = 0;
    (void)state;
    for (size_t i = 0; i < LS_COUNT(inside); i++) assert_ok(parse("{{ f(", inside[i], "a) }}", 30000, &bytes));
    for (size_t i = 0; i < LS_COUNT(whole); i++) assert_ok(parse("", whole[i], "", 30000, &bytes));
    assert_ok(parse("", "{{a}}", "", 20, &bytes));
    assert_ok(parse("", "x", "", LS_JINJA_MOST_BYTES, &bytes));
    assert_error(parse("", "x", "x", LS_JINJA_MOST_BYTES, &bytes), LS_INVALID, "t.jinja:1",
                 "the template has 1048577 bytes, expected at most 1048576");
}

/* As many calls may be nested in the filters of a block as in an expression. */
static void long_chains_of_filters_are_refused(void **state) {
    (void)state;
    for (int set = 0; set < 2; set++) {
        char *source = malloc(700000);
        size_t n = (size_t)sprintf(source, set ? "{%% set a | trim" : "{%% filter trim");
        for (int i = 0; i < 100000; i++) n += (size_t)sprintf(source + n, "|trim");
        sprintf(source + n, set ? " %%} x {%% endset %%}" : " %%} x {%% endfilter %%}");
        assert_error(render(source, STEPS, BYTES).status, LS_INVALID, "t.jinja:1", "nested deeper");
        free(source);
    }
    assert_ok(render("{% filter trim | upper %} x {% endfilter %}", STEPS, BYTES).status);
}

int main(void) {
    const struct rlimit most = {600, 600}; /* seconds of processor time: a template that never ends is killed */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_templates_end_in_time),
        cmocka_unit_test(parts_of_values_count_as_steps),
        cmocka_unit_test(long_work_counts_as_steps),
        cmocka_unit_test(memory_stays_within_its_limit),
        cmocka_unit_test(parsed_templates_take_so_much_for_a_byte),
        cmocka_unit_test(long_chains_of_filters_are_refused),
    };
    setrlimit(RLIMIT_CPU, &most);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
