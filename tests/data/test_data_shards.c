/* Token shards: reading returns what was written, and no number in a file is trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "data/data.h"

/* One shard of that vocabulary: documents of 1, 2, ... tokens; returns its path. */
static const char *write_shard(void **state, const char *name, int32_t vocabulary, int documents, bool learnt) {
    const char *path = scratch_path(state, name);
    const ls_shard_kind kind = {77, vocabulary, 0, learnt};
    ls_shard_writer *w = NULL;
    ls_shard_header header;
    assert_ok(ls_shard_create(path, &kind, &w));
    for (int d = 0; d < documents; d++) {
        for (int i = 0; i < d; i++) {
            const int32_t id = (int32_t)ls_rng_below(5, (uint64_t)d, (uint64_t)i, (uint64_t)vocabulary);
            const uint8_t bit = id % 3 == 0;
            assert_ok(ls_shard_append(w, &id, &bit, 1));
        }
        assert_ok(ls_shard_end_document(w, d % 2));
    }
    assert_ok(ls_shard_finish(w, &header));
    assert_int_equal(header.documents, documents);
    return path;
}

static void is_read_back(void **state) {
    static const int32_t vocabularies[] = {2, 256, 257, 65536, 65537, 200000};
    for (size_t v = 0; v < LS_COUNT(vocabularies); v++) {
        ls_shard s;
        const int documents = 700;
        assert_ok(ls_shard_open(write_shard(state, "a.tokens", vocabularies[v], documents, true), &s));
        assert_int_equal(s.header->width, vocabularies[v] <= 256 ? 1 : vocabularies[v] <= 65536 ? 2 : 4);
        assert_int_equal(s.header->longest, documents);
        assert_ok(ls_shard_verify(&s, NULL));
        int64_t at = 0;
        for (int d = 0; d < documents; d++) {
            for (int i = 0; i <= d; i++, at++) {
                int32_t id;
                ls_tokens_widen(s.tokens, (int)s.header->width, at, 1, &id);
                const int32_t expected =
                    i < d ? (int32_t)ls_rng_below(5, (uint64_t)d, (uint64_t)i, (uint64_t)vocabularies[v]) : 0;
                assert_int_equal(id, expected);
                assert_int_equal(s.learnt[at / 64] >> at % 64 & 1, i < d ? id % 3 == 0 : d % 2);
            }
            assert_int_equal(s.ends[d], at);
        }
        ls_shard_close(&s);
    }
}

/* The file with `bytes` at `at` replaced, its header sealed again; the copy's path. */
static const char *edited(void **state, const char *path, size_t at, const void *bytes, size_t n, size_t length) {
    char *text;
    size_t size;
    assert_ok(ls_file_read(path, SIZE_MAX - 1, &text, &size));
    if (length > size) length = size;
    if (n > 0) memcpy(text + at, bytes, n);
    const uint64_t seal = ls_hash_bytes(text, offsetof(ls_shard_header, header_checksum));
    memcpy(text + offsetof(ls_shard_header, header_checksum), &seal, sizeof seal);
    const char *copy = scratch_file(state, "edited.tokens", text, length);
    free(text);
    return copy;
}

static void assert_refused(const char *path, const char *word) {
    ls_shard s;
    const ls_status status = ls_shard_open(path, &s);
    assert_error(status, LS_INVALID, word, path);
}

