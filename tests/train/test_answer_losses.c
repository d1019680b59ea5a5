/*
 * Losses of answers: their weights are the derivatives of the loss by finite differences, and where answers
 * are alike, or far apart, the loss is what the papers say.
 */
#include "train/train_impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const names[] = {"dpo", "ipo", "hinge", "simpo", "orpo", "reward", "kto"};
enum { PAIRS = 6 }; /* the losses of pairs come first */
#define SETTINGS(b, g, c) \
    { .beta = (b), .gamma = (g), .desirable = 1.5, .undesirable = 0.5, .divergence = 0.3, .centre = (c) }
static const ls_answer_settings settings[] = {SETTINGS(0.1, 0.5, 0), SETTINGS(2, 0.5, 0.01), SETTINGS(0.7, 0, 0)};
#define SUMS(o, r, n) \
    { .own = (o), .reference = (r), .tokens = (n) }

static const ls_answer_loss *find(const char *name) {
    const ls_answer_loss *row;
    bool distils;
    assert_int_equal(ls_loss_find(name, &row, &distils).code, LS_OK);
    return row;
}

/* Sums of so many tokens each, with a log-probability from -5 to -0.01. */
static void draw(uint64_t seed, ls_answer_sums out[2]) {
    for (uint64_t i = 0; i < 2; i++) {
        const int64_t tokens = 1 + (int64_t)ls_rng_below(seed, i, 0, 30);
        const double each = -0.01 - (double)ls_rng_below(seed, i, 1, 500) / 100;
        out[i] = (ls_answer_sums){.own = each * (double)tokens,
                                  .reference = each * (double)tokens * 1.1,
                                  .tokens = tokens,
                                  .margin = i == 0 ? (double)(seed % 5) / 2 : 0,
                                  .wanted = seed % 3 == 0};
    }
}

static void test_weights_are_derivatives(void **state) {
    (void)state;
    for (size_t l = 0; l < LS_COUNT(names); l++) {
        const ls_answer_loss *row = find(names[l]);
        for (uint64_t seed = 0; seed < 200; seed++) {
            const ls_answer_settings *s = &settings[seed % LS_COUNT(settings)];
            ls_answer_sums at[2];
            draw(seed, at);
            const ls_answers_loss found = row->of_pair(at, s);
            for (int i = 0; i < 2; i++) {
                /* A token's log-probability more is that much more of the sum. */
                const double h = 1e-5 * fmax(1, fabs(at[i].own));
                ls_answer_sums up[2] = {at[0], at[1]}, down[2] = {at[0], at[1]};
                up[i].own += h;
                down[i].own -= h;
                if ((row->of_pair(up, s).loss == 0) != (row->of_pair(down, s).loss == 0)) continue; /* hinge's corner */
                const double slope = (row->of_pair(up, s).loss - row->of_pair(down, s).loss) / (2 * h);
                if (fabs(slope - found.weight[i]) > 1e-6 * fmax(1, fabs(slope)))
                    fail_msg("%s, seed %d: answer %d has weight %.12g, and slope %.12g", names[l], (int)seed, i,
                             found.weight[i], slope);
            }
        }
    }
}

static void test_values(void **state) {
    (void)state;
    const ls_answer_settings s = SETTINGS(0.1, 0.5, 0);
    const ls_answer_sums alike[2] = {SUMS(-7, -7, 5), SUMS(-9, -9, 6)}; /* as the reference has them */
    assert_true(fabs(find("dpo")->of_pair(alike, &s).loss - log(2)) < 1e-15);
    assert_true(fabs(find("ipo")->of_pair(alike, &s).loss - 25) < 1e-12);
    assert_true(find("hinge")->of_pair(alike, &s).loss == 1);
    const ls_answer_sums equal[2] = {SUMS(-6, 0, 3), SUMS(-8, 0, 4)};                    /* means of -2 */
    assert_true(fabs(find("reward")->of_pair(equal, &s).loss - log1p(exp(-2))) < 1e-15); /* sums of -6 and -8 */
    const ls_answer_sums better[2] = {{.own = -6, .tokens = 3, .margin = 2},
                                      SUMS(-8, 0, 4)}; /* by as much as it has to be */
    assert_true(fabs(find("reward")->of_pair(better, &s).loss - log(2)) < 1e-15);
    const ls_answer_settings centred = SETTINGS(0.1, 0.5, 0.01); /* of (-6 - 8) squared */
    assert_true(fabs(find("reward")->of_pair(better, &centred).loss - log(2) - 1.96) < 1e-14);
    assert_true(fabs(find("simpo")->of_pair(equal, &s).loss - log1p(exp(0.5))) < 1e-15);
    assert_true(fabs(find("orpo")->of_pair(equal, &s).loss - 0.1 * log(2)) < 1e-15);
    /* Far apart nothing overflows, and nothing more is learnt. */
    const ls_answer_sums apart[2] = {SUMS(-1, -1e5, 3), SUMS(-1e5, -1, 4)};
    const ls_answer_sums wrong[2] = {apart[1], apart[0]};
    for (size_t l = 0; l < PAIRS; l++) {
        const ls_answers_loss good = find(names[l])->of_pair(apart, &s), bad = find(names[l])->of_pair(wrong, &s);
        assert_true(isfinite(good.loss) && isfinite(bad.loss));
        for (int i = 0; i < 2; i++) assert_true(isfinite(good.weight[i]) && isfinite(bad.weight[i]));
        if (l != 1) assert_true(fabs(good.weight[0]) < 1e-12); /* ipo aims at a distance */
        assert_true(good.loss < bad.loss);
    }
    const ls_answer_sums certain[2] = {SUMS(0, 0, 3), SUMS(-4, 0, 4)};
    assert_true(isfinite(find("orpo")->of_pair(certain, &s).loss));
}

/* A wanted answer that gains as much as the divergence, and another one, have half of their factor as loss. */
static void test_judged(void **state) {
    (void)state;
    const ls_answer_settings s = SETTINGS(0.1, 0, 0);
    for (int wanted = 0; wanted < 2; wanted++) {
        const double factor = wanted ? s.desirable : s.undesirable, way = wanted ? 1 : -1;
        ls_answer_sums a[2] = {SUMS(-7, -7.3, 5), SUMS(-90, -7, 4)};
        a[0].wanted = wanted;
        const ls_answers_loss middle = find("kto")->of_pair(a, &s);
        assert_true(fabs(middle.loss - factor / 2) < 1e-15 && middle.weight[1] == 0);
        assert_true(fabs(middle.weight[0] + way * factor * s.beta / 4) < 1e-15);
        a[0].own = way * 1e5; /* nothing overflows */
        assert_true(find("kto")->of_pair(a, &s).loss == 0);
        a[0].own = way * -1e5;
        const ls_answers_loss wrong = find("kto")->of_pair(a, &s);
        assert_true(wrong.loss == factor && wrong.weight[0] == 0);
    }
}

static void test_names(void **state) {
    (void)state;
    const ls_answer_loss *row = find("dpo");
    bool distils = true;
    assert_int_equal(ls_loss_find("sft", &row, &distils).code, LS_OK);
    assert_false(distils);
    assert_null(row);
    assert_int_equal(ls_loss_find("distil", &row, &distils).code, LS_OK);
    assert_true(distils);
    assert_null(row);
    const ls_status status = ls_loss_find("ppo", &row, &distils);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text,
                        "--loss is 'ppo'; known are sft, distil, dpo, ipo, hinge, simpo, kto, reward, orpo");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights_are_derivatives), cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_judged), cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
