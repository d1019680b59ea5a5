/* Packing: every input of every document occurs once; and the promises of each packer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "data/pack_impl.h"

#include <math.h>

enum { MOST_DOCUMENTS = 400, MOST_TOKENS = 40000 };

/* A corpus of documents of these lengths, in two shards or three; token i is i mod 250 + 1, but for the ends. */
static void make_corpus(void **state, const int64_t *lengths, int n, ls_corpus *out) {
    *out = (ls_corpus){0};
    for (int part = 0, d = 0, at = 0; part < 3; part++) {
        const ls_shard_kind kind = {1, 256, 0, false};
        ls_shard_writer *w = NULL;
        ls_shard_header header;
        char name[20];
        snprintf(name, sizeof name, "%d.tokens", part);
        const char *path = scratch_path(state, name);
        assert_ok(ls_shard_create(path, &kind, &w));
        for (; d < n * (part + 1) / 3; d++) {
            for (int64_t i = 1; i < lengths[d]; i++, at++) {
                const int32_t id = at % 250 + 1;
                assert_ok(ls_shard_append(w, &id, NULL, 1));
            }
            assert_ok(ls_shard_end_document(w, true));
        }
        assert_ok(ls_shard_finish(w, &header));
        assert_ok(ls_shard_set_add(&out->shards, path));
    }
    assert_ok(ls_corpus_complete(out, 256));
}

static int draw_lengths(uint64_t seed, int64_t longest, int64_t *lengths) {
    const int n = 3 + (int)ls_rng_below(seed, 0, 0, MOST_DOCUMENTS - 3);
    for (int d = 0; d < n; d++) {
        const int64_t most = 1 + (int64_t)ls_rng_below(seed, 1, (uint64_t)d, (uint64_t)longest);
        lengths[d] = 1 + (int64_t)ls_rng_below(seed, 2, (uint64_t)d, (uint64_t)most);
    }
    return n;
}

/* Passages lie inside documents, and those of all sequences together hold every input exactly once. */
static void assert_each_input_once(const ls_packer *packer, const ls_packed *packed, const ls_corpus *corpus,
                                   int64_t S) {
    uint8_t *seen = calloc((size_t)corpus->tokens, 1);
    ls_passage *passages = malloc(sizeof *passages * (size_t)(S + 1));
    int64_t places = 0;
    for (int64_t i = 0; i < packed->sequences; i++) {
        const int64_t n = packer->passages(packed, corpus, S, i, passages);
        int64_t inputs = 0;
        assert_true(n > 0);
        for (int64_t k = 0; k < n; k++) {
            const ls_passage p = passages[k];
            int64_t first, last;
            assert_true(p.length > 0);
            assert_int_equal(ls_corpus_document(corpus, p.start, &first),
                             ls_corpus_document(corpus, p.start + p.length, &last)); /* with its last label */
            for (int64_t t = p.start; t < p.start + p.length; t++) assert_int_equal(seen[t]++, 0);
            inputs += p.length;
        }
        assert_true(inputs <= S);
        places += S - inputs;
    }
    assert_int_equal(places, packed->padding);
    for (int64_t p = 0; p < corpus->n_parts; p++) {
        const ls_corpus_part *part = &corpus->parts[p];
        for (int64_t d = 0; d < part->documents; d++)
            for (int64_t t = ls_corpus_part_document(part, d); t < ls_corpus_part_document(part, d + 1); t++)
                assert_int_equal(seen[t], t + 1 < ls_corpus_part_document(part, d + 1));
    }
    free(seen);
    free(passages);
}

