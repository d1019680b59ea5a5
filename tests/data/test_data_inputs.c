/*
 * Odd files, folders and disks as inputs of `data build`: a refusal names them, an accepted one is read completely.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "data/source_impl.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#if __has_include(<zstd.h>)
#include <zstd.h>
#define HAVE_ZSTD 1
#else
#define HAVE_ZSTD 0
#endif

#if __has_include(<zlib.h>)
#include <zlib.h>
#define HAVE_ZLIB 1
#else
#define HAVE_ZLIB 0
#endif

static ls_tokenizer *tokenizer;

static int make(void **state) {
    tokenizer = bytes_tokenizer();
    return scratch_make(state);
}

static int unmake(void **state) {
    ls_tokenizer_close(tokenizer);
    return scratch_remove(state);
}

/* Builds one file anew; its only shard's tokens as text, ends of documents as dots. */
static ls_status build_file(void **state, const char *path, const char *field, char *out) {
    char file[600];
    snprintf(file, sizeof file, "%s", path);
    const char *paths[] = {file};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "out"));
    ls_build_summary summary;
    options.form.field = field;
    LS_TRY(ls_file_remove_tree(options.out));
    LS_TRY(ls_shards_build(&options, &summary));
    ls_shard_set set = {0};
    LS_TRY(ls_shard_set_add(&set, options.out));
    const ls_shard *s = &set.shard[0];
    for (uint64_t i = 0; i < s->header->tokens; i++) {
        int32_t id = 0;
        ls_tokens_widen(s->tokens, (int)s->header->width, (int64_t)i, 1, &id);
        *out++ = id == 0 ? '.' : (char)id;
    }
    *out = 0;
    ls_shard_set_close(&set);
    return ls_ok();
}

static void finds_nested_fields(void **state) {
    static const struct {
        const char *line, *field, *expected;
    } good[] = {
        {"{\"meta\": {\"text\": \"x\"}}", "meta.text", "x."},
        {"{\"meta.text\": \"y\", \"meta\": {\"text\": \"x\"}}", "meta.text", "y."},
        {"{\"a\": {\"b\": {\"c\": \"z\"}}}", "a.b.c", "z."},
        {"{\"a\": {\"b.c\": \"z\"}}", "a.b.c", "z."},
    };
    static const struct {
        const char *line, *field, *word;
    } bad[] = {
        {"{\"meta\": {}}", "meta.text", "meta.text is missing"},
        {"{\"meta\": 7}", "meta.text", "meta is 7, expected an object"},
        {"{\"meta\": null}", "meta.text", "meta is null, expected an object"},
        {"{\"meta\": {\"text\": [\"x\"]}}", "meta.text", "meta.text is an array"},
        {"{\"x\": 1}", "", " is missing"},
        {"{\"x\": 1}", ".", " is missing"},
    };
    char text[100];
    for (size_t i = 0; i < LS_COUNT(good); i++) {
        assert_ok(build_file(state, scratch_text(state, "a.jsonl", good[i].line), good[i].field, text));
        assert_string_equal(text, good[i].expected);
    }
    for (size_t i = 0; i < LS_COUNT(bad); i++)
        assert_error(build_file(state, scratch_text(state, "a.jsonl", bad[i].line), bad[i].field, text), LS_INVALID,
                     "a.jsonl:1", bad[i].word);
}

static void reads_what_other_systems_write(void **state) {
    char text[200];
    assert_ok(build_file(state,
                         scratch_text(state, "bom.jsonl", "\xef\xbb\xbf{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\"}\r\n"),
                         "text", text));
    assert_string_equal(text, "a.b.");
    assert_error(build_file(state,
                            scratch_text(state, "bom.jsonl", "{\"text\": \"a\"}\n\xef\xbb\xbf{\"text\": \"b\"}\n"),
                            "text", text),
                 LS_INVALID, "bom.jsonl:2", "not valid JSON");
    assert_ok(build_file(state, scratch_text(state, "crlf.txt", "a\r\nb\r\n"), "text", text));
    assert_string_equal(text, "a\r\nb\r\n.");
    assert_ok(build_file(state, scratch_text(state, "latin.txt", "caf\xe9"), "text", text));
    assert_string_equal(text, "caf\xe9.");
}

