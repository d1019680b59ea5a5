/*
 * Recall: texts follow their specification, an answer's loss equals that of the whole pass, and the grid is the
 * same over any ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#include "cli/cli.h"
#include "eval/eval_impl.h"

/* f32, of losses near 6. */
#define TOLERANCE 1e-5

enum { LENGTH = 320 };

static ls_tokenizer *bytes_tokenizer(void) {
    ls_tokenizer *tokenizer;
    assert_ok(ls_tokenizer_open(NULL, &tokenizer));
    return tokenizer;
}

/* A text of the byte-level tokenizer, as text. */
static ls_needle make_text_of(const ls_haystack *haystack, double depth, int64_t sample, char text[LENGTH + 1]) {
    int32_t ids[LENGTH];
    ls_needle needle;
    assert_ok(ls_needle_make(haystack, depth, sample, ids, &needle));
    for (int i = 0; i < LENGTH; i++) text[i] = (char)ids[i];
    text[LENGTH] = 0;
    return needle;
}

static void texts_hold_their_key(void **state) {
    (void)state;
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const ls_haystack haystack = {.tokenizer = tokenizer, .length = LENGTH, .samples = 3, .seed = 5};
    int64_t before = 0;
    int32_t keys[9];
    for (int i = 0; i < 9; i++) {
        char text[LENGTH + 1], again[LENGTH + 1], told[80], end[80];
        const double depth = i / 3 * 0.5;
        const ls_needle needle = make_text_of(&haystack, depth, i % 3, text);
        (void)make_text_of(&haystack, depth, i % 3, again);
        assert_memory_equal(text, again, LENGTH);
        snprintf(told, sizeof told, "\nThe pass key is %d. Remember it. The pass key is %d.\n", needle.key, needle.key);
        snprintf(end, sizeof end, "\n\nWhat is the pass key? The pass key is %d", needle.key);
        assert_in_range(needle.key, 10000, 99999);
        assert_int_equal(needle.n_answer, 6);
        assert_memory_equal(text + needle.at, told, strlen(told));
        assert_string_equal(text + LENGTH - strlen(end), end);
        if (i % 3 == 0) assert_true(needle.at > before); /* deeper */
        before = needle.at;
        keys[i] = needle.key;
        for (int k = 0; k < i; k++) assert_int_not_equal(keys[k], needle.key);
        /* At depth 0 no filler precedes the key, at depth 1 none follows it. */
        const char *grass = strstr(text, "The grass");
        assert_non_null(grass);
        assert_int_equal(grass > text + needle.at, depth == 0);
        if (depth == 1) assert_int_equal(needle.at + (int64_t)strlen(told) + (int64_t)strlen(end), LENGTH);
    }
    ls_tokenizer_close(tokenizer);
}

static void short_texts_are_refused(void **state) {
    (void)state;
    ls_tokenizer *tokenizer = bytes_tokenizer();
    const ls_haystack haystack = {.tokenizer = tokenizer, .length = 100, .samples = 1};
    int32_t ids[100];
    ls_needle needle;
    assert_error(ls_needle_make(&haystack, 0.5, 0, ids, &needle), LS_USAGE, "--lengths 100", "take");
    ls_tokenizer_close(tokenizer);
}

