/*
 * The tokenizer of a tokenizer.json. Encoding: added tokens, normalizers, pre-tokenizers, byte pair encoding. Decoding:
 * the texts of tokens, then decoders.
 */
#include "base/base.h"
#include "text/added_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct bpe_tokenizer {
    ls_bpe model;
    ls_added added;
    ls_steps normalizers, pre_tokenizers, decoders;
    ls_token_list before, after; /* of ls_tokenizer_frame */
} bpe_tokenizer;

/* The memory with which one thread encodes. */
typedef struct bpe_encoder {
    const bpe_tokenizer *tokenizer;
    ls_match_scratch *match;
    ls_bpe_scratch merge;
    ls_word_cache *words;
    ls_text normal[2];
    ls_text *buffer; /* one for each pre-tokenizer */
    const ls_plain_text *plain;
    ls_token_list *out;
    ls_allowance allowance; /* for the current text */
    /*
     * Bytes compared with added tokens, and their limit: normalizers that put a long text before each short piece
     * multiply them.
     */
    size_t compared, most_compared;
} bpe_encoder;

static int32_t find(const void *state, const char *token) {
    const bpe_tokenizer *t = state;
    return ls_vocabulary_find(&t->model.vocabulary, token, strlen(token));
}

/* ---- the end of document of a model's folder ---- */

/* A field that may name it. */
typedef struct place {
    const char *file, *field;
    ls_status (*read)(ls_json_value value, const ls_tokenizer *tokenizer, int32_t *out);
} place;

/* "eos_token": a text, or an object with a "content". */
static ls_status read_token(ls_json_value value, const ls_tokenizer *tokenizer, int32_t *out) {
    const char *text;
    const ls_json_value content = ls_json_field(value, "content");
    if (content.json) value = content;
    LS_TRY(ls_json_as_text(value, &text));
    *out = find(tokenizer->state, text);
    return *out >= 0 ? ls_ok() : ls_json_error(value, "a token of tokenizer.json");
}

