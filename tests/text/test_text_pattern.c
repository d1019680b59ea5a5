/*
 * The limits of SECURITY.md on regular expressions: generated ones, most of which try a long word from each of its
 * characters, end in about the time of so many plain steps, or are refused by the line that names the limit. What is
 * found is what PCRE2 finds in one search.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "text/pattern_impl.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <math.h>
#include <pcre2.h>
#include <sys/resource.h>
#include <time.h>

enum {
    PATTERNS = 50,
    STEPS = 1000000,
    /*
     * A step is an item of an expression, or a byte that an item goes over. What the fast search does is not counted,
     * and is at most some thousand bytes for each place.
     */
    MOST_TIMES = 60
};

static const ls_json_value here = {.file = "t.json", .path = "pattern"};

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- generated expressions ---- */

typedef struct made {
    char text[1000];
    size_t n;
    uint64_t seed, at;
} made;

static int below(made *m, int n) { return (int)ls_rng_below(m->seed, 5, m->at++, (uint64_t)n); }

static void put(made *m, const char *text) {
    m->n += (size_t)snprintf(m->text + m->n, sizeof m->text - m->n, "%s", text);
}

static void put_expression(made *m, int depth);

static void put_item(made *m, int depth) {
    static const char *const atoms[] = {"a", "b", "[ab]", "\\w", ".", "[^ ]", "é", "ab", "\\s", "[^b]"};
    static const char *const repeats[] = {"", "", "*", "+", "?", "{1,4}", "*?", "+?"};
    if (depth > 0 && below(m, 3) == 0) {
        put(m, below(m, 4) == 0 ? "(?=" : "(?:");
        put_expression(m, depth - 1);
        put(m, ")");
        if (m->text[m->n - 1] != ')' || strstr(m->text, "(?=") != NULL) return; /* a look ahead is not repeated */
    } else {
        put(m, atoms[below(m, LS_COUNT(atoms))]);
    }
    put(m, repeats[below(m, LS_COUNT(repeats))]);
}

static void put_expression(made *m, int depth) {
    const int n = 1 + below(m, 3);
    for (int i = 0; i < n; i++) put_item(m, depth);
    if (below(m, 3) == 0) {
        put(m, "|");
        put_item(m, depth);
    }
}

/* Half of them end with what the texts do not have. */
static void make_pattern(int number, made *m) {
    static const char *const ends[] = {"", "", "", "[0-9]", "(?:[0-9]|-)", "$", "(?!\\w)"};
    *m = (made){.seed = (uint64_t)number};
    put_expression(m, 2);
    put(m, ends[below(m, LS_COUNT(ends))]);
}

/* A text of some kind: one word, words, characters of two bytes. */
static size_t make_text(int kind, char *out, size_t room) {
    static const char *const units[] = {"ab",        "aab abba ",
                                        "aébb",      "\u0801\u0860",
                                        "é\u0985b ", "abababababababababababababababababababababababababababab "};
    size_t n = 0;
    for (const char *unit = units[kind]; n + strlen(unit) < room; n += strlen(unit))
        memcpy(out + n, unit, strlen(unit));
    return n;
}
enum { TEXTS = 6 };

/* ---- matching ---- */

/* All matches of a text, at most `most`: their beginnings and ends. Returns their number. */
static size_t find_all(const char *regex, const char *text, size_t bytes, uint64_t steps, size_t (*places)[2],
                       size_t most, ls_status *status) {
    ls_pattern *pattern = NULL;
    ls_match_scratch *scratch = ls_match_scratch_create();
    size_t n = 0;
    assert_non_null(scratch);
    assert_ok(ls_pattern_compile(here, regex, &pattern));
    ls_match_scratch_begin(scratch, steps);
    ls_matches m = {pattern, scratch, text, bytes, .last_end = SIZE_MAX};
    *status = ls_ok();
    while (n < most && ls_matches_next(&m, status) && m.found) {
        if (places != NULL) {
            places[n][0] = m.start;
            places[n][1] = m.end;
        }
        n++;
    }
    ls_match_scratch_destroy(scratch);
    ls_pattern_free(pattern);
    return n;
}

