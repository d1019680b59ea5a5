/*
 * Engines through their public header alone: the example graphs differentiated on one rank and on several,
 * training, micro-batches, reading of tensors that ranks hold whole, in parts and as partial sums, and every
 * refusal.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "longspan/longspan.h"
#include "support/emulated.h"
#include "support/example_batch.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void must(const char *what, ls_status status) {
    if (status.code != LS_OK) fail_msg("%s: %s", what, status.text);
}

static void must_fail(ls_status status, ls_code code, const char *words) {
    if (status.code != code || strstr(status.text, words) == NULL)
        fail_msg("expected %s with \"%s\"; got %s \"%s\"", ls_code_name(code), words, ls_code_name(status.code),
                 status.text);
}

static int64_t elements(const ls_shape *shape) {
    int64_t n = 1;
    for (int i = 0; i < shape->ndim; i++) n *= shape->dim[i].size;
    return n;
}

/* --- gradients of all examples ------------------------------------------------------------------------------------ */

typedef struct answer {
    double loss, norm;
    int64_t n, bytes; /* elements; mapped by rank 0 */
    double gradient[ROOM];
} answer;

static ls_status read_gradients(ls_worker *w, const ls_graph *graph, answer *out) {
    ls_shape shape;
    const char *name;
    int64_t n = 0;
    for (int p = 0; (name = ls_graph_parameter(graph, p, &shape)) != NULL; p++) {
        if (n + elements(&shape) > ROOM) return ls_error(LS_INVALID, "ROOM is too small");
        LS_TRY(ls_worker_get_gradient(w, name, w->rank == 0 ? out->gradient + n : NULL));
        n += elements(&shape);
    }
    out->n = n;
    return ls_ok();
}

static ls_status differentiate_twice(ls_worker *w, const void *input, void *result) {
    answer *out = result;
    ls_step_result step;
    LS_TRY(ls_worker_set_random(w, 0.25, 3));
    for (int i = 0; i < 2; i++) /* the second is not the sum of both */
        LS_TRY(ls_worker_step(w, &(ls_step){.tokens = VALID, .feed = feed_example}, &step));
    out->loss = step.loss;
    out->norm = step.grad_norm;
    out->bytes = w->bytes;
    return read_gradients(w, input, out);
}

static answer *solve(const char *what, ls_tensor (*build)(ls_graph *), int64_t micro_batches, ls_spread spread) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = build(g);
    const ls_engine_options options = {
        .purpose = LS_TO_DIFFERENTIATE, .micro_batches = micro_batches, .spread = spread};
    answer *out = calloc(1, sizeof *out);
    ls_engine *engine;
    must(what, ls_engine_open(g, loss, &options, &engine));
    must(what, ls_engine_run(engine, differentiate_twice, g, out, sizeof *out));
    ls_engine_close(engine);
    ls_graph_destroy(g);
    return out;
}

static double difference(const double *a, const double *b, int64_t n) {
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(sum) / sqrt(norm);
}

static void test_examples(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_tensor (*build)(ls_graph *);
    } examples[] = {{"gpt2", gpt2_loss},     {"llama2", llama2_loss},   {"llama", llama_loss},
                    {"qwen2", qwen2_loss},   {"qwen3", qwen3_loss},     {"mistral", mistral_loss},
                    {"gemma2", gemma2_loss}, {"encoder", encoder_loss}, {"mixer", mixer_loss}};
    static const ls_spread spreads[] = {{.ranks = 2, .wait_timeout = 60},
                                        {.ranks = 3, .as_threads = true, .wait_timeout = 60},
                                        {.mesh = "dp=2,ring=2,ulysses=1", .wait_timeout = 60},
                                        {.mesh = "ring=2,tp=2", .wait_timeout = 60},
                                        {.mesh = "pp=2,ring=2", .shard = "parameters", .wait_timeout = 60}};
    for (size_t i = 0; i < COUNT(examples); i += is_repeated() ? 4 : 1) { /* in f64 */
        answer *one = solve(examples[i].name, examples[i].build, 1, (ls_spread){.ranks = 1});
        for (size_t s = 0; s < COUNT(spreads); s++) {
            answer *many = solve(examples[i].name, examples[i].build, 1, spreads[s]);
            assert_int_equal(many->n, one->n);
            assert_true(one->n > 1000 && isfinite(one->loss) && one->norm > 0);
            const double off = difference(many->gradient, one->gradient, one->n);
            if (!(off < 1e-12 && fabs(many->loss - one->loss) < 1e-12 && fabs(many->norm - one->norm) < 1e-12))
                fail_msg("%s, spread %d: gradient off by %g, loss %.17g and %.17g", examples[i].name, (int)s, off,
                         many->loss, one->loss);
            double squares = 0;
            for (int64_t e = 0; e < many->n; e++) squares += many->gradient[e] * many->gradient[e];
            assert_true(fabs(sqrt(squares) - many->norm) < 1e-12 * many->norm);
            free(many);
        }
        free(one);
    }
}

