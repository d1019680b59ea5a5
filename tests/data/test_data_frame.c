/*
 * The tokens around each document, from the tokenizer's files or from options, in shards and in text that is read
 * without them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "data/documents_impl.h"

static ls_tokenizer *open_family(const char *family) {
    char path[600];
    ls_tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, LS_TEST_REFERENCE "/tokenizers/%s", family);
    assert_ok(ls_tokenizer_open(path, &tokenizer));
    return tokenizer;
}

/* The tokens of one text, framed. */
static size_t framed(const ls_tokenizer *t, int32_t begin, const char *text, int32_t end, int32_t *out) {
    ls_token_list list = {0};
    size_t n = 0;
    assert_ok(ls_tokenizer_encode(t, text, strlen(text), &list));
    if (begin >= 0) out[n++] = begin;
    memcpy(out + n, list.id, list.count * sizeof *out);
    n += list.count;
    if (end >= 0) out[n++] = end;
    free(list.id);
    return n;
}

/* The first shard holds the texts, each framed so; the sum of what it counts is told as well. */
static void assert_documents(const char *folder, const ls_tokenizer *t, int32_t begin, int32_t end,
                             const char *const *texts, int n) {
    ls_shard_set set = {0};
    int32_t expected[4000], found;
    assert_ok(ls_shard_set_add(&set, folder));
    const ls_shard *s = &set.shard[0];
    assert_ok(ls_shard_verify(s, NULL));
    assert_int_equal(s->header->documents, n);
    uint64_t at = 0;
    for (int d = 0; d < n; d++) {
        const size_t tokens = framed(t, begin, texts[d], end, expected);
        assert_int_equal(s->ends[d], at + tokens);
        for (size_t i = 0; i < tokens; i++, at++) {
            ls_tokens_widen(s->tokens, (int)s->header->width, (int64_t)at, 1, &found);
            assert_int_equal(found, expected[i]);
        }
    }
    assert_true(s->header->end_of_document == (end >= 0 ? (uint64_t)end : LS_SHARD_NO_END));
    ls_shard_set_close(&set);
}

static const char *const texts[] = {"A first text.", "", "x", "\nThe last of them, 3 lines\n\nlong"};
static const char *const kept[] = {"A first text.", "x", "\nThe last of them, 3 lines\n\nlong"};

static const char *write_texts(void **state) {
    char name[60];
    assert_ok(ls_file_make_folders(scratch_path(state, "texts")));
    for (size_t i = 0; i < LS_COUNT(texts); i++) {
        snprintf(name, sizeof name, "texts/%zu.txt", i);
        scratch_text(state, name, texts[i]);
    }
    return scratch_path(state, "texts");
}

static const struct {
    const char *family, *begin, *end; /* flags */
    const char *before, *behind;      /* tokens, NULL: none */
} cases[] = {
    {"llama3", NULL, NULL, "<|begin_of_text|>", "<|end_of_text|>"},
    {"llama3", "auto", "none", "<|begin_of_text|>", NULL},
    {"llama3", "none", "auto", NULL, "<|end_of_text|>"},
    {"llama3", "none", "none", NULL, NULL},
    {"llama3", "<|reserved_special_token_0|>", "<|begin_of_text|>", "<|reserved_special_token_0|>",
     "<|begin_of_text|>"},
    {"llama2", NULL, NULL, "<s>", "</s>"},
    {"gpt2", NULL, NULL, NULL, "<|endoftext|>"},
    {"gpt2", "<|endoftext|>", "none", "<|endoftext|>", NULL},
    {"qwen2", NULL, "<|im_end|>", NULL, "<|im_end|>"},
};

static int32_t id_of(const ls_tokenizer *t, const char *token) {
    return token == NULL ? -1 : ls_tokenizer_find(t, token);
}

