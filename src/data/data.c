/* Training data: opens a corpus, packs it into sequences, and reads sequences in a shuffled order. */
#include "data/data.h"
#include "data/pack_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ls_data {
    ls_corpus corpus;
    const ls_packer *packer;
    ls_packed packed;
    ls_data_summary summary;
    int64_t S;
    int32_t vocabulary;
    int32_t filler; /* the id of padding: the end of document, if there is one */
    uint64_t seed;
    bool shuffle;
};

/* ---- opening ---- */

/* "a.txt" or "a.txt and 3 more", for errors about all paths. */
static ls_status name_paths(const ls_data_options *options, char **out) {
    const int more = options->n_paths - 1;
    return more > 0 ? ls_path_print(out, "%s and %d more", options->paths[0], more)
                    : ls_path_print(out, "%s", options->paths[0]);
}

static ls_status check_text(const ls_data_options *options, const ls_data *data, const ls_texts *texts) {
    LS_PATH names = NULL;
    LS_TRY(name_paths(options, &names));
    if (data->corpus.documents > 0) return ls_ok();
    return ls_error(LS_INVALID, "no text in %s: %lld files, of which %lld are empty and %lld binary", names,
                    (long long)texts->files, (long long)texts->empty, (long long)texts->binary);
}

static ls_status check_sequences(const ls_data_options *options, const ls_data *data) {
    LS_PATH names = NULL;
    LS_TRY(name_paths(options, &names));
    if (data->packed.sequences > 0) return ls_ok();
    return ls_error(LS_INVALID, "%s: %lld tokens in %lld documents, but a sequence of %lld needs at least %lld tokens",
                    names, (long long)data->corpus.tokens, (long long)data->corpus.documents,
                    (long long)options->sequence, (long long)(data->packer->apart ? 2 : options->sequence + 1));
}

static ls_status check_options(const ls_data_options *options) {
    if (options->n_paths < 1) return ls_error(LS_INVALID, "no data given, expected files or folders of text");
    if (options->sequence < 1 || options->sequence >= INT64_MAX / 8)
        return ls_error(LS_INVALID, "sequence length is %lld, expected at least 1", (long long)options->sequence);
    return ls_ok();
}

static ls_status open_shards(const ls_data_options *options, ls_data *data) {
    for (int i = 0; i < options->n_paths; i++) {
        if (!ls_is_shards(options->paths[i]))
            return ls_error(LS_INVALID, "%s holds token shards, and %s text; expected one or the other",
                            options->paths[0], options->paths[i]);
        LS_TRY(ls_shard_set_add(&data->corpus.shards, options->paths[i]));
    }
    LS_TRY(ls_shard_set_check(&data->corpus.shards, ls_tokenizer_fingerprint(options->tokenizer),
                              ls_tokenizer_name(options->tokenizer), data->vocabulary));
    if (options->verify) LS_TRY(ls_shard_set_verify(&data->corpus.shards));
    data->summary.shards = data->corpus.shards.n;
    return ls_corpus_complete(&data->corpus, data->vocabulary);
}

static void log_left_out(const ls_texts *texts) {
    if (texts->binary > 0) ls_log("%lld files are no text and were skipped", (long long)texts->binary);
    if (texts->bad > 0) ls_log("%lld records could not be read and were left out", (long long)texts->bad);
}

static ls_status open_texts(const ls_data_options *options, ls_data *data) {
    ls_texts texts = {0};
    for (int i = 0; i < options->n_paths; i++)
        if (ls_is_shards(options->paths[i]))
            return ls_error(LS_INVALID, "%s holds text, and %s token shards; expected one or the other",
                            options->paths[0], options->paths[i]);
    data->corpus.store = ls_store_empty(data->vocabulary);
    const ls_texts_options reading = {.paths = options->paths,
                                      .n_paths = options->n_paths,
                                      .tokenizer = options->tokenizer,
                                      .folder = options->folder,
                                      .form = &options->form};
    LS_TRY(ls_texts_read(&reading, &data->corpus, &texts));
    LS_TRY(check_text(options, data, &texts));
    log_left_out(&texts);
    data->summary.binary_files = texts.binary;
    data->summary.empty = texts.empty;
    data->summary.bad = texts.bad;
    return ls_corpus_complete(&data->corpus, data->vocabulary);
}