/* "eos_token_id": an id, or an array of ids, of which the first counts. */
static ls_status read_id(ls_json_value value, const ls_tokenizer *tokenizer, int32_t *out) {
    int64_t id;
    if (ls_json_is_array(value) && ls_json_count(value) > 0) value = ls_json_item(value, 0);
    LS_TRY(ls_json_as_int(value, 0, tokenizer->vocabulary - 1, &id));
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

static ls_status read_place(const place *at, const char *folder, const ls_tokenizer *tokenizer, int32_t *out) {
    LS_PATH path = NULL;
    ls_json *document;
    LS_TRY(ls_path_join(folder, at->file, &path));
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    const ls_json_value value = ls_json_field(ls_json_root(document), at->field);
    ls_status status = value.json ? at->read(value, tokenizer, out) : ls_ok();
    ls_json_free(document);
    return status;
}

static ls_status find_end_of_document(const char *folder, const ls_tokenizer *tokenizer, int32_t *out) {
    int32_t id = -1;
    for (size_t i = 0; i < LS_COUNT(places) && id < 0; i++) LS_TRY(read_place(&places[i], folder, tokenizer, &id));
    for (size_t i = 0; i < LS_COUNT(names) && id < 0; i++) id = find(tokenizer->state, names[i]);
    *out = id;
    return ls_ok();
}

/* ---- opening ---- */

static void close(void *state) {
    bpe_tokenizer *t = state;
    if (!t) return;
    ls_bpe_free(&t->model);
    ls_added_free(&t->added);
    ls_steps_free(&t->normalizers);
    ls_steps_free(&t->pre_tokenizers);
    ls_steps_free(&t->decoders);
    free(t->before.id);
    free(t->after.id);
    free(t);
}

/* Whether the vocabulary is byte-level: the last pre-tokenizer is ByteLevel. Elsewhere ByteLevel is not supported. */
static ls_status find_byte_level(ls_json_value document, const ls_steps *steps, bool *out) {
    *out = false;
    for (size_t i = 0; i < steps->count; i++) {
        if (steps->step[i].kind != &ls_step_byte_level) continue;
        if (i + 1 < steps->count)
            return ls_error(LS_UNSUPPORTED, "%s: pre_tokenizer has ByteLevel as step %zu of %zu, expected it last",
                            document.file, i + 1, steps->count);
        *out = true;
    }
    return ls_ok();
}

static ls_status make_frame(ls_json_value document, const ls_steps *processors, bpe_tokenizer *t) {
    for (size_t i = 0; i < processors->count; i++)
        LS_TRY(processors->step[i].kind->frame(processors->step[i].state, &t->before, &t->after));
    const ls_token_list *lists[] = {&t->before, &t->after};
    for (size_t k = 0; k < LS_COUNT(lists); k++)
        for (size_t i = 0; i < lists[k]->count; i++)
            if (lists[k]->id[i] >= t->model.vocabulary.size)
                return ls_error(LS_INVALID, "%s: post_processor adds id %d, expected 0 to %d", document.file,
                                lists[k]->id[i], t->model.vocabulary.size - 1);
    return ls_ok();
}

static ls_status read_document(ls_json_value document, ls_tokenizer *tokenizer) {
    bpe_tokenizer *t = tokenizer->state;
    ls_json_value model;
    bool bytes;
    LS_TRY(ls_json_as_object(document));
    LS_TRY(ls_json_object(document, "model", &model));
    LS_TRY(ls_normalizers_read(document, &t->normalizers));
    LS_TRY(ls_pre_tokenizers_read(document, &t->pre_tokenizers));
    LS_TRY(ls_decoders_read(document, &t->decoders));
    LS_TRY(find_byte_level(document, &t->pre_tokenizers, &bytes));
    LS_TRY(ls_bpe_read(model, bytes, ls_json_count(ls_json_field(document, "added_tokens")), &t->model));
    LS_TRY(ls_added_read(document, &t->normalizers, &t->model, &t->added));
    ls_steps processors = {0};
    ls_status status = ls_post_processors_read(document, &processors);
    if (status.code == LS_OK) status = make_frame(document, &processors, t);
    ls_steps_free(&processors);
    return status;
}

/* A hash of all fields on which ids depend. */
static uint64_t fingerprint(ls_json_value document, int32_t end_of_document) {
    static const char *const fields[] = {"model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor"};
    uint64_t hash = (uint64_t)end_of_document;
    for (size_t i = 0; i < LS_COUNT(fields); i++)
        hash = hash * 0x9e3779b97f4a7c15u + ls_json_hash(ls_json_field(document, fields[i]));
    return hash;
}

static ls_status open(const char *folder, const ls_json *document, ls_tokenizer *tokenizer) {
    bpe_tokenizer *t = tokenizer->state = calloc(1, sizeof *t);
    if (!t) return ls_error(LS_NO_MEMORY, "no memory for a tokenizer");
    LS_TRY(read_document(ls_json_root(document), tokenizer));
    tokenizer->vocabulary = t->model.vocabulary.size;
    tokenizer->piece = SIZE_MAX;
    tokenizer->frame = (ls_token_frame){t->before.id, t->after.id, t->before.count, t->after.count};
    LS_TRY(find_end_of_document(folder, tokenizer, &tokenizer->end_of_document));
    tokenizer->fingerprint = fingerprint(ls_json_root(document), tokenizer->end_of_document);
    return ls_ok();
}

/* ---- encoding ---- */

static void encoder_close(void *scratch) {
    bpe_encoder *e = scratch;
    if (!e) return;
    for (size_t i = 0; e->buffer && i < e->tokenizer->pre_tokenizers.count; i++) free(e->buffer[i].byte);
    free(e->buffer);
    ls_match_scratch_destroy(e->match);
    ls_bpe_scratch_free(&e->merge);
    ls_word_cache_destroy(e->words);
    free(e->normal[0].byte);
    free(e->normal[1].byte);
    free(e);
}

static ls_status encoder(const void *state, void **scratch) {
    const bpe_tokenizer *t = state;
    bpe_encoder *e = calloc(1, sizeof *e);
    if (e) {
        e->tokenizer = t;
        e->match = ls_match_scratch_create();
        e->words = ls_word_cache_create();
        e->buffer = calloc(t->pre_tokenizers.count + 1, sizeof *e->buffer);
    }
    if (!e || !e->match || !e->words || !e->buffer) {
        encoder_close(e);
        return ls_error(LS_NO_MEMORY, "no memory for an encoder");
    }
    *scratch = e;
    return ls_ok();
}

static bool add_word(void *context, const char *text, size_t bytes) {
    bpe_encoder *e = context;
    return ls_bpe_encode(&e->tokenizer->model, &e->merge, e->words, text, bytes, e->out);
}

/* Encodes text without added tokens, by the pre-tokenizers and the model. */
static ls_status encode_plain(bpe_encoder *e, ls_text_piece piece) {
    ls_split_chain chain = {.steps = &e->tokenizer->pre_tokenizers,
                            .buffer = e->buffer,
                            .scratch = e->match,
                            .word = add_word,
                            .context = e};
    return ls_split_next(&chain, piece) ? ls_ok() : chain.status;
}

static ls_text_piece part_of(ls_text_piece piece, size_t from, size_t to) {
    return (ls_text_piece){piece.text + from, to - from, piece.first && from == 0, piece.rest && from == 0};
}

/* Whether an added token that was found is encoded as plain text (ls_plain_text). */
static bool is_plain(const bpe_encoder *e, int32_t id) {
    if (e->plain == NULL) return false;
    for (size_t i = 0; i < e->plain->n_marks; i++)
        if (e->plain->marks[i] == id) return true;
    return e->tokenizer->model.vocabulary.token[id].flags & LS_TOKEN_SPECIAL;
}

/* Cuts a piece at the added tokens of a trie and passes the texts between them to `then`. */
static ls_status cut_added(bpe_encoder *e, const ls_token_trie *trie, ls_text_piece piece,
                           ls_status (*then)(bpe_encoder *e, ls_text_piece piece)) {
    size_t done = 0, from = 0;
    for (ls_added_match m;
         ls_added_next(&e->tokenizer->added, trie, piece.text, piece.bytes, from, done, &e->compared, &m);) {
        from = m.next;
        if (e->compared > e->most_compared) break;
        if (is_plain(e, m.id)) continue;
        if (done < m.start) LS_TRY(then(e, part_of(piece, done, m.start)));
        if (!ls_token_list_reserve(e->out, 1)) return ls_no_memory(piece.bytes);
        e->out->id[e->out->count++] = m.id;
        done = m.end;
    }
    if (e->compared > e->most_compared)
        return ls_error(LS_INVALID,
                        "searching added tokens in the text that the normalizers make takes more than %zu comparisons",
                        e->most_compared);
    if (done == piece.bytes) return ls_ok();
    return then(e, part_of(piece, done, piece.bytes));
}

static ls_status encode_normalized(bpe_encoder *e, ls_text_piece piece) {
    LS_TRY(ls_normalize(&e->tokenizer->normalizers, e->match, &e->allowance, e->normal, &piece));
    return cut_added(e, &e->tokenizer->added.after, piece, encode_plain);
}

static ls_status encode(const void *state, void *scratch, const char *text, size_t bytes, bool rest,
                        const ls_plain_text *plain, ls_token_list *out) {
    const bpe_tokenizer *t = state;
    bpe_encoder *e = scratch;
    e->out = out;
    e->plain = plain;
    const size_t valid = ls_utf8_valid_run(text, bytes);
    if (valid < bytes)
        return ls_error(LS_INVALID, "byte %zu of the text (0x%02x) begins no character of UTF-8; expected UTF-8",
                        valid + 1, (unsigned char)text[valid]);
    e->allowance = (ls_allowance){.most = ls_most_bytes(bytes)};
    ls_match_scratch_begin(e->match, ls_pattern_most_steps(bytes));
    e->compared = 0;
    /* The most that two searches of the text itself compare */
    e->most_compared = 2 * LS_MOST_PATTERN * bytes + (1 << 20);
    return cut_added(e, &t->added.before,
                     (ls_text_piece){text, bytes, !rest && !(plain != NULL && plain->inside), rest}, encode_normalized);
}

/* ---- cutting ---- */

static bool may_cut(const bpe_tokenizer *t, ls_boundary boundary) {
    if (!ls_added_may_cut(&t->added.before, boundary)) return false;
    if (ls_steps_cut(&t->normalizers, &boundary) != LS_CUT_SAME || !ls_added_may_cut(&t->added.after, boundary))
        return false;
    const ls_cut words = ls_steps_cut(&t->pre_tokenizers, &boundary);
    return words == LS_CUT_APART || (words == LS_CUT_SAME && ls_bpe_may_cut(&t->model, boundary.left, boundary.right));
}

static bool cut(const void *state, const char *text, size_t bytes, size_t wanted, size_t *out) {
    const bpe_tokenizer *t = state;
    *out = 0;
    if (t->model.bytes || t->model.ignore_merges || !ls_steps_may_cut(&t->normalizers) ||
        !ls_steps_may_cut(&t->pre_tokenizers))
        return false;
    ls_boundary boundary = {0};
    int before = 0;
    for (size_t at = wanted; at < bytes;) {
        const int length = ls_utf8_decode(text + at, bytes - at, &boundary.right);
        if (before > 0 && length > 0 && may_cut(t, boundary)) {
            *out = at;
            break;
        }
        at += length > 0 ? (size_t)length : 1;
        before = length;
        boundary.left = boundary.right;
    }
    return true;
}

/* ---- decoding ---- */

static ls_status decode(const void *state, const int32_t *ids, size_t n, ls_text *out) {
    const bpe_tokenizer *t = state;
    ls_strings texts = {0};
    bool room = true;
    for (size_t i = 0; i < n && room; i++) {
        const ls_token *token = &t->model.vocabulary.token[ids[i]];
        if (token->flags == 0) continue; /* no token has this id */
        const char *text = token->normal_text ? token->normal_text : token->byte;
        room = ls_text_append(&texts.all, text, token->normal_text ? strlen(text) : token->bytes) &&
               ls_strings_end(&texts);
    }
    ls_status status = room ? ls_decode(&t->decoders, &texts) : ls_no_memory(n);
    if (status.code == LS_OK && !ls_text_append(out, texts.all.byte, texts.all.count))
        status = ls_no_memory(texts.all.count);
    ls_strings_free(&texts);
    return status;
}

static bool is_special(const void *state, int32_t id) {
    const bpe_tokenizer *t = state;
    return id >= 0 && id < t->model.vocabulary.size && t->model.vocabulary.token[id].flags & LS_TOKEN_SPECIAL;
}

static bool next_special(const void *state, const char *text, size_t bytes, size_t from, size_t done,
                         ls_special_place *out) {
    const bpe_tokenizer *t = state;
    ls_added_match m;
    size_t compared = 0;
    if (!ls_added_next(&t->added, &t->added.special, text, bytes, from, done, &compared, &m)) return false;
    const size_t length = t->model.vocabulary.token[m.id].bytes;
    *out = (ls_special_place){m.next - length, m.next, m.start, m.end, m.id};
    return true;
}

const ls_tokenizer_kind ls_tokenizer_bpe = {
    .name = "bpe",
    .open = open,
    .close = close,
    .encoder = encoder,
    .encoder_close = encoder_close,
    .encode = encode,
    .cut = cut,
    .decode = decode,
    .find = find,
    .is_special = is_special,
    .next_special = next_special,
};