static void follows_the_tokenizer_or_the_flag(void **state) {
    char folder[600], name[60];
    snprintf(folder, sizeof folder, "%s", write_texts(state));
    const char *paths[] = {folder};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_tokenizer *t = open_family(cases[i].family);
        snprintf(name, sizeof name, "shards-%zu", i);
        ls_build_options options = build_options(t, paths, 1, scratch_path(state, name));
        options.form.begin = cases[i].begin;
        options.form.end = cases[i].end;
        ls_build_summary s;
        assert_ok(ls_shards_build(&options, &s));
        assert_string_equal(s.begin, cases[i].before != NULL ? cases[i].before : "none");
        assert_string_equal(s.end, cases[i].behind != NULL ? cases[i].behind : "none");
        assert_documents(options.out, t, id_of(t, cases[i].before), id_of(t, cases[i].behind), kept, LS_COUNT(kept));
        ls_tokenizer_close(t);
    }
}

/* Text that is read without shards has the same documents, in every packing. */
static void text_alone_has_the_same(void **state) {
    char folder[600], shards[600];
    snprintf(folder, sizeof folder, "%s", write_texts(state));
    snprintf(shards, sizeof shards, "%s", scratch_path(state, "as-shards"));
    ls_tokenizer *t = open_family("llama3");
    const char *paths[2] = {folder, shards}, *const packs[] = {"join", "best", "stream"};
    const ls_build_options options = build_options(t, paths, 1, shards);
    ls_build_summary built;
    assert_ok(ls_shards_build(&options, &built));
    for (size_t p = 0; p < LS_COUNT(packs); p++) {
        enum { S = 16 };
        int32_t room[2][2][S];
        ls_data *data[2];
        for (int k = 0; k < 2; k++) {
            const ls_data_options how = {
                .paths = &paths[k], .n_paths = 1, .tokenizer = t, .sequence = S, .pack = packs[p]};
            assert_ok(ls_data_open(&how, &data[k]));
            assert_int_equal(ls_data_summarise(data[k])->tokens, built.tokens);
        }
        for (int64_t i = 0; i < ls_data_summarise(data[0])->windows; i++) {
            for (int k = 0; k < 2; k++)
                assert_ok(ls_data_read(data[k], i, NULL, &(ls_sample){.tokens = room[k][0], .labels = room[k][1]}));
            assert_memory_equal(room[0], room[1], sizeof room[0]);
        }
        /* The first document begins with its token, and nothing else does. */
        int32_t begins = 0;
        for (int64_t i = 0; i < ls_data_summarise(data[0])->windows; i++) {
            assert_ok(ls_data_read(data[0], i, NULL, &(ls_sample){.tokens = room[0][0], .labels = room[0][1]}));
            for (int k = 0; k < S; k++) begins += room[0][0][k] == id_of(t, "<|begin_of_text|>");
        }
        assert_true(begins >= 1 && begins <= (int32_t)LS_COUNT(kept));
        ls_data_close(data[0]);
        ls_data_close(data[1]);
    }
    ls_tokenizer_close(t);
}

/* A text that is read in parts, and lines; the token before an answer's prompt is not learnt. */
static void frames_documents_once(void **state) {
    ls_tokenizer *bytes = bytes_tokenizer();
    const size_t long_one = (size_t)3 << 20;
    char *text = malloc(long_one), file[600];
    memset(text, 'y', long_one);
    snprintf(file, sizeof file, "%s", scratch_file(state, "long.txt", text, long_one));
    free(text);
    const char *paths[] = {file};
    ls_build_options options = build_options(bytes, paths, 1, scratch_path(state, "long"));
    options.form.begin = "<";
    options.form.end = ">";
    ls_build_summary s;
    assert_ok(ls_shards_build(&options, &s));
    assert_int_equal(s.tokens, long_one + 2);
    ls_shard_set set = {0};
    assert_ok(ls_shard_set_add(&set, options.out));
    assert_int_equal(set.shard[0].counts['<'], 1);
    assert_int_equal(set.shard[0].counts['>'], 1);
    ls_shard_set_close(&set);
    /* Completions: of "<", "2+2=", "4", ">" the last two are learnt. */
    snprintf(file, sizeof file, "%s",
             scratch_text(state, "sums.jsonl", "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n"));
    options.out = scratch_path(state, "sums");
    options.form.records = "completion";
    assert_ok(ls_shards_build(&options, &s));
    set = (ls_shard_set){0};
    assert_ok(ls_shard_set_add(&set, options.out));
    assert_int_equal(set.shard[0].header->tokens, 7);
    assert_int_equal(set.shard[0].learnt[0], 0x60);
    ls_shard_set_close(&set);
    ls_tokenizer_close(bytes);
}

