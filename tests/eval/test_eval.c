/*
 * Evaluation: the table agrees with its definition, the loss with that of `grad`, and the numbers are the same over
 * any ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#include "cli/cli.h"
#include "data/data.h"
#include "eval/eval.h"
#include "longspan/eval.h"
#include "session/session.h"

/* Mean losses are near 6; f32 rounding over ranks. */
#define RANKS_TOLERANCE 1e-5

/* --- the table ---------------------------------------------------------------------------------------------------- */

enum { S = 12, SEQUENCES = 3, END = 7 };

/* The tokens before each label tokens[i], counted backwards: a document begins after each END. */
static int64_t count_before(const int32_t *tokens, int64_t i) {
    int64_t n = 0;
    while (i >= 0 && tokens[i] != END) {
        n++;
        i--;
    }
    return n;
}

typedef struct expected {
    int64_t tokens;
    double loss, error;
} expected;

/*
 * Mean and standard error over the tokens whose count lies in [first, last], by the formula of a ratio of sums over
 * sequences.
 */
static expected expect(int32_t tokens[SEQUENCES][S], int32_t labels[SEQUENCES][S], float losses[SEQUENCES][S],
                       int64_t first, int64_t last) {
    double sum[SEQUENCES] = {0}, n[SEQUENCES] = {0}, all = 0, count = 0, scatter = 0, groups = 0;
    for (int s = 0; s < SEQUENCES; s++) {
        for (int64_t i = 0; i < S; i++) {
            const int64_t before = count_before(tokens[s], i);
            if (labels[s][i] == LS_LABEL_IGNORED || before < first || before > last) continue;
            sum[s] += (double)losses[s][i];
            n[s]++;
        }
        all += sum[s];
        count += n[s];
        groups += n[s] > 0;
    }
    for (int s = 0; s < SEQUENCES; s++) scatter += pow(sum[s] - all / count * n[s], 2);
    return (expected){(int64_t)count, all / count, sqrt(scatter * groups / (groups - 1)) / count};
}

static void assert_bin(const ls_loss_bin *bin, expected e) {
    assert_int_equal(bin->tokens, e.tokens);
    assert_true(fabs(bin->loss - e.loss) <= 1e-12);
    if (isfinite(e.error))
        assert_true(fabs(bin->error - e.error) <= 1e-12);
    else
        assert_false(isfinite(bin->error));
}

static void table_is_its_definition(void **state) {
    (void)state;
    int32_t tokens[SEQUENCES][S], labels[SEQUENCES][S];
    float losses[SEQUENCES][S];
    static ls_loss_sums sums;
    for (int s = 0; s < SEQUENCES; s++) {
        for (int i = 0; i < S; i++) {
            tokens[s][i] = s == 2 && (i == 0 || i == 5) ? END : 1;
            labels[s][i] = i % 5 == 3 ? LS_LABEL_IGNORED : 1;
            losses[s][i] = (float)ls_rng_uniform(3, 4, (uint64_t)(s * S + i));
        }
        int32_t seen[S];
        for (int i = 0; i < S; i++) seen[i] = (int32_t)count_before(tokens[s], i);
        const ls_sample sample = {.tokens = tokens[s], .labels = labels[s], .seen = seen};
        ls_loss_sums_add(&sums, S, &sample, losses[s]);
    }
    const ls_loss_table table = ls_loss_sums_table(&sums, INFINITY);
    static const int64_t first[] = {0, 1, 2, 3, 5, 9}, last[] = {0, 1, 2, 4, 8, 12};
    assert_int_equal(table.n, 6);
    assert_int_equal(table.sequences, SEQUENCES);
    for (int b = 0; b < table.n; b++) {
        assert_int_equal(table.bin[b].first, first[b]);
        assert_int_equal(table.bin[b].last, last[b]);
        assert_bin(&table.bin[b], expect(tokens, labels, losses, first[b], last[b]));
    }
    assert_bin(&table.all, expect(tokens, labels, losses, 0, S));
    assert_int_equal(table.bin[0].tokens, 2); /* behind the two ends */
}

