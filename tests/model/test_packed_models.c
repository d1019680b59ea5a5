/*
 * Packed documents under each architecture: every document has the loss that it has alone, in a program of its own
 * length, and the gradient is the sum of theirs. Windows stay inside documents, learned positions begin anew. f32, on
 * 1, 2 and 4 ranks.
 *
 * Tolerances: of a loss 1e-5. Of a gradient 1e-5 by |g - g*| / max(|g*|, 1e-3 of the largest norm of any): f32 sums of
 * 45 tokens; or, where it is more, what the documents alone in f32 are off those in f64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "cli/cli.h"
#include "graph/graph.h"
#include "model/model.h"
#include "session/session.h"
#include "support/scratch.h"
#include "support/tensors.h"

#include <math.h>

static const double tolerance = 1e-5;

/*
 * Some documents are longer than the windows (12) of the models that have them. dynamic: S is more than the 16 that it
 * begins at.
 */
enum { S = 23, ROWS = 2, DOCUMENTS = 5, V = 48 };
static const struct {
    int row, first, length;
} where[DOCUMENTS] = {{0, 0, 16}, {0, 16, 1}, {0, 17, 5}, {1, 0, 3}, {1, 3, 20}};

static const struct {
    const char *name;
    ls_rope_change rope;
    bool own_length; /* false: its rotary positions go by the sequence's length, so documents alone are padded */
    bool convolves;  /* tokens need their neighbours, of which a striped layout has none */
} models[] = {{"llama", {NULL, 0}, true, false},      {"llama", {"dynamic:4:16", 0}, false, false},
              {"llama", {"yarn:4", 0}, true, false},  {"mistral", {NULL, 0}, true, false},
              {"qwen2", {NULL, 0}, true, false},      {"qwen3", {NULL, 0}, true, false},
              {"gpt2", {NULL, 0}, true, false},       {"gemma2", {NULL, 0}, true, false},
              {"gemma3", {NULL, 0}, true, false},     {"phi3", {NULL, 0}, false, false},
              {"olmo2", {NULL, 0}, true, false},      {"olmo3", {NULL, 0}, true, false},
              {"smollm3", {NULL, 0}, true, false},    {"granite", {NULL, 0}, true, false},
              {"ministral3", {NULL, 0}, true, false}, {"glm4", {NULL, 0}, true, false},
              {"cohere2", {NULL, 0}, true, false},    {"seed_oss", {NULL, 0}, true, false},
              {"starcoder2", {NULL, 0}, true, false}, {"qwen3_5", {NULL, 0}, true, true},
              {"mamba2", {NULL, 0}, true, true},      {"nemotron_h", {NULL, 0}, true, true}};

static const ls_spread alone = {.ranks = 1, .threads = 1, .as_threads = true};
static const ls_spread spreads[] = {
    {.ranks = 1, .threads = 2, .as_threads = true},
    {.ranks = 2, .threads = 1, .as_threads = true, .strategy = "ring", .layout = "zigzag", .transfers = "put"},
    {.ranks = 2, .threads = 1, .as_threads = true, .strategy = "ring", .layout = "striped", .transfers = "in-place"},
    {.ranks = 2, .threads = 1, .as_threads = true, .strategy = "ulysses"},
    {.ranks = 2, .threads = 1, .as_threads = true, .strategy = "gather", .layout = "contiguous"},
    {.ranks = 4, .threads = 1, .as_threads = true, .strategy = "ring", .layout = "zigzag"},
    {.ranks = 4, .threads = 1, .as_threads = true, .strategy = "usp", .mesh = "ring=2,ulysses=2"},
    {.ranks = 4, .threads = 1, .as_threads = true, .strategy = "gather", .layout = "striped"},
};

/* --- one run: a batch of sequences, and what comes of it ---------------------------------------------------------- */

typedef struct run {
    const ls_model *model;
    int64_t B, length; /* of the graph */
    bool packs;        /* else one document alone */
    int document;
    ls_dtype dtype; /* of the model; losses and gradients have its accumulator type */
    void *losses;   /* [ROWS * S] by token */
    /* [n] flat, as images lay parameters; of the sum of losses over the number of all documents' tokens */
    void *gradients;
    int64_t n;
} run;

static int32_t id_of(int document, int i) { return (int32_t)ls_rng_below(3, (uint64_t)document, (uint64_t)i, V); }

static int64_t tokens_of_all(void) {
    int64_t n = 0;
    for (int d = 0; d < DOCUMENTS; d++) n += where[d].length;
    return n;
}

static void put_document(int document, int at, ls_sample *out) {
    for (int i = 0; i < where[document].length; i++) {
        out->tokens[at + i] = id_of(document, i);
        out->labels[at + i] = id_of(document, i + 1);
        out->positions[at + i] = i;
    }
    out->ends[out->n_ends++] = at + where[document].length;
}

/*
 * Row `index`: its documents, then padding; or the one document, then padding that it sees as little as all that comes
 * later.
 */