static void refuses_hostile_headers(void **state) {
    char path[600];
    snprintf(path, sizeof path, "%s", write_shard(state, "good.tokens", 300, 50, true));
    static const uint64_t large[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, (uint64_t)1 << 44,
                                     (uint64_t)1 << 32};
    static const size_t fields[] = {offsetof(ls_shard_header, vocabulary), offsetof(ls_shard_header, tokens),
                                    offsetof(ls_shard_header, documents), offsetof(ls_shard_header, longest)};
    ls_shard s;
    for (size_t f = 0; f < LS_COUNT(fields); f++)
        for (size_t i = 0; i < LS_COUNT(large); i++)
            assert_refused(edited(state, path, fields[f], &large[i], 8, SIZE_MAX), "expected");
    assert_refused(edited(state, path, offsetof(ls_shard_header, width), &(uint32_t){0}, 4, SIZE_MAX), "width is 0");
    assert_refused(edited(state, path, offsetof(ls_shard_header, flags), &(uint32_t){6}, 4, SIZE_MAX), "flags is 6");
    for (size_t i = 1; i < LS_COUNT(large); i++) /* the first says that there is none */
        assert_refused(edited(state, path, offsetof(ls_shard_header, end_of_document), &large[i], 8, SIZE_MAX),
                       "expected");
    assert_refused(edited(state, path, 0, "LSTOKEN2", 8, SIZE_MAX), "begins with other bytes");
    assert_refused(scratch_text(state, "short.tokens", "LSTOKEN1"), "8 bytes");
    assert_refused(scratch_text(state, "empty.tokens", ""), "0 bytes");
    /* Cut short anywhere, or longer than it says. */
    assert_ok(ls_shard_open(path, &s));
    const size_t size = s.map.bytes, ends = (size_t)((const uint8_t *)s.ends - s.map.data);
    const size_t counts = (size_t)((const uint8_t *)s.counts - s.map.data);
    ls_shard_close(&s);
    for (size_t length = sizeof(ls_shard_header); length < size; length += 97)
        assert_refused(edited(state, path, 0, NULL, 0, length), "bytes, expected");
    /* An index beyond the tokens, one that goes back, counts that do not add up. */
    assert_refused(edited(state, path, ends + 80, &large[0], 8, SIZE_MAX), "document 10 ends at token");
    assert_refused(edited(state, path, ends + 80, &(uint64_t){3}, 8, SIZE_MAX), "document 10 ends at token 3");
    assert_refused(edited(state, path, counts + 8, &large[2], 8, SIZE_MAX), "counts of ids");
    assert_refused(edited(state, path, counts + 8, &(uint64_t){0}, 8, SIZE_MAX), "sum of the counts");
}

/* Every byte of a shard that is changed is seen, by opening it or by verifying it. */
static void sees_every_changed_byte(void **state) {
    char path[600], *text;
    size_t size;
    snprintf(path, sizeof path, "%s", write_shard(state, "whole.tokens", 300, 20, true));
    assert_ok(ls_file_read(path, SIZE_MAX - 1, &text, &size));
    for (size_t i = 0; i < size; i++) {
        ls_shard s;
        text[i] ^= 0x40;
        ls_status status = ls_shard_open(scratch_file(state, "changed.tokens", text, size), &s);
        if (status.code == LS_OK) {
            status = ls_shard_verify(&s, NULL);
            ls_shard_close(&s);
        }
        if (status.code != LS_INVALID) fail_msg("byte %zu of %zu: %s", i, size, ls_code_name(status.code));
        text[i] ^= 0x40;
    }
    free(text);
}

/* Ids beyond the vocabulary in a shard that is sound otherwise: reading says so. */
static void refuses_wrong_ids(void **state) {
    char path[600];
    int32_t ids[1000];
    snprintf(path, sizeof path, "%s", write_shard(state, "ids.tokens", 300, 40, false));
    const char *copy = edited(state, path, sizeof(ls_shard_header) + 20, &(uint16_t){300}, 2, SIZE_MAX);
    ls_shard s;
    assert_ok(ls_shard_open(copy, &s));
    assert_error(ls_shard_verify(&s, NULL), LS_INVALID, "checksum", copy);
    ls_shard_close(&s);
    ls_corpus corpus = {0};
    assert_ok(ls_shard_set_add(&corpus.shards, copy));
    assert_ok(ls_corpus_complete(&corpus, 300));
    assert_ok(ls_corpus_read(&corpus, 0, 10, ids, NULL, NULL));
    assert_error(ls_corpus_read(&corpus, 8, 5, ids, NULL, NULL), LS_INVALID, copy,
                 "token 10 is 300, expected an id below 300");
    ls_corpus_free(&corpus);
}

/* What another tokenizer made is no training data, and neither are text and shards together. */
static void refuses_other_kinds(void **state) {
    char path[600];
    ls_tokenizer *tokenizer = bytes_tokenizer();
    snprintf(path, sizeof path, "%s", write_shard(state, "other.tokens", 256, 40, false));
    const char *text = scratch_text(state, "some.txt", "text"), *paths[] = {path, text, path};
    ls_data *data = NULL;
    ls_data_options options = {.paths = paths, .n_paths = 1, .tokenizer = tokenizer, .sequence = 16};
    assert_error(ls_data_open(&options, &data), LS_INVALID, path, "made by the tokenizer 000000000000004d of 256");
    options.n_paths = 2;
    assert_error(ls_data_open(&options, &data), LS_INVALID, "one or the other", "some.txt text");
    options.paths = paths + 1;
    assert_error(ls_data_open(&options, &data), LS_INVALID, "one or the other", "other.tokens token shards");
    ls_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_back),
        cmocka_unit_test(refuses_hostile_headers),
        cmocka_unit_test(sees_every_changed_byte),
        cmocka_unit_test(refuses_wrong_ids),
        cmocka_unit_test(refuses_other_kinds),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
