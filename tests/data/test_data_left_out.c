/* What is left out of the data, and said: documents that are too long, and text that is not UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "data/source_impl.h"

enum { S = 16, RECORDS = 5 };

static ls_tokenizer *tokenizer;

static int make(void **state) {
    tokenizer = bytes_tokenizer();
    return scratch_make(state);
}

static int unmake(void **state) {
    ls_tokenizer_close(tokenizer);
    return scratch_remove(state);
}

/*
 * Records of prompt and completion, with their tokens and the end of document: 8, 17 (as long as is allowed), 18, 40,
 * and 40 of which the first 30 are the prompt.
 */
static const char *make_records(void **state) {
    static const int lengths[RECORDS][2] = {{3, 4}, {10, 6}, {10, 7}, {10, 29}, {30, 9}};
    char text[1000] = "", *at = text;
    for (int r = 0; r < RECORDS; r++)
        at += sprintf(at, "{\"prompt\": \"%.*s\", \"completion\": \"%.*s\"}\n", lengths[r][0],
                      "abcdefghijklmnopqrstuvwxyzabcdefgh", lengths[r][1], "0123456789012345678901234567890123456789");
    return scratch_text(state, "records.jsonl", text);
}

/* The sequences of an epoch, and of these: those that begin inside a document, and those without a label. */
typedef struct counted {
    int64_t sequences, inside, idle, labels;
} counted;

static counted count_sequences(const char *path, const char *pack, const char *too_long) {
    counted out = {0};
    ls_data *data = NULL;
    const ls_data_options options = {.paths = &path,
                                     .n_paths = 1,
                                     .tokenizer = tokenizer,
                                     .sequence = S,
                                     .pack = pack,
                                     .form = {.records = "completion", .too_long = too_long}};
    assert_ok(ls_data_open(&options, &data));
    out.sequences = ls_data_summarise(data)->windows;
    for (int64_t i = 0; i < out.sequences; i++) {
        int32_t tokens[S], labels[S];
        ls_sample sample = {.tokens = tokens, .labels = labels};
        ls_data_piece pieces[S + 1];
        int64_t n, learnt = 0;
        assert_ok(ls_data_read(data, i, NULL, &sample));
        assert_ok(ls_data_pieces(data, i, pieces, &n));
        for (int64_t k = 0; k < n; k++) out.inside += pieces[k].offset > 0;
        for (int k = 0; k < S; k++) learnt += labels[k] != LS_LABEL_IGNORED;
        out.idle += learnt == 0;
        out.labels += learnt;
    }
    ls_data_close(data);
    return out;
}

static void no_part_stands_without_its_prompt(void **state) {
    const char *path = make_records(state);
    /* By itself: cut, and packed whole. Of the record with the long prompt nothing that is learnt would be kept. */
    const counted chosen = count_sequences(path, NULL, NULL);
    assert_int_equal(chosen.inside, 0);
    assert_int_equal(chosen.idle, 0);
    assert_int_equal(chosen.labels, 5 + 7 + 7 + 7);
    assert_int_equal(chosen.sequences, 4);
    const counted dropped = count_sequences(path, "best", "drop");
    assert_int_equal(dropped.inside, 0);
    assert_int_equal(dropped.labels, 5 + 7);
    assert_int_equal(dropped.sequences, 2);
    const counted split = count_sequences(path, "best", "split");
    assert_int_equal(split.labels, 5 + 7 + 8 + 30 + 10);
    assert_true(split.inside > 0 && split.idle > 0);
    /* The other packers leave out the same. */
    assert_int_equal(count_sequences(path, "stream", "cut").labels, 5 + 7 + 7 + 7);
    assert_int_equal(count_sequences(path, "stream", "drop").labels, 5 + 7);
    assert_int_equal(count_sequences(path, "join", "drop").sequences, 1);
    assert_int_equal(count_sequences(path, "join", "cut").sequences, 3);
}

/* Shards are cut when they are read, as texts are. */
static void shards_are_cut_as_texts(void **state) {
    const char *paths[] = {make_records(state)};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "whole"));
    ls_build_summary built;
    options.form.records = "completion";
    assert_ok(ls_shards_build(&options, &built));
    assert_int_equal(built.documents, RECORDS);
    assert_int_equal(built.learnt, 5 + 7 + 8 + 30 + 10);
    static const char *const modes[] = {NULL, "drop", "split"};
    for (size_t m = 0; m < LS_COUNT(modes); m++) {
        const counted a = count_sequences(paths[0], NULL, modes[m]), b = count_sequences(options.out, NULL, modes[m]);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void builds_without_what_is_too_long(void **state) {
    static const struct {
        const char *too_long;
        int64_t documents, tokens, learnt, unlearnt, left_out;
    } cases[] = {
        {NULL, 4, 8 + 17 + 17 + 17, 5 + 7 + 6 + 6, 1, 1 + 23 + 39},
        {"drop", 2, 8 + 17, 5 + 7, 3, 17 + 39 + 39},
        {"split", 5, 8 + 17 + 18 + 40 + 40, 60, 0, 0},
    };
    const char *paths[] = {make_records(state)};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "limited"));
        ls_build_summary built;
        options.form.records = "completion";
        options.form.too_long = cases[i].too_long;
        options.longest = 16;
        assert_ok(ls_file_remove_tree(options.out));
        assert_ok(ls_shards_build(&options, &built));
        assert_int_equal(built.documents, cases[i].documents);
        assert_int_equal(built.tokens, cases[i].tokens);
        assert_int_equal(built.learnt, cases[i].learnt);
        assert_int_equal(built.left_out.longer, 3);
        assert_int_equal(built.left_out.unlearnt, cases[i].unlearnt);
        assert_int_equal(built.left_out.tokens, cases[i].left_out);
    }
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "limited"));
    ls_build_summary built;
    options.form.too_long = "drop";
    assert_error(ls_shards_build(&options, &built), LS_USAGE, "--too-long drop", "--longest");
}