static ls_status open_corpus(const ls_data_options *options, ls_data *data) {
    LS_TRY(ls_packer_find(options->pack, &data->packer));
    LS_TRY(ls_is_shards(options->paths[0]) ? open_shards(options, data) : open_texts(options, data));
    LS_TRY(data->packer->create(&data->corpus, options->sequence, &data->packed));
    LS_TRY(check_sequences(options, data));
    ls_data_summary *s = &data->summary;
    s->documents = data->corpus.documents;
    s->tokens = data->corpus.tokens;
    s->longest_document = data->corpus.longest;
    s->windows = data->packed.sequences;
    s->whole_windows = data->packed.whole;
    s->padding = data->packed.padding;
    return ls_ok();
}

ls_status ls_data_open(const ls_data_options *options, ls_data **out) {
    LS_TRY(check_options(options));
    double started = ls_seconds();
    ls_data *data = calloc(1, sizeof *data);
    if (!data) return ls_error(LS_NO_MEMORY, "no memory for the training data");
    data->vocabulary = ls_tokenizer_vocabulary(options->tokenizer);
    data->filler = ls_max(0, ls_tokenizer_end_of_document(options->tokenizer));
    data->seed = options->seed;
    data->shuffle = options->shuffle;
    data->S = options->sequence;
    const ls_status status = open_corpus(options, data);
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
    if (data->packer != NULL && data->packer->destroy != NULL && data->packed.state != NULL)
        data->packer->destroy(data->packed.state);
    ls_corpus_free(&data->corpus);
    free(data);
}

const ls_data_summary *ls_data_summarise(const ls_data *data) { return &data->summary; }
bool ls_data_apart(const ls_data *data) { return data->packer->apart; }

void ls_data_log_packing(const ls_data *data) {
    const ls_data_summary *d = &data->summary;
    if (!data->packer->apart) return;
    ls_log("packed (%s): documents do not see each other; %.2f %% of the places are empty", data->packer->name,
           100.0 * (double)d->padding / ((double)d->windows * (double)data->S));
}

/* ---- the order of an epoch ---- */

/*
 * Four rounds give a strong permutation of many elements (Luby and Rackoff), but a few hundred windows are common here.
 * For 7 elements over 20,000 seeds chi-squared at 36 degrees of freedom is 787 with four rounds and 46 with eight.
 */
#define ROUNDS 12

static uint64_t feistel_round(uint64_t seed, uint64_t epoch, uint32_t round, uint32_t half, uint64_t mask) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {half, round, (uint32_t)epoch, (uint32_t)(epoch >> 32)};
    uint32_t out[4];
    ls_philox(key, counter, out);
    return out[0] & mask;
}

uint64_t ls_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t index) {
    LS_ASSERT(n >= 1 && n <= (uint64_t)1 << 62 && index < n);
    unsigned half_bits = 1;
    while ((uint64_t)1 << (2 * half_bits) < n) half_bits++;
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    /* The cycle of an index below n returns below n, so the loop ends, and the result is a bijection of [0, n). */
    do {
        uint64_t left = index >> half_bits, right = index & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ feistel_round(seed, epoch, round, (uint32_t)right, mask);
            left = right;
            right = next;
        }
        index = left << half_bits | right;
    } while (index >= n);
    return index;
}

static int64_t place_of(const ls_data *data, int64_t index) {
    LS_ASSERT(index >= 0);
    const int64_t sequences = data->packed.sequences, place = index % sequences;
    if (!data->shuffle) return place;
    return (int64_t)ls_permute(data->seed, (uint64_t)(index / sequences), (uint64_t)sequences, (uint64_t)place);
}

/* ---- sequences ---- */