/* A tokenizer that names no end of document is asked for one only where one is wanted. */
static void does_without_an_end(void **state) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s", scratch_path(state, "no-end"));
    assert_ok(ls_file_make_folders(folder));
    scratch_text(state, "no-end/tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}");
    const char *paths[] = {scratch_text(state, "abba.txt", "abba")};
    ls_tokenizer *t = NULL;
    assert_ok(ls_tokenizer_open(folder, &t));
    assert_int_equal(ls_tokenizer_end_of_document(t), -1);
    ls_build_options options = build_options(t, paths, 1, scratch_path(state, "without-end"));
    ls_build_summary s;
    assert_error(ls_shards_build(&options, &s), LS_INVALID, "has no end-of-document token", "--end");
    options.form.end = "none";
    assert_ok(ls_shards_build(&options, &s));
    assert_int_equal(s.tokens, 4);
    ls_data *data = NULL;
    const ls_data_options how = {
        .paths = paths, .n_paths = 1, .tokenizer = t, .sequence = 8, .form = options.form, .pack = "best"};
    int32_t tokens[8], labels[8];
    assert_ok(ls_data_open(&how, &data));
    assert_ok(ls_data_read(data, 0, NULL, &(ls_sample){.tokens = tokens, .labels = labels}));
    assert_memory_equal(tokens, ((int32_t[]){0, 1, 1, 0, 0, 0, 0, 0}), sizeof tokens);
    ls_data_close(data);
    ls_tokenizer_close(t);
}

/* A byte that is no character is shown by its number. */
static void shows_bytes_that_are_no_text(void **state) {
    const char *paths[] = {scratch_text(state, "ab.txt", "ab")};
    ls_tokenizer *t = NULL;
    ls_build_summary s;
    assert_ok(ls_tokenizer_open(NULL, &t));
    const ls_build_options options = build_options(t, paths, 1, scratch_path(state, "of-bytes"));
    assert_ok(ls_shards_build(&options, &s));
    assert_string_equal(s.begin, "none");
    assert_string_equal(s.end, "<0x00>");
    ls_tokenizer_close(t);
}

static void refuses_what_it_cannot_frame(void **state) {
    char folder[600], out[600];
    snprintf(folder, sizeof folder, "%s", write_texts(state));
    snprintf(out, sizeof out, "%s", scratch_path(state, "once"));
    ls_tokenizer *t = open_family("llama3");
    const char *paths[] = {folder};
    ls_build_options options = build_options(t, paths, 1, out);
    ls_build_summary s;
    options.form.begin = "<bos>";
    assert_error(ls_shards_build(&options, &s), LS_USAGE, "--begin is '<bos>'", "none or a token");
    options.form.begin = NULL;
    options.form.end = "";
    assert_error(ls_shards_build(&options, &s), LS_USAGE, "--end is ''", "none or a token");
    /* What was built one way is not gone on with in another. */
    options.form.end = NULL;
    assert_ok(ls_shards_build(&options, &s));
    options.resume = true;
    assert_ok(ls_shards_build(&options, &s));
    assert_string_equal(s.begin, "<|begin_of_text|>");
    options.form.begin = "none";
    assert_error(ls_shards_build(&options, &s), LS_USAGE, "other files, options or tokenizer", out);
    options.form.begin = NULL;
    options.form.end = "none";
    assert_error(ls_shards_build(&options, &s), LS_USAGE, "other files, options or tokenizer", out);
    ls_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_tokenizer_or_the_flag),
        cmocka_unit_test(text_alone_has_the_same),
        cmocka_unit_test(frames_documents_once),
        cmocka_unit_test(does_without_an_end),
        cmocka_unit_test(shows_bytes_that_are_no_text),
        cmocka_unit_test(refuses_what_it_cannot_frame),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
