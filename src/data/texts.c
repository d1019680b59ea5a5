/* Text files into memory, a document each. */
#include "data/corpus.h"
#include "data/frame.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct reading {
    const ls_tokenizer *tokenizer;
    ls_frame frame;
    ls_corpus *corpus;
    ls_texts *texts;
    ls_token_list tokens; /* of one piece; reused */
    size_t ends_capacity;
} reading;

static ls_status end_document(reading *r) {
    ls_corpus *c = r->corpus;
    const size_t count = (size_t)c->documents;
    if (count == r->ends_capacity) {
        size_t wanted = count ? 2 * count : 256;
        uint64_t *grown = realloc(c->ends, wanted * sizeof *grown);
        if (!grown) return ls_error(LS_NO_MEMORY, "no memory for the places of %zu documents", wanted);
        c->ends = grown;
        r->ends_capacity = wanted;
    }
    LS_TRY(ls_store_append(&c->store, &r->frame.end, 1));
    c->ends[c->documents++] = (uint64_t)c->store.count;
    return ls_ok();
}

static ls_status add_text(reading *r, const char *text, size_t bytes) {
    size_t piece = ls_tokenizer_piece(r->tokenizer);
    LS_TRY(ls_store_append(&r->corpus->store, r->frame.begin, r->frame.n_begin));
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < piece ? bytes - at : piece;
        r->tokens.count = 0;
        LS_TRY(ls_tokenizer_encode(r->tokenizer, text + at, n, &r->tokens));
        LS_TRY(ls_store_append(&r->corpus->store, r->tokens.id, (int64_t)r->tokens.count));
    }
    return end_document(r);
}

static ls_status add_file(reading *r, const char *path) {
    char *text;
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, SIZE_MAX - 1, &text, &bytes));
    ls_status status = ls_ok();
    if (bytes == 0)
        r->texts->empty++;
    else if (memchr(text, 0, bytes))
        r->texts->binary++;
    else
        status = add_text(r, text, bytes);
    free(text);
    return status;
}

ls_status ls_texts_read(const char *const *paths, int n, const ls_tokenizer *tokenizer, ls_corpus *corpus,
                        ls_texts *out) {
    reading r = {.tokenizer = tokenizer, .corpus = corpus, .texts = out};
    ls_data_files files = {0};
    LS_TRY(ls_frame_find(tokenizer, NULL, NULL, &r.frame));
    ls_status status = ls_data_find_files(paths, n, &files);
    out->files = files.count;
    for (size_t i = 0; i < files.count && status.code == LS_OK; i++) status = add_file(&r, files.path[i]);
    ls_data_files_free(&files);
    free(r.tokens.id);
    return status;
}
