/* Added tokens: finding them in text by a trie, and reading them from a tokenizer.json. */
#include "base/base.h"
#include "text/added_impl.h"
#include "text/characters.h"

#include <stdlib.h>
#include <string.h>

struct ls_trie_edge {
    uint64_t key; /* node << 8 | byte, plus 1; 0: free */
    uint32_t to;
};

static struct ls_trie_edge *edge_of(const ls_token_trie *trie, uint32_t node, unsigned char byte) {
    const uint64_t key = ((uint64_t)node << 8 | byte) + 1;
    for (size_t at = ls_pair_hash(key);; at++) {
        struct ls_trie_edge *edge = &trie->edge[at & trie->mask];
        if (edge->key == key || edge->key == 0) return edge;
    }
}

static void trie_free(ls_token_trie *trie) {
    free(trie->edge);
    free(trie->found);
}

/* bytes: the sum of the tokens' lengths. */
static bool trie_create(ls_token_trie *trie, size_t bytes) {
    size_t slots = 16;
    while (slots < 2 * bytes) slots *= 2;
    trie->mask = slots - 1;
    trie->nodes = 1;
    trie->edge = calloc(slots, sizeof *trie->edge);
    trie->found = malloc((bytes + 1) * sizeof *trie->found);
    if (!trie->edge || !trie->found) return false;
    memset(trie->found, 0xff, (bytes + 1) * sizeof *trie->found);
    return true;
}

static void trie_add(ls_token_trie *trie, const char *text, size_t bytes, int32_t index) {
    uint32_t node = 0;
    if (bytes == 0) return;
    trie->begins[(unsigned char)text[0]] = true;
    for (size_t i = 0; i < bytes; i++) {
        trie->holds[(unsigned char)text[i]] = true;
        struct ls_trie_edge *edge = edge_of(trie, node, (unsigned char)text[i]);
        if (edge->key == 0)
            *edge = (struct ls_trie_edge){((uint64_t)node << 8 | (unsigned char)text[i]) + 1, (uint32_t)trie->nodes++};
        node = edge->to;
    }
    trie->found[node] = index;
}

/*
 * The longest token at the start of a text: its index, or -1, and its length. *compared grows by the number of bytes
 * compared.
 */
static int32_t longest_at(const ls_token_trie *trie, const char *text, size_t bytes, size_t *length, size_t *compared) {
    int32_t best = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < bytes; i++, ++*compared) {
        const struct ls_trie_edge *edge = edge_of(trie, node, (unsigned char)text[i]);
        if (edge->key == 0) break;
        node = edge->to;
        if (trie->found[node] < 0) continue;
        best = trie->found[node];
        *length = i + 1;
    }
    return best;
}

static bool inside_word(const char *text, size_t bytes, size_t start, size_t end) {
    uint32_t code;
    return (ls_utf8_last(text, start, &code) > 0 && ls_is_word(code)) ||
           (ls_utf8_decode(text + end, bytes - end, &code) > 0 && ls_is_word(code));
}

/*
 * Extends a match by the white space around it, but not by white space that belongs to an earlier token, which ends at
 * `done`.
 */
static void widen(const ls_added_token *token, const char *text, size_t bytes, size_t done, ls_added_match *m) {
    uint32_t code;
    int length;
    if (token->left) {
        while (m->start > done && (length = ls_utf8_last(text, m->start, &code)) > 0 && ls_is_space(code))
            m->start -= (size_t)length;
        if (m->start < done) m->start = done;
    }
    if (token->right && m->end < done) m->end = done; /* white space of the token before */
    while (token->right && (length = ls_utf8_decode(text + m->end, bytes - m->end, &code)) > 0 && ls_is_space(code))
        m->end += (size_t)length;
}

