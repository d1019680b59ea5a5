/* The tokenizer "bytes": an id is a byte. */
#include "base/base.h"
#include "text/text_impl.h"

#include <string.h>

static ls_status open(const char *folder, const ls_json *document, ls_tokenizer *tokenizer) {
    (void)folder;
    (void)document;
    tokenizer->vocabulary = LS_BYTES_VOCABULARY;
    tokenizer->end_of_document = 0;
    tokenizer->piece = 64 << 10;                     /* any size is safe; this one fits the second-level cache */
    tokenizer->fingerprint = ls_rng_stream("bytes"); /* there is no file to hash */
    return ls_ok();
}

static void close(void *state) { (void)state; }

static ls_status encoder(const void *state, void **scratch) {
    (void)state;
    *scratch = NULL;
    return ls_ok();
}

static ls_status encode(const void *state, void *scratch, const char *text, size_t bytes, bool rest,
                        const ls_plain_text *plain, ls_token_list *out) {
    (void)state;
    (void)scratch;
    (void)rest;
    (void)plain;
    if (!ls_token_list_reserve(out, bytes)) return ls_no_memory(bytes);
    for (size_t i = 0; i < bytes; i++) out->id[out->count++] = (unsigned char)text[i];
    return ls_ok();
}

static ls_status decode(const void *state, const int32_t *ids, size_t n, ls_text *out) {
    (void)state;
    if (!ls_text_reserve(out, n)) return ls_no_memory(n);
    for (size_t i = 0; i < n; i++) out->byte[out->count++] = (char)(unsigned char)ids[i];
    return ls_ok();
}

static int32_t find(const void *state, const char *token) {
    (void)state;
    return strlen(token) == 1 ? (unsigned char)token[0] : -1;
}

static bool is_special(const void *state, int32_t id) {
    (void)state;
    return id == 0;
}

const ls_tokenizer_kind ls_tokenizer_bytes = {
    .name = "bytes",
    .open = open,
    .close = close,
    .encoder = encoder,
    .encoder_close = close,
    .encode = encode,
    .decode = decode,
    .find = find,
    .is_special = is_special,
};