/* Memory to put a sequence together: its passages, and their tokens. */
typedef struct assembly {
    ls_passage *passages;
    int64_t n;
    int32_t *ids;    /* [S + 1] */
    uint8_t *learnt; /* [S + 1] */
} assembly;

static void assembly_free(assembly *a) {
    free(a->passages);
    free(a->ids);
    free(a->learnt);
    *a = (assembly){0};
}

/* Finds the passages of a sequence, and allocates room for their tokens. */
static ls_status assemble(const ls_data *data, int64_t index, assembly *a) {
    const size_t room = (size_t)data->S + 1;
    *a = (assembly){
        .passages = malloc(room * sizeof *a->passages), .ids = malloc(room * sizeof *a->ids), .learnt = malloc(room)};
    if (a->passages == NULL || a->ids == NULL || a->learnt == NULL) {
        assembly_free(a);
        return ls_error(LS_NO_MEMORY, "no memory for a sequence of %lld tokens", (long long)data->S);
    }
    a->n = data->packer->passages(&data->packed, &data->corpus, data->S, place_of(data, index), a->passages);
    return ls_ok();
}

static int32_t label_of(const assembly *a, int64_t i) { return a->learnt[i] ? a->ids[i] : LS_LABEL_IGNORED; }

/*
 * Sets `seen` of inputs from .. to - 1. Their labels lie in one document, with `before` of its tokens before the first
 * label.
 */
static void mark_seen(ls_sample *out, int64_t from, int64_t to, int64_t before) {
    if (out->seen == NULL) return;
    for (int64_t i = from; i < to; i++) out->seen[i] = (int32_t)(before + i - from);
}

/* For attention and positions the sequence is one document. */
static void mark_whole(int64_t S, ls_sample *out) {
    out->n_ends = 2;
    if (out->ends == NULL) return;
    out->ends[0] = 0;
    out->ends[1] = (int32_t)S;
    for (int64_t i = 0; i < S; i++) out->positions[i] = (int32_t)i;
}

static ls_status read_joined(const ls_data *data, const assembly *a, ls_sample *out) {
    int64_t filled = 0;
    for (int64_t k = 0; k < a->n; k++) {
        const ls_passage *p = &a->passages[k];
        LS_TRY(ls_corpus_read(&data->corpus, p->start, p->length, a->ids + filled, a->learnt + filled));
        const bool first = filled == 0; /* its first token is no label */
        mark_seen(out, filled - !first, filled + p->length - 1, first);
        filled += p->length;
    }
    LS_ASSERT(filled == data->S + 1);
    memcpy(out->tokens, a->ids, sizeof *a->ids * (size_t)data->S);
    for (int64_t i = 0; i < data->S; i++) out->labels[i] = label_of(a, i + 1);
    mark_whole(data->S, out);
    return ls_ok();
}

static void mark_end(ls_sample *out, int64_t from, int64_t to) {
    if (out->ends == NULL) return;
    for (int64_t i = from; i < to; i++) out->positions[i] = (int32_t)(i - from);
    out->ends[out->n_ends++] = (int32_t)to;
}

static ls_status read_apart(const ls_data *data, const assembly *a, ls_sample *out) {
    int64_t filled = 0;
    out->n_ends = 0;
    mark_end(out, 0, 0);
    for (int64_t k = 0; k < a->n; k++) {
        const ls_passage *p = &a->passages[k];
        LS_TRY(ls_corpus_read(&data->corpus, p->start, p->length + 1, a->ids, a->learnt));
        memcpy(out->tokens + filled, a->ids, sizeof *a->ids * (size_t)p->length);
        for (int64_t i = 0; i < p->length; i++) out->labels[filled + i] = label_of(a, i + 1);
        mark_end(out, filled, filled + p->length);
        mark_seen(out, filled, filled + p->length, 1);
        filled += p->length;
    }
    if (filled < data->S) mark_end(out, filled, data->S);
    mark_seen(out, filled, data->S, 1);
    for (; filled < data->S; filled++) {
        out->tokens[filled] = data->filler;
        out->labels[filled] = LS_LABEL_IGNORED;
    }
    return ls_ok();
}

