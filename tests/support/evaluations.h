/* Evaluations while training, with several batches and meshes, against `longspan eval` of the same weights. */
#ifndef TESTS_EVALUATIONS_H
#define TESTS_EVALUATIONS_H

#include "train.h"

#include "longspan/eval.h"

enum { EVALUATION_SEQ = 32, EVALUATION_SETTINGS = 9 };

typedef struct evaluation_setting {
    int64_t batch, accumulate, ranks;
    const char *mesh;
} evaluation_setting;

static const evaluation_setting evaluation_settings[EVALUATION_SETTINGS] = {
    {1, 1, 1, "dp=1"},  {2, 1, 1, "dp=1"},   {4, 1, 1, "dp=1"},        {8, 2, 1, "dp=1"},      {4, 1, 2, "dp=2"},
    {12, 2, 2, "dp=2"}, {3, 1, 2, "ring=2"}, {8, 1, 4, "dp=2,ring=2"}, {4, 1, 4, "dp=2,tp=2"},
};

/* The last evaluation of a step that leaves the random weights as they are; *out: its folder. */
static inline double evaluate_in_training(void **state, const evaluation_setting *s, const char *text,
                                          int64_t sequences, char *out, size_t room) {
    run_paths *p = make_paths(state, "evaluated");
    ls_train_options o = tiny_options(p->model, p->data, p->out);
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(ls_file_remove_tree(p->out));
    o.seq = EVALUATION_SEQ;
    o.batch = s->batch;
    o.accumulate = s->accumulate;
    o.steps = 1;
    o.lr = 1e-30; /* so the reference, too, is of the random weights */
    o.warmup = 0;
    o.eval_data = text;
    o.eval_sequences = sequences;
    o.spread = (ls_spread){.ranks = s->ranks, .threads = 1, .mesh = s->mesh, .as_threads = true};
    assert_ok(train_into(&o, &result));
    const double loss = result.eval_loss;
    snprintf(out, room, "%s", p->out);
    free(p);
    return loss;
}

/*
 * Evaluations of a text of n sequences, with settings first, first + every, ...: the loss must be that of `longspan
 * eval` to 1e-6. Losses are near 5.5, and each of their terms is rounded to 3e-7.
 */
static inline void check_evaluations(void **state, int64_t n, int64_t first, int64_t every) {
    char text[600], out[600];
    double expected = NAN;
    snprintf(text, sizeof text, "%s", make_text(state, "evaluation.txt", (size_t)(n * EVALUATION_SEQ)));
    assert_int_equal(truncate(text, n * EVALUATION_SEQ), 0); /* with the end of document, n sequences */
    for (int64_t i = first; i < EVALUATION_SETTINGS; i += every) {
        const evaluation_setting *s = &evaluation_settings[i];
        const double loss = evaluate_in_training(state, s, text, 0, out, sizeof out);
        if (isnan(expected)) {
            const char *paths[] = {text};
            const ls_eval_options o = {.checkpoint = out,
                                       .data = paths,
                                       .n_data = 1,
                                       .seq = EVALUATION_SEQ,
                                       .spread = {.ranks = 1, .threads = 1, .as_threads = true}};
            ls_eval_result result;
            assert_ok(ls_evaluate(&o, &result));
            assert_int_equal(result.text_sequences, n);
            expected = result.table.all.loss;
        }
        if (!(fabs(loss - expected) <= 1e-6))
            fail_msg("%lld sequences, batch %lld in %lld, %s: %.9f, eval %.9f", (long long)n, (long long)s->batch,
                     (long long)s->accumulate, s->mesh, loss, expected);
    }
}

#endif
