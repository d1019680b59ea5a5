/* Token shards for targets, and checks of the training sequences that are read from them. */
#include "data/data.h"
#include "fuzz/fuzz.h"

#include <math.h>

static ls_tokenizer *bytes_tokenizer(void) {
    ls_tokenizer *tokenizer;
    LS_ASSERT(fuzz_done(ls_tokenizer_open(NULL, &tokenizer)));
    return tokenizer;
}

uint64_t fuzz_bytes_fingerprint(void) {
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const uint64_t fingerprint = ls_tokenizer_fingerprint(tokenizer);
    ls_tokenizer_close(tokenizer);
    return fingerprint;
}

static void put_document(ls_shard_writer *writer, const char *text) {
    int32_t ids[8];
    int64_t n = 0;
    for (; text[n]; n++) ids[n] = (uint8_t)text[n];
    LS_ASSERT(fuzz_done(ls_shard_append(writer, ids, NULL, n)));
    LS_ASSERT(fuzz_done(ls_shard_end_document(writer, true)));
}

void fuzz_put_shards(const fuzz_folder *folder) {
    static const char *const texts[FUZZ_SHARDS][2] = {{"one", "two"}, {"three", NULL}};
    const ls_shard_kind kind = {.tokenizer = fuzz_bytes_fingerprint(), .vocabulary = 256};
    for (int s = 0; s < FUZZ_SHARDS; s++) {
        ls_shard_writer *writer;
        ls_shard_header header;
        LS_PATH path = NULL;
        char name[40];
        snprintf(name, sizeof name, "shard-%06d.tokens", s);
        fuzz_folder_path(folder, name, &path);
        LS_ASSERT(fuzz_done(ls_shard_create(path, &kind, &writer)));
        for (size_t d = 0; d < LS_COUNT(texts[s]) && texts[s][d]; d++) put_document(writer, texts[s][d]);
        LS_ASSERT(fuzz_done(ls_shard_finish(writer, &header)));
    }
}

static void check_sample(const ls_sample *s, int64_t sequence, int32_t vocabulary) {
    for (int64_t t = 0; t < sequence; t++) {
        LS_ASSERT(s->tokens[t] >= 0 && s->tokens[t] < vocabulary);
        LS_ASSERT(s->labels[t] == LS_LABEL_IGNORED || (s->labels[t] >= 0 && s->labels[t] < vocabulary));
        LS_ASSERT(s->positions[t] >= 0 && s->positions[t] <= t);
    }
    LS_ASSERT(s->n_ends >= 2 && s->ends[0] == 0 && s->ends[s->n_ends - 1] == sequence);
    for (int i = 1; i < s->n_ends; i++) LS_ASSERT(s->ends[i] > s->ends[i - 1]);
}

static void check_data(const ls_data *data, int64_t sequence, int32_t vocabulary) {
    int32_t tokens[FUZZ_LONGEST_SEQUENCE], labels[FUZZ_LONGEST_SEQUENCE], positions[FUZZ_LONGEST_SEQUENCE],
        ends[FUZZ_LONGEST_SEQUENCE + 1];
    const ls_data_summary *s = ls_data_summarise(data);
    const double nats = ls_data_unigram_nats(data);
    LS_ASSERT(s->windows >= 1 && s->whole_windows <= s->windows && s->longest_document <= s->tokens);
    LS_ASSERT(isfinite(nats) && nats >= 0);
    for (int64_t i = 0; i < ls_min(s->windows, 32) + 1; i++) {
        ls_sample sample = {.tokens = tokens, .labels = labels, .positions = positions, .ends = ends};
        if (fuzz_done(ls_data_read(data, i, NULL, &sample))) check_sample(&sample, sequence, vocabulary);
    }
}

void fuzz_check_samples(const char *path, int64_t sequence, bool shuffle) {
    static const char *const packers[] = {"join", "best", "stream"};
    LS_ASSERT(sequence >= 1 && sequence <= FUZZ_LONGEST_SEQUENCE);
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const char *const paths[] = {path};
    for (size_t p = 0; p < LS_COUNT(packers); p++) {
        const ls_data_options options = {.paths = paths,
                                         .n_paths = 1,
                                         .tokenizer = tokenizer,
                                         .sequence = sequence,
                                         .seed = 7,
                                         .shuffle = shuffle,
                                         .pack = packers[p]};
        ls_data *data;
        if (!fuzz_done(ls_data_open(&options, &data))) continue;
        check_data(data, sequence, ls_tokenizer_vocabulary(tokenizer));
        ls_data_close(data);
    }
    ls_tokenizer_close(tokenizer);
}
