/*
 * Exported models have the bits of the checkpoint for any number of ranks, and a config in which only the type may
 * change. The folder is complete at every moment. Mistakes are reported by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "support/saved_model.h"
#include "support/scratch.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static ls_status export(const char *checkpoint, const char *carry, const char *out, ls_st_dtype dtype,
                        int64_t shard_bytes, ls_export_result *result) {
    ls_export_result unused;
    const ls_export_options options = {
        .checkpoint = checkpoint, .carry = carry, .out = out, .dtype = dtype, .shard_bytes = shard_bytes};
    return ls_checkpoint_export(&options, result != NULL ? result : &unused);
}

/* Each tensor of the model's file, bit for bit, in one of the exported files. Returns in how many files they are. */
static int assert_same_tensors(const char *model, const char *out) {
    LS_PATH path = NULL;
    ls_st_file *original = NULL, *files[64];
    int n = 0;
    ls_file_names names;
    assert_ok(ls_path_join(model, "model.safetensors", &path));
    assert_ok(ls_st_open(path, &original));
    assert_ok(ls_file_list(out, &names));
    for (size_t i = 0; i < names.count; i++) {
        if (strstr(names.name[i], ".safetensors") == NULL || strstr(names.name[i], ".json") != NULL) continue;
        assert_ok(ls_path_join(out, names.name[i], &path));
        assert_ok(ls_st_open(path, &files[n]));
        assert_string_equal(ls_st_metadata(files[n], "format"), "pt");
        n++;
    }
    ls_file_names_free(&names);
    int64_t found = 0;
    for (int f = 0; f < n; f++) {
        for (int64_t i = 0; i < ls_st_count(files[f]); i++, found++) {
            const ls_st_tensor *t = ls_st_at(files[f], i), *expected = ls_st_find(original, t->name);
            assert_non_null(expected);
            assert_int_equal(t->dtype, expected->dtype);
            assert_int_equal(t->ndim, expected->ndim);
            assert_memory_equal(t->shape, expected->shape, sizeof t->shape[0] * (size_t)t->ndim);
            assert_memory_equal(t->data, expected->data, t->bytes);
        }
        ls_st_close(files[f]);
    }
    assert_int_equal(found, ls_st_count(original));
    ls_st_close(original);
    return n;
}

/* ---- the tests ---- */

static void test_round_trip(void **state) {
    static const ls_st_dtype types[] = {LS_ST_F32, LS_ST_F16, LS_ST_BF16};
    const kept_path model = path_in(state, "model"), run = path_in(state, "run"), out = path_in(state, "out"),
                    checkpoint = path_in(state, "run/checkpoint-00000012");
    for (size_t c = 0; c < LS_COUNT(types) * 4; c++) {
        const ls_st_dtype dtype = types[c / 4];
        const saving s = {model.text, run.text, c % 2 ? LS_BF16 : LS_F32, c % 4 / 2 ? 3 : 1};
        ls_export_result result;
        make_model(model.text, saved_config, dtype);
        save_model(&s);
        assert_ok(export(checkpoint.text, NULL, out.text, dtype, 0, &result));
        assert_int_equal(assert_same_tensors(model.text, out.text), 1);
        assert_int_equal(result.files, 1);
        /* In several files, each with no more than was asked for or one tensor; read back as a model by the index. */
        assert_ok(export(checkpoint.text, NULL, out.text, dtype, 600, &result));
        assert_int_equal(assert_same_tensors(model.text, out.text), result.files);
        assert_true(result.files > 3);
        assert_int_equal(count_names(out.text, ".safetensors"), result.files + 1); /* and the index */
        ls_json *index = NULL;
        const kept_path path = path_in(state, "out/model.safetensors.index.json");
        int64_t total = 0;
        assert_ok(ls_json_read(path.text, 1 << 20, &index));
        assert_ok(ls_json_int(ls_json_field(ls_json_root(index), "metadata"), "total_size", 0, 1 << 30, &total));
        assert_int_equal(total, result.bytes);
        ls_json_free(index);
        const kept_path again = path_in(state, "again"), second = path_in(state, "again/checkpoint-00000012");
        const saving from_shards = {out.text, again.text, s.dtype, 2};
        save_model(&from_shards);
        assert_same_file(path_in(state, "again/checkpoint-00000012/model.safetensors").text,
                         path_in(state, "run/checkpoint-00000012/model.safetensors").text);
        (void)second;
    }
}