static void names_what_it_does_not_read(void **state) {
    static const struct {
        const char *name, *word;
    } others[] = {
        {"a.txt.bz2", "decompress it, or use gzip (.gz) or zstd (.zst)"},
        {"a.jsonl.xz", "decompress it"},
        {"a.zip", "decompress it"},

        {"a.tsv.gz", "write it as Parquet"},
        {"a.csv", "write it as Parquet, such as with pandas"},
        {"a.npy", "holds arrays, no text"},
        {"shard-000000.tokens", "token shards"},
    };
    char text[100], folder[600];
    for (size_t i = 0; i < LS_COUNT(others); i++)
        assert_error(build_file(state, scratch_text(state, others[i].name, "x"), "text", text), LS_UNSUPPORTED,
                     others[i].name, others[i].word);
    assert_error(build_file(state, scratch_path(state, "none.txt"), "text", text), LS_IO, "none.txt", "No such file");
    assert_error(build_file(state, "/dev/null", "text", text), LS_INVALID, "/dev/null", "no regular file");
    snprintf(folder, sizeof folder, "%s", scratch_path(state, "nothing"));
    assert_ok(ls_file_make_folders(folder));
    assert_error(build_file(state, folder, "text", text), LS_INVALID, "no files in", "nothing");
    assert_error(build_file(state, scratch_text(state, "empty.txt", ""), "text", text), LS_INVALID, "no text in",
                 "empty.txt");
    assert_error(build_file(state, scratch_text(state, "empty.jsonl", "\n \n"), "text", text), LS_INVALID, "no text in",
                 "empty.jsonl");
    if (getuid() == 0) return; /* who may read everything */
    snprintf(folder, sizeof folder, "%s", scratch_text(state, "mine.txt", "x"));
    assert_int_equal(chmod(folder, 0), 0);
    assert_error(build_file(state, folder, "text", text), LS_IO, "cannot read", "mine.txt");
}

static void reads_twice_what_is_given_twice(void **state) {
    char file[600];
    snprintf(file, sizeof file, "%s", scratch_text(state, "twice.txt", "some text"));
    const char *paths[] = {file, file, file};
    const ls_build_options options = build_options(tokenizer, paths, 3, scratch_path(state, "thrice"));
    ls_build_summary s;
    assert_ok(ls_shards_build(&options, &s));
    assert_int_equal(s.documents, 3);
    assert_int_equal(s.tokens, 30);
}

static void leaves_folders_of_others_alone(void **state) {
    char file[600], out[600];
    snprintf(file, sizeof file, "%s", scratch_text(state, "one.txt", "some text"));
    snprintf(out, sizeof out, "%s", scratch_path(state, "model"));
    assert_ok(ls_file_make_folders(out));
    const char *paths[] = {file};
    ls_build_options options = build_options(tokenizer, paths, 1, out);
    ls_build_summary s;
    scratch_text(state, "model/config.json", "{}");
    for (int k = 0; k < 2; k++) {
        options.resume = k;
        assert_error(ls_shards_build(&options, &s), LS_USAGE, "holds other files (config.json)", out);
    }
    assert_false(ls_file_exists(scratch_path(state, "model/build.jsonl")));
    scratch_text(state, "model/shards.json", "{\"format\": \"other\"}");
    assert_error(ls_shards_build(&options, &s), LS_INVALID, "shards.json", "request is missing");
    scratch_text(state, "file", "x");
    options.out = scratch_path(state, "file");
    assert_true(ls_shards_build(&options, &s).code == LS_IO);
    options.out = scratch_path(state, "file/below");
    assert_true(ls_shards_build(&options, &s).code == LS_IO);
}

