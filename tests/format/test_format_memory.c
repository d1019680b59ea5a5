/*
 * The memory of reading, as the peak of a process of its own, follows the length of the file, whatever its content.
 * Each bound is the worst case of the format (10 bytes for each byte of a JSON document), rounded up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "data/data.h"
#include "model/model.h"
#include "text/text.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZER = 8 }; /* shadows, and memory that is not given back at once */
#else
enum { SANITIZER = 1 };
#endif

/* A line "NAME   N kB" of /proc/self/status, in bytes. */
static double status_bytes(const char *name) {
    char line[256];
    double kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0) kilobytes = strtod(line + strlen(name), NULL);
    if (file != NULL) fclose(file);
    return 1024 * kilobytes;
}

/* Bytes that a child of this process has at most beyond what it begins with; status: the work's own. */
static double peak_of(ls_status (*work)(const void *context), const void *context, ls_status *status) {
    struct said {
        double bytes;
        ls_status status;
    } said = {0, ls_ok()};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const double before = status_bytes("VmRSS:");
        said.status = work(context);
        said.bytes = status_bytes("VmHWM:") - before;
        _exit(write(ends[1], &said, sizeof said) == (ssize_t)sizeof said ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &said, sizeof said), sizeof said);
    close(ends[0]);
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    *status = said.status;
    return said.bytes;
}

typedef struct text {
    char *at;
    size_t bytes, capacity;
} text;

static void put(text *t, const char *format, ...) LS_PRINTF(2, 3);
static void put(text *t, const char *format, ...) {
    char piece[1000];
    va_list args;
    va_start(args, format);
    const size_t n = (size_t)vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (t->bytes + n > t->capacity) {
        t->capacity = 2 * t->capacity + n + 4096;
        t->at = realloc(t->at, t->capacity);
        assert_non_null(t->at);
    }
    memcpy(t->at + t->bytes, piece, n);
    t->bytes += n;
}

enum { LONG = 4 << 20 };

/* What is small in a text and large in a tree. */
static const struct {
    const char *name, *before, *part, *after; /* part: over and over; NULL: a name of its own with a number */
} shapes[] = {
    {"numbers", "{\"x\":[0", ",0", "]}"},
    {"reals", "{\"x\":[0", ",1.5", "]}"},
    {"empty texts", "{\"x\":[0", ",\"\"", "]}"},
    {"empty arrays", "{\"x\":[0", ",[]", "]}"},
    {"empty objects", "{\"x\":[0", ",{}", "]}"},
    {"arrays in arrays", "{\"x\":[0", ",[[[[[[[[]]]]]]]]", "]}"},
    {"objects of one", "{\"x\":[0", ",{\"\":0}", "]}"},
    {"names", "{\"x\":0", NULL, "}"},
    {"escapes", "{\"x\":[0", ",\"\\n\\n\\n\"", "]}"},
    {"a long text", "{\"x\":\"", "aaaaaaaaaaaaaaaa", "\"}"},
};

static text make_shape(size_t shape, size_t bytes) {
    text t = {0};
    put(&t, "%s", shapes[shape].before);
    for (size_t i = 0; t.bytes < bytes; i++) {
        if (shapes[shape].part == NULL)
            put(&t, ",\"%zx\":0", i);
        else
            put(&t, "%s", shapes[shape].part);
    }
    put(&t, "%s", shapes[shape].after);
    return t;
}

static ls_status parse_text(const void *context) {
    const text *t = context;
    ls_json *document = NULL;
    const ls_status status = ls_json_parse("text", t->at, t->bytes, &document);
    ls_json_free(document);
    return status;
}

static void expect_at_most(const char *what, double peak, double factor, double bytes) {
    const double most = SANITIZER * (factor * bytes + (2 << 20));
    if (peak > most)
        fail_msg("%s: %.1f MB for %.1f MB, %.1f times; expected at most %.0f times", what, peak / 1e6, bytes / 1e6,
                 peak / bytes, factor);
}

static void test_json(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(shapes); i++) {
        text t = make_shape(i, LONG);
        ls_status status;
        const double peak = peak_of(parse_text, &t, &status);
        assert_ok(status);
        expect_at_most(shapes[i].name, peak, 10, (double)t.bytes);
        free(t.at);
    }
}

/* --- safetensors -------------------------------------------------------------------------------------------------- */

static ls_status open_tensors(const void *context) {
    ls_st_file *file = NULL;
    const ls_status status = ls_st_open(context, &file);
    ls_st_close(file);
    return status;
}