static int longest_first(const void *x, const void *y) {
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Sequences that best-fit-decreasing needs, by looking at all of them for each document. */
static int64_t plain_best_fit(const int64_t *lengths, int n, int64_t S) {
    int64_t items[MOST_DOCUMENTS], room[MOST_DOCUMENTS], n_items = 0, bins = 0, whole = 0;
    for (int d = 0; d < n; d++) {
        whole += (lengths[d] - 1) / S;
        if ((lengths[d] - 1) % S > 0) items[n_items++] = (lengths[d] - 1) % S;
    }
    qsort(items, (size_t)n_items, sizeof *items, longest_first);
    for (int64_t i = 0; i < n_items; i++) {
        int64_t best = -1;
        for (int64_t b = 0; b < bins; b++)
            if (room[b] >= items[i] && (best < 0 || room[b] < room[best])) best = b;
        if (best < 0) room[best = bins++] = S;
        room[best] -= items[i];
    }
    return whole + bins;
}

static void packs_every_input_once(void **state) {
    int64_t lengths[MOST_DOCUMENTS];
    static const int64_t sizes[] = {1, 2, 7, 63, 64, 65, 200, 4097};
    for (uint64_t seed = 0; seed < 12; seed++) {
        const int n = draw_lengths(seed, seed % 3 == 0 ? 6 : 300, lengths);
        ls_corpus corpus;
        make_corpus(state, lengths, n, &corpus);
        for (size_t s = 0; s < LS_COUNT(sizes); s++) {
            const int64_t S = sizes[s];
            ls_packed packed = {0};
            assert_ok(ls_packer_stream.create(&corpus, S, &packed));
            assert_int_equal(packed.sequences, ls_ceil_div(corpus.tokens - n, S));
            assert_each_input_once(&ls_packer_stream, &packed, &corpus, S);
            assert_ok(ls_packer_best.create(&corpus, S, &packed));
            assert_each_input_once(&ls_packer_best, &packed, &corpus, S);
            assert_int_equal(packed.sequences, plain_best_fit(lengths, n, S));
            ls_packer_best.destroy(packed.state);
        }
        ls_corpus_free(&corpus);
    }
}

/* --- how well best fit packs -------------------------------------------------------------------------------------- */

enum { MANY = 20000, LONG = 4096 };

/* Tokens of document d, the last one a label alone. */
static int64_t log_normal(uint64_t d) {
    const double u = 1 - ls_rng_uniform(11, 0, d), v = ls_rng_uniform(11, 1, d);
    return 2 + (int64_t)(600 * exp(1.2 * sqrt(-2 * log(u)) * cos(2 * acos(-1.0) * v)));
}
static int64_t heavy_tail(uint64_t d) {
    return 2 + (int64_t)fmin(100 * pow(1 - ls_rng_uniform(12, 0, d), -1 / 1.1), 1e6);
}
static int64_t over_long(uint64_t d) { return 2 + LONG + (int64_t)ls_rng_below(13, 0, d, 4 * LONG); }
static int64_t near_half(uint64_t d) { return 2 + LONG / 3 + (int64_t)ls_rng_below(14, 0, d, LONG / 4); }

/*
 * No way of packing without cutting needs fewer: for all places; one for each piece of more than half of one, one for
 * two of more than a third.
 */
static int64_t fewest_sequences(const ls_corpus *corpus) {
    int64_t whole = 0, halves = 0, thirds = 0;
    ls_document document = ls_corpus_nth(corpus, 0);
    for (; document.length > 0; ls_document_next(&document)) {
        whole += (document.length - 1) / LONG;
        halves += (document.length - 1) % LONG > LONG / 2;
        thirds += (document.length - 1) % LONG > LONG / 3;
    }
    return ls_max(ls_ceil_div(corpus->tokens - corpus->documents, LONG),
                  whole + ls_max(halves, ls_ceil_div(thirds, 2)));
}

static void best_fit_is_near_the_optimum(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t (*length)(uint64_t d);
        double most; /* sequences over the fewest possible, less 1 */
    } cases[] = {{"log-normal", log_normal, 0.001},
                 {"heavy tail", heavy_tail, 0.004},
                 {"all over-long", over_long, 0.001},
                 {"a third to seven twelfths", near_half, 0.001}};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_corpus corpus = {.ends = malloc(sizeof(uint64_t) * MANY), .documents = MANY}; /* packers read no token */
        uint64_t end = 0;
        for (uint64_t d = 0; d < MANY; d++) corpus.ends[d] = end += (uint64_t)cases[i].length(d);
        corpus.store.count = (int64_t)end;
        ls_packed packed = {0};
        assert_ok(ls_corpus_complete(&corpus, 256));
        assert_ok(ls_packer_best.create(&corpus, LONG, &packed));
        const int64_t fewest = fewest_sequences(&corpus);
        const double over = (double)packed.sequences / (double)fewest - 1;
        print_message("%s: %lld sequences, at least %lld; %.2f %% of the places empty\n", cases[i].name,
                      (long long)packed.sequences, (long long)fewest,
                      100.0 * (double)packed.padding / (double)(packed.sequences * LONG));
        if (!(over >= 0 && over <= cases[i].most))
            fail_msg("%s: %.2f %% more sequences than the fewest", cases[i].name, 100 * over);
        ls_packer_best.destroy(packed.state);
        ls_corpus_free(&corpus);
    }
}