static void generated_patterns_end_in_time(void **state) {
    enum { BYTES = 20000 };
    char *text = malloc(BYTES);
    ls_status status;
    double plain = 1e9, worst = 0;
    int refused = 0;
    (void)state;
    for (int k = 0; k < 5; k++) {
        const size_t n = make_text(0, text, BYTES);
        const double begin = cpu_seconds();
        double seconds;
        int searches = 0;
        do { /* for many ticks of a coarse clock */
            find_all("(?:a|b)*(?:[0-9]|-)", text, n, STEPS, NULL, BYTES, &status);
            seconds = cpu_seconds() - begin;
            searches++;
        } while (seconds < 0.05);
        plain = fmin(plain, seconds / searches);
        assert_error(status, LS_INVALID, "t.json: pattern: matching takes more than 1000000 steps",
                     "the most there may be");
    }
    for (int k = 0; k < PATTERNS; k++) {
        made m;
        make_pattern(k, &m);
        for (int kind = 0; kind < TEXTS; kind++) {
            const size_t n = make_text(kind, text, BYTES);
            const double begin = cpu_seconds();
            find_all(m.text, text, n, STEPS, NULL, 2 * BYTES, &status);
            const double times = (cpu_seconds() - begin) / plain;
            if (status.code != LS_OK && strstr(status.text, "the most there may be") == NULL)
                fail_msg("%s: %s", m.text, status.text);
            if (times > MOST_TIMES)
                fail_msg("%s: text %d takes %.0f times as long as plain steps", m.text, kind, times);
            refused += status.code != LS_OK;
            worst = fmax(worst, times);
        }
    }
    print_message("%d patterns of %d texts are refused; at most %.1f times as long as plain steps, %.1f ms\n", refused,
                  PATTERNS * TEXTS, worst, 1e3 * plain);
    assert_true(refused > 20);
    free(text);
}

/* The same matches as one search without limits, where words are longer than the fast search looks. */
static void finds_what_one_search_finds(void **state) {
    enum { BYTES = 1200 };
    static size_t places[BYTES + 1][2];
    char text[BYTES];
    size_t compared = 0;
    (void)state;
    for (int k = 0; k < 4 * PATTERNS; k++) {
        made m;
        ls_text translated = {0};
        ls_status status;
        int error;
        size_t at;
        make_pattern(k, &m);
        assert_ok(ls_pattern_translate(here, m.text, &translated));
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)translated.byte, translated.count, PCRE2_UTF | PCRE2_MULTILINE,
                                         &error, &at, NULL);
        pcre2_match_data *data = pcre2_match_data_create(1, NULL);
        pcre2_match_context *context = pcre2_match_context_create(NULL);
        pcre2_set_match_limit(context, 100000);
        if (code == NULL) fail_msg("%s: %d at %zu", m.text, error, at);
        for (int kind = 0; kind < TEXTS; kind++) {
            const size_t bytes = make_text(kind, text, BYTES);
            const size_t n = find_all(m.text, text, bytes, STEPS, places, BYTES + 1, &status);
            size_t from = 0, i = 0;
            for (; i < n; i++) {
                const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
                int result = pcre2_match(code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK, data, context);
                if (result > 0 && i > 0 && found[0] == found[1] && found[1] == places[i - 1][1])
                    result = pcre2_match(code, (PCRE2_SPTR)text, bytes,
                                         from + (size_t)ls_utf8_decode(text + from, bytes - from, NULL),
                                         PCRE2_NO_UTF_CHECK, data, context);
                if (result == PCRE2_ERROR_MATCHLIMIT) break;
                if (result < 0 || found[0] != places[i][0] || found[1] != places[i][1])
                    fail_msg("%s, text %d: match %zu is %zu to %zu, expected %zu to %zu", m.text, kind, i, places[i][0],
                             places[i][1], result < 0 ? 0 : found[0], result < 0 ? 0 : found[1]);
                from = found[1];
                compared++;
            }
        }
        pcre2_match_context_free(context);
        pcre2_match_data_free(data);
        pcre2_code_free(code);
        free(translated.byte);
    }
    assert_true(compared > 10000);
}

/* An ordinary expression, and one that goes over a whole long word, take steps in proportion to the text. */
static void long_words_are_no_attack(void **state) {
    static const char *const regexes[] = {"(?:a|b)+", "[ab]+", "\\w+|[^\\w\\s]+", "(?:a|b)*?$", "(?:\\p{L}\\p{M}*)+"};
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    const size_t n = make_text(0, text, BYTES);
    ls_status status;
    (void)state;
    for (size_t i = 0; i < LS_COUNT(regexes); i++) {
        const size_t found = find_all(regexes[i], text, n, ls_pattern_most_steps(n), NULL, BYTES, &status);
        assert_ok(status);
        assert_int_equal(found, 1);
    }
    free(text);
}

int main(void) {
    const struct rlimit most = {600, 600}; /* seconds of processor time: an expression that never ends is killed */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_patterns_end_in_time),
        cmocka_unit_test(finds_what_one_search_finds),
        cmocka_unit_test(long_words_are_no_attack),
    };
    setrlimit(RLIMIT_CPU, &most);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