/* A text of several parts is measured as a whole. */
static void drops_a_long_text(void **state) {
    enum { BYTES = 700000 };
    char *text = calloc(1, BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', BYTES);
    const char *paths[] = {scratch_file(state, "long.txt", text, BYTES)};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "long"));
    ls_build_summary built;
    options.longest = BYTES - 1;
    options.form.too_long = "cut";
    assert_ok(ls_shards_build(&options, &built));
    assert_int_equal(built.tokens, BYTES);
    assert_int_equal(built.learnt, BYTES - 1); /* the end after a text that was cut is not */
    options.out = scratch_path(state, "longer");
    options.form.too_long = "drop";
    assert_error(ls_shards_build(&options, &built), LS_INVALID, "no text in", "long.txt");
    free(text);
}

/* ---- characters ---- */

#define LATIN_1 "first line\nun caf\xe9 cr\xe8me\n"
#define AS_UTF_8 "first line\nun caf\xc3\xa9 cr\xc3\xa8me\n"

static ls_status open_texts(const char *path, const ls_tokenizer *t, const char *encoding, ls_data **out) {
    const ls_data_options options = {
        .paths = &path, .n_paths = 1, .tokenizer = t, .sequence = 4, .form = {.encoding = encoding}};
    return ls_data_open(&options, out);
}

static void refuses_text_that_is_not_utf_8(void **state) {
    ls_tokenizer *t = NULL;
    ls_data *data = NULL, *same = NULL;
    char latin[600];
    assert_ok(ls_tokenizer_open(LS_TEST_REFERENCE "/tokenizers/llama2", &t));
    snprintf(latin, sizeof latin, "%s", scratch_text(state, "latin.txt", LATIN_1));
    assert_error(open_texts(latin, t, NULL, &data), LS_INVALID, "latin.txt: line 2, byte 18 of the file (0xe9)",
                 "--encoding latin-1");
    assert_error(open_texts(latin, t, "koi8", &data), LS_USAGE, "--encoding is 'koi8'", "utf-8 and latin-1");
    assert_ok(open_texts(latin, t, "latin-1", &data));
    assert_ok(open_texts(scratch_text(state, "utf8.txt", AS_UTF_8), t, NULL, &same));
    assert_true(ls_data_content(data) == ls_data_content(same));
    ls_data_close(data);
    ls_data_close(same);
    ls_tokenizer_close(t);
}

/* Reads of any size give the same bytes, also where they end between the two bytes of a character. */
static void converts_reads_of_any_size(void **state) {
    enum { BYTES = 5000 };
    char raw[BYTES], whole[2 * BYTES], out[2 * BYTES + 64];
    for (int i = 0; i < BYTES; i++) raw[i] = (char)(i * 37 % 255 + 1);
    const char *path = scratch_file(state, "raw.txt", raw, BYTES);
    size_t bytes = 0;
    for (int i = 0; i < BYTES; i++) bytes += (size_t)ls_utf8_encode((unsigned char)raw[i], whole + bytes);
    for (size_t step = 1; step < 5000; step = step * 3 + 1) {
        ls_byte_stream *stream = NULL;
        size_t at = 0, n = step;
        assert_ok(ls_stream_open(path, LS_LATIN_1, &stream));
        for (; n == step; at += n) assert_ok(ls_stream_read(stream, out + at, ls_min(step, sizeof out - at), &n));
        assert_int_equal(at, bytes);
        assert_memory_equal(out, whole, bytes);
        ls_stream_close(stream);
        assert_ok(ls_stream_open(path, LS_LATIN_1, &stream));
        assert_ok(ls_stream_skip(stream, (int64_t)step));
        assert_ok(ls_stream_read(stream, out, 8, &n));
        assert_memory_equal(out, whole + step, 8);
        ls_stream_close(stream);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_part_stands_without_its_prompt), cmocka_unit_test(shards_are_cut_as_texts),
        cmocka_unit_test(builds_without_what_is_too_long),   cmocka_unit_test(drops_a_long_text),
        cmocka_unit_test(refuses_text_that_is_not_utf_8),    cmocka_unit_test(converts_reads_of_any_size),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