/* A file that is written to while it is read: what its size and time say at its end is not what they said at first. */
static void sees_files_that_change(void **state) {
    char file[600];
    snprintf(file, sizeof file, "%s", scratch_text(state, "growing.txt", "some text"));
    for (int k = 0; k < 3; k++) {
        const char *paths[] = {file};
        ls_input_list inputs;
        ls_source *source = NULL;
        const ls_text_record *records;
        size_t n = 0;
        assert_ok(ls_inputs_find(paths, 1, "auto", &inputs));
        inputs.input[0].bytes -= k == 1;
        inputs.input[0].changed -= k == 2;
        assert_ok(ls_source_open(inputs.input, inputs.n, tokenizer, (ls_place){0, 0, 1}, 0, LS_UTF_8, &source));
        const ls_status status = ls_source_next(source, &records, &n);
        if (k == 0)
            assert_ok(status);
        else
            assert_error(status, LS_IO, "growing.txt", "changed while it was read");
        ls_source_close(source);
        ls_inputs_free(&inputs);
    }
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void reads_values_of_json(void **state) {
    static const struct {
        const char *text, *expected;
    } good[] = {
        {"[{\"text\": \"a\"}, {\"text\": \"b\"}]", "a.b."},
        {"\xef\xbb\xbf [\n\t{\"text\":\n\"a\"}\r\n,\"b\" ]\n", "a.b."},
        {"{\"text\": \"a\"}\n{\"text\": \"b\"}\n", "a.b."},
        {"{\n \"text\": \"a\"\n}\n{\n \"text\": \"b\"\n}", "a.b."},
        {"{\"text\": \"a\"}", "a."},
        {"\"a\" \"b\"", "a.b."},
        {"[{\"text\": \"]},[{\\\"\", \"x\": [1, {\"y\": \"}\"}]}]", "]},[{\"."},
        {"{\"text\": \"a\", \"text\": \"b\"}", "b."},
        {"{\"x\": NaN, \"y\": -Infinity, \"z\": 99999999999999999999, \"text\": \"NaN\"}", "NaN."},
    };
    static const struct {
        const char *text, *at, *word;
    } bad[] = {
        {"[{\"text\": \"a\"}", "bad.json: ", "ends inside of its array"},
        {"[", "bad.json: ", "ends inside of its array"},
        {"[{\"text\": \"a\"},]", "bad.json: ", "expected a value in its array"},
        {"[,]", "bad.json: ", "expected a value in its array"},
        {"[\"a\" \"b\"]", "bad.json: ", "expected a comma or the end of its array"},
        {"[\"a\"] \"b\"", "bad.json: ", "there is text after the end of its array"},
        {"{\"text\": \"a", "bad.json: ", "ends inside of a value"},
        {"\n\n{\"text\": 1}", "bad.json:3: ", "text is 1"},
        {"[\"a\",\n7]", "bad.json:2: ", "the document is 7"},
        {"[tru]", "bad.json:1: ", "not valid JSON"},
        {"]", "bad.json:1: ", "not valid JSON"},
        {"[}]", "bad.json:1: ", "not valid JSON"},
        {"[]", "no text in ", "bad.json"},
    };
    char text[200];
    for (size_t i = 0; i < LS_COUNT(good); i++) {
        assert_ok(build_file(state, scratch_text(state, "good.json", good[i].text), "text", text));
        assert_string_equal(text, good[i].expected);
    }
    for (size_t i = 0; i < LS_COUNT(bad); i++)
        assert_error(build_file(state, scratch_text(state, "bad.json", bad[i].text), "text", text), LS_INVALID,
                     bad[i].at, bad[i].word);
}

/* A NUL in a text is a character like any other, and does not end it. */
static void reads_nul_in_records(void **state) {
    const char *paths[] = {scratch_text(state, "nul.jsonl", "{\"text\": \"a\\u0000b\"}\n{\"text\": \"\\u0000\"}\n")};
    const ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "nuls"));
    ls_build_summary s;
    assert_ok(ls_shards_build(&options, &s));
    assert_int_equal(s.documents, 2);
    assert_int_equal(s.tokens, 3 + 1 + 1 + 1);
}

/* A record whose values would take gigabytes is refused, whatever kind it is of. */
static void refuses_records_of_many_values(void **state) {
    enum { ELEMENTS = 17 << 20, VALUES = ELEMENTS + 3 /* the record, its text and its array */ };
    static const char *const kinds[] = {"text", "teacher"};
    char *line = malloc(2 * (size_t)ELEMENTS + 100), found[100], limit[100];
    assert_non_null(line);
    size_t n = (size_t)sprintf(line, "{\"text\": \"a\", \"x\": [0");
    for (int i = 1; i < ELEMENTS; i++) {
        line[n++] = ',';
        line[n++] = '0';
    }
    n += (size_t)sprintf(line + n, "]}\n");
    const char *path = scratch_file(state, "many.jsonl", line, n);
    snprintf(found, sizeof found, "many.jsonl:1: the record holds %d values", VALUES);
    for (size_t i = 0; i < LS_COUNT(kinds); i++) {
        const ls_data_options options = {
            .paths = &path, .n_paths = 1, .tokenizer = tokenizer, .form = {.records = kinds[i]}, .sequence = 8};
        ls_data *data;
        snprintf(limit, sizeof limit, "expected at most 16777216 in one of --records %s", kinds[i]);
        assert_error(ls_data_open(&options, &data), LS_INVALID, found, limit);
    }
    free(line);
}