static ls_status read_row(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    const run *r = context;
    int32_t tokens[S], labels[S], positions[S], ends[S + 1] = {0};
    ls_sample row = {.tokens = tokens, .labels = labels, .positions = positions, .ends = ends, .n_ends = 1};
    for (int64_t i = 0; i < r->length; i++) {
        tokens[i] = 9;
        labels[i] = LS_LABEL_IGNORED;
        positions[i] = (int32_t)i;
    }
    for (int d = 0; d < DOCUMENTS; d++)
        if (r->packs ? where[d].row == index : d == r->document) put_document(d, r->packs ? where[d].first : 0, &row);
    const int32_t last = ends[row.n_ends - 1];
    if (!r->packs) {
        ends[1] = (int32_t)r->length;
    } else if (last < r->length) {
        for (int32_t i = last; i < r->length; i++) positions[i] = i - last;
        ends[row.n_ends++] = (int32_t)r->length;
    }
    ls_sample_take(&row, r->length, part, out);
    return ls_ok();
}

static ls_status give_batch(const run *r, const ls_rank *rank) {
    const ls_sequences from = {.sample = read_row, .context = r};
    ls_batch batch;
    LS_TRY(ls_batch_make(rank, r->B, r->length, &batch));
    ls_status status = ls_batch_read(&batch, &from, 0, r->B);
    if (status.code == LS_OK) status = ls_batch_put(&batch, 0);
    ls_batch_free(&batch);
    return status;
}

/* Ranks are threads: each writes its part into the arrays of the run. */
static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const run *r = input;
    ls_weight_source source;
    LS_TRY(ls_model_weights(r->model, rank->image, 0, &source));
    const ls_status status = ls_weights_fill(rank->executor, &source);
    ls_weights_close(&source);
    LS_TRY(status);
    LS_TRY(give_batch(r, rank));
    const double scale = 1.0 / (double)tokens_of_all();
    const float scale_f32 = (float)scale;
    const bool exact = r->dtype == LS_F64;
    write_tensor(rank->executor, LS_BIND_SCALE, 1, exact ? (const void *)&scale : &scale_f32);
    LS_TRY(ls_executor_run(rank->executor, ls_program_find(ls_executor_image(rank->executor), LS_PROGRAM_STEP)));
    LS_TRY(ls_executor_gather(rank->executor, ls_image_find(rank->image, LS_TOKEN_LOSSES), r->losses));
    for (int p = 0; p < rank->image->n_pieces; p++) {
        const ls_flat_piece piece = ls_image_piece(rank->image, p, rank->rank);
        const ls_operand from = ls_image_elements(rank->image, LS_BIND_SHARD, piece.at, piece.count);
        LS_TRY(ls_executor_read(rank->executor, &from,
                                (char *)r->gradients + piece.start * (int64_t)ls_dtype_bytes(r->dtype)));
    }
    return ls_comm_barrier(rank->comm);
}

/* Parameters in the image's order, for who compares. */
typedef struct parameter {
    char name[128];
    int64_t start, count;
} parameter;
enum { MOST_PARAMETERS = 64 };

static int list_parameters(const ls_image *image, parameter out[MOST_PARAMETERS]) {
    assert_true(image->n_flats <= MOST_PARAMETERS);
    for (int i = 0; i < image->n_flats; i++) {
        const ls_flat *flat = &image->flats[i];
        out[i] = (parameter){.start = flat->start, .count = flat->count};
        snprintf(out[i].name, sizeof out[i].name, "%s", flat->name);
    }
    return image->n_flats;
}

static int run_once(run *r, const ls_spread *spread, parameter out[MOST_PARAMETERS]) {
    ls_language_model lm;
    ls_session *session;
    ls_graph *graph = ls_graph_create(r->dtype);
    assert_ok(ls_model_build(r->model, graph, r->B, r->length, true, &lm));
    const int32_t whole[] = {0, (int32_t)r->length};
    const ls_mask_term typical = {.kind = LS_MASK_DOCUMENTS, .ends = whole, .n_ends = 2};
    const ls_job job = {.graph = graph,
                        .documents = &typical,
                        .n_documents = r->packs,
                        .programs = ls_training_programs(graph, lm.forward_nodes, LS_UPDATE_REDUCE, 0),
                        .fetch = &lm.token_loss,
                        .n_fetch = 1};
    memset(r->gradients, 0, ls_dtype_bytes(r->dtype) * (size_t)r->n);
    assert_ok(ls_session_open(&job, spread, &session));
    assert_ok(ls_session_run(session, on_rank, r, NULL, 0));
    const int n = list_parameters(ls_session_image(session), out);
    ls_session_close(session);
    ls_graph_destroy(graph);
    return n;
}

/* --- documents alone ---------------------------------------------------------------------------------------------- */

typedef struct expectation {
    double losses[DOCUMENTS];
    double *gradients;
    double rounding;                       /* what the gradients are off those in f64 */
    parameter parameters[MOST_PARAMETERS]; /* where each lies in them */
} expectation;

static double number_at(const void *numbers, ls_dtype dtype, int64_t i) {
    return dtype == LS_F64 ? ((const double *)numbers)[i] : (double)((const float *)numbers)[i];
}