/* Losses of 2 +- 1: 401 tokens give the mean to 0.05, 101 to 0.1. */
static void bins_hold_enough_tokens(void **state) {
    (void)state;
    enum { LONG = 1100, TEXTS = 2 };
    static const struct {
        double error;
        int n;
        int64_t last[8];
    } cases[] = {{0.1, 6, {64, 128, 256, 512, 1024, LONG}}, {0.05, 3, {256, 512, LONG}}, {0.01, 1, {LONG}}};
    static ls_loss_sums sums;
    static int32_t labels[LONG], seen[LONG];
    static float losses[LONG];
    for (int i = 0; i < LONG; i++) {
        labels[i] = 1;
        seen[i] = i + 1;
        losses[i] = i % 2 ? 1 : 3;
    }
    const ls_sample sample = {.labels = labels, .seen = seen};
    for (int s = 0; s < TEXTS; s++) ls_loss_sums_add(&sums, LONG, &sample, losses);
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        const ls_loss_table table = ls_loss_sums_table(&sums, cases[c].error);
        assert_int_equal(table.n, cases[c].n);
        for (int b = 0; b < table.n; b++) {
            const int64_t first = b > 0 ? cases[c].last[b - 1] + 1 : 1;
            assert_int_equal(table.bin[b].first, first);
            assert_int_equal(table.bin[b].last, cases[c].last[b]);
            assert_int_equal(table.bin[b].tokens, TEXTS * (cases[c].last[b] - first + 1));
            assert_true(fabs(table.bin[b].loss - 2) < 0.02);
        }
    }
}

static void nothing_counts_without_labels(void **state) {
    (void)state;
    int32_t labels[4] = {-100, -100, -100, -100}, seen[4] = {1, 2, 3, 4};
    const ls_sample sample = {.labels = labels, .seen = seen};
    const float losses[4] = {1, 1, 1, 1};
    static ls_loss_sums sums;
    ls_loss_sums_add(&sums, 4, &sample, losses);
    const ls_loss_table table = ls_loss_sums_table(&sums, INFINITY);
    assert_int_equal(table.n, 0);
    assert_false(isfinite(table.all.loss));
}

/* --- the command's call ------------------------------------------------------------------------------------------- */

static ls_eval_options small_options(const run_paths *p) {
    return (ls_eval_options){.model = p->model,
                             .data = p->data,
                             .n_data = 1,
                             .seq = 96,
                             .batch = 2,
                             .sequences = 5,
                             .spread = {.ranks = 1, .threads = 1, .as_threads = sanitized_by("thread")}};
}

static void same_over_ranks(void **state) {
    static const struct {
        int64_t ranks;
        const char *strategy, *mesh;
    } runs[] = {{1, NULL, NULL}, {2, "ring", NULL}, {4, "ulysses", NULL}, {4, "usp", "dp=2,ring=2"}};
    run_paths *p = make_paths(state, "unused");
    ls_eval_result first;
    for (size_t i = 0; i < LS_COUNT(runs); i++) {
        ls_eval_options options = small_options(p);
        options.spread.ranks = runs[i].ranks;
        options.spread.strategy = runs[i].strategy;
        options.spread.mesh = runs[i].mesh;
        ls_eval_result result;
        assert_ok(ls_evaluate(&options, &result));
        if (i == 0) first = result;
        assert_int_equal(result.table.sequences, 5);
        assert_int_equal(result.table.all.tokens, 5 * 96);
        assert_int_equal(result.table.n, first.table.n);
        for (int b = 0; b < first.table.n; b++) {
            assert_int_equal(result.table.bin[b].tokens, first.table.bin[b].tokens);
            assert_true(fabs(result.table.bin[b].loss - first.table.bin[b].loss) <= RANKS_TOLERANCE);
            assert_true(fabs(result.table.bin[b].error - first.table.bin[b].error) <= RANKS_TOLERANCE);
        }
    }
    assert_int_equal(first.table.bin[first.table.n - 1].last, 96);
    free(p);
}

/* Packed documents of a folder: the mean, also by distance, is that of the documents alone. */
static void packed_is_the_mean_of_documents(void **state) {
    enum { FILES = 5 };
    static const size_t bytes[FILES] = {160, 68, 384, 240, 120};
    run_paths *p = make_paths(state, "unused");
    char name[40];
    double loss = 0, tokens = 0, farthest = 0;
    ls_eval_options options = small_options(p);
    ls_eval_result result, alone;
    options.sequences = 0;
    options.pack = "best";
    options.seq = 384;
    options.batch = 1;
    assert_ok(ls_file_make_folders(scratch_path(state, "folder")));
    for (int i = 0; i < FILES; i++) {
        char text[512];
        for (size_t k = 0; k < bytes[i]; k++) text[k] = (char)('a' + ls_rng_below(5, (uint64_t)i, k, 26));
        snprintf(name, sizeof name, "folder/%d.txt", i);
        const char *path = scratch_file(state, name, text, bytes[i]);
        options.data = &path;
        assert_ok(ls_evaluate(&options, &alone));
        assert_int_equal(alone.table.all.tokens, bytes[i]); /* the end is a label, and no input */
        loss += alone.table.all.loss * (double)bytes[i];
        tokens += (double)bytes[i];
        if (bytes[i] == 384) farthest = alone.table.bin[alone.table.n - 1].loss;
    }
    const char *folder = scratch_path(state, "folder");
    options.data = &folder;
    options.batch = 2;
    options.spread.ranks = 2;
    assert_ok(ls_evaluate(&options, &result));
    assert_int_equal(result.text_sequences, 3);
    assert_int_equal(result.table.all.tokens, (int64_t)tokens);
    assert_true(fabs(result.table.all.loss - loss / tokens) <= RANKS_TOLERANCE);
    const ls_loss_bin *last = &result.table.bin[result.table.n - 1]; /* of the longest alone: 257 to 384 */
    assert_int_equal(last->first, 257);
    assert_true(fabs(last->loss - farthest) <= RANKS_TOLERANCE);
    free(p);
}

