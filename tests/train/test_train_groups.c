/*
 * Groups of parameters: their own learning rate and decay, or frozen; the same on any number of ranks, and kept by
 * --resume.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#define CURVE_TOLERANCE 1e-4 /* as in test_train.c */

static void train(ls_train_options *o, const char *const *groups, int n, int64_t ranks) {
    o->groups = groups;
    o->n_groups = n;
    o->spread.ranks = ranks;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(o, &result));
    assert_int_equal(result.steps, o->steps);
}

/* The bytes of a parameter in a run's checkpoint of a step; the caller frees them. */
static float *weights_of(const char *out, int64_t step, const char *name, size_t *count) {
    char path[600];
    ls_st_file *file;
    snprintf(path, sizeof path, "%s/checkpoint-%08lld/model.safetensors", out, (long long)step);
    assert_ok(ls_st_open(path, &file));
    const ls_st_tensor *t = ls_st_find(file, name);
    assert_non_null(t);
    float *copy = malloc(t->bytes);
    memcpy(copy, t->data, t->bytes);
    *count = t->bytes / sizeof *copy;
    ls_st_close(file);
    return copy;
}

static bool changes(const char *out, int64_t from, int64_t to, const char *name) {
    size_t n, m;
    float *a = weights_of(out, from, name, &n), *b = weights_of(out, to, name, &m);
    assert_int_equal(n, m);
    const bool differ = memcmp(a, b, n * sizeof *a) != 0;
    free(a);
    free(b);
    return differ;
}

/* Half of twice the rate is the rate, to the last bit; an explicit decay equal to the default changes nothing. */
static void factors_are_exact(void **state) {
    run_paths *plain = make_paths(state, "plain"), *halved = make_paths(state, "halved");
    ls_train_options a = tiny_options(plain->model, plain->data, plain->out);
    ls_train_options b = tiny_options(halved->model, halved->data, halved->out);
    a.steps = b.steps = 6;
    b.lr = 2 * a.lr;
    a.min_lr = a.lr / 4;
    b.min_lr = b.lr / 4;
    train(&a, NULL, 0, 2);
    train(&b, (const char *[]){"*:lr=0.5", "*layernorm*:lr=0.5,decay=0"}, 2, 2);
    assert_same_weights(a.out, b.out);
    free(plain);
    free(halved);
}

/* layer: the group of the first layer's parameters. */
static void compare_ranks(void **state, const char *layer) {
    const char *const groups[] = {layer, "*q_proj*:lr=3,decay=0.5", "model.embed_tokens.weight:decay=0"};
    static const int64_t ranks[] = {1, 2, 3};
    double *first = NULL;
    for (size_t i = 0; i < LS_COUNT(ranks); i++) {
        char name[32];
        snprintf(name, sizeof name, "ranks-%d%s", (int)ranks[i], strrchr(layer, ':') + 1);
        run_paths *p = make_paths(state, name);
        ls_train_options o = tiny_options(p->model, p->data, p->out);
        o.save_every = 1;
        o.steps = 12;
        o.accumulate = i == 0 ? 1 : 2; /* gradients that persist, and gradients that do not */
        train(&o, groups, LS_COUNT(groups), ranks[i]);
        double *loss = losses_written(p->out, 12);
        for (int step = 0; first != NULL && step < 12; step++)
            if (!(fabs(loss[step] - first[step]) <= CURVE_TOLERANCE))
                fail_msg("%d ranks, step %d: loss %.9g, on one rank %.9g", (int)ranks[i], step + 1, loss[step],
                         first[step]);
        assert_false(changes(p->out, 1, 12, "model.layers.0.mlp.up_proj.weight"));
        assert_false(changes(p->out, 1, 12, "model.layers.0.input_layernorm.weight"));
        assert_true(
            changes(p->out, 1, 12, "model.layers.0.self_attn.q_proj.weight")); /* the last that matches counts */
        assert_true(changes(p->out, 1, 12, "model.layers.1.mlp.up_proj.weight"));
        assert_true(changes(p->out, 1, 12, "model.embed_tokens.weight"));
        if (first == NULL)
            first = loss;
        else
            free(loss);
        free(p);
    }
    assert_true(first[11] < first[0] - 0.1);
    free(first);
}

static void same_on_any_number_of_ranks(void **state) { compare_ranks(state, "model.layers.0.*:frozen"); }
static void kept_in_another_type(void **state) { compare_ranks(state, "model.layers.0.*:frozen=bf16"); }

/*
 * Only the norm at the end is trained: the gradient's norm is that of its weight alone, and nothing before it is
 * differentiated.
 */