/* What is exported does not depend on the ranks that saved it. */
static void test_same_from_any_ranks(void **state) {
    const kept_path model = path_in(state, "model");
    make_model(model.text, saved_config, LS_ST_F32);
    for (int ranks = 1; ranks <= 3; ranks++) {
        char run[32], checkpoint[64], out[32];
        snprintf(run, sizeof run, "run%d", ranks);
        snprintf(checkpoint, sizeof checkpoint, "run%d/checkpoint-00000012", ranks);
        snprintf(out, sizeof out, "out%d", ranks);
        const kept_path to = path_in(state, run), from = path_in(state, checkpoint), folder = path_in(state, out);
        const saving s = {model.text, to.text, LS_BF16, ranks};
        save_model(&s);
        assert_ok(export(from.text, NULL, folder.text, LS_ST_BF16, 700, NULL));
        ls_file_names names;
        assert_ok(ls_file_list(path_in(state, "out1").text, &names));
        assert_true(names.count > 5);
        for (size_t i = 0; i < names.count; i++) {
            LS_PATH a = NULL;
            LS_PATH b = NULL;
            assert_ok(ls_path_join(path_in(state, "out1").text, names.name[i], &a));
            assert_ok(ls_path_join(folder.text, names.name[i], &b));
            assert_same_file(a, b);
        }
        assert_int_equal(count_names(folder.text, ""), names.count);
        ls_file_names_free(&names);
    }
}

static void test_config(void **state) {
    static const struct {
        ls_st_dtype dtype;
        const char *before, *after; /* a part of the text that is exchanged before saving, and what is expected there */
    } cases[] = {
        {LS_ST_F16, "\"torch_dtype\" : \"bfloat16\"", "\"torch_dtype\" : \"float16\""},
        {LS_ST_DTYPES, "\"torch_dtype\" : \"bfloat16\"", "\"torch_dtype\" : \"bfloat16\""},
        {LS_ST_DTYPES, "\"torch_dtype\": null", "\"torch_dtype\": \"float32\""},
        {LS_ST_DTYPES, "\"torch_dtype\": \"float64\"", "\"torch_dtype\": \"float32\""},
        {LS_ST_DTYPES, "\"dtype\": \"float16\"", "\"dtype\": \"float16\""},
        {LS_ST_DTYPES, "\"torch_dtype\": \"float16\", \"dtype\": \"bfloat16\"",
         "\"torch_dtype\": \"bfloat16\", \"dtype\": \"bfloat16\""},
        {LS_ST_F32, "\"dtype\": \"float16\", \"torch_dtype\": 3",
         "\"dtype\": \"float32\", \"torch_dtype\": \"float32\""},
    };
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        char config[2048], expected[2048];
        const char *part = strstr(saved_config, "\"torch_dtype\" : \"bfloat16\"");
        const char *rest = part + strlen("\"torch_dtype\" : \"bfloat16\"");
        snprintf(config, sizeof config, "%.*s%s%s", (int)(part - saved_config), saved_config, cases[c].before, rest);
        snprintf(expected, sizeof expected, "%.*s%s%s", (int)(part - saved_config), saved_config, cases[c].after, rest);
        const scene s = make_scene(state, config);
        assert_ok(
            ls_file_remove_tree(path_in(state, "model/model.safetensors").text)); /* f16 would not hold all of it */
        const saving saved = {s.model.text, s.run.text, LS_F32, 1};
        save_model(&saved);
        assert_ok(export(s.checkpoint.text, NULL, s.out.text, cases[c].dtype, 0, NULL));
        char *text = read_whole(s.out.text, "config.json");
        assert_string_equal(text, expected);
        free(text);
    }
    /* Without such a field one is put in front. */
    const scene s =
        make_scene(state, "{ \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 13, \"hidden_size\": 8, "
                          "\"intermediate_size\": 7, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}");
    assert_ok(export(s.checkpoint.text, NULL, s.out.text, LS_ST_BF16, 0, NULL));
    char *text = read_whole(s.out.text, "config.json");
    assert_non_null(strstr(text, "{ \"dtype\": \"bfloat16\", \"architectures\""));
    free(text);
}

