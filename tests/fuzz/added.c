/*
 * Any added tokens, with any flags and normalizers, are refused, or texts pass fuzz_check_text. The input is one byte
 * that chooses the normalizer, then for each token a byte of flags and its text up to 0x1e, then the text to encode.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 12, MOST_TEXT = 512 };

static const char *const normalizers[] = {
    "null",
    "{\"type\": \"Lowercase\"}",
    "{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}",
    "{\"type\": \"NFKC\"}",
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}",
    "{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}",
    ("{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"aab\"}, {\"type\": \"Replace\", "
     "\"pattern\": {\"String\": \"a\"}, \"content\": \"aa\"}]}"),
};

static void put_token(ls_json_writer *w, int id, uint8_t flags, const char *content) {
    ls_json_open_object(w, NULL);
    ls_json_put_int(w, "id", id);
    ls_json_put_text(w, "content", content);
    ls_json_put_bool(w, "single_word", flags & 1);
    ls_json_put_bool(w, "lstrip", flags & 2);
    ls_json_put_bool(w, "rstrip", flags & 4);
    ls_json_put_bool(w, "normalized", flags & 8);
    ls_json_put_bool(w, "special", flags & 16);
    ls_json_close(w);
}

/* The added tokens of the input as JSON. The caller frees it. */
static char *tokens_of(fuzz_bytes *rest) {
    ls_json_writer *w = ls_json_writer_create(0);
    ls_json_open_array(w, NULL);
    for (int i = 0; i < MOST_TOKENS && memchr(rest->at, 0x1e, rest->n) != NULL; i++) {
        fuzz_bytes part = fuzz_part(rest);
        const uint8_t flags = fuzz_choice(&part);
        char *content = fuzz_text(part.at, part.n);
        put_token(w, 258 + i, flags, content);
        free(content);
    }
    ls_json_close(w);
    char *made = strdup(ls_json_written(w, NULL));
    ls_json_writer_destroy(w);
    LS_ASSERT(made != NULL);
    return made;
}

static void run(const uint8_t *data, size_t bytes) {
    static const char form[] =
        "{\"added_tokens\": %s, \"normalizer\": %s, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, "
        "\" \": 3, \"\xe2\x96\x81\": 4, \"</s>\": 5, \"<0x00>\": 6}, \"merges\": [\"a b\"], \"unk_token\": \"</s>\"}}";
    static const char config[] = "{\"eos_token_id\": 5}";
    fuzz_bytes rest = {data, bytes};
    const char *normalizer = normalizers[fuzz_choice(&rest) % LS_COUNT(normalizers)];
    char *tokens = tokens_of(&rest), *json = NULL;
    LS_ASSERT(asprintf(&json, form, tokens, normalizer) >= 0);
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, "tokenizer.json", json, strlen(json));
    fuzz_folder_put(&folder, "config.json", config, sizeof config - 1);
    ls_tokenizer *tokenizer;
    if (fuzz_read(ls_tokenizer_open(folder.path, &tokenizer), folder.path)) {
        fuzz_check_text(tokenizer, (const char *)rest.at, (size_t)ls_min(MOST_TEXT, (int64_t)rest.n));
        ls_tokenizer_close(tokenizer);
    }
    fuzz_folder_remove(&folder);
    free(tokens);
    free(json);
}

const fuzz_target fuzz_added = {.name = "added", .run = run};
