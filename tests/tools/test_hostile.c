/*
 * Hostile files of every format: overlapping offsets and offsets past the end, lengths near 2^64, duplicate names,
 * deep nesting. Each is refused with one line that says what is wrong. The files are inputs of the fuzzer
 * (tests/corpora, written by make_inputs.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "cli/cli_impl.h"
#include "data/build_impl.h"
#include "data/data.h"
#include "data/source_impl.h"
#include "fuzz/fuzz.h"
#include "model/model.h"
#include "support/scratch.h"
#include "text/text.h"
#include "weights/weights.h"

typedef struct hostile {
    const char *name, *words;
} hostile;

/* Reads the bytes, which may be put into the folder under any name. */
typedef ls_status reading(const fuzz_folder *folder, const void *data, size_t bytes);

/*
 * FUZZ_CORPUS: the folder in the sources. The target's repair corrects checksums, so that these do not hide later
 * mistakes.
 */
static void refuses(const fuzz_target *target, reading *read, bool repaired, const hostile *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        LS_PATH path = NULL;
        char *data;
        size_t bytes;
        assert_ok(ls_path_print(&path, "%s/%s/%s", FUZZ_CORPUS, target->name, cases[i].name));
        assert_ok(ls_file_read(path, 1 << 20, &data, &bytes));
        if (repaired) bytes = target->repair((uint8_t *)data, bytes, bytes);
        fuzz_folder folder = fuzz_folder_make();
        const ls_status status = read(&folder, data, bytes);
        if (status.code == LS_OK) fail_msg("%s is not refused", path);
        if (!strstr(status.text, cases[i].words))
            fail_msg("%s: \"%s\" does not say \"%s\"", path, status.text, cases[i].words);
        assert_false(fuzz_done(status)); /* one line */
        fuzz_folder_remove(&folder);
        free(data);
    }
}

#define REFUSES(target, read, repaired, cases) refuses(&fuzz_##target, read, repaired, cases, LS_COUNT(cases))

static const char *put(const fuzz_folder *folder, const char *name, const void *data, size_t bytes) {
    static char path[1024];
    LS_PATH made = NULL;
    fuzz_folder_put(folder, name, data, bytes);
    fuzz_folder_path(folder, name, &made);
    assert_true(snprintf(path, sizeof path, "%s", made) < (int)sizeof path);
    return path;
}

/* ---- weights ---- */

static ls_status read_safetensors(const fuzz_folder *folder, const void *data, size_t bytes) {
    ls_st_file *file;
    return ls_st_open(put(folder, "a.safetensors", data, bytes), &file);
}

static void safetensors(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-short", "4 bytes long, a safetensors file has at least 8"},
        {"bad-length-past-end", "the header says it is 1000 bytes long, but 54 are left"},
        {"bad-length-2e63", "the header says it is 9223372036854775808 bytes long, but 62 are left"},
        {"bad-length-2e64", "the header says it is 18446744073709551615 bytes long, but 62 are left"},
        {"bad-length-wraps", "the header says it is 18446744073709551608 bytes long, but 62 are left"},
        {"bad-length-0", "the safetensors header does not begin with {"},
        {"bad-overlap", "tensors 'a' and 'b' overlap at data offset 4"},
        {"bad-same-place", "tensors 'a' and 'b' overlap at data offset 0"},
        {"bad-hole", "data bytes 8 to 12, before tensor 'b', belong to no tensor"},
        {"bad-tail", "the tensors take 8 bytes of data, but the file has 12"},
        {"bad-past-end", "b.data_offsets[1] is 16, expected an integer from 8 to 12"},
        {"bad-reversed", "a.data_offsets[1] is 0, expected 8"},
        {"bad-negative", "a.data_offsets[0] is -8, expected an integer from 0 to 8"},
        {"bad-offset-2e63", "a.data_offsets[0] is 9223372036854775806, expected an integer from 0 to 8"},
        {"bad-offset-2e64", "a.data_offsets[0] is 1.8446744073709552e19, expected an integer"},
        {"bad-shape-2e64", "a.shape is an array of 2, expected a size in bytes that fits 63 bits"},
        {"bad-shape-2e63", "a.shape is an array of 1, expected a size in bytes that fits 63 bits"},
        {"bad-shape-negative", "a.shape[0] is -2, expected an integer of at least 0"},
        {"bad-dimensions", "a.shape is an array of 9, expected at most 8 dimensions"},
        {"bad-duplicate-tensor", "duplicate object key near '\"a\"'"},
        {"bad-duplicate-field", "duplicate object key near '\"dtype\"'"},
        {"bad-duplicate-metadata", "duplicate object key near '\"k\"'"},
        {"bad-deep-arrays", "maximum parsing depth reached"},
        {"bad-deep-objects", "maximum parsing depth reached"},
        {"bad-name-lines", "tensor 'a?b?[2J' has data offsets [0, 4], but [2] of F32 takes 8 bytes"},
        {"bad-name-nul", "\\u0000 is not allowed"},
        {"bad-name-utf8", "not valid JSON (not UTF-8)"},
        {"bad-metadata", "__metadata__.format is 1, expected a text"},
        {"bad-array", "the safetensors header does not begin with {"},
        {"bad-text-after", "end of file expected near '{'"},
    };
    REFUSES(safetensors, read_safetensors, false, cases);
}