static void test_beside_the_weights(void **state) {
    const scene s = make_scene(state, saved_config);
    ls_export_result result;
    /* Made: the config's ids as they stand there. */
    assert_ok(export(s.checkpoint.text, s.model.text, s.out.text, LS_ST_F32, 0, &result));
    assert_string_equal(result.carried, "");
    ls_json *document = NULL;
    char *text = read_whole(s.out.text, "generation_config.json");
    assert_ok(ls_json_parse("generation_config.json", text, strlen(text), &document));
    assert_non_null(strstr(text, "\"eos_token_id\": [2, 7]"));
    assert_non_null(strstr(text, "\"bos_token_id\": 1"));
    assert_non_null(strstr(text, "\"_from_model_config\": true"));
    ls_json_free(document);
    free(text);
    /* Carried over, whatever is in them; other files stay behind. */
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "vocab.txt",
                                        "tokenizer.model",
                                        "chat_template.jinja",
                                        "generation_config.json"};
    LS_PATH path = NULL;
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        assert_ok(ls_path_join(s.model.text, names[i], &path));
        assert_ok(ls_file_write(path, names[i], i == 5 ? 0 : strlen(names[i])));
    }
    (void)scratch_text(state, "model/optimizer.bin", "no");
    assert_ok(export(s.checkpoint.text, s.model.text, s.out.text, LS_ST_F32, 0, &result));
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        text = read_whole(s.out.text, names[i]);
        assert_string_equal(text, i == 5 ? "" : names[i]);
        free(text);
        assert_non_null(strstr(result.carried, names[i]));
    }
    assert_int_equal(count_names(s.out.text, ""), LS_COUNT(names) + 2);
    assert_ok(ls_file_make_folders(path_in(state, "model/chat_template.json").text));
    assert_error(export(s.checkpoint.text, s.model.text, s.out.text, LS_ST_F32, 0, NULL), LS_IO, "chat_template.json",
                 "folder");
    assert_int_equal(count_names(s.out.text, ""), LS_COUNT(names) + 2);
    assert_int_equal(count_names(*state, "partial"), 0);
}

/* Only what export made itself is replaced. */
static void test_where(void **state) {
    const scene s = make_scene(state, saved_config);
    const kept_path deep = path_in(state, "new/folder/out//"), file = path_in(state, "a file"),
                    link = path_in(state, "link");
    assert_ok(export(s.checkpoint.text, NULL, deep.text, LS_ST_F32, 0, NULL));
    assert_same_tensors(s.model.text, path_in(state, "new/folder/out").text);
    assert_int_equal(count_names(path_in(state, "new/folder").text, ""), 1);
    assert_ok(export(s.checkpoint.text, NULL, path_in(state, "new/folder/out").text, LS_ST_F32, 500, NULL));
    assert_false(
        ls_file_exists(path_in(state, "new/folder/out/model.safetensors").text)); /* nothing of the older one */
    (void)scratch_text(state, "new/folder/out/notes.txt", "mine");
    assert_error(export(s.checkpoint.text, NULL, deep.text, LS_ST_F32, 0, NULL), LS_USAGE, "notes.txt",
                 "no part of an exported model");
    assert_error(export(s.checkpoint.text, NULL, *state, LS_ST_F32, 0, NULL), LS_USAGE, "no part of an exported",
                 *state);
    assert_error(export(s.checkpoint.text, NULL, s.checkpoint.text, LS_ST_F32, 0, NULL), LS_USAGE,
                 "checkpoint-00000012", "no part of an exported model");
    assert_error(export(s.checkpoint.text, s.model.text, s.model.text, LS_ST_F32, 0, NULL), LS_USAGE, s.model.text,
                 "the model's own folder");
    assert_int_equal(symlink(s.model.text, link.text), 0);
    assert_error(export(s.checkpoint.text, s.model.text, link.text, LS_ST_F32, 0, NULL), LS_USAGE, s.model.text,
                 "the model's own folder");
    (void)scratch_text(state, "a file", "mine");
    assert_error(export(s.checkpoint.text, NULL, file.text, LS_ST_F32, 0, NULL), LS_USAGE, file.text, "is a file");
    assert_error(export(s.checkpoint.text, NULL, "", LS_ST_F32, 0, NULL), LS_USAGE, "--out is empty", "");
    /* Leftovers of an export that was killed go; those of one that runs stay. */
    char dead[64], alive[64];
    const pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(dead, sizeof dead, "out.partial-%d", (int)child);
    snprintf(alive, sizeof alive, "out.partial-%d", (int)getppid());
    assert_ok(ls_file_make_folders(path_in(state, dead).text));
    assert_ok(ls_file_make_folders(path_in(state, alive).text));
    assert_ok(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, 0, NULL));
    assert_false(ls_file_exists(path_in(state, dead).text));
    assert_true(ls_file_exists(path_in(state, alive).text));
}

