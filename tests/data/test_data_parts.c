/* A sequence that is read in parts is the one that is read whole, and each part reads only its own bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

enum { DOCUMENTS = 150, LONGEST = 90, MOST_S = 96 };

/* Documents of random lengths; about one token in four is not learnt where `marks`. */
static const char *write_shard(void **state, const ls_tokenizer *tokenizer, bool marks) {
    const ls_shard_kind kind = {ls_tokenizer_fingerprint(tokenizer), 256, 0, marks};
    const char *path = scratch_path(state, marks ? "marks.tokens" : "plain.tokens");
    ls_shard_writer *w = NULL;
    ls_shard_header header;
    assert_ok(ls_shard_create(path, &kind, &w));
    for (uint64_t d = 0; d < DOCUMENTS; d++) {
        const uint64_t length = 1 + ls_rng_below(1, d, 0, LONGEST);
        for (uint64_t i = 1; i < length; i++) {
            const int32_t id = 1 + (int32_t)ls_rng_below(2, d, i, 255);
            const uint8_t learnt = ls_rng_below(3, d, i, 4) > 0;
            assert_ok(ls_shard_append(w, &id, &learnt, 1));
        }
        assert_ok(ls_shard_end_document(w, true));
    }
    assert_ok(ls_shard_finish(w, &header));
    return path;
}

typedef struct row {
    int32_t tokens[MOST_S], labels[MOST_S], positions[MOST_S], seen[MOST_S], ends[MOST_S + 1];
} row;

static ls_sample sample_in(row *r) {
    memset(r, 0x55, sizeof *r);
    return (ls_sample){
        .tokens = r->tokens, .labels = r->labels, .positions = r->positions, .seen = r->seen, .ends = r->ends};
}

static void assert_part(const ls_sample *whole, const ls_data_part *part, int64_t S, const ls_sample *is) {
    int64_t n = 0;
    for (int r = 0; r < part->n_runs; r++) {
        for (int64_t i = 0; i < part->runs[r].count; i++, n++) {
            const int64_t at = part->runs[r].first + i * part->runs[r].step;
            assert_int_equal(is->tokens[n], whole->tokens[at]);
            assert_int_equal(is->labels[n], whole->labels[at]);
            assert_int_equal(is->positions[n], whole->positions[at]);
            assert_int_equal(is->seen[n], whole->seen[at]);
        }
    }
    if (n < S) assert_int_equal(is->tokens[n], 0x55555555); /* nothing after it was touched */
    assert_int_equal(is->n_ends, whole->n_ends);
    assert_memory_equal(is->ends, whole->ends, sizeof *is->ends * (size_t)whole->n_ends);
}

/* Of a part without marks: a byte for each input, and one for the label after each run of them in each passage. */
static int64_t most_bytes(const ls_data_part *part, int64_t passages) {
    int64_t bytes = 0;
    for (int r = 0; r < part->n_runs; r++) {
        const ls_layout_run *run = &part->runs[r];
        bytes += run->count + (run->step == 1 ? passages : run->count);
    }
    return bytes;
}

static void read_in_parts(const ls_data *data, int64_t index, int64_t S, const ls_layout *layout, bool marks) {
    row rows[2];
    ls_sample whole = sample_in(&rows[0]);
    assert_ok(ls_data_read(data, index, NULL, &whole));
    const ls_layout_run all = {0, S, 1};
    const uint64_t hash = ls_data_hash(7 * S, &(ls_data_part){&all, 1}, whole.tokens, whole.labels);
    uint64_t sum = 0;
    for (int p = 0; p < layout->P; p++) {
        ls_data_part part = {NULL, 0};
        ls_sample some = sample_in(&rows[1]);
        part.n_runs = ls_layout_runs(layout, p, &part.runs);
        assert_ok(ls_data_read(data, index, &part, &some));
        assert_part(&whole, &part, S, &some);
        sum += ls_data_hash(7 * S, &part, some.tokens, some.labels);
        ls_data_piece pieces[MOST_S + 1];
        int64_t n = 0;
        assert_ok(ls_data_pieces(data, index, pieces, &n));
        if (!marks) assert_true(some.bytes <= most_bytes(&part, n));
        ls_sample taken = sample_in(&rows[1]);
        if (!ls_data_apart(data))
            continue; /* what a label sees of a document is not what precedes it in the sequence */
        ls_sample_take(&whole, S, &part, &taken);
        taken.n_ends = whole.n_ends;
        for (int64_t i = 0; i < ls_layout_count(layout, p); i++)
            assert_int_equal(taken.seen[i], taken.positions[i] + 1);
        assert_part(&whole, &part, S, &taken);
    }
    assert_true(sum == hash);
}

