/* Reads the field "model" of a tokenizer.json: vocabulary, merges and settings. */
#include "base/base.h"
#include "text/bpe_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_bpe_free(ls_bpe *bpe) {
    ls_vocabulary_free(&bpe->vocabulary);
    ls_vocabulary_free(&bpe->words);
    free(bpe->merge);
    free(bpe->character);
    free(bpe->adjacent);
    *bpe = (ls_bpe){0};
}

static ls_status no_memory(ls_json_value model) {
    return ls_error(LS_NO_MEMORY, "no memory for the vocabulary of %s", model.file);
}

/* Ids need not be dense, but their range is limited, so that a short file cannot make this allocate gigabytes. */
static ls_status read_vocabulary(ls_json_value model, size_t added, ls_bpe *out) {
    ls_json_value vocabulary, value;
    LS_TRY(ls_json_object(model, "vocab", &vocabulary));
    const size_t count = ls_json_count(vocabulary);
    if (count == 0) return ls_json_error(vocabulary, "an object of tokens and their ids");
    const int64_t room = (int64_t)(2 * (count + added) + 1024);
    if (room > INT32_MAX) return ls_json_error(vocabulary, "fewer than %d tokens", INT32_MAX / 2);
    if (!ls_vocabulary_create(&out->vocabulary, (int32_t)room, count + added)) return no_memory(model);
    void *cursor = NULL;
    const char *token;
    while (ls_json_next(vocabulary, &cursor, &token, &value)) {
        int64_t id;
        LS_TRY(ls_json_as_int(value, 0, room - 1, &id));
        if (out->vocabulary.token[id].flags)
            return ls_json_error(value, "an id of its own; \"%.60s\" has this one", out->vocabulary.token[id].byte);
        if (!ls_vocabulary_add(&out->vocabulary, (int32_t)id, token, strlen(token))) return no_memory(model);
    }
    out->model_tokens = (int32_t)count;
    return ls_ok();
}

/* ---- merges ---- */

/* A merge is "a b" or ["a", "b"]. */
static ls_status read_pair(ls_json_value item, const char *part[2], size_t bytes[2]) {
    if (ls_json_is_array(item)) {
        if (ls_json_count(item) != 2) return ls_json_error(item, "two tokens");
        for (size_t i = 0; i < 2; i++) {
            LS_TRY(ls_json_as_text(ls_json_item(item, i), &part[i]));
            bytes[i] = strlen(part[i]);
        }
        return ls_ok();
    }
    LS_TRY(ls_json_as_text(item, &part[0]));
    const char *space = strchr(part[0], ' ');
    if (!space || strchr(space + 1, ' ')) return ls_json_error(item, "two tokens with a space between them");
    part[1] = space + 1;
    bytes[0] = (size_t)(space - part[0]);
    bytes[1] = strlen(part[1]);
    return ls_ok();
}

