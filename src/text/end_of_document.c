/* The end of document of a model's folder. */
#include "base/base.h"
#include "text/text_impl.h"

#include <string.h>

/* Where it may be said, in this order. */
typedef struct place {
    const char *file, *field;
    ls_status (*read)(ls_json_value value, const ls_tokenizer *tokenizer, int32_t *out);
} place;

/* "eos_token": a text, or an object whose "content" it is. */
static ls_status read_token(ls_json_value value, const ls_tokenizer *tokenizer, int32_t *out) {
    const char *text;
    const ls_json_value content = ls_json_field(value, "content");
    if (content.json) value = content;
    LS_TRY(ls_json_as_text(value, &text));
    *out = ls_tokenizer_find(tokenizer, text);
    return *out >= 0 ? ls_ok() : ls_json_error(value, "a token of tokenizer.json");
}

/* "eos_token_id": an id, or an array of ids, whose first it is. */
static ls_status read_id(ls_json_value value, const ls_tokenizer *tokenizer, int32_t *out) {
    int64_t id;
    if (ls_json_is_array(value) && ls_json_count(value) > 0) value = ls_json_item(value, 0);
    LS_TRY(ls_json_as_int(value, 0, ls_tokenizer_vocabulary(tokenizer) - 1, &id));
    *out = (int32_t)id;
    return ls_ok();
}

static const place places[] = {
    {"tokenizer_config.json", "eos_token", read_token},
    {"special_tokens_map.json", "eos_token", read_token},
    {"config.json", "eos_token_id", read_id},
    {"generation_config.json", "eos_token_id", read_id},
};
static const char *const names[] = {"</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>"};

static ls_status look(const place *at, const char *directory, const ls_tokenizer *tokenizer, int32_t *out) {
    LS_PATH path = NULL;
    ls_json *document;
    LS_TRY(ls_path_join(directory, at->file, &path));
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    const ls_json_value value = ls_json_field(ls_json_root(document), at->field);
    ls_status status = value.json ? at->read(value, tokenizer, out) : ls_ok();
    ls_json_free(document);
    return status;
}

ls_status ls_end_of_document(const char *directory, const ls_tokenizer *tokenizer, int32_t *out) {
    int32_t id = -1;
    for (size_t i = 0; i < LS_COUNT(places) && id < 0; i++)
        LS_TRY(look(&places[i], directory, tokenizer, &id));
    for (size_t i = 0; i < LS_COUNT(names) && id < 0; i++) id = ls_tokenizer_find(tokenizer, names[i]);
    *out = id;
    return ls_ok();
}
