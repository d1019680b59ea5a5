/* A token is a byte. */
#include "text/text_impl.h"

static size_t encode(const char *text, size_t bytes, int32_t *out) {
    for (size_t i = 0; i < bytes; i++) out[i] = (unsigned char)text[i];
    return bytes;
}

static size_t decode(const int32_t *ids, size_t n, char *out) {
    for (size_t i = 0; i < n; i++) out[i] = (char)(unsigned char)ids[i];
    return n;
}

const ls_tokenizer_kind ls_tokenizer_bytes = {
    .name = "bytes",
    .vocabulary = 256,
    .end_of_document = 0,
    .piece = 64 << 10, /* any would do; this one stays in the second-level cache */
    .widest = 1,
    .encode = encode,
    .decode = decode,
};