static ls_status find_token(const ls_bpe *bpe, ls_json_value item, const char *text, size_t bytes, int32_t *id) {
    *id = ls_vocabulary_find(&bpe->vocabulary, text, bytes);
    if (*id >= 0) return ls_ok();
    char shown[64];
    ls_utf8_printable(text, bytes, shown, sizeof shown);
    for (char *c = shown; *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    return ls_json_error(item, "two tokens of model.vocab that make a third; \"%s\" is not a token", shown);
}

/* Whether a merge joins a text with an LS_META_SPACE that follows another character. */
static bool joins_at_space(const char *left, size_t left_bytes, const char *right, size_t right_bytes) {
    const size_t length = strlen(LS_META_SPACE);
    return left_bytes > 0 && right_bytes >= length && memcmp(right, LS_META_SPACE, length) == 0 &&
           !(left_bytes >= length && memcmp(left + left_bytes - length, LS_META_SPACE, length) == 0);
}

/* If a pair is listed twice, the last entry counts, as in the reference library. */
static ls_status read_merge(ls_json_value item, uint32_t rank, ls_text *joined, ls_bpe *out) {
    const char *part[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    int32_t left, right, id;
    LS_TRY(read_pair(item, part, bytes));
    LS_TRY(find_token(out, item, part[0], bytes[0], &left));
    LS_TRY(find_token(out, item, part[1], bytes[1], &right));
    joined->count = 0;
    if (!ls_text_append(joined, part[0], bytes[0]) || !ls_text_append(joined, part[1], bytes[1]))
        return no_memory(item);
    LS_TRY(find_token(out, item, joined->byte, joined->count, &id));
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = ls_pair_hash(pair);
    while (out->merge[at & out->mask].pair != LS_NO_PAIR && out->merge[at & out->mask].pair != pair) at++;
    out->merge[at & out->mask] = (ls_merge){pair, rank, id};
    if (joins_at_space(part[0], bytes[0], part[1], bytes[1])) out->cut_at_spaces = false;
    if (!out->bytes && !ls_bpe_add_adjacent(out, part[0], bytes[0], part[1], bytes[1])) return no_memory(item);
    return ls_ok();
}

static ls_status read_merges(ls_json_value model, ls_bpe *out) {
    ls_json_value merges;
    LS_TRY(ls_json_array(model, "merges", &merges));
    const size_t count = ls_json_count(merges);
    if (count >= UINT32_MAX) return ls_json_error(merges, "fewer than %u merges", UINT32_MAX);
    size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    out->mask = slots - 1;
    out->merge = malloc(slots * sizeof *out->merge);
    if (!out->merge) return no_memory(model);
    for (size_t i = 0; i < slots; i++) out->merge[i].pair = LS_NO_PAIR;
    ls_text joined = {0};
    ls_status status = ls_ok();
    uint32_t rank = 0;
    for (size_t i = 0; i < count && status.code == LS_OK; i++) {
        const ls_json_value item = ls_json_item(merges, i);
        const char *text;
        const bool header =
            !ls_json_is_array(item) && ls_json_as_text(item, &text).code == LS_OK && strncmp(text, "#version", 8) == 0;
        if (!header) status = read_merge(item, rank++, &joined, out);
    }
    free(joined.byte);
    return status;
}

/* ---- tables by byte and by character ---- */

static void find_bytes(ls_bpe *out) {
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        const size_t bytes = out->bytes ? ls_byte_to_character(byte, name)
                                        : (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        out->byte_id[byte] = ls_vocabulary_find(&out->vocabulary, name, bytes);
    }
}

static ls_status find_characters(ls_json_value model, ls_bpe *out) {
    out->character = malloc(0x10000 * sizeof *out->character);
    if (!out->character) return no_memory(model);
    memset(out->character, 0xff, 0x10000 * sizeof *out->character);
    for (int32_t id = 0; id < out->vocabulary.size; id++) {
        const ls_token *token = &out->vocabulary.token[id];
        uint32_t code;
        const int length = token->flags ? ls_utf8_decode(token->byte, token->bytes, &code) : 0;
        if (length > 0 && (size_t)length == token->bytes && code < 0x10000) out->character[code] = id;
    }
    return ls_ok();
}

/* Makes a vocabulary of bytes from the tokens whose characters all stand for bytes. */
static ls_status find_words(ls_json_value model, ls_bpe *out) {
    if (!ls_vocabulary_create(&out->words, out->vocabulary.size, (size_t)out->vocabulary.count))
        return no_memory(model);
    ls_text word = {0};
    bool room = true;
    for (int32_t id = 0; room && id < out->vocabulary.size; id++) {
        const ls_token *token = &out->vocabulary.token[id];
        word.count = 0;
        room = ls_text_reserve(&word, token->bytes);
        size_t at = 0;
        for (int length = 1; room && at < token->bytes && length > 0; at += (size_t)length)
            if ((length = ls_character_to_byte(token->byte + at, token->bytes - at, word.byte + word.count)) > 0)
                word.count++;
        if (room && token->flags && at == token->bytes && word.count > 0)
            room = ls_vocabulary_add(&out->words, id, word.byte, word.count);
    }
    free(word.byte);
    return room ? ls_ok() : no_memory(model);
}

/* ---- the model ---- */

static ls_status refuse(ls_json_value model, const char *field, const char *because) {
    const ls_json_value value = ls_json_field(model, field);
    return ls_error(LS_UNSUPPORTED, "%s: %s is set, but %s", value.file, value.path, because);
}

static ls_status read_settings(ls_json_value model, ls_bpe *out) {
    const char *type, *affix;
    double dropout;
    LS_TRY(ls_json_text_or(model, "type", "BPE", &type));
    if (strcmp(type, "BPE") != 0)
        return ls_error(LS_UNSUPPORTED, "%s: model.type is \"%.60s\", expected \"BPE\" (no other is read)", model.file,
                        type);
    LS_TRY(ls_json_double_or(model, "dropout", 0, 0, 1, &dropout));
    if (dropout > 0) return refuse(model, "dropout", "random dropout of merges is not supported");
    LS_TRY(ls_json_text_or(model, "continuing_subword_prefix", "", &affix));
    if (affix[0]) return refuse(model, "continuing_subword_prefix", "such vocabularies are not read");
    LS_TRY(ls_json_text_or(model, "end_of_word_suffix", "", &affix));
    if (affix[0]) return refuse(model, "end_of_word_suffix", "such vocabularies are not read");
    LS_TRY(ls_json_bool_or(model, "fuse_unk", false, &out->fuse_unknown));
    LS_TRY(ls_json_bool_or(model, "byte_fallback", false, &out->byte_fallback));
    LS_TRY(ls_json_bool_or(model, "ignore_merges", false, &out->ignore_merges));
    if (out->bytes && out->byte_fallback)
        return refuse(model, "byte_fallback", "the pre-tokenizer is ByteLevel, which needs no fallback");
    return ls_ok();
}

static ls_status read_unknown(ls_json_value model, ls_bpe *out) {
    const char *token;
    out->unknown = -1;
    LS_TRY(ls_json_text_or(model, "unk_token", NULL, &token));
    if (!token) return ls_ok();
    out->unknown = ls_vocabulary_find(&out->vocabulary, token, strlen(token));
    if (out->unknown < 0 && !out->bytes)
        return ls_json_error(ls_json_field(model, "unk_token"), "a token of model.vocab");
    return ls_ok();
}

/* Whether a character without a token is dropped, so that the characters around it become neighbours. */
static bool drops_characters(const ls_bpe *bpe) {
    if (bpe->unknown >= 0) return false;
    bool all_bytes = bpe->byte_fallback;
    for (size_t i = 0; i < LS_COUNT(bpe->byte_id); i++) all_bytes = all_bytes && bpe->byte_id[i] >= 0;
    return !all_bytes;
}

ls_status ls_bpe_read(ls_json_value model, bool bytes, size_t added, ls_bpe *out) {
    out->bytes = bytes;
    LS_TRY(read_settings(model, out));
    LS_TRY(read_vocabulary(model, added, out));
    LS_TRY(read_unknown(model, out));
    const bool has_space = ls_vocabulary_find(&out->vocabulary, LS_META_SPACE, strlen(LS_META_SPACE)) >= 0;
    out->cut_at_spaces = has_space && !bytes && !out->ignore_merges;
    LS_TRY(read_merges(model, out));
    find_bytes(out);
    if (drops_characters(out)) out->cut_at_spaces = false;
    if (!bytes) return find_characters(model, out);
    return out->ignore_merges ? find_words(model, out) : ls_ok();
}
