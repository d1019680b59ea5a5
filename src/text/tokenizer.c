#include "text/tokenizer.h"
#include "text/text_impl.h"

#include <pthread.h>
#include <stdlib.h>

/* One that encodes, with its memory. */
typedef struct encoder {
    void *scratch;
    struct encoder *next;
} encoder;

struct ls_idle {
    pthread_mutex_t lock;
    encoder *first;
};

static ls_status find_kind(const char *directory, const ls_tokenizer_kind **kind, char path[LS_FILE_PATH]) {
    *kind = &ls_tokenizer_bytes;
    if (!directory) return ls_ok();
    if (!ls_file_is_directory(directory))
        return ls_error(LS_IO, "no tokenizer in %s: it is not a folder", directory);
    LS_TRY(ls_file_join(directory, "tokenizer.json", path, LS_FILE_PATH));
    if (ls_file_exists(path)) {
        *kind = &ls_tokenizer_bpe;
        return ls_ok();
    }
    LS_TRY(ls_file_join(directory, "tokenizer.model", path, LS_FILE_PATH));
    if (ls_file_exists(path))
        return ls_error(LS_UNSUPPORTED,
                        "%s is not read, expected a tokenizer.json beside it (without both, text is taken as "
                        "bytes)",
                        path);
    return ls_ok();
}

ls_status ls_tokenizer_open(const char *directory, ls_tokenizer **out) {
    const ls_tokenizer_kind *kind;
    char path[LS_FILE_PATH];
    LS_TRY(find_kind(directory, &kind, path));
    ls_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return ls_error(LS_NO_MEMORY, "no memory for a tokenizer");
    tokenizer->kind = kind;
    tokenizer->idle = calloc(1, sizeof *tokenizer->idle);
    if (!tokenizer->idle) {
        free(tokenizer);
        return ls_error(LS_NO_MEMORY, "no memory for a tokenizer");
    }
    pthread_mutex_init(&tokenizer->idle->lock, NULL);
    ls_status status = kind->open(directory, path, tokenizer);
    if (status.code != LS_OK)
        ls_tokenizer_close(tokenizer);
    else
        *out = tokenizer;
    return status;
}

void ls_tokenizer_close(ls_tokenizer *tokenizer) {
    if (!tokenizer) return;
    for (encoder *e = tokenizer->idle->first, *next; e; e = next) {
        next = e->next;
        tokenizer->kind->encoder_close(e->scratch);
        free(e);
    }
    pthread_mutex_destroy(&tokenizer->idle->lock);
    free(tokenizer->idle);
    tokenizer->kind->close(tokenizer->state);
    free(tokenizer);
}

const char *ls_tokenizer_name(const ls_tokenizer *tokenizer) { return tokenizer->kind->name; }
int32_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer) { return tokenizer->vocabulary; }
int32_t ls_tokenizer_end_of_document(const ls_tokenizer *tokenizer) { return tokenizer->end_of_document; }
uint64_t ls_tokenizer_fingerprint(const ls_tokenizer *tokenizer) { return tokenizer->fingerprint; }
size_t ls_tokenizer_piece(const ls_tokenizer *tokenizer) { return tokenizer->piece; }
ls_token_frame ls_tokenizer_frame(const ls_tokenizer *tokenizer) { return tokenizer->frame; }

int32_t ls_tokenizer_find(const ls_tokenizer *tokenizer, const char *token) {
    return tokenizer->kind->find(tokenizer->state, token);
}

bool ls_tokenizer_is_special(const ls_tokenizer *tokenizer, int32_t id) {
    return tokenizer->kind->is_special(tokenizer->state, id);
}

/* An idle encoder, or a new one; NULL on error. */
static encoder *take(const ls_tokenizer *tokenizer, ls_status *status) {
    pthread_mutex_lock(&tokenizer->idle->lock);
    encoder *found = tokenizer->idle->first;
    if (found) tokenizer->idle->first = found->next;
    pthread_mutex_unlock(&tokenizer->idle->lock);
    if (found) return found;
    found = calloc(1, sizeof *found);
    *status = found ? tokenizer->kind->encoder(tokenizer->state, &found->scratch)
                    : ls_error(LS_NO_MEMORY, "no memory to encode text");
    if (status->code == LS_OK) return found;
    free(found);
    return NULL;
}

static void give_back(const ls_tokenizer *tokenizer, encoder *e) {
    pthread_mutex_lock(&tokenizer->idle->lock);
    e->next = tokenizer->idle->first;
    tokenizer->idle->first = e;
    pthread_mutex_unlock(&tokenizer->idle->lock);
}

static ls_status encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes, bool rest,
                        const ls_plain_text *plain, ls_token_list *out) {
    const size_t count = out->count;
    if (bytes == 0) return ls_ok();
    ls_status status = ls_ok();
    encoder *e = take(tokenizer, &status);
    if (!e) return status;
    status = tokenizer->kind->encode(tokenizer->state, e->scratch, text, bytes, rest, plain, out);
    give_back(tokenizer, e);
    if (status.code != LS_OK) out->count = count;
    return status;
}

ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                              ls_token_list *out) {
    return encode(tokenizer, text, bytes, false, NULL, out);
}

ls_status ls_tokenizer_encode_plain(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                    const ls_plain_text *plain, ls_token_list *out) {
    return encode(tokenizer, text, bytes, false, plain, out);
}

ls_status ls_tokenizer_encode_rest(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                   ls_token_list *out) {
    return encode(tokenizer, text, bytes, true, NULL, out);
}

bool ls_tokenizer_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t wanted,
                      size_t *out) {
    *out = wanted < bytes ? wanted : 0;
    return !tokenizer->kind->cut || tokenizer->kind->cut(tokenizer->state, text, bytes, wanted, out);
}

ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t n, ls_text *out) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= tokenizer->vocabulary)
            return ls_error(LS_INVALID, "token %zu is id %d, expected 0 to %d (tokenizer %s)", i, ids[i],
                            tokenizer->vocabulary - 1, tokenizer->kind->name);
    if (n == 0) return ls_ok();
    const size_t count = out->count;
    ls_status status = tokenizer->kind->decode(tokenizer->state, ids, n, out);
    if (status.code != LS_OK) out->count = count;
    return status;
}