static void frozen_ones_have_no_gradient(void **state) {
    run_paths *p = make_paths(state, "frozen");
    ls_train_options o = tiny_options(p->model, p->data, p->out);
    o.steps = 2;
    o.save_every = 1;
    o.clip = -1;
    train(&o, (const char *[]){"*:frozen", "model.norm.weight:lr=1"}, 2, 2);
    char path[600];
    snprintf(path, sizeof path, "%s/checkpoint-%08d/optimizer.safetensors", o.out, 1);
    ls_st_file *file;
    assert_ok(ls_st_open(path, &file));
    double squares = 0;
    for (int64_t i = 0; i < ls_st_count(file); i++) {
        const ls_st_tensor *t = ls_st_at(file, i);
        float *value = malloc(t->bytes);
        memcpy(value, t->data, t->bytes);
        double sum = 0;
        for (int64_t e = 0; e < t->count; e++) sum += fabs((double)value[e]);
        if (strstr(t->name, "model.norm.weight") == NULL && sum != 0) fail_msg("%s is not zero", t->name);
        if (strcmp(t->name, "m model.norm.weight") == 0) {
            for (int64_t e = 0; e < t->count; e++) {
                const double g = (double)value[e] / (1 - 0.9); /* the first step's m is (1 - beta1)·g */
                squares += g * g;
            }
        }
        free(value);
    }
    ls_st_close(file);
    double *norm;
    int64_t rows;
    snprintf(path, sizeof path, "%s/metrics.jsonl", o.out);
    assert_ok(ls_jsonl_columns(path, (const char *[]){"grad_norm"}, 1, &norm, &rows));
    assert_true(squares > 0 && fabs(norm[0] - sqrt(squares)) < 1e-4 * norm[0]);
    free(norm);
    free(p);
}

static void refuse(const ls_train_options *options, const char *word, const char *also) {
    TRAIN_RESULT result = {.steps = 0};
    assert_error(train_into(options, &result), LS_USAGE, word, also);
}

static void bad_groups_are_refused(void **state) {
    static const struct {
        const char *group, *word, *also;
    } bad[] = {{"*", "--group '*'", "expected PATTERN:lr=X"},
               {":lr=1", "--group ':lr=1'", "expected PATTERN"},
               {"*:optimizer=muon", "--group '*:optimizer=muon'", "PATTERN:optimizer=adamw, several"},
               {"*:", "--group '*:'", "expected PATTERN"},
               {"*:lr=", "--group '*:lr='", "expected PATTERN"},
               {"*:lr=x", "--group '*:lr=x'", "expected PATTERN"},
               {"*:lr=-1", "--group '*:lr=-1'", "X from 0 to 1e6"},
               {"*:lr=nan", "--group '*:lr=nan'", "X from 0"},
               {"*:lr=1,", "--group '*:lr=1,'", "expected PATTERN"},
               {"*:frozenx", "--group '*:frozenx'", "frozen"},
               {"*:frozen=", "--group '*:frozen='", "frozen=bf16|f32"},
               {"*:frozen=f16", "--group '*:frozen=f16'", "frozen=bf16|f32"},
               {"model.norm.weigth:frozen", "matches no parameter", "model.norm.weight "},
               {"*:frozen", "freezes every parameter", ""}};
    run_paths *p = make_paths(state, "bad");
    ls_train_options o = tiny_options(p->model, p->data, p->out);
    for (size_t i = 0; i < LS_COUNT(bad); i++) {
        o.groups = &bad[i].group;
        o.n_groups = 1;
        refuse(&o, bad[i].word, bad[i].also);
    }
    free(p);
}

/* The head of a tied model is the embedding table, which the message names. */
static void names_what_a_head_is_tied_to(void **state) {
    static const char tied[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 32, "
        "\"intermediate_size\": 64, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\", "
        "\"tie_word_embeddings\": true}";
    run_paths *p = make_paths(state, "tied");
    ls_train_options o = tiny_options(scratch_text(state, "tied.json", tied), p->data, p->out);
    o.groups = (const char *[]){"lm_head*:frozen"};
    o.n_groups = 1;
    refuse(&o, "--group 'lm_head*:frozen': lm_head.weight is no parameter of its own",
           "it is model.embed_tokens.weight");
    free(p);
}

static void resume_keeps_them(void **state) {
    run_paths *whole = make_paths(state, "whole"), *cut = make_paths(state, "cut");
    const char *const groups[] = {"*mlp*:lr=0.25", "*norm*:frozen"};
    ls_train_options options = tiny_options(whole->model, whole->data, whole->out);
    options.schedule = "constant";
    options.steps = 8;
    train(&options, groups, 2, 2);
    options.out = cut->out;
    options.steps = 4;
    train(&options, groups, 2, 2);

    options.resume = true;
    options.steps = 8;
    options.groups = (const char *[]){"*mlp*:lr=0.25", "*norm*:lr=2"};
    refuse(&options, "--group *norm*:lr=2 contradicts", "*norm*:frozen");
    options.n_groups = 1;
    refuse(&options, "--group has 1 groups", "2");
    train(&options, NULL, 0, 2); /* none given: those of run.json */
    assert_same_weights(whole->out, cut->out);
    free(whole);
    free(cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_exact),      cmocka_unit_test(same_on_any_number_of_ranks),
        cmocka_unit_test(kept_in_another_type),   cmocka_unit_test(frozen_ones_have_no_gradient),
        cmocka_unit_test(bad_groups_are_refused), cmocka_unit_test(names_what_a_head_is_tied_to),
        cmocka_unit_test(resume_keeps_them),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