static ls_status read_index(const fuzz_folder *folder, const void *data, size_t bytes) {
    static const ls_image image = {.n_flats = 0};
    ls_weight_source source;
    put(folder, "model.safetensors.index.json", data, bytes);
    return ls_weights_open_folder(folder->path, &image, NULL, &source);
}

static void weight_index(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-duplicate", "duplicate object key near '\"a\"'"},
        {"bad-folder", "the name of a file in the same folder"},
        {"bad-path", "the name of a file in the same folder"},
        {"bad-missing", "that it names are missing"},
        {"bad-name-lines", "that it names are missing: b.safetensors, x???2J.safetensors"},
        {"bad-2e64", "weight_map.a is 1.8446744073709552e19"},
        {"bad-deep", "maximum parsing depth reached"},
    };
    REFUSES(weight_index, read_index, false, cases);
}

/* ---- a model's folder ---- */

static ls_status read_config(const fuzz_folder *folder, const void *data, size_t bytes) {
    ls_model *model;
    return ls_model_open(put(folder, "config.json", data, bytes), &model);
}

static void config(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-overflow", "vocab_size is 1.8446744073709552e19, expected an integer from 1"},
        {"bad-layers", "num_hidden_layers is 1099511627776"},
        {"bad-architecture", "T5ForConditionalGeneration"},
        {"bad-rope", "rope_scaling.short_factor is missing"},
        {"bad-activation", "relu6"},
        {"bad-heads", "num_attention_heads"},
        {"bad-nan", "vocab_size is NaN, expected an integer"},
        {"bad-duplicate", "duplicate object key near '\"vocab_size\"'"},
        {"bad-deep", "maximum parsing depth reached"},
    };
    REFUSES(config, read_config, false, cases);
}

static ls_status read_tokenizer(const fuzz_folder *folder, const void *data, size_t bytes) {
    ls_tokenizer *tokenizer;
    put(folder, "tokenizer.json", data, bytes);
    return ls_tokenizer_open(folder->path, &tokenizer);
}

/* More of them in test_text_hostile.c. */
static void tokenizer(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-id-2e31", "model.vocab.b is 2147483648, expected an integer from 0"},
        {"bad-id-2e64", "model.vocab.b is 1.8446744073709552e19, expected an integer"},
        {"bad-same-id", "model.vocab.b is 0"},
        {"bad-duplicate", "duplicate object key near '\"a\"'"},
        {"bad-duplicate-model", "duplicate object key near '\"vocab\"'"},
        {"bad-steps", "normalizer.normalizers[0].type"},
        {"bad-deep", "maximum parsing depth reached"},
    };
    REFUSES(tokenizer, read_tokenizer, false, cases);
}

/* The tokenizer.json is there and has a token of two. */
static ls_status read_tokenizer_config(const fuzz_folder *folder, const void *data, size_t bytes) {
    static const char tokens[] =
        "{\"added_tokens\": [], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}";
    ls_tokenizer *opened;
    fuzz_bytes rest = {data, bytes};
    put(folder, "tokenizer.json", tokens, sizeof tokens - 1);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"tokenizer_config.json", "config.json", "generation_config.json"};
        const fuzz_bytes part = fuzz_part(&rest);
        if (part.n > 0) put(folder, names[i], part.at, part.n);
    }
    return ls_tokenizer_open(folder->path, &opened);
}

static void tokenizer_config(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-unknown", "tokenizer_config.json: eos_token is \"<eos>\", expected a token of tokenizer.json"},
        {"bad-id-2e31", "config.json: eos_token_id is 2147483648, expected an integer from 0 to 1"},
        {"bad-id-2e64", "eos_token_id is 1.8446744073709552e19, expected an integer"},
        {"bad-negative", "generation_config.json: eos_token_id is -1, expected an integer from 0 to 1"},
        {"bad-ids", "eos_token_id[0]"},
        {"bad-type", "eos_token is an array"},
        {"bad-duplicate", "duplicate object key near '\"eos_token\"'"},
        {"bad-deep", "maximum parsing depth reached"},
    };
    REFUSES(tokenizer_config, read_tokenizer_config, false, cases);
}

/* ---- token shards ---- */

