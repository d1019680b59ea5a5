/* The words of a teacher stand at the label in whose place they are, for each packer, also where a sequence is read in
 * parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

enum { DOCUMENTS = 40, LONGEST = 90, S = 32, WORDS = 2, PLACES = 100 };

/* Whether token i of a document is learnt; the last one is, as it is not always the end of document. */
static bool is_learnt(int64_t document, int64_t i, int64_t length) {
    return i + 1 == length ? document % 2 == 0 : ls_rng_below(3, (uint64_t)document, (uint64_t)i, 4) > 0;
}

static int64_t length_of(int64_t document) { return 3 + (int64_t)ls_rng_below(1, (uint64_t)document, 0, LONGEST); }

/* The words in a token's place are the number of its document, and its own, from PLACES on; rows of tokens that are not
 * learnt are empty, or wrong. */
static const char *write_records(void **state) {
    const char *path = scratch_path(state, "words.jsonl");
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (int64_t d = 0; d < DOCUMENTS; d++) {
        const int64_t n = length_of(d);
        fprintf(out, "{\"input_ids\": [");
        for (int64_t i = 0; i < n; i++) fprintf(out, "%s%d", i > 0 ? "," : "", i + 1 < n ? 7 : 0);
        fprintf(out, "], \"labels\": [");
        for (int64_t i = 0; i < n; i++)
            fprintf(out, "%s%d", i > 0 ? "," : "", !is_learnt(d, i, n) ? -100 : i + 1 < n ? 7 : 0);
        fprintf(out, "], \"teacher_ids\": [");
        for (int64_t i = 0; i < n; i++) {
            if (i > 0) fprintf(out, ",");
            if (i > 0 && is_learnt(d, i, n))
                fprintf(out, "[%lld,%lld]", (long long)d, (long long)(PLACES + i));
            else
                fprintf(out, i % 2 == 0 ? "[]" : "[999]");
        }
        fprintf(out, "], \"teacher_logprobs\": [");
        for (int64_t i = 0; i < n; i++)
            fprintf(out, is_learnt(d, i, n) ? "%s[-%lld,-9]" : "%snull", i > 0 ? "," : "", (long long)(i + 1));
        fprintf(out, "]}\n");
    }
    assert_int_equal(fclose(out), 0);
    return path;
}

typedef struct row {
    int32_t tokens[S], labels[S], ids[S * WORDS];
    float logprobs[S * WORDS];
} row;

static ls_sample sample_in(row *r) {
    return (ls_sample){
        .tokens = r->tokens, .labels = r->labels, .teacher_ids = r->ids, .teacher_logprobs = r->logprobs};
}

/* The document of the label of each input, and its place there; document -1: there is no label. */
static void find_labels(const ls_data *data, int64_t index, int64_t document[S], int64_t place[S]) {
    ls_data_piece pieces[S + 1];
    int64_t n = 0;
    assert_ok(ls_data_pieces(data, index, pieces, &n));
    for (int64_t i = 0; i < S; i++) document[i] = -1;
    for (int64_t k = 0; k < n; k++) {
        const bool apart = ls_data_apart(data);
        for (int64_t i = 0; i < pieces[k].length; i++) {
            const int64_t at = pieces[k].place + i - !apart; /* of joined documents this token is the label before it */
            if (at < 0) continue;
            document[at] = pieces[k].document;
            place[at] = pieces[k].offset + i + apart;
        }
    }
}

/* Returns how many learnt labels were looked at. */
static int64_t check(const row *r, const int64_t document[S], const int64_t place[S], const ls_layout_run *run,
                     int64_t from) {
    int64_t learnt = 0;
    for (int64_t i = 0; i < run->count; i++) {
        const int64_t at = run->first + i * run->step;
        const int32_t *ids = r->ids + (from + i) * WORDS;
        const float *logprobs = r->logprobs + (from + i) * WORDS;
        if (document[at] < 0 && at == S - 1) continue; /* the label that only closes a joined sequence */
        const bool is =
            document[at] >= 0 && place[at] > 0 && is_learnt(document[at], place[at], length_of(document[at]));
        assert_int_equal(r->labels[from + i] != -100, is);
        assert_int_equal(ids[0], is ? document[at] : -100);
        assert_int_equal(ids[1], is ? PLACES + place[at] : -100);
        assert_true(logprobs[0] == (is ? -(float)(place[at] + 1) : 0.0F) && logprobs[1] == (is ? -9.0F : 0.0F));
        learnt += is;
    }
    return learnt;
}

static void words_are_at_their_labels(void **state) {
    static const char *const packs[] = {"join", "best", "stream"};
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const char *path = write_records(state);
    for (size_t c = 0; c < LS_COUNT(packs) * 2; c++) {
        const ls_data_options options = {
            .paths = &path,
            .n_paths = 1,
            .tokenizer = tokenizer,
            .form = {.records = "teacher", .too_long = "split", .end = c % 2 == 0 ? "auto" : "none"},
            .sequence = S,
            .shuffle = true,
            .pack = packs[c / 2]};
        ls_data *data = NULL;
        double temperature;
        int64_t learnt = 0;
        assert_ok(ls_data_open(&options, &data));
        assert_int_equal(ls_data_teacher(data, &temperature), WORDS);
        assert_true(temperature == 1);
        for (int64_t index = 0; index < ls_data_summarise(data)->windows; index++) {
            row whole, part;
            int64_t document[S], place[S];
            ls_sample sample = sample_in(&whole), some = sample_in(&part);
            const ls_layout_run all = {0, S, 1}, odd[] = {{5, 9, 1}, {15, 8, 2}};
            find_labels(data, index, document, place);
            assert_ok(ls_data_read(data, index, NULL, &sample));
            learnt += check(&whole, document, place, &all, 0);
            assert_ok(ls_data_read(data, index, &(ls_data_part){odd, 2}, &some));
            (void)check(&part, document, place, &odd[0], 0);
            (void)check(&part, document, place, &odd[1], odd[0].count);
        }
        assert_true(learnt > DOCUMENTS * 20);
        ls_data_close(data);
    }
    ls_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_at_their_labels)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