/* Less memory gives the same gradient; a budget that no saving can meet is refused. */
static void test_memory(void **state) {
    (void)state;
    answer *plain = solve("plain", llama_loss, 1, (ls_spread){.ranks = 2, .transfers = "put"});
    answer *less =
        solve("less", llama_loss, 1, (ls_spread){.ranks = 2, .transfers = "put", .memory = plain->bytes - 1});
    assert_true(less->bytes < plain->bytes);
    assert_true(difference(less->gradient, plain->gradient, plain->n) < 1e-12);
    free(plain);
    free(less);
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = llama_loss(g);
    ls_engine *engine;
    must_fail(ls_engine_open(g, loss, &(ls_engine_options){.spread = {.ranks = 2, .memory = 4096}}, &engine),
              LS_NO_MEMORY, "needs");
    ls_graph_destroy(g);
}

/* The same batch three times, divided by one batch's tokens, is three times the gradient. */
static void test_micro_batches(void **state) {
    (void)state;
    answer *one = solve("one", mixer_loss, 1, (ls_spread){.ranks = 2});
    answer *three = solve("three", mixer_loss, 3, (ls_spread){.ranks = 2});
    for (int64_t i = 0; i < three->n; i++) three->gradient[i] /= 3;
    assert_true(difference(three->gradient, one->gradient, one->n) < 1e-13);
    assert_true(fabs(three->loss / 3 - one->loss) < 1e-13);
    free(one);
    free(three);
}

/*
 * Micro-batches with other tokens each, of which the later ones have the labels that were set last. Stages have a place
 * for the inputs of each, and it does not show.
 */
static ls_status feed_varied(ls_worker *w, int64_t micro_batch, void *context) {
    (void)context;
    int32_t tokens[B * S];
    for (int64_t i = 0; i < B * S; i++) tokens[i] = (int32_t)((i * i * 5 + i * (3 + micro_batch)) % IDS);
    if (micro_batch % 3 == 1) LS_TRY(ls_worker_set_input(w, "labels", tokens));
    return ls_worker_set_input(w, "tokens", tokens);
}

/* A loss, evaluated and of a step; twice, since the second begins with what the first has set last. */
static ls_status differentiate_varied(ls_worker *w, const void *input, void *result) {
    answer *out = result;
    ls_step_result step, look;
    const ls_step of = {.tokens = VALID, .feed = feed_varied};
    LS_TRY(ls_worker_set_random(w, 0.25, 3));
    LS_TRY(feed_example(w, 0, NULL));
    for (int i = 0; i < 2; i++) {
        LS_TRY(ls_worker_step(w, &of, &step));
        LS_TRY(ls_worker_evaluate(w, &of, &look));
    }
    LS_TRY(ls_worker_step(w, &of, &step));
    if (fabs(step.loss - look.loss) > 1e-12)
        return ls_error(LS_INVALID, "a loss of %.17g, evaluated %.17g", step.loss, look.loss);
    out->loss = step.loss;
    out->norm = step.grad_norm;
    return read_gradients(w, input, out);
}

static answer *solve_varied(ls_spread spread) {
    ls_graph *g = ls_graph_create(LS_F64);
    const ls_tensor loss = gpt2_loss(g); /* one table is embedding and head */
    const ls_engine_options options = {.purpose = LS_TO_DIFFERENTIATE, .micro_batches = 4, .spread = spread};
    answer *out = calloc(1, sizeof *out);
    ls_engine *engine;
    must("varied", ls_engine_open(g, loss, &options, &engine));
    must("varied", ls_engine_run(engine, differentiate_varied, g, out, sizeof *out));
    ls_engine_close(engine);
    ls_graph_destroy(g);
    return out;
}