static void test_safetensors(void **state) {
    static const char *const headers[] = {"tensors", "metadata"};
    for (int h = 0; h < 2; h++) {
        text t = {0};
        ls_status status;
        put(&t, "%s",
            h == 0 ? "12345678{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"
                   : "12345678{\"__metadata__\":{\"a\":\"\"");
        for (size_t i = 16; t.bytes < LONG; i++) {
            if (h == 0)
                put(&t, ",\"%zx\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i);
            else
                put(&t, ",\"%zx\":\"\"", i);
        }
        put(&t, "%s", h == 0 ? "}" : "}}");
        for (int i = 0; i < 8; i++) t.at[i] = (char)((t.bytes - 8) >> (8 * i));
        const char *path = scratch_path(state, "a.safetensors");
        assert_ok(ls_file_write(path, t.at, t.bytes));
        const double peak = peak_of(open_tensors, path, &status);
        assert_ok(status);
        expect_at_most(headers[h], peak, 12, (double)t.bytes);
        free(t.at);
    }
}

/* --- models and records ------------------------------------------------------------------------------------------- */

static ls_status open_model(const void *context) {
    ls_model *model = NULL;
    const ls_status status = ls_model_open(context, &model);
    ls_model_close(model);
    return status;
}

static void test_config(void **state) {
    text t = make_shape(0, LONG);
    ls_status status;
    t.bytes--;
    put(&t, "%s",
        ", \"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 257, "
        "\"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 1, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5}");
    const char *path = scratch_path(state, "config.json");
    assert_ok(ls_file_write(path, t.at, t.bytes));
    const double peak = peak_of(open_model, path, &status);
    assert_ok(status);
    expect_at_most("config.json", peak, 12, (double)t.bytes);
    while (t.bytes < (17 << 20)) put(&t, "%64s", "");
    assert_ok(ls_file_write(path, t.at, t.bytes));
    assert_error(open_model(path), LS_INVALID, "config.json", "expected at most 16777216");
    free(t.at);
}

typedef struct building {
    const char *path, *out, *records;
} building;

static ls_status build_shards(const void *context) {
    const building *b = context;
    ls_build_options options = {.paths = &b->path,
                                .n_paths = 1,
                                .out = b->out,
                                .form = {.records = b->records, .chat = "chatml"},
                                .shard_tokens = 1 << 20,
                                .threads = 1};
    ls_build_summary summary;
    ls_tokenizer *tokenizer = NULL;
    LS_TRY(ls_tokenizer_open(NULL, &tokenizer));
    options.tokenizer = tokenizer;
    const ls_status status = ls_shards_build(&options, &summary);
    ls_tokenizer_close(tokenizer);
    return status;
}

/* A line of a file, whatever is in it. */
static void test_records(void **state) {
    static const struct {
        const char *name, *records, *before, *part, *after;
        double factor;
        double rendering; /* what a template may take besides */
    } lines[] = {
        {"a text", "text", "{\"text\":\"", "aaaaaaaaaaaaaaa ", "\"}\n", 20, 0},
        {"numbers beside a text", "text", "{\"text\":\"a\",\"x\":[0", ",0", "]}\n", 20, 0},
        {"names beside a text", "text", "{\"text\":\"a\",\"x\":[0", ",{\"\":0}", "]}\n", 20, 0},
        {"a message", "messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "aaaaaaaaaaaaaaa ",
         "\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n", 60, 256 << 20},
        {"messages", "messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}",
         ",{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"a\"}",
         ",{\"role\":\"assistant\",\"content\":\"b\"}]}\n", 60, 256 << 20},
    };
    for (size_t i = 0; i < LS_COUNT(lines); i++) {
        text t = {0};
        ls_status status;
        put(&t, "%s", lines[i].before);
        while (t.bytes < LONG / 2) put(&t, "%s", lines[i].part);
        put(&t, "%s", lines[i].after);
        const building b = {scratch_path(state, "in.jsonl"), scratch_path(state, "out"), lines[i].records};
        assert_ok(ls_file_write(b.path, t.at, t.bytes));
        const double peak = peak_of(build_shards, &b, &status);
        assert_ok(status);
        assert_ok(ls_file_remove_tree(b.out));
        expect_at_most(lines[i].name, peak - lines[i].rendering, lines[i].factor, (double)t.bytes);
        free(t.at);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