static expectation expect(const ls_model *model, ls_dtype dtype, bool own_length, int64_t room) {
    expectation e = {.gradients = calloc((size_t)room, sizeof *e.gradients)};
    double losses[ROWS * S];
    run r = {.model = model, .B = 1, .dtype = dtype, .losses = losses, .n = room};
    r.gradients = calloc((size_t)room, sizeof(double));
    for (r.document = 0; r.document < DOCUMENTS; r.document++) {
        const int length = where[r.document].length;
        r.length = own_length ? length : S;
        run_once(&r, &alone, e.parameters);
        for (int i = 0; i < length; i++) e.losses[r.document] += number_at(losses, dtype, i);
        for (int64_t i = 0; i < room; i++) e.gradients[i] += number_at(r.gradients, dtype, i);
    }
    free(r.gradients);
    return e;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

/* The norm of n numbers, or of their differences from those found. */
static double norm(const double *numbers, const void *found, ls_dtype dtype, int64_t n) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += pow(numbers[k] - (found != NULL ? number_at(found, dtype, k) : 0), 2);
    return sqrt(sum);
}

/* The largest error of the gradient of a parameter, and which it is. */
static double error_of(const expectation *e, const void *gradients, ls_dtype dtype, const parameter *parameters, int n,
                       const char **worst) {
    double largest = 0, error = 0;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, norm(e->gradients + e->parameters[i].start, NULL, dtype, e->parameters[i].count));
    assert_true(largest > 0);
    for (int i = 0; i < n; i++) {
        const double *is = e->gradients + e->parameters[i].start;
        const int64_t count = e->parameters[i].count;
        const void *found = (const char *)gradients + parameters[i].start * (int64_t)ls_dtype_bytes(dtype);
        const double off = norm(is, found, dtype, count) / fmax(norm(is, NULL, dtype, count), 1e-3 * largest);
        if (off <= error) continue;
        error = off;
        *worst = parameters[i].name;
    }
    return error;
}

static expectation expect_rounded(const ls_model *model, bool own_length, int64_t room) {
    const expectation exact = expect(model, LS_F64, own_length, room);
    expectation e = expect(model, LS_F32, own_length, room);
    const char *worst;
    int n = 0;
    while (n < MOST_PARAMETERS && exact.parameters[n].count > 0) n++;
    e.rounding = error_of(&exact, e.gradients, LS_F64, e.parameters, n, &worst);
    free(exact.gradients);
    return e;
}

static void compare(const char *what, const run *r, const expectation *e, const parameter *parameters, int n) {
    const float *losses = r->losses;
    double loss = 0;
    const char *worst = "";
    for (int d = 0; d < DOCUMENTS; d++) {
        double is = 0;
        for (int i = 0; i < where[d].length; i++) is += (double)losses[where[d].row * S + where[d].first + i];
        loss = fmax(loss, fabs(is - e->losses[d]) / e->losses[d]);
    }
    const double gradient = error_of(e, r->gradients, LS_F32, parameters, n, &worst);
    print_message("%s: losses %.1e, gradients %.1e (alone %.1e)\n", what, loss, gradient, e->rounding);
    if (!(loss <= tolerance) || !(gradient <= fmax(tolerance, e->rounding)))
        fail_msg("%s: a loss is off by %g, the gradient of %s by %g", what, loss, worst, gradient);
}

static void check(size_t m) {
    char path[512], what[600];
    ls_model *model;
    snprintf(path, sizeof path, LS_TEST_REFERENCE "/models/%s", models[m].name);
    assert_ok(ls_model_open_changed(path, &models[m].rope, &model));
    const int64_t room = ls_model_parameters(model) + (1 << 16);
    const expectation e = expect_rounded(model, models[m].own_length, room);
    float losses[ROWS * S];
    float *gradients = calloc((size_t)room, sizeof *gradients);
    run r = {.model = model,
             .B = ROWS,
             .length = S,
             .packs = true,
             .dtype = LS_F32,
             .losses = losses,
             .gradients = gradients,
             .n = room};
    for (size_t s = 0; s < LS_COUNT(spreads); s++) {
        parameter parameters[MOST_PARAMETERS];
        ls_spread spread = spreads[s];
        const bool striped = spread.layout != NULL && strcmp(spread.layout, "striped") == 0;
        if (striped && models[m].convolves) spread.layout = "zigzag";
        const int n = run_once(&r, &spread, parameters);
        snprintf(what, sizeof what, "%s %s, %d ranks, %s", models[m].name,
                 models[m].rope.scaling != NULL ? models[m].rope.scaling : "", (int)spreads[s].ranks,
                 spreads[s].strategy != NULL ? spreads[s].strategy : "local");
        compare(what, &r, &e, parameters, n);
    }
    free(e.gradients);
    free(gradients);
    ls_model_close(model);
}

static void documents_are_as_alone(void **state) {
    (void)state;
    for (size_t m = 0; m < LS_COUNT(models); m++) check(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(documents_are_as_alone)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