/* --- a disk that is full ------------------------------------------------------------------------------------------ */

/* Builds in a process whose files may not grow beyond so many bytes. */
static ls_code build_on_full_disk(const ls_build_options *options, rlim_t most) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ls_build_summary summary;
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, most}) != 0) _exit(100);
        const ls_status status = ls_shards_build(options, &summary);
        const bool named = status.code == LS_OK || strstr(status.text, options->out) != NULL;
        _exit(named ? (int)status.code : 101);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (ls_code)WEXITSTATUS(status);
}

static void goes_on_after_a_full_disk(void **state) {
    char texts[600], whole[600], out[600];
    make_texts(state, "texts", 60, 4000);
    snprintf(texts, sizeof texts, "%s", scratch_path(state, "texts"));
    snprintf(whole, sizeof whole, "%s", scratch_path(state, "whole"));
    snprintf(out, sizeof out, "%s", scratch_path(state, "full"));
    const char *paths[] = {texts};
    ls_build_options options = build_options(tokenizer, paths, 1, whole);
    ls_build_summary expected, s;
    options.shard_tokens = 10000;
    assert_ok(ls_shards_build(&options, &expected));
    assert_true(expected.shards > 5);
    options.out = out;
    static const rlim_t most[] = {0, 100, 1000, 12000, 15000}; /* of a shard: its head, its tokens, its index */
    int failed = 0;
    for (size_t i = 0; i < LS_COUNT(most); i++) {
        const ls_code code = build_on_full_disk(&options, most[i]);
        if (code != LS_IO && code != LS_OK) fail_msg("%d bytes: code %d", (int)most[i], (int)code);
        failed += code == LS_IO;
        options.resume = true;
    }
    assert_true(failed >= 4);
    assert_ok(ls_shards_build(&options, &s));
    assert_int_equal(s.tokens, expected.tokens);
    assert_same_folders(whole, out);
}

/* --- gzip --------------------------------------------------------------------------------------------------------- */

#if HAVE_ZLIB
static size_t gzip(const char *text, size_t bytes, char *out, size_t room) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text,
                  .avail_in = (uInt)bytes,
                  .next_out = (Bytef *)out,
                  .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static void reads_every_kind_of_gzip(void **state) {
    char packed[1000], text[200];
    size_t n = gzip("one, ", 5, packed, sizeof packed);
    const size_t first = n;
    n += gzip("", 0, packed + n, sizeof packed - n);
    const size_t second = n;
    n += gzip("two, three", 10, packed + n, sizeof packed - n);
    assert_ok(build_file(state, scratch_file(state, "members.txt.gz", packed, n), "text", text));
    assert_string_equal(text, "one, two, three.");
    assert_ok(build_file(state, scratch_file(state, "no-suffix", packed, n), "text", text));
    assert_string_equal(text, "one, two, three.");
    /* Cut short at every byte: an error, or the members before the cut. */
    for (size_t cut = 1; cut < n; cut++) {
        const ls_status status = build_file(state, scratch_file(state, "cut.txt.gz", packed, cut), "text", text);
        const bool whole = cut == first || cut == second;
        if (whole)
            assert_true(status.code == LS_OK && strcmp(text, "one, .") == 0);
        else
            assert_error(status, LS_INVALID, "cut.txt.gz", "ends in the middle of a gzip member");
    }
    memset(packed + n, 0, 20);
    assert_ok(build_file(state, scratch_file(state, "zeros.txt.gz", packed, n + 20), "text", text));
    assert_string_equal(text, "one, two, three.");
    memcpy(packed + n, "garbage!", 8);
    assert_error(build_file(state, scratch_file(state, "more.txt.gz", packed, n + 8), "text", text), LS_INVALID,
                 "more.txt.gz", "cannot be decompressed as gzip");
    packed[n - 6] ^= 1; /* the checksum */
    assert_error(build_file(state, scratch_file(state, "sum.txt.gz", packed, n), "text", text), LS_INVALID,
                 "sum.txt.gz", "incorrect data check");
    assert_error(build_file(state, scratch_text(state, "false.jsonl.gz", "{\"text\": 1}"), "text", text), LS_INVALID,
                 "false.jsonl.gz", "cannot be decompressed as gzip");
}

