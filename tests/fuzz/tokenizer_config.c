/*
 * A folder with a tokenizer.json and any other files is refused, or its end of document is a token. Its chat template
 * is refused, or renders or refuses a conversation. The input is tokenizer_config.json, config.json,
 * generation_config.json and chat_template.jinja, separated by the byte 0x1e; an empty file is not written.
 */
#include "data/chat_impl.h"
#include "fuzz/fuzz.h"

#include <string.h>

static const char tokenizer_text[] =
    "{\"added_tokens\": [{\"id\": 2, \"content\": \"</s>\", \"special\": true}], \"model\": {\"type\": \"BPE\", "
    "\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}";
static const char conversation[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" a \"}, {\"role\": \"assistant\", \"content\": \"b\"}]}";

static void check_template(const ls_tokenizer *tokenizer, const char *folder) {
    const ls_chat_options options = {.folder = folder, .today = "2025-07-09"};
    ls_chat chat;
    ls_json *document;
    ls_marked_text marked = {0};
    ls_left_out left_out = {0};
    ls_unread unread = {0};
    if (!fuzz_read(ls_chat_open(tokenizer, &options, &chat), folder)) return;
    LS_ASSERT(fuzz_done(ls_json_parse("fuzz", conversation, sizeof conversation - 1, &document)));
    if (fuzz_done(ls_chat_render(&chat, ls_json_root(document), &marked, &left_out, &unread)))
        for (size_t i = 0; i < marked.n_learnt; i++) LS_ASSERT(marked.learnt[i].end <= marked.bytes);
    ls_marked_free(&marked);
    ls_chat_close(&chat);
    ls_json_free(document);
}

static void run(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {"tokenizer_config.json", "config.json", "generation_config.json",
                                        "chat_template.jinja"};
    fuzz_bytes rest = {data, bytes};
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, "tokenizer.json", tokenizer_text, sizeof tokenizer_text - 1);
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        const fuzz_bytes part = fuzz_part(&rest);
        if (part.n > 0) fuzz_folder_put(&folder, names[i], part.at, part.n);
    }
    ls_tokenizer *tokenizer;
    if (fuzz_read(ls_tokenizer_open(folder.path, &tokenizer), folder.path)) {
        const int32_t end = ls_tokenizer_end_of_document(tokenizer);
        LS_ASSERT(end >= 0 && end < ls_tokenizer_vocabulary(tokenizer));
        check_template(tokenizer, folder.path);
        ls_tokenizer_close(tokenizer);
    }
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_tokenizer_config = {.name = "tokenizer_config", .run = run};
