/* Opens the tokenizer of a folder and passes calls on to its kind, with an encoder for each thread. */
#include "text/tokenizer.h"
#include "base/base.h"
#include "text/text_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory with which one thread encodes, in a list. */
typedef struct encoder {
    void *scratch;
    struct encoder *next;
} encoder;

struct ls_encoder_pool {
    pthread_mutex_t lock;
    encoder *first;
};

/* ---- which tokenizer a folder has ---- */

/* A form in which a folder may have a tokenizer. The first row whose files exist is read. */
typedef struct form {
    const char *file, *with; /* with: a second file that it needs, or NULL */
    ls_status (*read)(const char *folder, ls_json **out);
} form;

static ls_status read_document(const char *folder, ls_json **out) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(folder, "tokenizer.json", &path));
    return ls_json_read(path, LS_JSON_MOST_BYTES, out);
}

static const form forms[] = {
    {"tokenizer.json", NULL, read_document},
    {"vocab.json", "merges.txt", ls_vocabulary_files_read},
};

/*
 * Tokenizer files that are not supported alone. A folder with one of them and none of the forms is refused, not read as
 * bytes.
 */
static const char *const unread[] = {"tokenizer.model", "tekken.json", "spiece.model", "sentencepiece.bpe.model",
                                     "vocab.txt",       "vocab.json",  "merges.txt",   "tokenizer.tiktoken"};

static ls_status is_there(const char *folder, const char *file, bool *out) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(folder, file, &path));
    *out = ls_file_exists(path);
    return ls_ok();
}

/* *out: NULL when the folder has no tokenizer file. */
static ls_status find_form(const char *folder, const form **out) {
    bool found, with = true;
    *out = NULL;
    if (!ls_file_is_folder(folder)) return ls_error(LS_IO, "no tokenizer in %s: it is not a folder", folder);
    for (size_t i = 0; i < LS_COUNT(forms) && !*out; i++) {
        LS_TRY(is_there(folder, forms[i].file, &found));
        if (forms[i].with) LS_TRY(is_there(folder, forms[i].with, &with));
        if (found && with) *out = &forms[i];
    }
    for (size_t i = 0; i < LS_COUNT(unread) && !*out; i++) {
        LS_TRY(is_there(folder, unread[i], &found));
        if (found)
            return ls_error(LS_UNSUPPORTED,
                            "%s/%s is not read by itself, expected a tokenizer.json, or vocab.json and merges.txt",
                            folder, unread[i]);
    }
    return ls_ok();
}

/* Refuses a folder whose config.json is not that of a model on bytes: vocab_size 256 to 512. */
static ls_status check_bytes(const char *folder) {
    enum { MOST = 2 * LS_BYTES_VOCABULARY };
    LS_PATH path = NULL;
    int64_t size = 0;
    ls_json *document;
    LS_TRY(ls_path_join(folder, "config.json", &path));
    if (ls_file_exists(path)) {
        LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
        const ls_status status = ls_json_int_or(ls_json_root(document), "vocab_size", 0, 0, INT32_MAX, &size);
        ls_json_free(document);
        LS_TRY(status);
    }
    if (size >= LS_BYTES_VOCABULARY && size <= MOST) return ls_ok();
    return ls_error(
        LS_INVALID,
        "no tokenizer in %s: expected a tokenizer.json, or vocab.json and merges.txt, or the config.json of a "
        "model on bytes (vocab_size %d to %d)",
        folder, LS_BYTES_VOCABULARY, MOST);
}

static ls_tokenizer *new_tokenizer(const ls_tokenizer_kind *kind) {
    ls_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return NULL;
    tokenizer->kind = kind;
    tokenizer->encoders = calloc(1, sizeof *tokenizer->encoders);
    if (!tokenizer->encoders) {
        free(tokenizer);
        return NULL;
    }
    pthread_mutex_init(&tokenizer->encoders->lock, NULL);
    return tokenizer;
}

static ls_status open_form(const char *folder, const form *found, ls_tokenizer *tokenizer) {
    if (!found) return tokenizer->kind->open(folder, NULL, tokenizer);
    LS_PATH path = NULL;
    ls_json *document;
    LS_TRY(ls_path_join(folder, found->file, &path));
    tokenizer->file = strdup(path);
    if (!tokenizer->file) return ls_error(LS_NO_MEMORY, "no memory for a tokenizer");
    LS_TRY(found->read(folder, &document));
    const ls_status status = tokenizer->kind->open(folder, document, tokenizer);
    ls_json_free(document);
    return status;
}

static ls_status open_any(const char *folder, bool may_be_bytes, ls_tokenizer **out) {
    const form *found = NULL;
    if (folder) LS_TRY(find_form(folder, &found));
    if (folder && !found && !may_be_bytes) LS_TRY(check_bytes(folder));
    ls_tokenizer *tokenizer = new_tokenizer(found ? &ls_tokenizer_bpe : &ls_tokenizer_bytes);
    if (!tokenizer) return ls_error(LS_NO_MEMORY, "no memory for a tokenizer");
    ls_status status = open_form(folder, found, tokenizer);
    if (status.code != LS_OK)
        ls_tokenizer_close(tokenizer);
    else
        *out = tokenizer;
    return status;
}

