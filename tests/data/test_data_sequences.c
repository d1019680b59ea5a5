/* Text files to sequences: windows, order and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "data/data.h"

#include <math.h>
#include <sys/stat.h>

static ls_tokenizer *tokenizer;

static int make(void **state) { return ls_tokenizer_open(NULL, &tokenizer).code == LS_OK ? scratch_make(state) : -1; }

static int unmake(void **state) {
    ls_tokenizer_close(tokenizer);
    return scratch_remove(state);
}

static ls_status open_paths(const char *const *paths, int n, int64_t sequence, bool shuffle, uint64_t seed,
                            ls_data **out) {
    const ls_data_options options = {
        .paths = paths, .n_paths = n, .tokenizer = tokenizer, .sequence = sequence, .seed = seed, .shuffle = shuffle};
    return ls_data_open(&options, out);
}

static ls_data *open_one(const char *path, int64_t sequence) {
    ls_data *data = NULL;
    assert_ok(open_paths(&path, 1, sequence, false, 0, &data));
    return data;
}

/* Sequence i is this text; a dot stands for the end of a document. */
static void assert_sequence(const ls_data *data, int64_t i, const char *expected) {
    int32_t ids[64];
    char text[64] = "";
    size_t n = strlen(expected);
    memset(ids, 0x55, sizeof ids);
    ls_data_sequence(data, i, ids);
    for (size_t k = 0; k < n; k++) text[k] = ids[k] ? (char)ids[k] : '.';
    assert_string_equal(text, expected);
    assert_int_equal(ids[n], 0x55555555); /* nothing after it was touched */
}

static void long_documents_give_whole_windows(void **state) {
    assert_ok(ls_file_make_folders(scratch_path(state, "long")));
    scratch_text(state, "long/1", "abcdefghij"); /* 11 tokens with the end: two windows of 4 + 1, tail ij. */
    scratch_text(state, "long/2", "xy");
    scratch_text(state, "long/3", "ABCDEFGH"); /* 9 tokens: two windows exactly, no tail */
    scratch_text(state, "long/4", "uvw");
    ls_data *data = open_one(scratch_path(state, "long"), 4);
    const ls_data_summary *s = ls_data_summarise(data);
    assert_int_equal(s->documents, 4);
    assert_int_equal(s->tokens, 11 + 3 + 9 + 4);
    assert_int_equal(s->whole_windows, 4);
    assert_int_equal(s->windows, 6);
    assert_int_equal(s->longest_document, 11);
    assert_sequence(data, 0, "abcde");
    assert_sequence(data, 1, "efghi");
    assert_sequence(data, 2, "ABCDE");
    assert_sequence(data, 3, "EFGH.");
    assert_sequence(data, 4, "ij.xy"); /* the tail begins with the label that was no input yet */
    assert_sequence(data, 5, "y.uvw");
    assert_sequence(data, 6, "abcde"); /* the next epoch */
    assert_sequence(data, 11, "y.uvw");
    ls_data_close(data);
    ls_data_close(NULL);
}

static void short_documents_are_joined(void **state) {
    assert_ok(ls_file_make_folders(scratch_path(state, "short/b")));
    scratch_text(state, "short/b/x", "1");
    scratch_text(state, "short/b.txt", "2"); /* byte order: '.' before '/' */
    scratch_text(state, "short/a", "3");
    scratch_text(state, "short/c", "45");
    ls_data *data = open_one(scratch_path(state, "short"), 4);
    assert_int_equal(ls_data_summarise(data)->whole_windows, 0);
    assert_int_equal(ls_data_summarise(data)->windows, 2);
    assert_sequence(data, 0, "3.2.1");
    assert_sequence(data, 1, "1.45.");
    ls_data_close(data);
    data = open_one(scratch_path(state, "short"), 8); /* all nine tokens */
    assert_sequence(data, 0, "3.2.1.45.");
    ls_data_close(data);
    data = open_one(scratch_path(state, "short"), 1);
    assert_int_equal(ls_data_summarise(data)->whole_windows, 1 + 1 + 1 + 2);
    assert_sequence(data, 0, "3.");
    ls_data_close(data);
}

static void paths_keep_their_order(void **state) {
    const char *const paths[] = {scratch_text(state, "second", "bb"), scratch_text(state, "first", "aa")};
    ls_data *data = NULL;
    assert_ok(open_paths(paths, 2, 5, false, 0, &data));
    assert_sequence(data, 0, "bb.aa.");
    ls_data_close(data);
}

