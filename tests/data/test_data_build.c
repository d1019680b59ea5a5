/* Text to shards: every kind of input, mistakes in it, and builds that are killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include <signal.h>
#include <sys/wait.h>

#if __has_include(<zstd.h>)
#include <zstd.h>
#define HAVE_ZSTD 1
#else
#define HAVE_ZSTD 0
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

static ls_build_summary build(const ls_build_options *options) {
    ls_build_summary summary;
    assert_ok(ls_shards_build(options, &summary));
    return summary;
}

/* Both give the same sequences. */
static void assert_same_data(const char *a, const char *b, const char *pack, int64_t S) {
    ls_data *data[2];
    const char *paths[2] = {a, b};
    int32_t *room = calloc((size_t)(4 * S), sizeof *room);
    for (int k = 0; k < 2; k++) {
        const ls_data_options options = {.paths = &paths[k],
                                         .n_paths = 1,
                                         .tokenizer = tokenizer,
                                         .sequence = S,
                                         .seed = 9,
                                         .shuffle = true,
                                         .pack = pack};
        assert_ok(ls_data_open(&options, &data[k]));
    }
    const ls_data_summary *s[2] = {ls_data_summarise(data[0]), ls_data_summarise(data[1])};
    assert_int_equal(s[0]->windows, s[1]->windows);
    assert_int_equal(s[0]->tokens, s[1]->tokens);
    assert_int_equal(s[0]->longest_document, s[1]->longest_document);
    assert_true(ls_data_unigram_nats(data[0]) == ls_data_unigram_nats(data[1]));
    for (int64_t i = 0; i < s[0]->windows; i++) {
        ls_sample x = {.tokens = room, .labels = room + S}, y = {.tokens = room + 2 * S, .labels = room + 3 * S};
        assert_ok(ls_data_read(data[0], i, NULL, &x));
        assert_ok(ls_data_read(data[1], i, NULL, &y));
        assert_memory_equal(x.tokens, y.tokens, 2 * (size_t)S * sizeof *room);
    }
    free(room);
    ls_data_close(data[0]);
    ls_data_close(data[1]);
}

static void is_what_text_is(void **state) {
    char texts[600], out[600], other[600];
    make_texts(state, "texts", 60, 2000);
    snprintf(texts, sizeof texts, "%s", scratch_path(state, "texts"));
    snprintf(out, sizeof out, "%s", scratch_path(state, "shards"));
    snprintf(other, sizeof other, "%s", scratch_path(state, "shards-by-one"));
    const char *paths[] = {texts};
    ls_build_options options = build_options(tokenizer, paths, 1, out);
    const ls_build_summary s = build(&options);
    assert_true(s.shards > 5);
    assert_int_equal(s.documents + s.empty, 60);
    assert_same_data(texts, out, "join", 64);
    assert_same_data(texts, out, "best", 64);
    assert_same_data(texts, out, "stream", 64);
    /* Any number of threads gives the same bytes; a folder that is full is not written to. */
    options.threads = 1;
    assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_USAGE, "holds token shards already", out);
    options.out = other;
    build(&options);
    assert_same_folders(out, other);
    /* With resume there is nothing left to do, unless something else is asked for. */
    options.resume = true;
    assert_int_equal(build(&options).tokens, s.tokens);
    options.shard_tokens = 4000;
    assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_USAGE, "other files, options or tokenizer",
                 other);
}