ls_status ls_tokenizer_open(const char *folder, ls_tokenizer **out) { return open_any(folder, false, out); }

ls_status ls_tokenizer_open_model(const char *folder, ls_tokenizer **out) { return open_any(folder, true, out); }

void ls_tokenizer_close(ls_tokenizer *tokenizer) {
    if (!tokenizer) return;
    for (encoder *e = tokenizer->encoders->first, *next; e; e = next) {
        next = e->next;
        tokenizer->kind->encoder_close(e->scratch);
        free(e);
    }
    pthread_mutex_destroy(&tokenizer->encoders->lock);
    free(tokenizer->encoders);
    free(tokenizer->file);
    tokenizer->kind->close(tokenizer->state);
    free(tokenizer);
}

const char *ls_tokenizer_name(const ls_tokenizer *tokenizer) { return tokenizer->kind->name; }
const char *ls_tokenizer_file(const ls_tokenizer *tokenizer) { return tokenizer->file; }
int32_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer) { return tokenizer->vocabulary; }
int32_t ls_tokenizer_end_of_document(const ls_tokenizer *tokenizer) { return tokenizer->end_of_document; }
uint64_t ls_tokenizer_fingerprint(const ls_tokenizer *tokenizer) { return tokenizer->fingerprint; }
size_t ls_tokenizer_piece(const ls_tokenizer *tokenizer) { return tokenizer->piece; }
ls_token_frame ls_tokenizer_frame(const ls_tokenizer *tokenizer) { return tokenizer->frame; }

void ls_tokenizer_log(const ls_tokenizer *tokenizer, int64_t vocab_size) {
    char unused[64] = "";
    if (vocab_size > 2 * (int64_t)tokenizer->vocabulary)
        snprintf(unused, sizeof unused, "; vocab_size is %lld, so most of the model's rows stay unused",
                 (long long)vocab_size);
    if (tokenizer->file)
        ls_log("tokenizer: %s, %d tokens%s", tokenizer->file, (int)tokenizer->vocabulary, unused);
    else
        ls_log("tokenizer: bytes (there is no tokenizer.json), %d tokens%s", (int)tokenizer->vocabulary, unused);
}

int32_t ls_tokenizer_find(const ls_tokenizer *tokenizer, const char *token) {
    return tokenizer->kind->find(tokenizer->state, token);
}

bool ls_tokenizer_is_special(const ls_tokenizer *tokenizer, int32_t id) {
    return tokenizer->kind->is_special(tokenizer->state, id);
}

bool ls_tokenizer_next_special(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t from, size_t done,
                               ls_special_place *out) {
    return tokenizer->kind->next_special != NULL &&
           tokenizer->kind->next_special(tokenizer->state, text, bytes, from, done, out);
}

/* Returns an unused encoder, or a new one; NULL after an error. */
static encoder *acquire_encoder(const ls_tokenizer *tokenizer, ls_status *status) {
    pthread_mutex_lock(&tokenizer->encoders->lock);
    encoder *found = tokenizer->encoders->first;
    if (found) tokenizer->encoders->first = found->next;
    pthread_mutex_unlock(&tokenizer->encoders->lock);
    if (found) return found;
    found = calloc(1, sizeof *found);
    *status = found ? tokenizer->kind->encoder(tokenizer->state, &found->scratch)
                    : ls_error(LS_NO_MEMORY, "no memory to encode text");
    if (status->code == LS_OK) return found;
    free(found);
    return NULL;
}

static void release_encoder(const ls_tokenizer *tokenizer, encoder *e) {
    pthread_mutex_lock(&tokenizer->encoders->lock);
    e->next = tokenizer->encoders->first;
    tokenizer->encoders->first = e;
    pthread_mutex_unlock(&tokenizer->encoders->lock);
}

static ls_status encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes, bool rest,
                        const ls_plain_text *plain, ls_token_list *out) {
    const size_t count = out->count;
    if (bytes == 0) return ls_ok();
    ls_status status = ls_ok();
    encoder *e = acquire_encoder(tokenizer, &status);
    if (!e) return status;
    status = tokenizer->kind->encode(tokenizer->state, e->scratch, text, bytes, rest, plain, out);
    release_encoder(tokenizer, e);
    if (status.code != LS_OK) out->count = count;
    return status;
}

ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes, ls_token_list *out) {
    return encode(tokenizer, text, bytes, false, NULL, out);
}

ls_status ls_tokenizer_encode_plain(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                    const ls_plain_text *plain, ls_token_list *out) {
    return encode(tokenizer, text, bytes, false, plain, out);
}

ls_status ls_tokenizer_encode_rest(const ls_tokenizer *tokenizer, const char *text, size_t bytes, ls_token_list *out) {
    return encode(tokenizer, text, bytes, true, NULL, out);
}

bool ls_tokenizer_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t wanted, size_t *out) {
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