/*
 * A link in the model's folder does not bring in a file from elsewhere; those of a hub's cache lead to its own blobs.
 */
static void test_links(void **state) {
    const scene s = make_scene(state, saved_config);
    const kept_path folder = path_in(state, "linked"), link = path_in(state, "linked/tokenizer_config.json"),
                    pipe = path_in(state, "linked/vocab.txt"), cache = path_in(state, "cache/snapshots/main"),
                    cached = path_in(state, "cache/snapshots/main/tokenizer_config.json");
    assert_ok(ls_file_make_folders(folder.text));
    assert_ok(ls_file_make_folders(path_in(state, "linked2").text));
    assert_ok(ls_file_make_folders(path_in(state, "cache/blobs").text));
    assert_ok(ls_file_make_folders(cache.text));
    (void)scratch_text(state, "secret", "mine");
    (void)scratch_text(state, "linked2/secret", "mine");
    (void)scratch_text(state, "linked/inside", "{}");
    (void)scratch_text(state, "cache/blobs/0123", "{}");
    static const char *const outside[] = {"../secret", "../linked2/secret", "../cache/blobs/0123"};
    for (size_t i = 0; i < LS_COUNT(outside); i++) {
        assert_int_equal(symlink(outside[i], link.text), 0);
        assert_error(ls_export_check(s.out.text, folder.text), LS_INVALID, link.text, "is a link to");
        assert_error(export(s.checkpoint.text, folder.text, s.out.text, LS_ST_F32, 0, NULL), LS_INVALID, link.text,
                     "expected a file of the folder itself");
        assert_false(ls_file_exists(s.out.text));
        assert_int_equal(unlink(link.text), 0);
    }
    assert_int_equal(mkfifo(pipe.text, 0600), 0);
    assert_error(export(s.checkpoint.text, folder.text, s.out.text, LS_ST_F32, 0, NULL), LS_IO, pipe.text, "");
    assert_int_equal(unlink(pipe.text), 0);
    assert_int_equal(symlink("inside", link.text), 0);
    assert_ok(export(s.checkpoint.text, folder.text, s.out.text, LS_ST_F32, 0, NULL));
    assert_int_equal(symlink("../../blobs/0123", cached.text), 0);
    assert_ok(export(s.checkpoint.text, cache.text, s.out.text, LS_ST_F32, 0, NULL));
    assert_int_equal(count_names(s.out.text, "tokenizer_config"), 1);
    assert_int_equal(unlink(cached.text), 0);
    assert_int_equal(symlink("../../../secret", cached.text), 0);
    assert_error(ls_export_check(s.out.text, cache.text), LS_INVALID, "secret", "is a link to");
}

/* A checkpoint that is not whole is not exported; what was there stays as it was. */
static void test_corrupted(void **state) {
    static const struct {
        const char *file;
        int64_t offset;
        ls_code code;
        const char *word;
    } cases[] = {
        {"model.safetensors", -1, LS_INVALID, "corrupted in bytes"},
        {"model.safetensors", 9, LS_INVALID, "(header)"},
        {"config.json", 30, LS_INVALID, "corrupted in bytes"},
        {"state.json", 30, LS_INVALID, "corrupted"},
    };
    const scene s = make_scene(state, saved_config);
    assert_ok(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, 0, NULL));
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        LS_PATH path = NULL;
        assert_ok(ls_path_join(s.checkpoint.text, cases[i].file, &path));
        flip_byte(path, cases[i].offset);
        assert_error(export(s.checkpoint.text, NULL, s.out.text, LS_ST_BF16, 300, NULL), cases[i].code, cases[i].file,
                     cases[i].word);
        flip_byte(path, cases[i].offset);
        assert_int_equal(assert_same_tensors(s.model.text, s.out.text), 1);
        assert_int_equal(count_names(*state, "partial"), 0);
    }
    assert_int_equal(truncate(path_in(state, "run/checkpoint-00000012/model.safetensors").text, 100), 0);
    assert_error(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, 0, NULL), LS_INVALID, "model.safetensors",
                 "it is cut");
    assert_error(export(path_in(state, "nowhere").text, NULL, s.out.text, LS_ST_F32, 0, NULL), LS_IO, "nowhere",
                 "No such file");
    assert_int_equal(assert_same_tensors(s.model.text, s.out.text), 1);
}