/* The same documents as a text file each, as JSONL, under zstd, and by a pattern. */
static void reads_every_format(void **state) {
    enum { N = 40 };
    char *text = malloc(40000), name[100], texts[600], lines[600], out[600], *all = calloc(1, 1 << 20);
    size_t used = 0;
    assert_ok(ls_file_make_folders(scratch_path(state, "each")));
    for (int i = 0; i < N; i++) {
        size_t bytes = random_text((uint64_t)i, i % 10 == 0 ? 30000 : 300, text);
        if (bytes == 0) bytes = strlen(strcpy(text, "x"));
        snprintf(name, sizeof name, "each/%03d", i);
        scratch_file(state, name, text, bytes);
        ls_json_writer *w = ls_json_writer_create(0);
        ls_json_open_object(w, NULL);
        ls_json_put_int(w, "number", i);
        ls_json_put_text(w, "body", text);
        ls_json_close(w);
        used += (size_t)sprintf(all + used, "%s\n%s", ls_json_written(w, NULL), i % 7 ? "" : "  \r\n\n");
        ls_json_writer_destroy(w);
    }
    used--; /* the last line has no newline */
    snprintf(texts, sizeof texts, "%s", scratch_path(state, "each"));
    snprintf(lines, sizeof lines, "%s", scratch_file(state, "all.jsonl", all, used));
    snprintf(out, sizeof out, "%s", scratch_path(state, "from-lines"));
    const char *paths[] = {lines};
    ls_build_options options = build_options(tokenizer, paths, 1, out);
    options.form.field = "body";
    assert_int_equal(build(&options).documents, N);
    assert_same_data(texts, out, "join", 100);
#if HAVE_ZSTD
    char *packed = malloc(ZSTD_compressBound(used));
    const size_t half = (size_t)(strchr(all + used / 2, '\n') + 1 - all); /* two frames, one behind the other */
    size_t bytes = ZSTD_compress(packed, ZSTD_compressBound(used), all, half, 3);
    bytes += ZSTD_compress(packed + bytes, ZSTD_compressBound(used) - bytes, all + half, used - half, 3);
    char compressed[600];
    snprintf(compressed, sizeof compressed, "%s", scratch_file(state, "again.jsonl.zst", packed, bytes));
    paths[0] = compressed;
    options.out = scratch_path(state, "from-zstd");
    assert_int_equal(build(&options).documents, N);
    assert_same_data(texts, options.out, "join", 100);
    /* Cut short, and not zstd at all. */
    paths[0] = scratch_file(state, "cut.jsonl.zst", packed, bytes - 5);
    options.out = scratch_path(state, "from-cut");
    assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_INVALID, "cut.jsonl.zst",
                 "middle of a zstd frame");
    paths[0] = scratch_text(state, "no.jsonl.zst", "{\"body\": \"x\"}\n");
    options.out = scratch_path(state, "from-no");
    assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_INVALID, "no.jsonl.zst", "decompressed");
    free(packed);
#endif
    char pattern[600];
    snprintf(pattern, sizeof pattern, "%s/00[0-4]*", texts);
    paths[0] = pattern;
    options.out = scratch_path(state, "from-pattern");
    assert_int_equal(build(&options).inputs, 5);
    snprintf(pattern, sizeof pattern, "%s/*.nothing", texts);
    options.out = scratch_path(state, "from-nothing");
    assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_IO, "*.nothing", "no file matches");
    free(all);
    free(text);
}

/* Texts and lines that are longer than the batches they are read in. */
static void reads_long_records(void **state) {
    const size_t bytes = (size_t)40 << 20;
    char *text = malloc(bytes + 64), long_text[600], path[600];
    const size_t head = (size_t)sprintf(text, "{\"text\": \"");
    memset(text + head, 'y', bytes);
    const size_t tail = head + bytes - 100;
    const size_t end = tail + (size_t)sprintf(text + tail, "\"}\n{\"text\": \"short\"}\n");
    snprintf(long_text, sizeof long_text, "%s", scratch_file(state, "long.jsonl", text, end));
    const char *paths[] = {long_text};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "long-lines"));
    ls_build_summary s = build(&options);
    assert_int_equal(s.documents, 2);
    assert_int_equal(s.longest, tail - head + 1);
    /* As one text, in parts. */
    snprintf(path, sizeof path, "%s", scratch_file(state, "long.txt", text + head, tail - head));
    paths[0] = path;
    options.out = scratch_path(state, "long-texts");
    s = build(&options);
    assert_int_equal(s.documents, 1);
    assert_int_equal(s.longest, tail - head + 1);
    assert_same_data(path, scratch_path(state, "long-texts"), "join", 1 << 20);
    free(text);
}