static void test_varied_micro_batches(void **state) {
    (void)state;
    static const ls_spread spreads[] = {{.mesh = "pp=2"},
                                        {.mesh = "pp=2,dp=2", .shard = "gradients", .as_threads = true},
                                        {.mesh = "pp=2,tp=2", .pipeline = "zero-bubble"}};
    answer *one = solve_varied((ls_spread){.ranks = 1});
    for (size_t s = 0; s < COUNT(spreads); s++) {
        answer *many = solve_varied(spreads[s]);
        const double off = difference(many->gradient, one->gradient, one->n);
        if (!(off < 1e-12 && fabs(many->loss - one->loss) < 1e-12 && fabs(many->norm - one->norm) < 1e-11))
            fail_msg("%s: gradient off by %g, loss %.17g and %.17g", spreads[s].mesh, off, many->loss, one->loss);
        free(many);
    }
    free(one);
}

/* --- training ----------------------------------------------------------------------------------------------------- */

typedef struct trained {
    double before, first, after; /* losses */
    double table[IDS * 24];
    bool applied, applied_nothing;
    int64_t bytes[4];
} trained;

static ls_status train(ls_worker *w, const void *input, void *result) {
    (void)input;
    trained *out = result;
    ls_step_result last, before, after, nothing;
    const ls_step look = {.tokens = VALID, .feed = feed_example};
    LS_TRY(ls_worker_set_random(w, 0.25, 3));
    LS_TRY(ls_worker_evaluate(w, &look, &before));
    const ls_step step = {.tokens = VALID, .lr = 1e-2, .clip = 1, .feed = feed_example};
    LS_TRY(ls_worker_step(w, &step, &last));
    out->first = last.loss;
    LS_TRY(ls_worker_step(w, &(ls_step){.lr = 1}, &nothing));
    for (int i = 0; i < 3; i++) LS_TRY(ls_worker_step(w, &step, &last));
    LS_TRY(ls_worker_evaluate(w, &look, &after));
    LS_TRY(ls_worker_gather(w, &w->bytes, sizeof w->bytes, out->bytes));
    LS_TRY(ls_worker_get_parameter(w, "table", w->rank == 0 ? out->table : NULL));
    out->before = before.loss;
    out->after = after.loss;
    out->applied = last.applied;
    out->applied_nothing = nothing.applied || !isnan(nothing.loss);
    return ls_ok();
}

static trained train_mixer(ls_dtype dtype, ls_spread spread) {
    ls_graph *g = ls_graph_create(dtype);
    const ls_tensor loss = mixer_loss(g);
    const ls_engine_options options = {.weight_decay = 0.1, .spread = spread};
    trained out;
    ls_engine *engine;
    must("train", ls_engine_open(g, loss, &options, &engine));
    must("train", ls_engine_run(engine, train, NULL, &out, sizeof out));
    const ls_spread_result spread_result = ls_engine_describe(engine);
    for (int r = 0; r < 4; r++) assert_true(out.bytes[r] <= spread_result.predicted_bytes);
    must_fail(ls_engine_run(engine, train, NULL, &out, sizeof out), LS_USAGE, "has run");
    ls_engine_close(engine);
    ls_graph_destroy(g);
    assert_true(out.applied && !out.applied_nothing);
    assert_true(out.after < out.before);
    return out;
}

static const char *const shards[] = {"none", "optimizer", "gradients", "parameters"};

static void test_training(void **state) {
    (void)state;
    const trained one = train_mixer(LS_F64, (ls_spread){.ranks = 1});
    assert_true(fabs(one.before - one.first) < 1e-14);
    static const char *const meshes[] = {"dp=2,ring=2", "ring=2,tp=2", "pp=2,ring=2"};
    for (size_t m = 0; m < COUNT(meshes) * COUNT(shards); m += is_repeated() ? 5 : 1) {
        const char *mesh = meshes[m % COUNT(meshes)]; /* along tp ranks have the same tokens */
        const trained four = train_mixer(LS_F64, (ls_spread){.mesh = mesh, .shard = shards[m / COUNT(meshes)]});
        assert_true(fabs(four.before - four.first) < 1e-14);
        assert_true(fabs(one.after - four.after) < 1e-12);
        assert_true(difference(four.table, one.table, COUNT(one.table)) < 1e-11); /* AdamW divides by what is small */
    }
    (void)train_mixer(LS_BF16, (ls_spread){.ranks = 2, .as_threads = true});
}