static ls_status read_shard(const fuzz_folder *folder, const void *data, size_t bytes) {
    ls_shard shard;
    return ls_shard_open(put(folder, "a.tokens", data, bytes), &shard);
}

static void shard(void **state) {
    (void)state;
    static const hostile damaged[] = {{"good", "the checksum of the header is wrong"}};
    static const hostile cases[] = {
        {"bad-tokens-2e64", "tokens is 18446744073709551615, expected at most 2^44"},
        {"bad-documents-2e61", "tokens is 2305843009213693952, expected at most 2^44"},
        {"bad-wraps", "2240 bytes, expected"},
        {"bad-vocabulary", "2240 bytes, expected"},
        {"bad-overlap", "document 1 ends at token 5, expected 7 to 31"},
        {"bad-past-end", "document 3 ends at token 18446744073709551615, expected 31 to 31"},
        {"bad-longest", "longest is 3"},
        {"bad-end", "end_of_document is 256, expected an id of the vocabulary"},
    };
    REFUSES(shard, read_shard, false, damaged);
    REFUSES(shard, read_shard, true, cases);
}

static ls_status read_shards(const fuzz_folder *folder, const void *data, size_t bytes) {
    ls_shard_set set = {0};
    fuzz_put_shards(folder);
    put(folder, LS_SHARDS_FILE, data, bytes);
    const ls_status status = ls_shard_set_add(&set, folder->path);
    ls_shard_set_close(&set);
    return status;
}

static void shards(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-name", "a name of this folder that ends with .tokens"},
        {"bad-suffix", "a name of this folder that ends with .tokens"},
        {"bad-missing", "shard-000002.tokens: No such file"},
        {"bad-checksum", "is not the shard that"},
        {"bad-tokens-2e63", "is not the shard that"},
        {"bad-tokens-2e64", "tokens is 1.8446744073709552e19, expected an integer"},
        {"bad-documents", "shards[0].documents is -1"},
        {"bad-format", "format is"},
        {"bad-row", "shards[0] is an array"},
        {"bad-repeated", "shards.json: tokens is 14, expected 22"},
        {"bad-duplicate", "duplicate object key near '\"shards\"'"},
        {"bad-deep", "maximum parsing depth reached"},
    };
    REFUSES(shards, read_shards, false, cases);
}

static ls_status read_journal(const fuzz_folder *folder, const void *data, size_t bytes) {
    const ls_build_options options = {.out = folder->path, .resume = true};
    ls_build_state built = {.request = FUZZ_REQUEST};
    bool done;
    fuzz_put_shards(folder);
    put(folder, LS_SHARDS_JOURNAL, data, bytes);
    const ls_status status = ls_journal_begin(&options, &built, &done);
    free(built.shards);
    return status;
}

static void journal(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-checksum", "but the journal beside it says 269c4da1d6e005d7"},
        {"bad-order", "shard is 1, expected 0"},
        {"bad-offset-2e63", "offset is 9223372036854775807, expected an integer from 0 to"},
        {"bad-offset-2e64", "offset is 1.8446744073709552e19, expected an integer"},
        {"bad-totals", "documents is 9223372036854775807, expected an integer from 0 to"},
        {"bad-documents", "documents is 3, expected 2"},
        {"bad-request", "of other files, options or tokenizer"},
        {"bad-hex", "16 hexadecimal digits"},
    };
    REFUSES(journal, read_journal, false, cases);
}

/* ---- records ---- */

static ls_status read_records(const fuzz_folder *folder, const void *data, size_t bytes) {
    static const char *const kinds[] = {"text", "completion", "messages"};
    LS_PATH out = NULL;
    fuzz_bytes rest = {data, bytes};
    const uint8_t choice = fuzz_choice(&rest), flags = fuzz_choice(&rest);
    const char *const paths[] = {put(folder, flags & 2 ? "in.jsonl.zst" : "in.jsonl", rest.at, rest.n)};
    fuzz_folder_path(folder, "out", &out);
    ls_build_options options = {.paths = paths,
                                .n_paths = 1,
                                .out = out,
                                .form = {.records = kinds[choice % 3], .chat = choice < 3 ? "chatml" : "mistral"},
                                .shard_tokens = 8,
                                .threads = 1};
    ls_build_summary summary;
    ls_tokenizer *opened;
    assert_ok(ls_tokenizer_open(NULL, &opened));
    options.tokenizer = opened;
    const ls_status status = ls_shards_build(&options, &summary);
    ls_tokenizer_close(opened);
    return status;
}