/* A line each: what is wrong with it. */
static void names_bad_lines(void **state) {
    static const struct {
        const char *line, *word;
        size_t bytes;
    } bad[] = {
        {"[1, 2]", "expected an object", 0},
        {"7", "the document is 7, expected an object", 0},
        {"{\"body\": \"x\"}", "text is missing", 0},
        {"{\"text\": 7}", "text is 7, expected", 0},
        {"{\"text\": null}", "text is null, expected a text", 0},
        {"{\"text\": NaN}", "text is NaN, expected a text", 0},
        {"{\"messages\": []}", "--records messages reads conversations", 0},
        {"{\"text\": \"a\0b\"}", "", 15},
        {"{\"text\": \"a\xff\xfe\"}", "", 0},
        {"{\"text\": \"a\xc3\"}", "", 0},
        {"{\"text\": \"\\ud800\"}", "", 0},
        {"{\"text\": \"a\"", "", 0},
        {"{\"text\": \"a\"} {}", "", 0},
        {"\xef\xbb\xbf", "", 0},
    };
    char path[600], at[640];
    for (size_t i = 0; i < LS_COUNT(bad); i++) {
        char file[1000];
        const size_t n = bad[i].bytes > 0 ? bad[i].bytes : strlen(bad[i].line);
        size_t used = (size_t)sprintf(file, "{\"text\": \"good\"}\n\n");
        memcpy(file + used, bad[i].line, n);
        used += n + (size_t)sprintf(file + used + n, "\n{\"text\": \"good\"}\n");
        snprintf(path, sizeof path, "%s", scratch_file(state, "bad.jsonl", file, used));
        snprintf(at, sizeof at, "%s:3", path);
        const char *paths[] = {path};
        ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "from-bad"));
        assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_INVALID, at, bad[i].word);
        options.form.skip_bad = options.resume = true; /* the same build, told to go on */
        const ls_build_summary s = build(&options);
        assert_int_equal(s.documents, 2);
        assert_int_equal(s.bad, 1);
        assert_ok(ls_file_remove_tree(options.out));
    }
}

static void names_bad_texts(void **state) {
    const size_t bytes = (size_t)100 << 20; /* longer than any buffer */
    char *text = malloc(bytes + 100), path[600];
    memset(text, 'z', bytes + 100);
    size_t used = (size_t)sprintf(text, "{\"text\": \"good\"}\n{\"text\": \"");
    text[used] = 'z';
    memcpy(text + bytes, "\"}\n{\"text\": \"good\"}\n", 20);
    snprintf(path, sizeof path, "%s", scratch_file(state, "huge.jsonl", text, bytes + 20));
    const char *paths[] = {path};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "from-huge"));
    ls_build_summary s = build(&options);
    assert_int_equal(s.documents, 3);
    assert_int_equal(s.longest, bytes - used + 1);
    options.out = scratch_path(state, "from-shorter");
    options.form.longest_record = (int64_t)64 << 20;
    assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_INVALID, "huge.jsonl:2",
                 "longer than 64.0 MiB; --longest-record says how long it may be");
    options.form.skip_bad = options.resume = true;
    s = build(&options);
    assert_int_equal(s.documents, 2);
    assert_int_equal(s.bad, 1);
    /* A NUL far behind in a long text, and one in a short text. */
    text[bytes - 5] = 0;
    snprintf(path, sizeof path, "%s", scratch_file(state, "nul.txt", text, bytes));
    options = build_options(tokenizer, paths, 1, scratch_path(state, "from-nul"));
    assert_error(ls_shards_build(&options, &(ls_build_summary){0}), LS_INVALID, "nul.txt", "NUL byte");
    char good[600];
    const char *both[] = {path, good};
    snprintf(path, sizeof path, "%s", scratch_file(state, "short-nul.txt", "a\0b", 3));
    snprintf(good, sizeof good, "%s", scratch_text(state, "good.txt", "good"));
    options = build_options(tokenizer, both, 2, scratch_path(state, "from-short-nul"));
    options.form.skip_bad = true;
    s = build(&options);
    assert_int_equal(s.documents, 1);
    assert_int_equal(s.bad, 1);
    free(text);
}

/* --- killed in the middle ----------------------------------------------------------------------------------------- */

/*
 * Builds in a process of its own that is killed when `shards` of them stand and some time has gone by; true: it was in
 * time.
 */
static bool build_and_kill(const ls_build_options *options, int64_t shards, unsigned wait_us) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ls_build_summary summary;
        _exit(ls_shards_build(options, &summary).code == LS_OK ? 0 : 1);
    }
    char path[600], done[600];
    snprintf(path, sizeof path, "%s/shard-%06lld.tokens", options->out, (long long)shards);
    snprintf(done, sizeof done, "%s/shards.json", options->out);
    while (!ls_file_exists(path) && !ls_file_exists(done) && waitpid(child, NULL, WNOHANG) == 0) usleep(50);
    usleep(wait_us);
    kill(child, SIGKILL);
    int status = 0;
    const pid_t ended = waitpid(child, &status, 0);
    return ended == child && WIFSIGNALED(status);
}