/* What a sequence looks like: labels, positions and bounds of each document, padding. */
static void gives_whole_samples(void **state) {
    enum { S = 10 };
    ls_tokenizer *tokenizer = bytes_tokenizer();
    assert_ok(ls_file_make_folders(scratch_path(state, "docs")));
    scratch_text(state, "docs/1", "abcdef"); /* 6 inputs */
    scratch_text(state, "docs/2", "xyz");    /* 3 */
    scratch_text(state, "docs/3", "ABCDEFGHIJKL");
    const char *path = scratch_path(state, "docs");
    const ls_data_options options = {
        .paths = &path, .n_paths = 1, .tokenizer = tokenizer, .sequence = S, .pack = "best"};
    ls_data *data = NULL;
    assert_ok(ls_data_open(&options, &data));
    assert_true(ls_data_apart(data));
    assert_int_equal(ls_data_summarise(data)->windows, 3);
    assert_int_equal(ls_data_summarise(data)->padding, 30 - 21);
    int32_t tokens[S], labels[S], positions[S], ends[S + 1], seen[S];
    ls_sample sample = {.tokens = tokens, .labels = labels, .positions = positions, .ends = ends, .seen = seen};
    assert_ok(ls_data_read(data, 1, NULL, &sample)); /* the longest first: abcdef, then what fits best: xyz */
    static const int32_t want[3][S] = {{'a', 'b', 'c', 'd', 'e', 'f', 'x', 'y', 'z', 0},
                                       {'b', 'c', 'd', 'e', 'f', 0, 'y', 'z', 0, -100},
                                       {0, 1, 2, 3, 4, 5, 0, 1, 2, 0}};
    assert_memory_equal(tokens, want[0], sizeof tokens);
    assert_memory_equal(labels, want[1], sizeof labels);
    assert_memory_equal(positions, want[2], sizeof positions);
    assert_memory_equal(seen, ((int32_t[]){1, 2, 3, 4, 5, 6, 1, 2, 3, 1}), sizeof seen);
    assert_int_equal(sample.n_ends, 4);
    assert_memory_equal(ends, ((int32_t[]){0, 6, 9, 10}), 4 * sizeof *ends);
    assert_ok(ls_data_read(data, 0, NULL, &sample)); /* a whole piece of the long one */
    assert_memory_equal(tokens, ((int32_t[]){'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J'}), sizeof tokens);
    assert_int_equal(sample.n_ends, 2);
    ls_data_piece pieces[S + 1];
    int64_t n = 0;
    assert_ok(ls_data_pieces(data, 2, pieces, &n)); /* what is left of it */
    assert_int_equal(n, 1);
    assert_int_equal(pieces[0].document, 2);
    assert_int_equal(pieces[0].offset, 10);
    assert_int_equal(pieces[0].length, 2);
    ls_data_close(data);
    ls_data_options other = options;
    other.pack = "join"; /* a window of the long one; then abcdef, xyz and what is left of it as one text */
    assert_ok(ls_data_open(&other, &data));
    assert_int_equal(ls_data_summarise(data)->windows, 2);
    assert_ok(ls_data_read(data, 1, NULL, &sample));
    assert_memory_equal(tokens, ((int32_t[]){'a', 'b', 'c', 'd', 'e', 'f', 0, 'x', 'y', 'z'}), sizeof tokens);
    assert_memory_equal(seen, ((int32_t[]){1, 2, 3, 4, 5, 6, 0, 1, 2, 3}), sizeof seen);
    ls_data_close(data);
    other.pack = "tight";
    assert_error(ls_data_open(&other, &data), LS_USAGE, "--pack is 'tight'", "join, best, stream");
    ls_tokenizer_close(tokenizer);
}

/* Bits of shards decide which labels are ignored. */
static void ignores_what_is_not_learnt(void **state) {
    enum { S = 8 };
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const ls_shard_kind kind = {ls_tokenizer_fingerprint(tokenizer), 256, 0, true};
    ls_shard_writer *w = NULL;
    ls_shard_header header;
    const char *path = scratch_path(state, "bits.tokens");
    assert_ok(ls_shard_create(path, &kind, &w));
    const int32_t ids[] = {10, 11, 12, 13, 0, 15, 16, 17, 18, 19}; /* 0, the end, inside, as turns of a chat end */
    const uint8_t bits[] = {0, 0, 0, 1, 1, 0, 0, 1, 0, 1};
    assert_ok(ls_shard_append(w, ids, bits, 10));
    assert_ok(ls_shard_end_document(w, true));
    assert_ok(ls_shard_finish(w, &header));
    static const char *const packs[] = {"join", "best", "stream"};
    for (size_t p = 0; p < LS_COUNT(packs); p++) {
        const ls_data_options options = {
            .paths = &path, .n_paths = 1, .tokenizer = tokenizer, .sequence = S, .pack = packs[p]};
        ls_data *data = NULL;
        int32_t tokens[S], labels[S], seen[S];
        ls_sample sample = {.tokens = tokens, .labels = labels, .seen = seen};
        assert_ok(ls_data_open(&options, &data));
        assert_ok(ls_data_read(data, 0, NULL, &sample));
        assert_memory_equal(labels, ((int32_t[]){-100, -100, 13, 0, -100, -100, 17, -100}), sizeof labels);
        assert_memory_equal(seen, ((int32_t[]){1, 2, 3, 4, 5, 6, 7, 8}), sizeof seen);
        ls_data_close(data);
    }
    ls_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_every_input_once),
        cmocka_unit_test(best_fit_is_near_the_optimum),
        cmocka_unit_test(gives_whole_samples),
        cmocka_unit_test(ignores_what_is_not_learnt),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