/* With --skip-bad the lines before the break count, and the rest of the file is one record that is left out. */
static void skips_broken_files(void **state) {
    char packed[1000], first[600], second[600];
    const char lines[] = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
    const size_t n = gzip(lines, sizeof lines - 1, packed, sizeof packed);
    snprintf(first, sizeof first, "%s", scratch_file(state, "broken.jsonl.gz", packed, n - 4));
    snprintf(second, sizeof second, "%s", scratch_text(state, "false.txt.zst", "no zstd"));
    const char *paths[] = {first, second, scratch_text(state, "good.jsonl", lines)};
    ls_build_options options = build_options(tokenizer, paths, 3, scratch_path(state, "from-broken"));
    ls_build_summary s;
    assert_error(ls_shards_build(&options, &s), LS_INVALID, first, "ends in the middle of a gzip member");
    options.out = scratch_path(state, "from-rest");
    options.form.skip_bad = true;
    assert_ok(ls_shards_build(&options, &s));
    assert_int_equal(s.documents, 4);
    assert_int_equal(s.bad, 2);
}

/* The break is noticed also where the lines before it are as many as are read at once. */
static void notices_a_break_after_a_full_batch(void **state) {
    static const char line[] = "{\"text\":\"a\"}\n";
    enum { LINES = 1 << 18, LENGTH = sizeof line - 1 };
    char *lines = malloc((size_t)LINES * LENGTH), text[100];
    const size_t room = (size_t)1 << 20;
    char *packed = malloc(room);
    assert_non_null(lines);
    assert_non_null(packed);
    for (size_t i = 0; i < LINES; i++) memcpy(lines + i * LENGTH, line, LENGTH);
    size_t n = gzip(lines, (size_t)LINES * LENGTH, packed, room);
    gzip(line, LENGTH, packed + n, room - n);
    const char *path = scratch_file(state, "batch.jsonl.gz", packed, n + 8); /* of the second member only the header */
    assert_error(build_file(state, path, "text", text), LS_INVALID, "batch.jsonl.gz",
                 "ends in the middle of a gzip member");
    free(lines);
    free(packed);
}

static void refuses_bombs(void **state) {
    const size_t bytes = (size_t)70 << 20, room = (size_t)1 << 20;
    char *text = malloc(bytes), *packed = malloc(room), out[100];
    assert_non_null(text);
    assert_non_null(packed);
    memset(text, 'a', bytes);
    const size_t n = gzip(text, bytes, packed, room);
    assert_true(bytes / n > 1024);
    assert_error(build_file(state, scratch_file(state, "bomb.txt.gz", packed, n), "text", out), LS_INVALID,
                 "bomb.txt.gz", "more than 1024 times its size");
    free(text);
    free(packed);
}
#endif

/* --- zstd --------------------------------------------------------------------------------------------------------- */

#if HAVE_ZSTD
static size_t zstd(const char *text, int window, bool size_known, char *out, size_t room) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, size_known);
    ZSTD_inBuffer in = {text, strlen(text), 0};
    ZSTD_outBuffer to = {out, room, 0};
    if (!size_known) /* a first part, so that the frame is begun before its end is known */
        assert_false(ZSTD_isError(ZSTD_compressStream2(c, &to, &(ZSTD_inBuffer){text, 1, 0}, ZSTD_e_continue)));
    in.pos = !size_known;
    assert_int_equal(ZSTD_compressStream2(c, &to, &in, ZSTD_e_end), 0);
    ZSTD_freeCCtx(c);
    return to.pos;
}