static void goes_on_after_a_kill(void **state) {
    char texts[600], lines[600], whole[600], killed[600], name[60], *text = malloc(1 << 16);
    make_texts(state, "kill", 300, 4000);
    snprintf(texts, sizeof texts, "%s", scratch_path(state, "kill"));
    FILE *file = fopen(scratch_path(state, "kill.jsonl"), "w");
    for (int i = 0; i < 400; i++) {
        random_text((uint64_t)i + 5000, 1500, text);
        ls_json_writer *w = ls_json_writer_create(0);
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "text", text);
        ls_json_close(w);
        fprintf(file, "%s\n%s", ls_json_written(w, NULL), i % 50 ? "" : "{}\n");
        ls_json_writer_destroy(w);
    }
    fclose(file);
    free(text);
    snprintf(lines, sizeof lines, "%s", scratch_path(state, "kill.jsonl"));
    snprintf(whole, sizeof whole, "%s", scratch_path(state, "whole"));
    const char *paths[] = {texts, lines};
    ls_build_options options = build_options(tokenizer, paths, 2, whole);
    options.form.skip_bad = true;
    options.shard_tokens = 40000;
    const ls_build_summary expected = build(&options);
    assert_true(expected.shards > 18 && expected.bad == 8);
    int kills = 0;
    for (int round = 0; round < 6; round++) { /* of which each is killed three times, at other moments */
        snprintf(name, sizeof name, "killed-%d", round);
        snprintf(killed, sizeof killed, "%s", scratch_path(state, name));
        options.out = killed;
        for (int k = 0; k < 3; k++) {
            options.resume = k > 0;
            options.threads = 1 + k;
            kills += build_and_kill(&options, round + k * 6, (unsigned)(round * 1973 + k * 551));
        }
        snprintf(name, sizeof name, "killed-%d/shards.json", round);
        if (!ls_file_exists(scratch_path(state, name))) { /* as if the last one had been killed while it wrote that */
            snprintf(name, sizeof name, "killed-%d/shards.json.tmp-1", round);
            scratch_file(state, name, "{", 1);
        }
        options.resume = true;
        const ls_build_summary s = build(&options);
        assert_int_equal(s.documents, expected.documents);
        assert_int_equal(s.tokens, expected.tokens);
        assert_int_equal(s.bad, expected.bad);
        assert_same_folders(whole, killed);
        assert_ok(ls_file_remove_tree(killed));
    }
    if (kills < 6) fail_msg("only %d of 18 builds were killed in time", kills);
}

static void refuses_to_mix_builds(void **state) {
    char texts[600], out[600], journal[600];
    make_texts(state, "mix", 50, 3000);
    snprintf(texts, sizeof texts, "%s", scratch_path(state, "mix"));
    snprintf(out, sizeof out, "%s", scratch_path(state, "mixed"));
    snprintf(journal, sizeof journal, "%s/build.jsonl", out);
    const char *paths[] = {texts};
    ls_build_options options = build_options(tokenizer, paths, 1, out);
    assert_true(build_and_kill(&options, 2, 0) || ls_file_exists(journal));
    if (!ls_file_exists(journal)) return; /* it was faster */
    ls_build_summary s;
    ls_data *data;
    const char *shards[] = {out};
    const ls_data_options reading = {.paths = shards, .n_paths = 1, .tokenizer = tokenizer, .sequence = 16};
    assert_error(ls_data_open(&reading, &data), LS_INVALID, "not finished", out);
    assert_error(ls_shards_build(&options, &s), LS_USAGE, "unfinished build", "--resume");
    options.resume = true;
    options.shard_tokens++;
    assert_error(ls_shards_build(&options, &s), LS_USAGE, "other files, options or tokenizer", out);
    options.shard_tokens--;
    scratch_text(state, "mix/00007.txt", "another text"); /* an input that has changed since */
    assert_error(ls_shards_build(&options, &s), LS_USAGE, "other files, options or tokenizer", out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_what_text_is),       cmocka_unit_test(reads_every_format),
        cmocka_unit_test(reads_long_records),    cmocka_unit_test(names_bad_lines),
        cmocka_unit_test(names_bad_texts),       cmocka_unit_test(goes_on_after_a_kill),
        cmocka_unit_test(refuses_to_mix_builds),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