/* --- steps that end otherwise ------------------------------------------------------------------------------------- */

static ls_status until_stopped(ls_worker *w, const void *input, void *result) {
    (void)input;
    int *steps = result;
    ls_step_result last = {.stop = false};
    LS_TRY(ls_worker_set_random(w, 0.25, 3));
    if (w->rank == 0) kill(getppid(), SIGINT); /* as a terminal does */
    for (int i = 0; i < 100000 && !last.stop; i++) {
        LS_TRY(ls_worker_step(w, &(ls_step){.tokens = i % 2 ? VALID : 0, .feed = feed_example}, &last));
        ++*steps;
    }
    return ls_error(last.stop ? LS_INTERRUPTED : LS_INVALID, "after %d steps", *steps);
}

static void test_stop(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor loss = mixer_loss(g);
    ls_engine *engine;
    int steps = 0;
    must("stop", ls_engine_open(g, loss, &(ls_engine_options){.spread = {.ranks = 2}}, &engine));
    must_fail(ls_engine_run(engine, until_stopped, NULL, &steps, sizeof steps), LS_INTERRUPTED, "after");
    assert_in_range(steps, 1, 99999);
    ls_engine_close(engine);
    ls_graph_destroy(g);
}

/* What is not finite is never applied. */
static ls_status step_from_infinity(ls_worker *w, const void *input, void *result) {
    (void)input, (void)result;
    double table[IDS * 24], same[IDS * 24];
    ls_step_result last;
    const ls_step step = {.tokens = VALID, .lr = 1e-2, .feed = feed_example};
    LS_TRY(ls_worker_set_random(w, 0.25, 3));
    LS_TRY(ls_worker_get_parameter(w, "table", table));
    table[30] = INFINITY;
    LS_TRY(ls_worker_set_parameter(w, "table", table));
    LS_TRY(ls_worker_step(w, &step, &last));
    if (last.applied || isfinite(last.loss)) return ls_error(LS_INVALID, "applied %g", last.loss);
    LS_TRY(ls_worker_get_parameter(w, "table", same));
    if (memcmp(table, same, sizeof table) != 0) return ls_error(LS_INVALID, "the table has changed");
    table[30] = 0;
    LS_TRY(ls_worker_set_parameter(w, "table", table));
    LS_TRY(ls_worker_step(w, &step, &last));
    return last.applied && isfinite(last.loss) ? ls_ok() : ls_error(LS_INVALID, "not applied after it");
}

static void test_not_finite(void **state) {
    (void)state;
    for (size_t m = 0; m < COUNT(shards); m++) {
        ls_graph *g = ls_graph_create(LS_F64); /* so that reading returns what was set */
        const ls_tensor loss = mixer_loss(g);
        const ls_engine_options options = {.spread = {.ranks = 3, .shard = shards[m]}};
        ls_engine *engine;
        must("open", ls_engine_open(g, loss, &options, &engine));
        must("run", ls_engine_run(engine, step_from_infinity, NULL, NULL, 0));
        ls_engine_close(engine);
        ls_graph_destroy(g);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct reading {
    double cut[B * S * 3], whole[3], sum[1], parameter[3];
} reading;

/* x [B,S,3] is cut; w is whole on every rank; the sum of x is a sum over the ranks. */
static ls_tensor small(ls_graph *g, ls_tensor read[3]) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){5, 3});
    const ls_tensor x = ls_named(g, ls_embedding(g, ls_shift(g, tokens, 1), table), "x");
    const ls_tensor w = ls_parameter(g, "w", 1, (int64_t[]){3});
    read[0] = x;
    read[1] = ls_named(g, ls_scale(g, w, 2), "w twice");
    read[2] = ls_named(g, ls_sum(g, ls_cast(g, x, LS_F64)), "sum of x");
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, ls_rmsnorm(g, x, read[1], 1e-5), table), labels));
}