bool ls_added_next(const ls_added *added, const ls_token_trie *trie, const char *text, size_t bytes, size_t from,
                   size_t done, size_t *compared, ls_added_match *out) {
    if (!trie->edge) return false;
    for (size_t at = from, length = 0; at < bytes; at++) {
        if (!trie->begins[(unsigned char)text[at]]) continue;
        const int32_t index = longest_at(trie, text + at, bytes - at, &length, compared);
        if (index < 0) continue;
        const ls_added_token *token = &added->token[index];
        if (token->single_word && inside_word(text, bytes, at, at + length)) {
            at += length - 1;
            continue;
        }
        *out = (ls_added_match){at, at + length, at + length, token->id};
        widen(token, text, bytes, done, out);
        return true;
    }
    return false;
}

/*
 * No token contains the left character or begins with the right one, and no white space of a token crosses the
 * boundary.
 */
bool ls_added_may_cut(const ls_token_trie *trie, ls_boundary boundary) {
    char left[4], right[4];
    const int length = ls_utf8_encode(boundary.left, left);
    ls_utf8_encode(boundary.right, right);
    return !trie->holds[(unsigned char)left[length - 1]] && !trie->begins[(unsigned char)right[0]] &&
           !(trie->widens && ls_is_space(boundary.left));
}

/* ---- reading ---- */

void ls_added_free(ls_added *added) {
    trie_free(&added->before);
    trie_free(&added->after);
    trie_free(&added->special);
    free(added->token);
    *added = (ls_added){0};
}

static ls_status no_memory(ls_json_value value) {
    return ls_error(LS_NO_MEMORY, "no memory for the added tokens of %s", value.file);
}

static ls_status add_token(ls_json_value item, const char *content, int32_t id, ls_vocabulary *vocabulary) {
    ls_token *token = &vocabulary->token[id];
    if (token->flags != 0)
        return ls_json_error(ls_json_field(item, "id"), "an id of its own for \"%.60s\": \"%.60s\" has this one",
                             content, token->byte);
    if (!ls_vocabulary_add(vocabulary, id, content, strlen(content))) return no_memory(item);
    token->flags |= LS_TOKEN_ADDED;
    return ls_ok();
}

/*
 * Finds the id that the reference library gives a token: its id in the vocabulary, or the next id after all others. It
 * must equal the id in the file.
 */
static ls_status find_id(ls_json_value item, const char *content, int32_t *next, ls_bpe *bpe, int32_t *id) {
    ls_vocabulary *vocabulary = &bpe->vocabulary;
    int64_t wanted;
    LS_TRY(ls_json_int(item, "id", 0, vocabulary->room - 1, &wanted));
    *id = ls_vocabulary_find(vocabulary, content, strlen(content));
    if (*id < 0) {
        *id = (*next)++;
        if (wanted == *id) LS_TRY(add_token(item, content, *id, vocabulary));
    }
    if (wanted != *id)
        return ls_json_error(ls_json_field(item, "id"), "%d, the id that \"%.60s\" has", (int)*id, content);
    return ls_ok();
}

/* A copy with a 0 byte at its end. Unlike strndup it reads only n bytes. NULL: no memory. */
static char *copy_text(const char *bytes, size_t n) {
    char *copy = malloc(n + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, bytes, n);
    copy[n] = 0;
    return copy;
}

/* Sets the text by which a normalized token is found and decoded. */
static ls_status normalize(ls_json_value item, const ls_steps *normalizers, ls_token *token) {
    ls_match_scratch *scratch = ls_match_scratch_create();
    ls_text buffer[2] = {0};
    ls_text_piece piece = {token->byte, token->bytes, true, false};
    ls_allowance allowance = {.most = ls_most_bytes(token->bytes)};
    ls_status status = scratch ? ls_normalize(normalizers, scratch, &allowance, buffer, &piece) : no_memory(item);
    if (status.code == LS_OK && (piece.bytes == 0 || piece.bytes > LS_MOST_PATTERN))
        status = ls_error(LS_UNSUPPORTED, "%s: the normalizers turn %s (\"%.60s\") into %zu bytes, expected 1 to %d",
                          item.file, item.path, token->byte, piece.bytes, LS_MOST_PATTERN);
    if (status.code == LS_OK && !(token->normal_text = copy_text(piece.text, piece.bytes))) status = no_memory(item);
    free(buffer[0].byte);
    free(buffer[1].byte);
    ls_match_scratch_destroy(scratch);
    return status;
}

