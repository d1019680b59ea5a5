/*
 * Any tokenizer.json is refused, or texts pass fuzz_check_text. The input is the file and, after the byte 0x1e, a text.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 512 };

static const char sample[] =
    "Hello, world! caf\xc3\xa9  12345\n\t\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80\xff <s>it's</s>";

/*
 * Decodes ids one by one. The result equals the text of all ids for published decoders (test_text_stream.c) but not for
 * all possible ones.
 */
static void check_stream(const ls_tokenizer *tokenizer, const ls_token_list *ids) {
    ls_token_stream *stream;
    ls_text text = {0};
    LS_ASSERT(fuzz_done(ls_token_stream_create(tokenizer, &stream)));
    for (size_t i = 0; i < ids->count; i++) LS_ASSERT(fuzz_done(ls_token_stream_push(stream, ids->id[i], &text)));
    LS_ASSERT(fuzz_done(ls_token_stream_finish(stream, &text)));
    LS_ASSERT(ls_utf8_valid_prefix(text.byte, text.count) == text.count);
    ls_token_stream_destroy(stream);
    free(text.byte);
}

/* Functions about tokens return values in range. */
static void check_tokens(const ls_tokenizer *tokenizer) {
    const int32_t n = ls_tokenizer_vocabulary(tokenizer);
    int special = 0;
    for (int32_t id = 0; id < ls_min(n, 64); id++) special += ls_tokenizer_is_special(tokenizer, id);
    LS_ASSERT(special <= n);
    LS_ASSERT(ls_tokenizer_find(tokenizer, "a") < n);
    const ls_token_frame frame = ls_tokenizer_frame(tokenizer);
    for (size_t i = 0; i < frame.n_before; i++) LS_ASSERT(frame.before[i] >= 0 && frame.before[i] < n);
    for (size_t i = 0; i < frame.n_after; i++) LS_ASSERT(frame.after[i] >= 0 && frame.after[i] < n);
}

/* Encoding again, now with words in the cache, gives the same ids. */
static void check_again(const ls_tokenizer *tokenizer, const char *text, size_t bytes, const ls_token_list *ids) {
    ls_token_list again = {0};
    LS_ASSERT(fuzz_done(ls_tokenizer_encode(tokenizer, text, bytes, &again)) && again.count == ids->count);
    for (size_t i = 0; i < ids->count; i++) LS_ASSERT(again.id[i] == ids->id[i]);
    free(again.id);
}

/* The two parts of a text that is cut where ls_tokenizer_cut says have the ids of the whole. */
static void check_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, const ls_token_list *ids) {
    ls_token_list parts = {0};
    size_t at = 0;
    if (!ls_tokenizer_cut(tokenizer, text, bytes, bytes / 2, &at) || at == 0) return;
    LS_ASSERT(at <= bytes);
    LS_ASSERT(fuzz_done(ls_tokenizer_encode(tokenizer, text, at, &parts)));
    LS_ASSERT(fuzz_done(ls_tokenizer_encode_rest(tokenizer, text + at, bytes - at, &parts)));
    LS_ASSERT(parts.count == ids->count);
    for (size_t i = 0; i < ids->count; i++) LS_ASSERT(parts.id[i] == ids->id[i]);
    free(parts.id);
}

void fuzz_check_text(const ls_tokenizer *tokenizer, const char *text, size_t bytes) {
    ls_token_list ids = {0};
    ls_text whole = {0};
    if (fuzz_done(ls_tokenizer_encode(tokenizer, text, bytes, &ids))) {
        for (size_t i = 0; i < ids.count; i++)
            LS_ASSERT(ids.id[i] >= 0 && ids.id[i] < ls_tokenizer_vocabulary(tokenizer));
        check_again(tokenizer, text, bytes, &ids);
        check_cut(tokenizer, text, bytes, &ids);
        if (fuzz_done(ls_tokenizer_decode(tokenizer, ids.id, ids.count, &whole))) check_stream(tokenizer, &ids);
    }
    free(ids.id);
    free(whole.byte);
}

static void run(const uint8_t *data, size_t bytes) {
    static const char config[] = "{\"eos_token_id\": 0}";
    fuzz_bytes rest = {data, bytes};
    const fuzz_bytes file = fuzz_part(&rest);
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, "tokenizer.json", file.at, file.n);
    fuzz_folder_put(&folder, "config.json", config, sizeof config - 1);
    ls_tokenizer *tokenizer;
    if (fuzz_read(ls_tokenizer_open(folder.path, &tokenizer), folder.path)) {
        const int32_t end = ls_tokenizer_end_of_document(tokenizer);
        LS_ASSERT(end >= 0 && end < ls_tokenizer_vocabulary(tokenizer));
        check_tokens(tokenizer);
        fuzz_check_text(tokenizer, sample, sizeof sample - 1);
        fuzz_check_text(tokenizer, (const char *)rest.at, (size_t)ls_min(MOST_TEXT, (int64_t)rest.n));
        ls_tokenizer_close(tokenizer);
    }
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_tokenizer = {.name = "tokenizer", .run = run};