static void records(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-role",
         "in.jsonl:1: messages: chatml:1: the template refuses: role is tool, expected one of system, user, assistant"},
        {"bad-turns",
         "in.jsonl:1: messages: mistral:1: the template refuses: role is assistant, expected user: they take turns"},
        {"bad-nothing", "there is nothing to learn"},
        {"bad-message", "in.jsonl:1: messages[0] is \"a\", expected an object"},
        {"bad-missing", "in.jsonl:1: completion is missing"},
        {"bad-number", "in.jsonl:1: text is 1.8446744073709552e19, expected a text"},
        {"bad-control", "in.jsonl:1: not valid JSON"},
        {"bad-utf8", "in.jsonl:1: not valid JSON"},
        {"bad-empty", "no text in"},
        {"bad-zstd", "ends in the middle of a zstd frame"},
        {"bad-deep", "maximum parsing depth reached"},
    };
    REFUSES(records, read_records, false, cases);
}

static ls_status read_stream(const fuzz_folder *folder, const void *data, size_t bytes) {
    static char out[1 << 16];
    ls_byte_stream *stream;
    fuzz_bytes rest = {data, bytes};
    size_t n;
    (void)fuzz_choice(&rest);
    LS_TRY(ls_stream_open(put(folder, "a.zst", rest.at, rest.n), LS_UTF_8, &stream));
    const ls_status status = ls_stream_read(stream, out, sizeof out, &n);
    ls_stream_close(stream);
    return status;
}

static void stream(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-size-2e64", "a.zst: "},
        {"bad-size-2e63", "a.zst: "},
        {"bad-size", "a.zst: "},
        {"bad-window", "a.zst: "},
        {"bad-text", "a.zst: "},
        {"bad-cut", "ends in the middle of a zstd frame"},
        {"bad-header", "ends in the middle of a zstd frame"},
        {"bad-skip-2e32", "ends in the middle of a zstd frame"},
    };
    REFUSES(stream, read_stream, false, cases);
}

/* ---- arrays ---- */

static ls_status read_npy(const fuzz_folder *folder, const void *data, size_t bytes) {
    ls_array ids = {0};
    const ls_status status = ls_tokens_read(put(folder, "a.npy", data, bytes), 16, &ids);
    ls_array_free(&ids);
    return status;
}

static void npy(void **state) {
    (void)state;
    static const hostile cases[] = {
        {"bad-shape-2e64", "a.npy: the bytes of shape [4294967296, 4294967296] do not fit 63 bits"},
        {"bad-shape-0", "a.npy: shape is [0,9223372036854775807], expected [B,S]"},
        {"bad-digits", "a.npy: dimension 0 does not fit 63 bits"},
        {"bad-length", "a.npy: the .npy header says 4294967295 bytes, but"},
        {"bad-past-end", "a.npy: shape [3] of i4 needs 12 bytes of data, but the file has 4"},
        {"bad-tail", "a.npy: shape [1] of i4 needs 4 bytes of data, but the file has 8"},
        {"bad-duplicate", "a.npy: "},
        {"bad-deep", "a.npy: malformed .npy header at \"(("},
        {"bad-order", "in Fortran order"},
        {"bad-big-endian", "big-endian"},
        {"bad-objects", "elements are '|O'"},
        {"bad-i8-large", "1099511627776"},
    };
    REFUSES(npy, read_npy, false, cases);
}

/* ---- checkpoints ---- */

static ls_status read_state(const fuzz_folder *folder, const void *data, size_t bytes) {
    ls_train_state found;
    put(folder, "state.json", data, bytes);
    return ls_checkpoint_state(folder->path, &found);
}

static void checkpoint(void **state) {
    (void)state;
    static const hostile damaged[] = {{"good", "the hash of its text is"}};
    static const hostile cases[] = {
        {"bad-overlap", "files[0].pieces[1].start is 4, expected 8"},
        {"bad-past-end", "files[0].pieces[1].bytes is 13, expected an integer from 1 to 12"},
        {"bad-bytes-2e63", "files[0].pieces[1].bytes is 9223372036854775807"},
        {"bad-bytes-2e64", "files[0].pieces[1].bytes is 1.8446744073709552e19"},
        {"bad-step", "step is 1.8446744073709552e19, expected an integer"},
        {"bad-type", "type is 1, expected a text"},
        {"bad-duplicate", "duplicate object key near '\"step\"'"},
        {"bad-deep", "maximum parsing depth reached"},
    };
    REFUSES(checkpoint, read_state, false, damaged);
    REFUSES(checkpoint, read_state, true, cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors),
        cmocka_unit_test(weight_index),
        cmocka_unit_test(config),
        cmocka_unit_test(tokenizer),
        cmocka_unit_test(tokenizer_config),
        cmocka_unit_test(shard),
        cmocka_unit_test(shards),
        cmocka_unit_test(journal),
        cmocka_unit_test(records),
        cmocka_unit_test(stream),
        cmocka_unit_test(npy),
        cmocka_unit_test(checkpoint),
    };
    return cmocka_run_group_tests_name("hostile files", tests, NULL, NULL);
}
