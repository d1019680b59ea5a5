/* Options: every type, every mistake, and the help text. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct settings {
    bool verify;
    int64_t ranks, memory, steps;
    double lr;
    const char *out, *dtype;
    ls_option_list data;
} settings;

#define AT(field) offsetof(settings, field)
static const ls_option table[] = {
    {"verify", LS_OPTION_FLAG, NULL, NULL, NULL, 0, 0, false, AT(verify), "compare with one rank"},
    {"ranks", LS_OPTION_INT, "R", "2", NULL, 1, 1024, false, AT(ranks), "ranks"},
    {"memory", LS_OPTION_BYTES, "BYTES", NULL, NULL, 0, 0, false, AT(memory), "memory of each rank"},
    {"steps", LS_OPTION_INT, "N", NULL, NULL, 1, 0x1p62, false, AT(steps), "steps in all"},
    {"lr", LS_OPTION_FLOAT, "X", "3e-4", NULL, 0, 10, false, AT(lr), "learning rate"},
    {"out", LS_OPTION_TEXT, "DIR", NULL, NULL, 0, 0, true, AT(out), "folder to write to"},
    {"dtype", LS_OPTION_CHOICE, "NAME", "f32", "f32|bf16", 0, 0, false, AT(dtype), "numbers"},
    {"data", LS_OPTION_LIST, "PATH", NULL, NULL, 0, 0, false, AT(data),
     "texts to train on, in the order given, read once from the first byte to the last and then again from the start"},
};
enum { ROWS = LS_COUNT(table) };

static ls_status parse(settings *s, bool *given, const char *const *words) {
    int n = 0;
    while (words[n]) n++;
    return ls_options_parse(table, ROWS, n, (char *const *)words, s, given);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void test_defaults(void **state) {
    (void)state;
    settings s = {.memory = 77};
    bool given[ROWS];
    assert_int_equal(parse(&s, given, WORDS("--out", "x")).code, LS_OK);
    assert_int_equal(s.ranks, 2);
    assert_int_equal(s.memory, 77);
    assert_true(s.lr == 3e-4);
    assert_string_equal(s.dtype, "f32");
    assert_string_equal(s.out, "x");
    assert_false(s.verify);
    for (int i = 0; i < ROWS; i++) assert_int_equal(given[i], strcmp(table[i].name, "out") == 0);
}

static void test_every_type(void **state) {
    (void)state;
    settings s = {0};
    bool given[ROWS];
    const char *const *words = WORDS("--ranks", "8", "--verify", "--memory=3MiB", "--lr", "-0", "--dtype", "bf16",
                                     "--data", "a", "b", "-c", "--out=o=p", "--steps", "+5");
    assert_int_equal(parse(&s, given, words).code, LS_OK);
    assert_int_equal(s.ranks, 8);
    assert_true(s.verify);
    assert_int_equal(s.memory, 3 << 20);
    assert_true(s.lr == 0);
    assert_string_equal(s.dtype, "bf16");
    assert_int_equal(s.data.count, 3);
    assert_string_equal(s.data.items[2], "-c");
    assert_string_equal(s.out, "o=p");
    assert_int_equal(s.steps, 5);
    for (int i = 0; i < ROWS; i++) assert_true(given[i]);
}

static void test_bytes(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"0", 0},
                {"512", 512},
                {"512B", 512},
                {"2K", 2048},
                {"2KiB", 2048},
                {"2KB", 2048},
                {"1M", 1 << 20},
                {"3G", (int64_t)3 << 30},
                {"5T", (int64_t)5 << 40},
                {"8388607T", (int64_t)8388607 << 40}};
    for (size_t i = 0; i < LS_COUNT(good); i++) {
        settings s = {0};
        assert_int_equal(parse(&s, NULL, WORDS("--out", "x", "--memory", good[i].text)).code, LS_OK);
        assert_int_equal(s.memory, good[i].bytes);
    }
    const char *const bad[] = {"",    "K",     "-1", "1.5G", "1Q",       "1KK",
                               "1iB", "1KiBs", " 1", "1 ",   "8388608T", "99999999999999999999"};
    for (size_t i = 0; i < LS_COUNT(bad); i++) {
        settings s = {.memory = 5};
        const ls_status status = parse(&s, NULL, WORDS("--out", "x", "--memory", bad[i]));
        assert_int_equal(status.code, LS_USAGE);
        assert_non_null(strstr(status.text, "--memory"));
        assert_int_equal(s.memory, 5);
    }
}

/* Every mistake: what is typed, and the words that the message must hold. */
static void test_mistakes(void **state) {
    (void)state;
    const struct {
        const char *words[6];
        const char *says[3];
    } cases[] = {
        {{NULL}, {"--out", "DIR", "required"}},
        {{"--out", "x", "--ranks", "0"}, {"--ranks", "'0'", "from 1 to 1024"}},
        {{"--out", "x", "--ranks", "100000"}, {"--ranks", "'100000'", "from 1 to 1024"}},
        {{"--out", "x", "--ranks", "2x"}, {"'2x'", "an integer"}},
        {{"--out", "x", "--ranks", ""}, {"''", "an integer"}},
        {{"--out", "x", "--ranks", " 2"}, {"' 2'", "an integer"}},
        {{"--out", "x", "--ranks=99999999999999999999"}, {"--ranks", "an integer"}},
        {{"--out", "x", "--ranks"}, {"--ranks", "needs a value", "R"}},
        {{"--out", "--ranks", "2"}, {"--out", "needs a value", "DIR"}},
        {{"--out="}, {"--out", "empty"}},
        {{"--out", "x", "--steps", "0"}, {"--steps", "'0'", "at least 1"}},
        {{"--out", "x", "--lr", "nan"}, {"--lr", "'nan'", "finite"}},
        {{"--out", "x", "--lr", "1e999"}, {"--lr", "'1e999'", "finite"}},
        {{"--out", "x", "--lr", "-1"}, {"--lr", "'-1'", "from 0 to 10"}},
        {{"--out", "x", "--lr", "1,5"}, {"--lr", "'1,5'"}},
        {{"--out", "x", "--dtype", "f3"}, {"--dtype", "'f3'", "f32|bf16"}},
        {{"--out", "x", "--dtype", "f32|bf16"}, {"--dtype", "one of"}},
        {{"--out", "x", "--dtype="}, {"--dtype", "''"}},
        {{"--out", "x", "--verify=yes"}, {"--verify", "'yes'", "no value"}},
        {{"--out", "x", "--data"}, {"--data", "at least one PATH"}},
        {{"--data", "--out", "x"}, {"--data", "at least one PATH"}},
        {{"--out", "x", "--data=a"}, {"--data", "after a space"}},
        {{"--out", "x", "--out", "y"}, {"--out", "twice"}},
        {{"--out", "x", "--verify", "--verify"}, {"--verify", "twice"}},
        {{"--out", "x", "--rank", "2"}, {"--rank;", "did you mean --ranks?"}},
        {{"--out", "x", "--mmory=2"}, {"--mmory;", "did you mean --memory?"}},
        {{"--out", "x", "--something-else"}, {"--something-else", "--help"}},
        {{"x"}, {"'x'", "--name value"}},
        {{"--out", "x", "y"}, {"'y'"}},
        {{"--"}, {"'--'"}},
        {{"-o", "x"}, {"'-o'"}},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        settings s = {.ranks = 55, .lr = 5};
        bool given[ROWS] = {true, false, true};
        const ls_status status = parse(&s, given, cases[i].words);
        assert_int_equal(status.code, LS_USAGE);
        for (size_t j = 0; j < 3 && cases[i].says[j]; j++) {
            if (!strstr(status.text, cases[i].says[j]))
                fail_msg("case %zu: \"%s\" does not say \"%s\"", i, status.text, cases[i].says[j]);
        }
        /* Outputs are set on success alone. */
        assert_int_equal(s.ranks, 55);
        assert_true(s.lr == 5 && !s.verify && !s.out && !s.dtype && s.data.count == 0);
        assert_true(given[0] && !given[1] && given[2]);
    }
}

static void test_help(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    ls_options_help(table, ROWS, out);
    fclose(out);
    for (int i = 0; i < ROWS; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "  --%s", table[i].name);
        assert_non_null(strstr(text, flag));
    }
    assert_non_null(strstr(text, "ranks (1 to 1024; default 2)\n"));
    assert_non_null(strstr(text, "steps in all (1 or more)\n"));
    assert_non_null(strstr(text, "numbers (f32|bf16; default f32)\n"));
    assert_non_null(strstr(text, "--out DIR "));
    assert_non_null(strstr(text, "folder to write to (required)\n"));
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        assert_true(length <= 102); /* 100 characters; the ellipsis has three bytes */
        assert_true(strncmp(line, "  --", 4) == 0 || strncmp(line, "          ", 10) == 0);
        assert_true(length == 0 || line[length - 1] != ' ');
        line += length + 1;
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_every_type), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_mistakes), cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