static void surprise_is_log_softmax(void **state) {
    (void)state;
    const float logits[5] = {1, 3, -2, 3, 700};
    bool likeliest;
    double sum = 0;
    for (int v = 0; v < 4; v++) sum += exp((double)logits[v]);
    assert_true(fabs(ls_recall_surprise(logits, 4, 0, &likeliest) - (log(sum) - 1)) < 1e-12);
    assert_false(likeliest);
    (void)ls_recall_surprise(logits, 4, 1, &likeliest);
    assert_true(likeliest);
    (void)ls_recall_surprise(logits, 4, 3, &likeliest); /* equal to the first */
    assert_false(likeliest);
    assert_true(fabs(ls_recall_surprise(logits, 5, 4, &likeliest)) < 1e-12);
    assert_true(likeliest);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static ls_recall_options small_options(const run_paths *p) {
    return (ls_recall_options){.model = p->model,
                               .lengths = {LENGTH, 288},
                               .n_lengths = 2,
                               .depths = 2,
                               .samples = 1,
                               .seed = 5,
                               .spread = {.ranks = 1, .threads = 1, .as_threads = sanitized_by("thread")}};
}

static void same_over_ranks(void **state) {
    static const struct {
        int64_t ranks;
        const char *mesh;
    } runs[] = {{1, NULL}, {2, "ring=2"}, {4, "ring=2,ulysses=2"}};
    run_paths *p = make_paths(state, "unused");
    ls_recall_result first;
    for (size_t i = 0; i < LS_COUNT(runs); i++) {
        ls_recall_options options = small_options(p);
        options.spread.ranks = runs[i].ranks;
        options.spread.mesh = runs[i].mesh;
        ls_recall_result result;
        assert_ok(ls_recall(&options, &result));
        if (i == 0) first = result;
        for (int c = 0; c < 4; c++) {
            const ls_recall_cell *a = &first.cell[c / 2][c % 2], *b = &result.cell[c / 2][c % 2];
            assert_int_equal(b->samples, 1);
            assert_int_equal(a->right, b->right);
            if (!(fabs(a->loss - b->loss) <= TOLERANCE))
                fail_msg("%d ranks, cell %d: loss %.9g, on one rank %.9g", (int)runs[i].ranks, c, b->loss, a->loss);
        }
    }
    assert_true(first.cell[0][0].loss != first.cell[0][1].loss);
    free(p);
}

/* The answer's loss in another way: one pass over the text, with the answer's labels only. */
static void loss_is_that_of_grad(void **state) {
    run_paths *p = make_paths(state, "unused");
    ls_recall_options options = small_options(p);
    options.data = p->data; /* text as filler */
    options.n_data = 1;
    ls_recall_result result;
    assert_ok(ls_recall(&options, &result));
    ls_tokenizer *tokenizer = bytes_tokenizer();
    ls_data *data;
    const ls_data_options how = {.paths = p->data, .n_paths = 1, .tokenizer = tokenizer, .sequence = LENGTH};
    assert_ok(ls_data_open(&how, &data));
    const ls_haystack haystack = {.tokenizer = tokenizer, .data = data, .length = LENGTH, .samples = 1, .seed = 5};
    int32_t ids[LENGTH], labels[LENGTH];
    ls_needle needle;
    assert_ok(ls_needle_make(&haystack, 1, 0, ids, &needle));
    for (int i = 0; i < LENGTH; i++)
        labels[i] = i + 1 < LENGTH && i + 1 >= LENGTH - needle.n_answer ? ids[i + 1] : -100;
    const int64_t size[2] = {1, LENGTH};
    char at[2][512];
    snprintf(at[0], sizeof at[0], "%s", scratch_path(state, "tokens.npy"));
    snprintf(at[1], sizeof at[1], "%s", scratch_path(state, "labels.npy"));
    assert_ok(ls_npy_write(at[0], LS_NPY_I4, 2, size, ids));
    assert_ok(ls_npy_write(at[1], LS_NPY_I4, 2, size, labels));
    const ls_grad_job job = {.model = p->model,
                             .tokens = at[0],
                             .labels = at[1],
                             .seed = 5,
                             .out = scratch_path(state, "grads.safetensors"),
                             .spread = options.spread};
    ls_grad_result grad;
    assert_ok(ls_run_grad(&job, &grad));
    assert_int_equal(grad.tokens, needle.n_answer);
    if (!(fabs(result.cell[0][1].loss - grad.loss) <= TOLERANCE))
        fail_msg("loss %.9g, grad says %.9g", result.cell[0][1].loss, grad.loss);
    ls_data_close(data);
    ls_tokenizer_close(tokenizer);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_hold_their_key),
                                       cmocka_unit_test(short_texts_are_refused),
                                       cmocka_unit_test(surprise_is_log_softmax), cmocka_unit_test(same_over_ranks),
                                       cmocka_unit_test(loss_is_that_of_grad)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
