/* Packed documents: each has the loss and the gradient of the document alone, on any mesh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/train.h"

#include "model/model.h"
#include "train/train.h"

enum { S = 61, V = 256, ROWS = 2, DOCUMENTS = 6 };

/* Which document goes where: row, first place, inputs. The rest of a row is padding, as a document of its own. */
static const struct {
    int row, first, length;
} where[DOCUMENTS] = {{0, 0, 17}, {0, 17, 1}, {0, 18, 40}, {1, 0, 5}, {1, 5, 30}, {1, 35, 26}};

static int32_t id_of(int document, int i) { return (int32_t)ls_rng_below(3, (uint64_t)document, (uint64_t)i, V); }

static void put_document(int document, int at, bool asked, ls_sample *out) {
    for (int i = 0; i < where[document].length; i++) {
        out->tokens[at + i] = id_of(document, i);
        out->labels[at + i] = asked ? id_of(document, i + 1) : LS_LABEL_IGNORED;
        out->positions[at + i] = i;
    }
    out->ends[out->n_ends++] = at + where[document].length;
}

static void begin(ls_sample *out) {
    for (int i = 0; i < S; i++) {
        out->tokens[i] = 9;
        out->labels[i] = LS_LABEL_IGNORED;
        out->positions[i] = i;
    }
    out->ends[0] = 0;
    out->n_ends = 1;
}

static void finish(ls_sample *out) {
    const int32_t last = out->ends[out->n_ends - 1];
    if (last == S) return;
    for (int32_t i = last; i < S; i++) out->positions[i] = i - last;
    out->ends[out->n_ends++] = S;
}

/* Memory of a whole sequence. */
typedef struct whole_row {
    int32_t tokens[S], labels[S], positions[S], ends[S + 1];
} whole_row;

static ls_sample sample_in(whole_row *row) {
    return (ls_sample){.tokens = row->tokens, .labels = row->labels, .positions = row->positions, .ends = row->ends};
}

/* Row `index` of the packed batch; *context: the document whose labels are wanted, -1: all. */
static ls_status packed(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    const int asked = *(const int *)context;
    whole_row row;
    ls_sample whole = sample_in(&row);
    begin(&whole);
    for (int d = 0; d < DOCUMENTS; d++)
        if (where[d].row == index % ROWS) put_document(d, where[d].first, asked < 0 || asked == d, &whole);
    finish(&whole);
    ls_sample_take(&whole, S, part, out);
    return ls_ok();
}

/*
 * Sequence `index` is document `index` alone, at the start, without bounds; the rest has no labels. *context as above.
 */
static ls_status alone(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    const int asked = *(const int *)context;
    whole_row row;
    ls_sample whole = sample_in(&row);
    begin(&whole);
    if (index < DOCUMENTS) put_document((int)index, 0, asked < 0 || asked == index, &whole);
    whole.positions = NULL;
    ls_sample_take(&whole, S, part, out);
    return ls_ok();
}

/*
 * The same rows with documents that see each other give other numbers, so the tests above would notice ignored bounds.
 */
static ls_status joined(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    LS_TRY(packed(context, index, part, out));
    out->ends[1] = S;
    out->n_ends = 2;
    return ls_ok();
}

typedef struct figures {
    double packed[DOCUMENTS], alone[DOCUMENTS]; /* losses of each document */
    double again;                               /* of the first one alone, after packed ones */
    ls_step_report step;
} figures;

typedef struct work {
    const ls_model *model;
    int64_t B;         /* of the graph */
    int64_t micro;     /* micro-batches of a step */
    bool evaluates;    /* else one step of all documents */
    bool packs, joins; /* joins: without the bounds */
} work;

