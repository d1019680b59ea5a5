/*
 * Any journal of an unfinished build is refused, or the build resumes from it and ends with shards that can be read.
 * The folder has the two shards of fuzz_put_shards, which a journal may list; the build's input is one file of three
 * lines.
 */
#include "data/build_impl.h"
#include "fuzz/fuzz.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char lines[] = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"three\"}\n";

/* Replaces FUZZ_REQUEST in a journal by the request of this build, which depends on the input's path and time. */
static void put_request(const ls_build_options *options, char *text) {
    ls_input_list inputs;
    char digits[20], wanted[20];
    ls_build_state state = {0};
    LS_ASSERT(fuzz_done(ls_inputs_find(options->paths, 1, "auto", &inputs)));
    LS_ASSERT(fuzz_done(ls_document_form_find(&options->form, options->tokenizer, NULL, &state.form)));
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)FUZZ_REQUEST);
    snprintf(wanted, sizeof wanted, "%016" PRIx64, ls_build_request(options, &state, &inputs));
    for (char *at = text; (at = strstr(at, digits)) != NULL; at++) memcpy(at, wanted, strlen(wanted));
    ls_inputs_free(&inputs);
}

static void resume_build(const ls_build_options *options, const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    LS_PATH path = NULL;
    ls_build_summary summary;
    put_request(options, text);
    LS_ASSERT(fuzz_done(ls_build_path(options, LS_SHARDS_JOURNAL, &path)));
    LS_ASSERT(fuzz_done(ls_file_write(path, text, bytes)));
    if (fuzz_done(ls_shards_build(options, &summary))) {
        LS_ASSERT(!ls_file_exists(path));
        LS_ASSERT(summary.shards >= summary.resumed && summary.resumed <= FUZZ_SHARDS);
        fuzz_check_samples(options->out, 4, false);
    }
    free(text);
}

static void check_state(const ls_build_state *s) {
    LS_ASSERT(s->n_shards >= 0 && s->n_shards <= FUZZ_SHARDS);
    LS_ASSERT(s->place.input >= 0 && s->place.offset >= 0 && s->place.line >= 0);
    LS_ASSERT(s->count.documents >= 0 && s->count.tokens >= 0 && s->count.longest >= 0 && s->count.empty >= 0 &&
              s->count.bad >= 0);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_folder folder = fuzz_folder_make(), out;
    LS_PATH input = NULL;
    LS_PATH journal = NULL;
    fuzz_folder_path(&folder, "in.jsonl", &input);
    snprintf(out.path, sizeof out.path, "%.200s/out", folder.path);
    LS_ASSERT(fuzz_done(ls_file_make_folders(out.path)));
    fuzz_folder_put(&folder, "in.jsonl", lines, sizeof lines - 1);
    fuzz_put_shards(&out);
    fuzz_folder_put(&out, LS_SHARDS_JOURNAL, data, bytes);
    fuzz_folder_path(&out, LS_SHARDS_JOURNAL, &journal);
    const char *const paths[] = {input};
    ls_tokenizer *tokenizer;
    LS_ASSERT(fuzz_done(ls_tokenizer_open(NULL, &tokenizer)));
    const ls_build_options options = {.paths = paths,
                                      .n_paths = 1,
                                      .tokenizer = tokenizer,
                                      .out = out.path,
                                      .shard_tokens = 4,
                                      .threads = 1,
                                      .resume = true};
    ls_build_state state = {.request = FUZZ_REQUEST};
    bool done = false;
    if (fuzz_read(ls_journal_begin(&options, &state, &done), out.path)) {
        LS_ASSERT(!done);
        check_state(&state);
        resume_build(&options, data, bytes);
    }
    free(state.shards);
    ls_tokenizer_close(tokenizer);
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_journal = {.name = "journal", .run = run};
