#include "data/data.h"
#include "data/data_impl.h"
#include "format/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ls_data {
    ls_store store;
    ls_windows windows;
    ls_data_summary summary;
    int32_t vocabulary;
    uint64_t seed;
    bool shuffle;
};

/* What is there while files are read. */
typedef struct reading {
    const ls_tokenizer *tokenizer;
    ls_data *data;
    ls_token_list tokens; /* of one piece; reused */
    int64_t *ends;        /* of documents, in tokens of the store */
    size_t ends_capacity;
} reading;

static ls_status end_document(reading *r) {
    ls_data_summary *summary = &r->data->summary;
    size_t count = (size_t)summary->documents;
    if (count == r->ends_capacity) {
        size_t wanted = count ? 2 * count : 256;
        int64_t *grown = realloc(r->ends, wanted * sizeof *grown);
        if (!grown) return ls_error(LS_NO_MEMORY, "no memory for the places of %zu documents", wanted);
        r->ends = grown;
        r->ends_capacity = wanted;
    }
    const int32_t end = ls_tokenizer_end_of_document(r->tokenizer);
    LS_TRY(ls_store_append(&r->data->store, &end, 1));
    int64_t start = count ? r->ends[count - 1] : 0;
    r->ends[summary->documents++] = r->data->store.count;
    summary->tokens = r->data->store.count;
    summary->longest_document = ls_max(summary->longest_document, summary->tokens - start);
    return ls_ok();
}

static ls_status add_text(reading *r, const char *text, size_t bytes) {
    size_t piece = ls_tokenizer_piece(r->tokenizer);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < piece ? bytes - at : piece;
        r->tokens.count = 0;
        LS_TRY(ls_tokenizer_encode(r->tokenizer, text + at, n, &r->tokens));
        LS_TRY(ls_store_append(&r->data->store, r->tokens.id, (int64_t)r->tokens.count));
    }
    return end_document(r);
}

static ls_status add_file(reading *r, const char *path) {
    char *text;
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, SIZE_MAX - 1, &text, &bytes));
    ls_status status = ls_ok();
    if (bytes == 0)
        r->data->summary.empty_files++;
    else if (memchr(text, 0, bytes))
        r->data->summary.binary_files++;
    else
        status = add_text(r, text, bytes);
    free(text);
    return status;
}

/* "a.txt" or "a.txt and 3 more": what errors about all paths call them. */
static void name_paths(const ls_data_options *options, char *out, size_t room) {
    int more = options->n_paths - 1;
    if (more > 0)
        snprintf(out, room, "%.250s and %d more", options->paths[0], more);
    else
        snprintf(out, room, "%.250s", options->paths[0]);
}

static ls_status check_windows(const ls_data_options *options, const ls_data *data, size_t files) {
    char names[300];
    const ls_data_summary *s = &data->summary;
    name_paths(options, names, sizeof names);
    if (s->documents == 0)
        return ls_error(LS_INVALID, "no text in %s: %zu files, of which %lld are empty and %lld binary",
                        names, files, (long long)s->empty_files, (long long)s->binary_files);
    if (data->windows.whole + data->windows.joined == 0)
        return ls_error(
            LS_INVALID,
            "%s: %lld tokens in %lld documents, but a sequence of %lld needs at least %lld tokens", names,
            (long long)s->tokens, (long long)s->documents, (long long)options->sequence,
            (long long)options->sequence + 1);
    return ls_ok();
}

static ls_status read_files(const ls_data_options *options, const ls_data_files *files, reading *r) {
    for (size_t i = 0; i < files->count; i++) LS_TRY(add_file(r, files->path[i]));
    LS_TRY(ls_windows_create(r->ends, r->data->summary.documents, options->sequence, &r->data->windows));
    r->data->summary.whole_windows = r->data->windows.whole;
    r->data->summary.windows = r->data->windows.whole + r->data->windows.joined;
    return check_windows(options, r->data, files->count);
}

static ls_status check_options(const ls_data_options *options) {
    if (options->n_paths < 1) return ls_error(LS_INVALID, "no data given, expected files or folders of text");
    if (options->sequence < 1 || options->sequence >= INT64_MAX / 8)
        return ls_error(LS_INVALID, "sequence length is %lld, expected at least 1",
                        (long long)options->sequence);
    return ls_ok();
}

ls_status ls_data_open(const ls_data_options *options, ls_data **out) {
    LS_TRY(check_options(options));
    double started = ls_seconds();
    ls_data *data = calloc(1, sizeof *data);
    if (!data) return ls_error(LS_NO_MEMORY, "no memory for the training data");
    data->vocabulary = ls_tokenizer_vocabulary(options->tokenizer);
    data->store = ls_store_empty(data->vocabulary);
    data->seed = options->seed;
    data->shuffle = options->shuffle;

    reading r = {.tokenizer = options->tokenizer, .data = data};
    ls_data_files files = {0};
    ls_status status = ls_data_find_files(options->paths, options->n_paths, &files);
    if (status.code == LS_OK) status = read_files(options, &files, &r);
    ls_data_files_free(&files);
    free(r.tokens.id);
    free(r.ends);
    if (status.code != LS_OK) {
        ls_data_close(data);
        return status;
    }
    data->summary.seconds = ls_seconds() - started;
    *out = data;
    return status;
}

void ls_data_close(ls_data *data) {
    if (!data) return;
    ls_store_free(&data->store);
    ls_windows_free(&data->windows);
    free(data);
}

const ls_data_summary *ls_data_summarise(const ls_data *data) { return &data->summary; }

void ls_data_sequence(const ls_data *data, int64_t index, int32_t *out) {
    LS_ASSERT(index >= 0);
    int64_t windows = data->summary.windows, window = index % windows;
    if (data->shuffle)
        window =
            (int64_t)ls_permute(data->seed, (uint64_t)(index / windows), (uint64_t)windows, (uint64_t)window);
    ls_windows_read(&data->windows, &data->store, window, out);
}

/* Counts a block at a time, so that any width is read the same way. */
static void count_tokens(const ls_store *store, int64_t *counts) {
    int32_t block[4096];
    for (int64_t at = 0, n; at < store->count; at += n) {
        n = ls_min(store->count - at, (int64_t)LS_COUNT(block));
        ls_store_read(store, at, n, block);
        for (int64_t i = 0; i < n; i++) counts[block[i]]++;
    }
}

double ls_data_unigram_nats(const ls_data *data) {
    int64_t *counts = calloc((size_t)data->vocabulary, sizeof *counts);
    if (!counts) ls_panic(__FILE__, __LINE__, "no memory for the counts of %d tokens", data->vocabulary);
    count_tokens(&data->store, counts);
    double nats = 0, total = (double)data->store.count;
    for (int32_t id = 0; id < data->vocabulary; id++) {
        if (counts[id] == 0) continue;
        double share = (double)counts[id] / total;
        nats -= share * log(share);
    }
    free(counts);
    return nats;
}