static ls_status evaluate(const ls_rank *rank, figures *out) {
    for (int d = 0; d < DOCUMENTS; d++) {
        const ls_sequences together = {.sample = packed, .context = &d}, each = {.sample = alone, .context = &d};
        LS_TRY(ls_rank_evaluate(rank, &(ls_evaluation){.from = &each, .n = DOCUMENTS}, &out->alone[d]));
        LS_TRY(ls_rank_evaluate(rank, &(ls_evaluation){.from = &together, .n = ROWS}, &out->packed[d]));
    }
    const int first = 0;
    const ls_sequences each = {.sample = alone, .context = &first};
    return ls_rank_evaluate(rank, &(ls_evaluation){.from = &each, .n = DOCUMENTS}, &out->again);
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const work *w = input;
    figures *out = result;
    const int all = -1;
    const ls_sequences together = {.sample = w->joins ? joined : packed, .context = &all};
    const ls_sequences each = {.sample = alone, .context = &all};
    const ls_step_hyper hyper = {1e-3, 0, 0.9, 0.95};
    ls_weight_source source;
    ls_trainer *trainer = NULL;
    LS_TRY(ls_model_weights(w->model, rank->image, 7, &source));
    ls_status status = ls_weights_fill(rank->executor, &source);
    ls_weights_close(&source);
    if (status.code == LS_OK) status = ls_trainer_create(rank, w->B, w->micro, S, LS_MEAN_LABELS, &trainer);
    if (status.code == LS_OK && w->evaluates) status = evaluate(rank, out);
    if (status.code == LS_OK && !w->evaluates)
        status = ls_trainer_step(trainer, w->packs ? &together : &each, 0, &hyper, (ls_wish){LS_STOP_NOT}, &out->step);
    ls_trainer_destroy(trainer);
    return status;
}

static figures run(void **state, work w, const ls_spread *spread) {
    ls_model *model;
    ls_language_model lm;
    ls_graph *graph = ls_graph_create(LS_F32);
    assert_ok(ls_model_open(tiny_model(state), &model));
    assert_ok(ls_model_build(model, graph, w.B, S, true, &lm));
    static const int32_t whole[] = {0, S};
    const ls_mask_term typical = {.kind = LS_MASK_DOCUMENTS, .ends = whole, .n_ends = 2};
    const ls_job job = {.graph = graph,
                        .programs = ls_training_programs(graph, lm.forward_nodes, LS_UPDATE_APPLY, w.micro > 1),
                        .documents = &typical, /* sequences may hold several */
                        .n_documents = 1,
                        .hyper = {0.9, 0.95, 1e-8, 0.1}};
    ls_session *session;
    figures out = {.again = 0};
    w.model = model;
    assert_ok(ls_session_open(&job, spread, &session));
    assert_ok(ls_session_run(session, on_rank, &w, &out, sizeof out));
    ls_session_close(session);
    ls_graph_destroy(graph);
    ls_model_close(model);
    return out;
}

static const ls_spread spreads[] = {
    {.ranks = 1, .threads = 2},
    {.ranks = 2, .threads = 1, .strategy = "ring", .layout = "zigzag", .transfers = "put"},
    {.ranks = 2, .threads = 1, .strategy = "ring", .layout = "striped", .transfers = "in-place"},
    {.ranks = 2, .threads = 1, .strategy = "ulysses"},
    {.ranks = 2, .threads = 1, .strategy = "gather", .layout = "contiguous"},
    {.ranks = 2, .threads = 1, .strategy = "tokenring", .layout = "zigzag"},
    {.ranks = 2, .threads = 1, .strategy = "burst", .layout = "zigzag"},
    {.ranks = 2, .threads = 1, .strategy = "rsa", .layout = "striped"},
    {.ranks = 4, .threads = 1, .mesh = "outer=2,ring=2", .layout = "zigzag"},
    {.ranks = 2, .threads = 1, .mesh = "dp=2"},
    {.ranks = 4, .threads = 1, .mesh = "ring=2,ulysses=2"},
};

static void assert_close(const char *what, const ls_spread *spread, double is, double expected) {
    if (!(fabs(is - expected) <= 1e-5 * fabs(expected)))
        fail_msg("%s on %lld ranks (%s): %.9g, alone %.9g", what, (long long)spread->ranks,
                 spread->strategy != NULL ? spread->strategy : "auto", is, expected);
}

