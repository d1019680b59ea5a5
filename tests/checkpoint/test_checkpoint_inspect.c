/* The reports of `inspect` and `verify`, and the public function that exports a checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "cli/cli.h"
#include "support/saved_model.h"
#include "support/scratch.h"

typedef ls_status (*printer)(const char *path, bool json, FILE *out);

static ls_status print(printer call, const char *path, bool json, char **text) {
    size_t bytes = 0;
    FILE *memory = open_memstream(text, &bytes);
    assert_non_null(memory);
    const ls_status status = call(path, json, memory);
    assert_int_equal(fclose(memory), 0);
    return status;
}

static void test_inspect(void **state) {
    const scene s = make_scene(state, saved_config);
    char *text = NULL;
    (void)scratch_text(state, "run/run.json",
                       "{\"spread\": {\"ranks\": 4, \"strategy\": \"ring\", \"mesh\": \"dp=1,ring=4,ulysses=1\"}}");
    assert_ok(print(ls_checkpoint_print, s.run.text, false, &text)); /* the newest of the run */
    static const char *const words[] = {"step        12 · 48 sequences · loss 2.5000 · seed 3 · F32",
                                        "LlamaForCausalLM",
                                        "heads 4, 2 of keys, of 6",
                                        "4 ranks · ring · dp=1,ring=4,ulysses=1",
                                        "optimizer.safetensors",
                                        "tensors     21",
                                        "model.norm.weight",
                                        "[13,10]"};
    for (size_t i = 0; i < LS_COUNT(words); i++)
        if (strstr(text, words[i]) == NULL) fail_msg("'%s' is not in: %s", words[i], text);
    free(text);
    ls_json *document = NULL;
    ls_json_value list;
    int64_t number = 0;
    assert_ok(print(ls_checkpoint_print, s.checkpoint.text, true, &text));
    assert_ok(ls_json_parse("inspect", text, strlen(text), &document));
    const ls_json_value root = ls_json_root(document);
    assert_ok(ls_json_int(root, "step", 12, 12, &number));
    assert_ok(ls_json_int(ls_json_field(root, "model"), "L", 2, 2, &number));
    assert_ok(ls_json_int(ls_json_field(root, "run"), "ranks", 4, 4, &number));
    assert_ok(ls_json_array(root, "tensors", &list));
    assert_int_equal(ls_json_count(list), 21);
    assert_ok(ls_json_array(root, "files", &list));
    assert_int_equal(ls_json_count(list), 4);
    ls_json_free(document);
    free(text);
    assert_error(print(ls_checkpoint_print, s.model.text, false, &text), LS_INVALID, "no checkpoint in", s.model.text);
    free(text);
}

/* What a file says cannot steer the terminal that it is shown on. */
static void test_printable(void **state) {
    const scene s = make_scene(state, saved_config);
    char *text = NULL;
    (void)scratch_text(state, "run/run.json",
                       "{\"spread\": {\"ranks\": 4, \"strategy\": \"ri\\u001b[2Jng\", \"mesh\": \"a\\nb\\u202e\", "
                       "\"layout\": \"\\u009b31m\"}}");
    assert_ok(print(ls_checkpoint_print, s.run.text, false, &text));
    assert_non_null(strstr(text, "4 ranks · ri?[2Jng · a?b??? · ??31m\n"));
    for (const char *c = text; *c != 0; c++) assert_true(*c == '\n' || (unsigned char)*c >= 0x20);
    free(text);
}

static void test_verify(void **state) {
    const scene s = make_scene(state, saved_config);
    ls_checkpoint_info info;
    char *text = NULL;
    assert_ok(ls_checkpoint_verify(s.checkpoint.text, &info));
    assert_int_equal(info.n_files, 4);
    for (int i = 0; i < info.n_files; i++) assert_true(info.file[i].bad == 0 && info.file[i].bytes > 0);
    /* Two files are bad, in two pieces and in one: all are found, and named. */
    flip_byte(path_in(state, "run/checkpoint-00000012/optimizer.safetensors").text, -1);
    flip_byte(path_in(state, "run/checkpoint-00000012/optimizer.safetensors").text, 20);
    flip_byte(path_in(state, "run/checkpoint-00000012/config.json").text, 20);
    assert_ok(ls_checkpoint_verify(s.checkpoint.text, &info));
    const int64_t expected[] = {0, 0, 2, 1};
    for (int i = 0; i < info.n_files; i++) assert_int_equal(info.file[i].bad, expected[i]);
    assert_error(print(ls_checkpoint_print_verdict, s.run.text, false, &text), LS_INVALID, "2 of 4 files are bad",
                 "optimizer.safetensors");
    assert_non_null(strstr(text, "model.safetensors       good"));
    assert_non_null(strstr(text, "optimizer.safetensors   BAD"));
    assert_non_null(strstr(text, "config.json             BAD"));
    free(text);
    assert_error(print(ls_checkpoint_print_verdict, s.run.text, true, &text), LS_INVALID, "2 of 4 files are bad", "");
    assert_non_null(strstr(text, "\"ok\": false"));
    free(text);
    /* A file that is gone or cut is bad as well. */
    assert_int_equal(unlink(path_in(state, "run/checkpoint-00000012/model.safetensors").text), 0);
    assert_ok(ls_checkpoint_verify(s.checkpoint.text, &info));
    assert_int_equal(info.file[1].bad, 1);
    assert_error(info.file[1].status, LS_IO, "model.safetensors", "No such file");
    flip_byte(path_in(state, "run/checkpoint-00000012/state.json").text, 40);
    assert_ok(ls_checkpoint_verify(s.checkpoint.text, &info));
    assert_int_equal(info.n_files, 1);
    assert_error(info.file[0].status, LS_INVALID, "state.json", "corrupted");
}

/* The public call: from a run, whose run.json says where the tokenizer is. */
static void test_job(void **state) {
    const scene s = make_scene(state, saved_config);
    char run[4200], *text = NULL;
    size_t bytes = 0;
    (void)scratch_text(state, "model/tokenizer.json", "{}");
    snprintf(run, sizeof run, "{\"model\": {\"path\": \"%s/config.json\"}}", s.model.text);
    (void)scratch_text(state, "run/run.json", run);
    const ls_export_job job = {.checkpoint = s.run.text, .out = s.out.text, .dtype = "bf16"};
    FILE *memory = open_memstream(&text, &bytes);
    assert_ok(ls_run_export(&job, true, memory));
    assert_int_equal(fclose(memory), 0);
    assert_non_null(strstr(text, "\"dtype\": \"BF16\""));
    assert_non_null(strstr(text, "\"carried\": \"tokenizer.json\""));
    assert_true(ls_file_exists(path_in(state, "out/tokenizer.json").text));
    free(text);
    ls_export_job wrong = job;
    wrong.dtype = "f8";
    assert_error(ls_run_export(&wrong, true, stdout), LS_USAGE, "--dtype is 'f8'", "f32, f16 or bf16");
    wrong = job;
    wrong.model = "/nowhere";
    assert_error(ls_run_export(&wrong, true, stdout), LS_USAGE, "--model /nowhere does not exist", "");
    wrong = job;
    wrong.out = NULL;
    assert_error(ls_run_export(&wrong, true, stdout), LS_USAGE, "--out is missing", "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_inspect), TEST(test_printable), TEST(test_verify), TEST(test_job)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