/* 1e6 is no number of F16, and infinity would be a lie. */
static void test_beyond_f16(void **state) {
    const scene s = {path_in(state, "model"), path_in(state, "run"), path_in(state, "run/checkpoint-00000012"),
                     path_in(state, "out")};
    make_model(s.model.text, saved_config, LS_ST_F32);
    const kept_path path = path_in(state, "model/model.safetensors");
    ls_st_file *file = NULL;
    assert_ok(ls_st_open(path.text, &file));
    const ls_st_tensor *t = ls_st_find(file, "model.norm.weight");
    int64_t offset = (int64_t)((const char *)t->data - (const char *)ls_st_at(file, 0)->data), begin = 0;
    for (int64_t i = 0; i < ls_st_count(file); i++) begin -= (int64_t)ls_st_at(file, i)->bytes;
    ls_st_close(file);
    struct stat info;
    assert_int_equal(stat(path.text, &info), 0);
    const float large = -1e6f;
    FILE *stream = fopen(path.text, "r+b");
    assert_non_null(stream);
    fseek(stream, (long)(info.st_size + begin + offset), SEEK_SET);
    assert_int_equal(fwrite(&large, sizeof large, 1, stream), 1);
    assert_int_equal(fclose(stream), 0);
    const saving saved = {s.model.text, s.run.text, LS_F32, 1};
    save_model(&saved);
    assert_error(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F16, 0, NULL), LS_INVALID,
                 "tensor 'model.norm.weight' holds -1e+06", "--dtype bf16 or f32");
    assert_false(ls_file_exists(s.out.text));
    assert_ok(export(s.checkpoint.text, NULL, s.out.text, LS_ST_BF16, 0, NULL));
}

/* No room: the older export stays, and nothing beside it. */
static void test_full_disk(void **state) {
    const scene s = make_scene(state, saved_config);
    assert_ok(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, 0, NULL));
    struct rlimit old, small;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    assert_int_equal(sigaction(SIGXFSZ, &ignore, &before), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){3000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const ls_status status = export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, 0, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    sigaction(SIGXFSZ, &before, NULL);
    assert_error(status, LS_IO, "model.safetensors", "File too large");
    assert_int_equal(assert_same_tensors(s.model.text, s.out.text), 1);
    assert_int_equal(count_names(*state, "partial"), 0);
}

/*
 * Ended at any moment: there is the older export or the newer one, whole; the next one takes away what is left beside
 * it.
 */
static void test_killed(void **state) {
    const scene s = make_scene(state, saved_config);
    assert_ok(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, 0, NULL));
    int finished = 0, torn = 0;
    int64_t delay = 100; /* microseconds; longer while exports are killed early, shorter when they get done */
    for (int i = 0; i < 24; i++) {
        const int64_t shard_bytes = i % 2 ? 0 : 300;
        const pid_t child = fork();
        if (child == 0) _exit(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, shard_bytes, NULL).code);
        usleep((useconds_t)delay);
        kill(child, SIGKILL);
        int result = 0;
        assert_int_equal(waitpid(child, &result, 0), child);
        const bool done = WIFEXITED(result);
        finished += done;
        delay = done ? delay * 2 / 3 : delay * 3 / 2 + 50;
        const int files = assert_same_tensors(s.model.text, s.out.text);
        assert_int_equal(ls_file_exists(path_in(state, "out/model.safetensors.index.json").text), files > 1);
        torn += count_names(*state, "partial") > 0;
    }
    assert_true(torn > 0); /* some were caught at work */
    assert_ok(export(s.checkpoint.text, NULL, s.out.text, LS_ST_F32, 0, NULL));
    assert_int_equal(count_names(*state, "partial"), 0);
    assert_int_equal(assert_same_tensors(s.model.text, s.out.text), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip), TEST(test_same_from_any_ranks),
        TEST(test_config),     TEST(test_beside_the_weights),
        TEST(test_where),      TEST(test_corrupted),
        TEST(test_beyond_f16), TEST(test_full_disk),
        TEST(test_killed),     TEST(test_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
