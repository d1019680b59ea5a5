#include "text/tokenizer.h"
#include "base/base.h"
#include "format/format.h"
#include "text/text_impl.h"

#include <stdlib.h>

struct ls_tokenizer {
    const ls_tokenizer_kind *kind;
};

/* Files that hold a vocabulary of a kind that is not read here. */
static const char *const foreign_files[] = {"tokenizer.json", "tokenizer.model"};

ls_status ls_tokenizer_open(const char *directory, ls_tokenizer **out) {
    if (directory && !ls_file_is_directory(directory))
        return ls_error(LS_IO, "no tokenizer in %s: it is not a folder", directory);
    for (size_t i = 0; directory && i < LS_COUNT(foreign_files); i++) {
        char path[LS_FILE_PATH];
        LS_TRY(ls_file_join(directory, foreign_files[i], path, sizeof path));
        if (ls_file_exists(path))
            return ls_error(LS_UNSUPPORTED,
                            "%s: vocabularies are not read yet; without this file text is taken as bytes",
                            path);
    }
    ls_tokenizer *tokenizer = malloc(sizeof *tokenizer);
    if (!tokenizer) return ls_error(LS_NO_MEMORY, "no memory for a tokenizer");
    tokenizer->kind = &ls_tokenizer_bytes;
    *out = tokenizer;
    return ls_ok();
}

void ls_tokenizer_close(ls_tokenizer *tokenizer) { free(tokenizer); }

const char *ls_tokenizer_name(const ls_tokenizer *tokenizer) { return tokenizer->kind->name; }
int32_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer) { return tokenizer->kind->vocabulary; }
int32_t ls_tokenizer_end_of_document(const ls_tokenizer *tokenizer) {
    return tokenizer->kind->end_of_document;
}
size_t ls_tokenizer_piece(const ls_tokenizer *tokenizer) { return tokenizer->kind->piece; }

uint64_t ls_tokenizer_fingerprint(const ls_tokenizer *tokenizer) {
    return ls_rng_stream(tokenizer->kind->name); /* a kind without a vocabulary file is known by its name */
}

/* Room for `more` elements of `size` bytes after the first `count`, in a buffer that doubles. */
static ls_status reserve(void **items, size_t count, size_t *capacity, size_t more, size_t size) {
    if (more <= *capacity - count) return ls_ok();
    size_t wanted = *capacity > more ? 2 * *capacity : count + more, bytes;
    void *grown = __builtin_mul_overflow(wanted, size, &bytes) ? NULL : realloc(*items, bytes);
    if (!grown) return ls_error(LS_NO_MEMORY, "no memory for %zu tokens or bytes of text", wanted);
    *items = grown;
    *capacity = wanted;
    return ls_ok();
}

ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                              ls_token_list *out) {
    void *items = out->id;
    LS_TRY(reserve(&items, out->count, &out->capacity, bytes, sizeof *out->id));
    out->id = items;
    if (bytes > 0) out->count += tokenizer->kind->encode(text, bytes, out->id + out->count);
    return ls_ok();
}

ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t n, ls_text *out) {
    const ls_tokenizer_kind *kind = tokenizer->kind;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= kind->vocabulary)
            return ls_error(LS_INVALID, "token %zu is id %d, expected 0 to %d (tokenizer %s)", i, ids[i],
                            kind->vocabulary - 1, kind->name);
    void *items = out->byte;
    LS_TRY(reserve(&items, out->count, &out->capacity, n * kind->widest, 1));
    out->byte = items;
    if (n > 0) out->count += kind->decode(ids, n, out->byte + out->count);
    return ls_ok();
}
