/*
 * Any file of records is refused, or its texts become the documents of shards; those of a teacher are read as they are.
 * The first byte chooses the kind of records and the chat template; the second whether bad records are skipped, and the
 * file's format (JSONL or JSON, plain or compressed).
 */
#include "data/chat_impl.h"
#include "data/data.h"
#include "data/records_impl.h"
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"text", "completion", "messages"};
static const char *const more_kinds[] = {"sharegpt", "alpaca", "segments", "ids", "teacher"};
enum { TEACHER = 4 };
static const char *const templates[] = {"chatml", "llama3", "gemma", "llama2", "mistral"};

/* Checks that the document at `at` is a text followed by the end of document; returns where the next begins. */
static int64_t check_text(const ls_corpus *c, const char *text, size_t n, int64_t at) {
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    LS_ASSERT(ids && at + (int64_t)n < c->tokens);
    LS_ASSERT(fuzz_done(ls_corpus_read(c, at, (int64_t)n + 1, ids, NULL, NULL)));
    for (size_t i = 0; i < n; i++) LS_ASSERT(ids[i] == (uint8_t)text[i]);
    LS_ASSERT(ids[n] == 0);
    free(ids);
    return at + (int64_t)n + 1;
}

static ls_json_value text_of(ls_json_value record) {
    return ls_json_is_text(record) ? record : ls_json_field(record, "text");
}

/* Checks a file of records with one text each: the documents are the texts of the lines, in order. */
static void check_texts(const ls_corpus *c, fuzz_bytes file) {
    int64_t at = 0;
    if (file.n >= 3 && memcmp(file.at, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
        file = (fuzz_bytes){file.at + 3, file.n - 3};
    while (file.n > 0) {
        const uint8_t *newline = memchr(file.at, '\n', file.n);
        const size_t length = newline ? (size_t)(newline - file.at) : file.n;
        const char *text;
        size_t n;
        ls_json *line = NULL;
        if (fuzz_done(ls_json_parse_record("line", (const char *)file.at, length, &line)) &&
            fuzz_done(ls_json_as_bytes(text_of(ls_json_root(line)), &text, &n)) && n > 0)
            at = check_text(c, text, n, at);
        ls_json_free(line);
        file = (fuzz_bytes){file.at + length + (newline != NULL), file.n - length - (newline != NULL)};
    }
    LS_ASSERT(at == c->tokens);
}

static void check_shards(const char *path, const ls_build_summary *summary, int32_t vocabulary,
                         const fuzz_bytes *texts) {
    ls_corpus corpus = {0};
    LS_ASSERT(fuzz_done(ls_shard_set_add(&corpus.shards, path)));
    for (int64_t i = 0; i < corpus.shards.n; i++) LS_ASSERT(fuzz_done(ls_shard_verify(&corpus.shards.shard[i], NULL)));
    LS_ASSERT(fuzz_done(ls_corpus_complete(&corpus, vocabulary)));
    LS_ASSERT(corpus.documents == summary->documents && corpus.tokens == summary->tokens);
    LS_ASSERT(corpus.longest == summary->longest && corpus.shards.n == summary->shards);
    if (texts) check_texts(&corpus, *texts);
    ls_corpus_free(&corpus);
    fuzz_check_samples(path, 8, true);
}

static void check_words(const ls_sample *s, int64_t sequence, int k, int32_t vocabulary) {
    for (int64_t i = 0; i < sequence * k; i++) {
        const int32_t id = s->teacher_ids[i];
        LS_ASSERT(id == LS_LABEL_IGNORED || (id >= 0 && id < vocabulary && s->labels[i / k] != LS_LABEL_IGNORED));
        LS_ASSERT(s->teacher_logprobs[i] <= 0 && isfinite(s->teacher_logprobs[i]));
    }
}

/* Shards have no words of a teacher: these records are read as train reads them. */
static void read_teacher(const char *const *paths, const ls_tokenizer *tokenizer, bool skip_bad, const char *folder) {
    enum { S = 8 };
    int32_t tokens[S], labels[S], ids[S * LS_MOST_TEACHER];
    float logprobs[S * LS_MOST_TEACHER];
    const ls_data_options options = {.paths = paths,
                                     .n_paths = 1,
                                     .tokenizer = tokenizer,
                                     .form = {.records = "teacher", .skip_bad = skip_bad},
                                     .sequence = S,
                                     .pack = skip_bad ? "best" : "join"};
    ls_data *data;
    if (!fuzz_read(ls_data_open(&options, &data), folder)) return;
    const int k = ls_data_teacher(data, NULL);
    LS_ASSERT(k >= 1 && k <= LS_MOST_TEACHER);
    for (int64_t i = 0; i < ls_min(ls_data_summarise(data)->windows, 32); i++) {
        ls_sample sample = {.tokens = tokens, .labels = labels, .teacher_ids = ids, .teacher_logprobs = logprobs};
        LS_ASSERT(fuzz_done(ls_data_read(data, i, NULL, &sample)));
        check_words(&sample, S, k, ls_tokenizer_vocabulary(tokenizer));
    }
    ls_data_close(data);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_bytes rest = {data, bytes};
    const uint8_t choice = fuzz_choice(&rest), flags = fuzz_choice(&rest);
    enum { FIRST = LS_COUNT(kinds) * LS_COUNT(templates) };
    const char *const kind =
        choice < FIRST ? kinds[choice % LS_COUNT(kinds)] : more_kinds[(choice - FIRST) % LS_COUNT(more_kinds)];
    static const char *const names[] = {"in.jsonl", "in.jsonl.zst", "in.jsonl.gz", "in.json", "in.json.gz"};
    const char *const name = names[flags / 2 % LS_COUNT(names)];
    fuzz_folder folder = fuzz_folder_make();
    LS_PATH out = NULL;
    LS_PATH in = NULL;
    fuzz_folder_path(&folder, "out", &out);
    fuzz_folder_path(&folder, name, &in);
    fuzz_folder_put(&folder, name, rest.at, rest.n);
    const char *const paths[] = {in};
    ls_tokenizer *tokenizer;
    LS_ASSERT(fuzz_done(ls_tokenizer_open(NULL, &tokenizer)));
    const ls_build_options options = {.paths = paths,
                                      .n_paths = 1,
                                      .out = out,
                                      .tokenizer = tokenizer,
                                      .form = {.records = kind,
                                               .chat = templates[choice / LS_COUNT(kinds) % LS_COUNT(templates)],
                                               .skip_bad = flags & 1},
                                      .shard_tokens = 40,
                                      .threads = 1};
    ls_build_summary summary;
    if (kind == more_kinds[TEACHER])
        read_teacher(paths, tokenizer, options.form.skip_bad, folder.path);
    else if (fuzz_read(ls_shards_build(&options, &summary), folder.path)) {
        LS_ASSERT(summary.bad == 0 || options.form.skip_bad);
        const bool texts = kind == kinds[0] && name == names[0];
        check_shards(out, &summary, ls_tokenizer_vocabulary(tokenizer), texts ? &rest : NULL);
    }
    ls_tokenizer_close(tokenizer);
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_records = {.name = "records", .run = run};