static ls_status read_token(ls_json_value item, const ls_steps *normalizers, int32_t *next, ls_bpe *bpe,
                            ls_added *out) {
    const char *content;
    bool special;
    ls_added_token token;
    LS_TRY(ls_json_as_object(item));
    LS_TRY(ls_json_text(item, "content", &content));
    LS_TRY(ls_json_bool(item, "single_word", &token.single_word));
    LS_TRY(ls_json_bool(item, "lstrip", &token.left));
    LS_TRY(ls_json_bool(item, "rstrip", &token.right));
    LS_TRY(ls_json_bool(item, "normalized", &token.normalized));
    LS_TRY(ls_json_bool(item, "special", &special));
    if (content[0] == 0) return ls_ok();
    LS_TRY(find_id(item, content, next, bpe, &token.id));
    ls_token *entry = &bpe->vocabulary.token[token.id];
    if (strlen(content) > LS_MOST_PATTERN)
        return ls_json_error(ls_json_field(item, "content"), "at most %d bytes", LS_MOST_PATTERN);
    if (entry->flags & LS_TOKEN_LISTED)
        return ls_json_error(ls_json_field(item, "content"), "a text that no other added token has");
    entry->flags |= LS_TOKEN_LISTED | (special ? LS_TOKEN_SPECIAL : 0);
    if (token.normalized) LS_TRY(normalize(item, normalizers, entry));
    out->token[out->count++] = token;
    return ls_ok();
}

/* The text by which each trie finds a token; NULL: the token is not in that trie. */
static const char *text_before(const ls_bpe *bpe, const ls_added_token *token) {
    return token->normalized ? NULL : bpe->vocabulary.token[token->id].byte;
}

static const char *text_after(const ls_bpe *bpe, const ls_added_token *token) {
    return token->normalized ? bpe->vocabulary.token[token->id].normal_text : NULL;
}

static const char *text_of_special(const ls_bpe *bpe, const ls_added_token *token) {
    const ls_token *entry = &bpe->vocabulary.token[token->id];
    return entry->flags & LS_TOKEN_SPECIAL ? entry->byte : NULL;
}

/* Makes a trie of the tokens for which `text_of` is not NULL. */
static bool make_trie(const ls_bpe *bpe, const ls_added *added,
                      const char *(*text_of)(const ls_bpe *bpe, const ls_added_token *token), ls_token_trie *out) {
    size_t bytes = 0;
    for (size_t i = 0; i < added->count; i++) {
        const char *text = text_of(bpe, &added->token[i]);
        if (text) bytes += strlen(text);
    }
    if (!trie_create(out, bytes)) return false;
    for (size_t i = 0; i < added->count; i++) {
        const char *text = text_of(bpe, &added->token[i]);
        if (!text) continue;
        trie_add(out, text, strlen(text), (int32_t)i);
        out->widens |= added->token[i].left || added->token[i].right;
    }
    return true;
}

ls_status ls_added_read(ls_json_value document, const ls_steps *normalizers, ls_bpe *bpe, ls_added *out) {
    if (!ls_json_has(document, "added_tokens")) return ls_ok();
    ls_json_value tokens;
    LS_TRY(ls_json_array(document, "added_tokens", &tokens));
    const size_t count = ls_json_count(tokens);
    int32_t next = bpe->model_tokens;
    LS_ASSERT(out->count == 0);
    out->token = malloc((count + 1) * sizeof *out->token);
    if (!out->token) return no_memory(tokens);
    for (size_t i = 0; i < count; i++) LS_TRY(read_token(ls_json_item(tokens, i), normalizers, &next, bpe, out));
    if (!make_trie(bpe, out, text_before, &out->before) || !make_trie(bpe, out, text_after, &out->after) ||
        !make_trie(bpe, out, text_of_special, &out->special))
        return no_memory(tokens);
    return ls_ok();
}