static void skips_what_is_no_text(void **state) {
    assert_ok(ls_file_make_folders(scratch_path(state, "mixed/sub")));
    scratch_text(state, "mixed/a", "text");
    scratch_text(state, "mixed/empty", "");
    scratch_file(state, "mixed/sub/binary", "ab\0cd", 5);
    assert_int_equal(symlink(scratch_path(state, "mixed"), scratch_path(state, "mixed/loop")), 0);
    assert_int_equal(mkfifo(scratch_path(state, "mixed/pipe"), 0600), 0);
    ls_data *data = open_one(scratch_path(state, "mixed"), 4);
    const ls_data_summary *s = ls_data_summarise(data);
    assert_int_equal(s->documents, 1);
    assert_int_equal(s->empty, 1);
    assert_int_equal(s->binary_files, 1);
    assert_sequence(data, 0, "text.");
    ls_data_close(data);
}

static void errors_name_the_path(void **state) {
    ls_data *data = NULL;
    const char *path = scratch_text(state, "tiny", "abc");
    assert_error(open_paths(&path, 1, 4, true, 0, &data), LS_INVALID, path,
                 "4 tokens in 1 documents, but a sequence of 4 needs at least 5 tokens");
    assert_error(open_paths(&path, 1, 0, true, 0, &data), LS_INVALID, "sequence length is 0", "at least 1");
    assert_error(open_paths(NULL, 0, 4, true, 0, &data), LS_INVALID, "no data given", "");
    path = scratch_path(state, "none");
    assert_error(open_paths(&path, 1, 4, true, 0, &data), LS_IO, path, "No such file");
    path = scratch_text(state, "nothing", "");
    assert_error(open_paths(&path, 1, 4, true, 0, &data), LS_INVALID, path,
                 "1 files, of which 1 are empty and 0 binary");
    const char *const two[] = {path, scratch_file(state, "nul", "\0", 1)};
    assert_error(open_paths(two, 2, 4, true, 0, &data), LS_INVALID, "nothing and 1 more", "1 are empty and 1 binary");
    path = scratch_path(state, "folder");
    assert_ok(ls_file_make_folders(path));
    assert_error(open_paths(&path, 1, 4, true, 0, &data), LS_INVALID, path, "no files in");
    path = "/dev/zero";
    assert_error(open_paths(&path, 1, 4, true, 0, &data), LS_INVALID, "/dev/zero", "no regular file");
    assert_null(data);
}

/* A file whose token k is k & 0xff without zeros, so that windows tell where they are from. */
static const char *write_ramp(void **state, size_t bytes) {
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) text[i] = (char)(1 + i / 4 % 255);
    const char *path = scratch_file(state, "ramp", text, bytes);
    free(text);
    return path;
}

static void each_epoch_shows_each_window_once(void **state) {
    const char *path = write_ramp(state, 800); /* 200 windows of 4, told apart by their first token */
    ls_data *data = NULL;
    assert_ok(open_paths(&path, 1, 4, true, 5, &data));
    int64_t windows = ls_data_summarise(data)->windows;
    assert_int_equal(windows, 200);
    int32_t order[2][200], moved = 0, differs = 0, ids[5];
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[256] = {0};
        for (int64_t i = 0; i < windows; i++) {
            ls_data_sequence(data, epoch * windows + i, ids);
            assert_int_equal(seen[ids[0]]++, 0);
            order[epoch][i] = ids[0];
            moved += ids[0] != i + 1;
        }
    }
    for (int64_t i = 0; i < windows; i++) differs += order[0][i] != order[1][i];
    assert_true(moved > 380);   /* shuffled, */
    assert_true(differs > 190); /* and anew in each epoch */
    ls_data *again = NULL, *other = NULL;
    assert_ok(open_paths(&path, 1, 4, true, 5, &again));
    assert_ok(open_paths(&path, 1, 4, true, 6, &other));
    int equal = 0;
    for (int64_t i = 2 * windows; i-- > 0;) { /* in any order of asking */
        ls_data_sequence(again, i, ids);
        assert_int_equal(ids[0], order[i / windows][i % windows]);
        ls_data_sequence(other, i, ids);
        equal += ids[0] == order[i / windows][i % windows];
    }
    assert_true(equal < 20);
    ls_data_close(data);
    ls_data_close(again);
    ls_data_close(other);
}

static void knows_the_unigram_entropy(void **state) {
    /* a:4 b:2 c:1 end:1 of 8: 0.5 ln 2 + 0.25 ln 4 + 2 * 0.125 ln 8 */
    ls_data *data = open_one(scratch_text(state, "entropy", "abacaba"), 4);
    assert_true(fabs(ls_data_unigram_nats(data) - 1.75 * log(2)) < 1e-15);
    ls_data_close(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_documents_give_whole_windows),
        cmocka_unit_test(short_documents_are_joined),
        cmocka_unit_test(paths_keep_their_order),
        cmocka_unit_test(skips_what_is_no_text),
        cmocka_unit_test(errors_name_the_path),
        cmocka_unit_test(each_epoch_shows_each_window_once),
        cmocka_unit_test(knows_the_unigram_entropy),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
