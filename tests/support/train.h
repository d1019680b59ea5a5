/* Shared by tests of training: a text, options for a tiny model, runs in a process of their own. */
#ifndef TESTS_TRAIN_H
#define TESTS_TRAIN_H

#include "scratch.h"

#include "checkpoint/checkpoint.h"
#include "longspan/train.h"
#include "session/session.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 48000 };

/* Words drawn from a small list, so that there is something to learn, and all sequences differ. */
static inline const char *make_text(void **state, const char *name, size_t bytes) {
    static const char *const words[] = {"the ",   "sequence ", "is ",   "cut ",  "over ",  "ranks ", "and ",
                                        "every ", "one ",      "sees ", "keys,", "values", "\n",     "2 + 2 = 4; "};
    char *text = calloc(1, bytes + 64);
    assert_non_null(text);
    size_t at = 0;
    for (uint64_t i = 0; at < bytes; i++) {
        const char *word = words[ls_rng_below(7, 7, i, LS_COUNT(words))];
        memcpy(text + at, word, strlen(word));
        at += strlen(word);
    }
    const char *path = scratch_file(state, name, text, bytes);
    free(text);
    return path;
}

static inline bool sanitized_by(const char *which) {
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    return sanitizer != NULL && strcmp(sanitizer, which) == 0;
}

/* A tiny model, twenty steps. out and data are kept by the caller. */
static inline ls_train_options tiny_options(const char *model, const char *const *data, const char *out) {
    return (ls_train_options){.model = model,
                              .data = data,
                              .n_data = 1,
                              .out = out,
                              .seq = 96,
                              .batch = 2,
                              .accumulate = 2,
                              .steps = 20,
                              .lr = 3e-3,
                              .warmup = 3,
                              .spread = {.ranks = 2, .threads = 1, .as_threads = sanitized_by("thread")}};
}

static inline const char *tiny_model(void **state) {
    return scratch_text(state, "config.json",
                        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 256,"
                        " \"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 2,"
                        " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 4096,"
                        " \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\","
                        " \"initializer_range\": 0.05, \"tie_word_embeddings\": false}");
}

/* One test's run: paths of its own that live as long as it does. */
typedef struct run_paths {
    char model[512], text[512], out[512];
    const char *data[1];
} run_paths;

static inline run_paths *make_paths(void **state, const char *out) {
    run_paths *p = calloc(1, sizeof *p);
    assert_non_null(p);
    snprintf(p->model, sizeof p->model, "%s", tiny_model(state));
    snprintf(p->text, sizeof p->text, "%s", make_text(state, "text.txt", TEXT_BYTES));
    snprintf(p->out, sizeof p->out, "%s", scratch_path(state, out));
    p->data[0] = p->text;
    return p;
}

/* --- reading what was written ------------------------------------------------------------------------------------- */

/* A result that is freed at the end of its scope. */
#define TRAIN_RESULT __attribute__((cleanup(ls_train_result_free))) ls_train_result

/* ls_train, in place of the result that *result was. */
static inline ls_status train_into(const ls_train_options *options, ls_train_result *result) {
    ls_train_result_free(result);
    return ls_train(options, result);
}

/* Trains to the end, in the memory that was predicted: only what is mapped can be resident, and what was never touched
 * is not. */
static inline void train_as_predicted(const ls_train_options *options) {
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(options, &result));
    assert_int_equal(result.steps, options->steps);
    const int64_t rounded = result.predicted_bytes + 3 * sysconf(_SC_PAGESIZE);
    assert_in_range(result.measured_bytes, result.predicted_bytes / 2, rounded);
}

static inline int64_t steps_written(const char *out) {
    char path[600];
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    if (!ls_file_exists(path)) return 0;
    double *steps;
    int64_t rows;
    assert_ok(ls_jsonl_columns(path, (const char *[]){"step"}, 1, &steps, &rows));
    const int64_t last = rows > 0 ? (int64_t)steps[rows - 1] : 0;
    assert_int_equal(last, rows); /* no step twice, none left out */
    free(steps);
    return last;
}

static inline double *column_written(const char *out, const char *name, int64_t n) {
    char path[600];
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    double *column;
    int64_t rows;
    assert_ok(ls_jsonl_columns(path, (const char *[]){name}, 1, &column, &rows));
    assert_int_equal(rows, n);
    return column;
}

static inline double *losses_written(const char *out, int64_t n) { return column_written(out, "loss", n); }

/* The newest checkpoints of both runs hold the same bytes. */
static inline void assert_same_weights(const char *a, const char *b) {
    LS_PATH first = NULL;
    LS_PATH second = NULL;
    char path[2][600], *text[2];
    size_t bytes[2];
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    assert_ok(ls_checkpoint_find(a, &first));
    assert_ok(ls_checkpoint_find(b, &second));
    for (size_t f = 0; f < LS_COUNT(files); f++) {
        for (int i = 0; i < 2; i++) {
            snprintf(path[i], sizeof path[i], "%s/%s", i == 0 ? first : second, files[f]);
            assert_ok(ls_file_read(path[i], SIZE_MAX - 1, &text[i], &bytes[i]));
        }
        assert_int_equal(bytes[0], bytes[1]);
        if (memcmp(text[0], text[1], bytes[0]) != 0) fail_msg("%s differs from %s", path[0], path[1]);
        free(text[0]);
        free(text[1]);
    }
}

/* --- a run in a process of its own -------------------------------------------------------------------------------- */

typedef struct child_run {
    pid_t pid;
    ls_status *status; /* shared */
} child_run;

static inline child_run start_run(const ls_train_options *options, void (*before)(void)) {
    child_run run;
    run.status = mmap(NULL, sizeof *run.status, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(run.status != MAP_FAILED);
    fflush(NULL);
    run.pid = fork();
    assert_true(run.pid >= 0);
    if (run.pid == 0) {
        if (before != NULL) before();
        ls_train_result result; /* freed with the process */
        *run.status = ls_train(options, &result);
        _exit(run.status->code == LS_OK ? 0 : 10 + (int)run.status->code);
    }
    return run;
}

/* Waits until the run's metrics have this step; fails when it ends before. */
static inline void wait_for_step(const child_run *run, const char *out, int64_t step) {
    for (int i = 0; i < 60000; i++) {
        if (steps_written(out) >= step) return;
        assert_int_equal(waitpid(run->pid, NULL, WNOHANG), 0);
        usleep(1000);
    }
    fail_msg("no step %lld within a minute", (long long)step);
}

/* The wait status of the process, and the ls_status that it left. */
static inline int end_run(child_run *run, ls_status *status) {
    int result;
    assert_int_equal(waitpid(run->pid, &result, 0), run->pid);
    if (status != NULL) *status = *run->status;
    munmap(run->status, sizeof *run->status);
    return result;
}

/* Process of a rank: the launcher's child number `rank`, in the order of their starts. 0 when there is none. */
static inline pid_t rank_process(pid_t launcher, int rank) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)launcher, (int)launcher);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    int pid = 0;
    for (int i = 0; i <= rank; i++)
        if (fscanf(file, "%d", &pid) != 1) pid = 0;
    fclose(file);
    return (pid_t)pid;
}

#endif