/* The last rank reads, and another one has what it read. */
static ls_status read_all(ls_worker *w, const void *input, void *result) {
    (void)input;
    reading out = {{0}, {0}, {0}, {0}}, all[8]; /* as many ranks as the largest mesh has */
    const bool mine = w->rank == w->ranks - 1;
    double table[15];
    const double vector[] = {0.5, -1, 3};
    int32_t ids[B * S];
    for (int i = 0; i < 15; i++) table[i] = i;
    for (int i = 0; i < B * S; i++) ids[i] = i % 5;
    LS_TRY(ls_worker_set_parameter(w, "table", table));
    LS_TRY(ls_worker_set_parameter(w, "w", vector));
    LS_TRY(ls_worker_set_input(w, "tokens", ids));
    LS_TRY(ls_worker_set_input(w, "labels", ids));
    ls_step_result step;
    LS_TRY(ls_worker_evaluate(w, &(ls_step){.tokens = 1}, &step));
    LS_TRY(ls_worker_get_tensor(w, "x", mine ? out.cut : NULL));
    LS_TRY(ls_worker_get_tensor(w, "w twice", mine ? out.whole : NULL));
    LS_TRY(ls_worker_get_tensor(w, "sum of x", mine ? out.sum : NULL));
    LS_TRY(ls_worker_get_parameter(w, "w", mine ? out.parameter : NULL));
    LS_TRY(ls_worker_gather(w, &out, sizeof out, all));
    *(reading *)result = all[w->ranks - 1];
    return ls_ok();
}