static void losses_are_those_of_documents_alone(void **state) {
    for (size_t i = 0; i < LS_COUNT(spreads); i++) {
        ls_spread spread = spreads[i];
        spread.as_threads = sanitized_by("thread");
        const work w = {.B = ROWS, .micro = 1, .evaluates = true};
        const figures f = run(state, w, &spread);
        for (int d = 0; d < DOCUMENTS; d++) assert_close("loss", &spread, f.packed[d], f.alone[d]);
        assert_true(f.again == f.alone[0]); /* nothing stays of what was packed */
    }
}

static void gradients_are_those_of_documents_alone(void **state) {
    const work each = {.B = 1, .micro = DOCUMENTS};
    const figures expected = run(state, each, &spreads[0]);
    assert_true(expected.step.applied && expected.step.tokens == 17 + 1 + 40 + 5 + 30 + 26);
    for (size_t i = 0; i < LS_COUNT(spreads); i++) {
        ls_spread spread = spreads[i];
        spread.as_threads = sanitized_by("thread");
        const bool dp = spread.mesh != NULL && strcmp(spread.mesh, "dp=2") == 0;
        const work w = {.B = dp ? ROWS : 1, .micro = dp ? 1 : ROWS, .packs = true};
        const figures f = run(state, w, &spread);
        assert_int_equal(f.step.tokens, expected.step.tokens);
        assert_close("mean loss", &spread, f.step.loss, expected.step.loss);
        assert_close("norm of the gradient", &spread, f.step.grad_norm, expected.step.grad_norm);
    }
}

static void bounds_matter(void **state) {
    const work w = {.B = ROWS, .micro = 1, .packs = true}, see = {.B = ROWS, .micro = 1, .packs = true, .joins = true};
    const figures apart = run(state, w, &spreads[0]), together = run(state, see, &spreads[0]);
    assert_true(apart.step.data_hash == together.step.data_hash && apart.step.data_hash != 0);
    assert_true(fabs(apart.step.loss - together.step.loss) > 1e-4 * apart.step.loss);
}

/* The rows of the second dp replica cannot be read. */
static ls_status half_readable(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    if (index % ROWS == 1) return ls_error(LS_INVALID, "row %lld cannot be read", (long long)index);
    return packed(context, index, part, out);
}

static ls_status train_and_evaluate(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const int all = -1;
    const ls_sequences from = {.sample = half_readable, .context = &all};
    ls_trainer *trainer = NULL;
    ls_step_report report;
    double loss;
    LS_TRY(ls_trainer_create(rank, ROWS, 1, S, LS_MEAN_LABELS, &trainer));
    const bool evaluates = *(const bool *)input;
    const ls_step_hyper hyper = {1e-3, 0, 0.9, 0.95};
    const ls_status status = evaluates ? ls_rank_evaluate(rank, &(ls_evaluation){.from = &from, .n = ROWS}, &loss)
                                       : ls_trainer_step(trainer, &from, 0, &hyper, (ls_wish){LS_STOP_NOT}, &report);
    ls_trainer_destroy(trainer);
    return status;
}

/* Only one rank reads these rows; both fail, with its reason. */
static void who_cannot_read_says_so(void **state) {
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        ls_model *model;
        ls_language_model lm;
        ls_graph *graph = ls_graph_create(LS_F32);
        assert_ok(ls_model_open(tiny_model(state), &model));
        assert_ok(ls_model_build(model, graph, ROWS, S, true, &lm));
        const ls_job job = {.graph = graph,
                            .programs = ls_training_programs(graph, lm.forward_nodes, LS_UPDATE_APPLY, 0),
                            .hyper = {0.9, 0.95, 1e-8, 0.1}};
        const ls_spread spread = {.ranks = 2, .threads = 1, .mesh = "dp=2", .as_threads = sanitized_by("thread")};
        ls_session *session;
        const bool evaluation = evaluates == 1;
        assert_ok(ls_session_open(&job, &spread, &session));
        assert_error(ls_session_run(session, train_and_evaluate, &evaluation, NULL, 0), LS_INVALID,
                     "rank 1: row 1 cannot be read", "");
        ls_session_close(session);
        ls_graph_destroy(graph);
        ls_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_documents_alone),
        cmocka_unit_test(gradients_are_those_of_documents_alone),
        cmocka_unit_test(bounds_matter),
        cmocka_unit_test(who_cannot_read_says_so),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