static void parts_are_the_whole(void **state) {
    static const char *const packs[] = {"join", "best", "stream"};
    static const int64_t lengths[] = {5, 16, 61, MOST_S};
    ls_tokenizer *tokenizer = bytes_tokenizer();
    for (int marks = 0; marks < 2; marks++) {
        const char *path = write_shard(state, tokenizer, marks);
        for (size_t c = 0; c < LS_COUNT(packs) * LS_COUNT(lengths); c++) {
            const int64_t S = lengths[c / LS_COUNT(packs)];
            const ls_data_options options = {.paths = &path,
                                             .n_paths = 1,
                                             .tokenizer = tokenizer,
                                             .sequence = S,
                                             .shuffle = true,
                                             .pack = packs[c % LS_COUNT(packs)]};
            ls_data *data = NULL;
            assert_ok(ls_data_open(&options, &data));
            for (int P = 1; P <= 5; P++) {
                for (int kind = LS_LAYOUT_CONTIGUOUS; kind <= LS_LAYOUT_STRIPED; kind++) {
                    ls_arena *arena = ls_arena_create();
                    const ls_layout layout =
                        ls_layout_make(&(ls_layout_need){.kind = (ls_layout_kind)kind, .S = S, .P = P}, arena);
                    const int64_t windows = ls_data_summarise(data)->windows;
                    for (int64_t i = 0; i < windows; i += 1 + windows / 20) read_in_parts(data, i, S, &layout, marks);
                    ls_arena_destroy(arena);
                }
            }
            ls_data_close(data);
        }
    }
    ls_tokenizer_close(tokenizer);
}

/* Another token, label or place, or two that are exchanged, give another hash. */
static void hashes_tell_data_apart(void **state) {
    (void)state;
    enum { S = 4 };
    const ls_layout_run all = {0, S, 1};
    const ls_data_part part = {&all, 1};
    const int32_t tokens[S] = {1, 2, 3, 4}, labels[S] = {2, 3, 4, LS_LABEL_IGNORED};
    const int32_t swapped[S] = {2, 1, 3, 4}, ignored[S] = {2, 3, LS_LABEL_IGNORED, LS_LABEL_IGNORED};
    const uint64_t hash = ls_data_hash(0, &part, tokens, labels);
    assert_true(hash != 0 && hash == ls_data_hash(0, &part, tokens, labels));
    assert_true(hash != ls_data_hash(S, &part, tokens, labels));
    assert_true(hash != ls_data_hash(0, &part, swapped, labels));
    assert_true(hash != ls_data_hash(0, &part, tokens, ignored));
    assert_true(hash != ls_data_hash(0, &part, labels, tokens));
}

/* Where no token is wanted, none is read: what the index says is enough. */
static void bounds_are_known_without_tokens(void **state) {
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const char *path = write_shard(state, tokenizer, false);
    const ls_data_options options = {
        .paths = &path, .n_paths = 1, .tokenizer = tokenizer, .sequence = MOST_S, .pack = "stream"};
    ls_data *data = NULL;
    assert_ok(ls_data_open(&options, &data));
    row rows[2];
    ls_sample whole = sample_in(&rows[0]), bounds = sample_in(&rows[1]);
    bounds.tokens = bounds.labels = NULL;
    assert_ok(ls_data_read(data, 1, NULL, &whole));
    assert_ok(ls_data_read(data, 1, NULL, &bounds));
    assert_true(whole.bytes >= MOST_S && bounds.bytes == 0);
    assert_memory_equal(bounds.seen, whole.seen, sizeof rows[0].seen);
    assert_memory_equal(bounds.positions, whole.positions, sizeof rows[0].positions);
    assert_int_equal(bounds.n_ends, whole.n_ends);
    assert_memory_equal(bounds.ends, whole.ends, sizeof *bounds.ends * (size_t)whole.n_ends);
    ls_data_close(data);
    ls_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_the_whole), cmocka_unit_test(hashes_tell_data_apart),
                                       cmocka_unit_test(bounds_are_known_without_tokens)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