static void reads_every_kind_of_frame(void **state) {
    static const char skipped[] = {'\x5a', '\x2a', '\x4d', '\x18', 3, 0, 0, 0, 'x', 'y', 'z'};
    char packed[1000], text[200];
    size_t n = 0;
    memcpy(packed, skipped, sizeof skipped);
    n += sizeof skipped;
    n += zstd("one, ", 17, true, packed + n, sizeof packed - n);
    memcpy(packed + n, skipped, sizeof skipped);
    n += sizeof skipped;
    n += zstd("", 17, true, packed + n, sizeof packed - n);
    n += zstd("two, three", 20, false, packed + n, sizeof packed - n);
    memcpy(packed + n, skipped, sizeof skipped);
    n += sizeof skipped;
    assert_ok(build_file(state, scratch_file(state, "frames.txt.zst", packed, n), "text", text));
    assert_string_equal(text, "one, two, three.");
    /* Cut short at every byte: an error, or the frames before the cut. */
    for (size_t cut = 1; cut < n; cut++) {
        const ls_status status = build_file(state, scratch_file(state, "cut.txt.zst", packed, cut), "text", text);
        if (status.code == LS_OK) {
            assert_true(strcmp(text, "one, .") == 0 || strcmp(text, "one, two, three.") == 0);
        } else {
            assert_int_equal(status.code, LS_INVALID);
            assert_non_null(strstr(status.text, "cut.txt.zst"));
        }
    }
    memcpy(packed + n, "garbage!", 8);
    assert_error(build_file(state, scratch_file(state, "more.txt.zst", packed, n + 8), "text", text), LS_INVALID,
                 "more.txt.zst", "cannot be decompressed");
    assert_error(build_file(state, scratch_file(state, "none.txt.zst", packed, 0), "text", text), LS_INVALID,
                 "no text in", "none.txt.zst");
}

/* One block of text and an empty last one: libzstd does not compare the size that the header states. */
static void refuses_wrong_sizes(void **state) {
    enum { SIZE = 6 }; /* where it stands, in 4 bytes */
    char packed[] = {'\x28', '\xb5', '\x2f', '\xfd', '\x80', 7 << 3, 4,   0, 0, 0,
                     4 << 3, 0,      0,      't',    'e',    'x',    't', 1, 0, 0},
         text[100];
    assert_ok(build_file(state, scratch_file(state, "size.txt.zst", packed, sizeof packed), "text", text));
    assert_string_equal(text, "text.");
    packed[SIZE + 3] = 1; /* 16 MiB more */
    assert_error(build_file(state, scratch_file(state, "size.txt.zst", packed, sizeof packed), "text", text),
                 LS_INVALID, "size.txt.zst", "a frame has another size than its header states");
}

/* A window of 2 GiB asked for by a header of a few bytes is not allocated. */
static void refuses_huge_windows(void **state) {
    char packed[300], text[100];
    const size_t n = zstd("some text, of an unknown length", 27, false, packed, sizeof packed);
    assert_ok(build_file(state, scratch_file(state, "window.txt.zst", packed, n), "text", text));
    assert_int_equal((unsigned char)packed[5], (27 - 10) << 3); /* the frame's window descriptor */
    for (int log = 28; log <= 41; log++) {
        packed[5] = (char)((log - 10) << 3);
        assert_error(build_file(state, scratch_file(state, "window.txt.zst", packed, n), "text", text), LS_INVALID,
                     "window.txt.zst", "more than 128 MiB");
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_nested_fields),
        cmocka_unit_test(reads_what_other_systems_write),
        cmocka_unit_test(names_what_it_does_not_read),
        cmocka_unit_test(reads_twice_what_is_given_twice),
        cmocka_unit_test(leaves_folders_of_others_alone),
        cmocka_unit_test(sees_files_that_change),
        cmocka_unit_test(goes_on_after_a_full_disk),
        cmocka_unit_test(reads_values_of_json),
        cmocka_unit_test(reads_nul_in_records),
        cmocka_unit_test(refuses_records_of_many_values),
#if HAVE_ZLIB
        cmocka_unit_test(reads_every_kind_of_gzip),
        cmocka_unit_test(skips_broken_files),
        cmocka_unit_test(notices_a_break_after_a_full_batch),
        cmocka_unit_test(refuses_bombs),
#endif
#if HAVE_ZSTD
        cmocka_unit_test(reads_every_kind_of_frame),
        cmocka_unit_test(refuses_wrong_sizes),
        cmocka_unit_test(refuses_huge_windows),
#endif
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