static void test_reading(void **state) {
    (void)state;
    static const char *const meshes[] = {
        "dp=1,ring=1,ulysses=1", "dp=2,ring=1,ulysses=1", "dp=1,ring=3,ulysses=1", "dp=2,ring=4,ulysses=1", "pp=2",
        "pp=2,dp=2,ring=2"};
    for (size_t m = 0; m < 2 * COUNT(meshes); m++) {
        ls_graph *g = ls_graph_create(LS_F64);
        ls_tensor read[3];
        const ls_tensor loss = small(g, read);
        const ls_engine_options options = {.purpose = LS_TO_EVALUATE,
                                           .read = read,
                                           .n_read = 3,
                                           .spread = {.mesh = meshes[m / 2], .as_threads = m % 2}};
        reading out;
        ls_engine *engine;
        must(meshes[m / 2], ls_engine_open(g, loss, &options, &engine));
        must(meshes[m / 2], ls_engine_run(engine, read_all, NULL, &out, sizeof out));
        double sum = 0;
        for (int i = 0; i < B * S; i++) {
            const int id = i % S == 0 ? 0 : (i - 1) % 5; /* shifted: the first sees id 0 */
            for (int e = 0; e < 3; e++) {
                assert_true(out.cut[3 * i + e] == 3 * id + e);
                sum += 3 * id + e;
            }
        }
        assert_true(out.whole[0] == 1 && out.whole[1] == -2 && out.whole[2] == 6);
        assert_true(out.parameter[1] == -1 && out.parameter[2] == 3);
        assert_true(out.sum[0] == sum);
        ls_engine_close(engine);
        ls_graph_destroy(g);
    }
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static ls_status refused_on_a_worker(ls_worker *w, const void *input, void *unused) {
    (void)input, (void)unused;
    int32_t ids[B * S] = {0};
    double number;
    ls_step_result result;
    const ls_step step = {.tokens = 1};
    must_fail(ls_worker_set_input(w, "token", ids), LS_USAGE, "no input \"token\"; expected one of \"tokens\"");
    must_fail(ls_worker_set_parameter(w, "v", &number), LS_USAGE, "expected one of \"table\", \"w\"");
    must_fail(ls_worker_get_parameter(w, "v", &number), LS_USAGE, "no parameter \"v\"");
    ids[S + 2] = 5;
    must_fail(ls_worker_set_input(w, "tokens", ids), LS_INVALID, "is 5 at row 1, column 2; expected 0 to 4");
    ids[S + 2] = -100;
    must_fail(ls_worker_set_input(w, "tokens", ids), LS_INVALID, "is -100");
    must_fail(ls_worker_step(w, &step, &result), LS_USAGE, "\"tokens\" was not set");
    must("labels", ls_worker_set_input(w, "labels", ids));
    ids[S + 2] = 0;
    must("tokens", ls_worker_set_input(w, "tokens", ids));
    must_fail(ls_worker_step(w, &step, &result), LS_USAGE, "parameter \"table\" was not set");
    must("random", ls_worker_set_random(w, 1, 1));
    must_fail(ls_worker_get_gradient(w, "w", &number), LS_USAGE, "opened to differentiate");
    must_fail(ls_worker_get_tensor(w, "x", &number), LS_USAGE, "not among those to be read");
    must_fail(ls_worker_step(w, &(ls_step){.tokens = -1}, &result), LS_INVALID, "-1 tokens");
    must_fail(ls_worker_step(w, &(ls_step){.tokens = 1, .lr = NAN}, &result), LS_INVALID, "lr nan");
    return w->rank == 0 ? ls_error(LS_IO, "my own mistake") : ls_ok();
}

static ls_status refused_to_evaluate(ls_worker *w, const void *input, void *unused) {
    (void)input, (void)unused;
    ls_step_result result;
    must_fail(ls_worker_step(w, &(ls_step){.tokens = 1}, &result), LS_USAGE, "opened to evaluate");
    return ls_ok();
}

static void test_refusals(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F64);
    ls_tensor read[3];
    const ls_tensor loss = small(g, read);
    const ls_engine_options train_it = {.spread = {.ranks = 1, .as_threads = true}};
    ls_engine *engine, *other;
    must_fail(ls_engine_open(g, read[0], &train_it, &other), LS_INVALID, "expected f64[1]");
    must_fail(ls_engine_open(g, LS_NO_TENSOR, &train_it, &other), LS_INVALID, "no tensor of this graph");
    must_fail(ls_engine_open(g, loss, &(ls_engine_options){.beta1 = 1}, &other), LS_USAGE, "beta1 is 1");
    must_fail(ls_engine_open(g, loss, &(ls_engine_options){.micro_batches = -2}, &other), LS_USAGE, "-2 micro");
    must_fail(ls_engine_open(g, loss, &(ls_engine_options){.micro_batches = (int64_t)1 << 62}, &other), LS_USAGE,
              "micro-batches; expected 1 to 16777216");
    const ls_tensor twice[] = {read[0], read[0]};
    must_fail(ls_engine_open(g, loss, &(ls_engine_options){.read = twice, .n_read = 2}, &other), LS_INVALID,
              "two tensors to be read are called \"x\"");
    must("train", ls_engine_open(g, loss, &train_it, &engine));
    must_fail(ls_engine_open(g, loss, &train_it, &other), LS_USAGE, "belongs to another engine");
    must_fail(ls_engine_run(engine, refused_on_a_worker, NULL, NULL, 0), LS_IO, "my own mistake");
    ls_engine_close(engine);
    ls_graph_destroy(g);

    g = ls_graph_create(LS_F64);
    const ls_engine_options evaluate = {.purpose = LS_TO_EVALUATE, .spread = {.ranks = 1, .as_threads = true}};
    must("evaluate", ls_engine_open(g, small(g, read), &evaluate, &engine));
    must("evaluate", ls_engine_run(engine, refused_to_evaluate, NULL, NULL, 0));
    ls_engine_close(engine);
    ls_graph_destroy(g);

    static const char *const taken[] = {"parameters", "update.groups", "update.settings", "optimizer.m", "optimizer.v"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        g = ls_graph_create(LS_F64);
        const ls_tensor clash =
            ls_embedding(g, ls_tokens(g, taken[i], 1, 4), ls_parameter(g, "w", 2, (int64_t[]){2, 1}));
        must_fail(ls_engine_open(g, ls_sum(g, clash), &train_it, &other), LS_INVALID, "uses this name itself");
        ls_graph_destroy(g);
    }
}

static void test_printing(void **state) {
    (void)state;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor loss = llama_loss(g);
    ls_engine *engine;
    must("open", ls_engine_open(g, loss, &(ls_engine_options){.spread = {.ranks = 2}}, &engine));
    char *page[3];
    for (int d = 0; d < 3; d++) {
        size_t bytes;
        FILE *out = open_memstream(&page[d], &bytes);
        ls_engine_print(engine, (ls_detail)d, out);
        fclose(out);
    }
    assert_non_null(strstr(page[0], "predicted"));
    assert_ptr_equal(strchr(page[0], '\n') + 1, page[0] + strlen(page[0])); /* one line */
    assert_int_equal(strncmp(page[0], page[1], strlen(page[0])), 0);
    assert_null(strstr(page[1], " put "));
    assert_non_null(strstr(page[2], " put "));
    for (int d = 0; d < 3; d++) free(page[d]);
    ls_engine_close(engine);
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_micro_batches), cmocka_unit_test(test_varied_micro_batches),
        cmocka_unit_test(test_training),      cmocka_unit_test(test_stop),
        cmocka_unit_test(test_not_finite),    cmocka_unit_test(test_reading),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_printing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