/* The first sequence of the text as files of tokens and labels, for another way to the same number. */
static void loss_is_that_of_grad(void **state) {
    run_paths *p = make_paths(state, "unused");
    ls_eval_options options = small_options(p);
    options.sequences = 1;
    options.batch = 1;
    ls_eval_result result;
    assert_ok(ls_evaluate(&options, &result));
    char *text;
    size_t bytes;
    assert_ok(ls_file_read(p->text, SIZE_MAX - 1, &text, &bytes));
    int32_t tokens[96], labels[96];
    for (int i = 0; i < 96; i++) {
        tokens[i] = (unsigned char)text[i];
        labels[i] = (unsigned char)text[i + 1];
    }
    free(text);
    const int64_t size[2] = {1, 96};
    char at[2][512];
    snprintf(at[0], sizeof at[0], "%s", scratch_path(state, "tokens.npy"));
    snprintf(at[1], sizeof at[1], "%s", scratch_path(state, "labels.npy"));
    assert_ok(ls_npy_write(at[0], LS_NPY_I4, 2, size, tokens));
    assert_ok(ls_npy_write(at[1], LS_NPY_I4, 2, size, labels));
    const ls_grad_job job = {.model = p->model,
                             .tokens = at[0],
                             .labels = at[1],
                             .out = scratch_path(state, "grads.safetensors"),
                             .spread = options.spread};
    ls_grad_result grad;
    assert_ok(ls_run_grad(&job, &grad));
    assert_int_equal(result.table.all.tokens, grad.tokens);
    if (!(fabs(result.table.all.loss - grad.loss) <= RANKS_TOLERANCE))
        fail_msg("loss %.9g, grad says %.9g", result.table.all.loss, grad.loss);
    free(p);
}

static void wrong_options_are_refused(void **state) {
    run_paths *p = make_paths(state, "unused");
    ls_eval_result result;
    ls_eval_options options = small_options(p);
    options.n_data = 0;
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--data", "missing");
    options = small_options(p);
    options.seq = -1;
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--seq -1", "");
    options = small_options(p);
    options.dtype = "f16";
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--dtype is f16", "f32 or bf16");
    options = small_options(p);
    options.checkpoint = *state;
    assert_error(ls_evaluate(&options, &result), LS_INVALID, "no checkpoint", "");
    options = small_options(p);
    options.model = NULL;
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--model", "--checkpoint");
    free(p);
}

/* The likeliest words need a file and a number that there is room for, and a temperature needs words. */
static void wrong_words_are_refused(void **state) {
    run_paths *p = make_paths(state, "unused");
    ls_eval_result result = {.perplexity = 0};
    ls_eval_options options = small_options(p);
    options.top = 65;
    options.logprobs = "words.jsonl";
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--top 65", "0 to 64 words");
    options.top = 4;
    options.logprobs = NULL;
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--top needs a file", "");
    options.logprobs = "words.jsonl";
    options.temperature = (double)NAN;
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--temperature nan", "0.001 to 1000");
    options.temperature = 2;
    options.top = 0;
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--temperature 2 needs --top", "");
    options.top = 4;
    options.pack = "join";
    assert_error(ls_evaluate(&options, &result), LS_USAGE, "--top with --pack join", "best or stream");
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_its_definition),         cmocka_unit_test(bins_hold_enough_tokens),
        cmocka_unit_test(nothing_counts_without_labels),   cmocka_unit_test(same_over_ranks),
        cmocka_unit_test(packed_is_the_mean_of_documents), cmocka_unit_test(loss_is_that_of_grad),
        cmocka_unit_test(wrong_options_are_refused),       cmocka_unit_test(wrong_words_are_refused)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