ls_status ls_data_read(const ls_data *data, int64_t index, ls_sample *out) {
    assembly a;
    LS_TRY(assemble(data, index, &a));
    const ls_status status = data->packer->apart ? read_apart(data, &a, out) : read_joined(data, &a, out);
    assembly_free(&a);
    return status;
}

void ls_data_sequence(const ls_data *data, int64_t index, int32_t *out) {
    assembly a;
    LS_ASSERT(!data->packer->apart);
    if (assemble(data, index, &a).code != LS_OK)
        ls_panic(__FILE__, __LINE__, "no memory for a sequence of %lld tokens", (long long)data->S);
    int64_t filled = 0;
    for (int64_t k = 0; k < a.n; filled += a.passages[k++].length) {
        const ls_passage *p = &a.passages[k];
        if (ls_corpus_read(&data->corpus, p->start, p->length, out + filled, NULL).code == LS_OK) continue;
        for (int64_t i = filled; i < filled + p->length; i++)
            if (out[i] < 0 || out[i] >= data->vocabulary) out[i] = data->filler;
    }
    assembly_free(&a);
}

ls_status ls_data_pieces(const ls_data *data, int64_t index, ls_data_piece *out, int64_t *pieces) {
    assembly a;
    LS_TRY(assemble(data, index, &a));
    int64_t place = 0, n = 0;
    for (int64_t k = 0; k < a.n && place < data->S; k++) {
        int64_t start;
        const int64_t length = ls_min(a.passages[k].length, data->S - place); /* the last token is a label only */
        const int64_t document = ls_corpus_document(&data->corpus, a.passages[k].start, &start);
        out[n++] = (ls_data_piece){place, document, a.passages[k].start - start, length};
        place += length;
    }
    assembly_free(&a);
    *pieces = n;
    return ls_ok();
}

uint64_t ls_data_hash(uint64_t so_far, const int32_t *tokens, const int32_t *labels, int64_t S) {
    const size_t bytes = sizeof *tokens * (size_t)S;
    const uint64_t parts[] = {so_far, ls_hash_bytes(tokens, bytes), ls_hash_bytes(labels, bytes)};
    return ls_hash_bytes(parts, sizeof parts);
}

uint64_t ls_data_content(const ls_data *data) {
    const ls_corpus *c = &data->corpus;
    uint64_t content = 0;
    for (int64_t i = 0; i < c->shards.n; i++) {
        const uint64_t parts[] = {content, c->shards.shard[i].header->checksum};
        content = ls_hash_bytes(parts, sizeof parts);
    }
    for (int64_t i = 0; i < c->n_parts && c->shards.n == 0; i++) {
        const ls_corpus_part *p = &c->parts[i];
        const size_t marks = p->learnt != NULL ? (size_t)ls_ceil_div(p->count, 64) * sizeof *p->learnt : 0;
        const uint64_t parts[] = {content, ls_hash_bytes(p->tokens, (size_t)p->count * (size_t)p->width),
                                  ls_hash_bytes(p->ends, (size_t)p->documents * sizeof *p->ends),
                                  ls_hash_bytes(p->learnt, marks)};
        content = ls_hash_bytes(parts, sizeof parts);
    }
    return content;
}

double ls_data_unigram_nats(const ls_data *data) {
    int64_t *counts = calloc((size_t)data->vocabulary, sizeof *counts);
    if (!counts) ls_panic(__FILE__, __LINE__, "no memory for the counts of %d tokens", data->vocabulary);
    ls_corpus_count(&data->corpus, counts);
    double nats = 0, total = (double)data->corpus.tokens;
    for (int32_t id = 0; id < data->vocabulary; id++) {
        if (counts[id] == 0) continue;
        double share = (double)counts[id] / total;
        nats -= share * log(share);
    }
    free(counts);
    return nats;
}
