/*
 * Generation: greedy text equals that of the whole pass without a cache, over any ranks; draws follow their
 * distribution and are functions of seed and step; text arrives in whole characters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/train.h"

#include "cli/cli.h"
#include "eval/eval.h"
#include "graph/graph.h"
#include "support/tensors.h"

/* --- drawing ------------------------------------------------------------------------------------------------------ */

enum { V = 12, DRAWS = 20000 };

static void fill_logits(float *logits) {
    for (int v = 0; v < V; v++) logits[v] = (float)(2 * ls_rng_normal(1, 2, (uint64_t)v));
}

/*
 * What the Hugging Face library (transformers 5.23: TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper,
 * softmax) makes of these chances. Equal ones stay together under top-k; under top-p, where it says nothing of them,
 * there are none.
 */
enum { TABLE_V = 8 };
static const double various[TABLE_V] = {.05, .30, .12, .10, .25, .02, .09, .07},
                    equal_ones[TABLE_V] = {.1, .2, .2, .05, .2, .05, .2, 0};
static const struct {
    const double *given;
    double temperature, top_p;
    int64_t top_k;
    double left[TABLE_V];
} table[] = {
    {various, 1, 0.75, 0, {0, 0.38961, 0.155844, 0.12987, 0.324675, 0, 0, 0}},
    {various, 1, 0.75, 3, {0, 0.545455, 0, 0, 0.454545, 0, 0, 0}}, /* the share is that of the three */
    {various, 1, 1, 3, {0, 0.447761, 0.179104, 0, 0.373134, 0, 0, 0}},
    {various, 2, 0.7, 3, {0, 0.522774, 0, 0, 0.477226, 0, 0, 0}},
    {various, 0.5, 0.9, 0, {0, 0.508762, 0.0814019, 0.0565291, 0.353307, 0, 0, 0}},
    {various, 1, 0.4, 5, {0, 0.545455, 0, 0, 0.454545, 0, 0, 0}},
    {various, 1, 0.31, 0, {0, 0.545455, 0, 0, 0.454545, 0, 0, 0}}, /* the one that crosses stays */
    {various, 1, 0.29, 0, {0, 1, 0, 0, 0, 0, 0, 0}},
    {various, 1, 0.5, 2, {0, 1, 0, 0, 0, 0, 0, 0}},
    {various, 1, 0.6, 2, {0, 0.545455, 0, 0, 0.454545, 0, 0, 0}},
    {various, 1, 0.85, 4, {0, 0.447761, 0.179104, 0, 0.373134, 0, 0, 0}},
    {various, 1, 0.1, 1, {0, 1, 0, 0, 0, 0, 0, 0}},
    {various, 1, 0.5, 8, {0, 0.545455, 0, 0, 0.454545, 0, 0, 0}},
    {various, 3, 0.5, 0, {0, 0.29663, 0.218559, 0.205672, 0.279139, 0, 0, 0}},
    {various, 1.5, 0.8, 6, {0, 0.297856, 0.161701, 0.143194, 0.263766, 0, 0.133482, 0}},
    {various, 1, 1, 0, {.05, .30, .12, .10, .25, .02, .09, .07}},
    {various, 1, 0, 100, {.05, .30, .12, .10, .25, .02, .09, .07}},
    {equal_ones, 1, 1, 2, {0, 0.25, 0.25, 0, 0.25, 0, 0.25, 0}},
    {equal_ones, 1, 1, 5, {0.111111, 0.222222, 0.222222, 0, 0.222222, 0, 0.222222, 0}},
    {equal_ones, 1, 1, 6, {0.1, 0.2, 0.2, 0.05, 0.2, 0.05, 0.2, 0}},
    {equal_ones, 0.7, 0.999, 3, {0, 0.25, 0.25, 0, 0.25, 0, 0.25, 0}},
    {equal_ones, 1, 1, 8, {0.1, 0.2, 0.2, 0.05, 0.2, 0.05, 0.2, 0}},
};

static void draws_follow_the_librarys_distribution(void **state) {
    (void)state;
    for (size_t w = 0; w < LS_COUNT(table); w++) {
        const ls_sampling how = {table[w].temperature, table[w].top_p, table[w].top_k, w};
        ls_sampler *sampler;
        float logits[TABLE_V];
        int count[TABLE_V] = {0};
        for (int v = 0; v < TABLE_V; v++) logits[v] = (float)log(table[w].given[v]);
        assert_ok(ls_sampler_create(&how, TABLE_V, &sampler));
        for (int i = 0; i < DRAWS; i++) count[ls_sampler_draw(sampler, logits, (uint64_t)i)]++;
        for (int v = 0; v < TABLE_V; v++) {
            const double chance = table[w].left[v], expected = chance * DRAWS,
                         deviation = sqrt(expected * (1 - chance));
            if (!(fabs(count[v] - expected) <= 5 * deviation + 1e-5 * DRAWS))
                fail_msg("way %zu, token %d: drawn %d times, expected %g", w, v, count[v], expected);
        }
        ls_sampler_destroy(sampler);
    }
}

static void draws_are_functions_of_seed_and_step(void **state) {
    (void)state;
    const ls_sampling how = {1, 0.9, 8, 11}, other = {1, 0.9, 8, 12};
    float logits[V];
    ls_sampler *a, *b, *c;
    int differ = 0;
    fill_logits(logits);
    assert_ok(ls_sampler_create(&how, V, &a));
    assert_ok(ls_sampler_create(&how, V, &b));
    assert_ok(ls_sampler_create(&other, V, &c));
    for (int i = 199; i >= 0; i--) (void)ls_sampler_draw(b, logits, (uint64_t)i); /* what came before is forgotten */
    for (int i = 0; i < 200; i++) {
        const int32_t id = ls_sampler_draw(a, logits, (uint64_t)i);
        assert_int_equal(id, ls_sampler_draw(b, logits, (uint64_t)i));
        differ += id != ls_sampler_draw(c, logits, (uint64_t)i);
    }
    assert_true(differ > 20);
    ls_sampler_destroy(a);
    ls_sampler_destroy(b);
    ls_sampler_destroy(c);
}

static void poor_logits_are_drawn_from(void **state) {
    (void)state;
    const ls_sampling greedy = {0, 0, 0, 0}, warm = {1, 0.9, 0, 0};
    const float some[4] = {NAN, 1, INFINITY, 1}, none[4] = {NAN, NAN, -INFINITY, NAN};
    for (int i = 0; i < 2; i++) {
        ls_sampler *sampler;
        assert_ok(ls_sampler_create(i == 0 ? &greedy : &warm, 4, &sampler));
        for (uint64_t n = 0; n < 50; n++) {
            const int32_t id = ls_sampler_draw(sampler, some, n);
            assert_true(id == 1 || (i == 1 && id == 3));
            assert_int_equal(ls_sampler_draw(sampler, none, n), 0);
        }
        ls_sampler_destroy(sampler);
    }
}

/* --- text --------------------------------------------------------------------------------------------------------- */

typedef struct heard {
    char text[4096];
    size_t n;
    int pieces;
} heard;

static void hear(void *context, const char *bytes, size_t n) {
    heard *h = context;
    assert_int_equal(ls_utf8_valid_prefix(bytes, n), n); /* never half a character */
    assert_true(h->n + n < sizeof h->text);
    memcpy(h->text + h->n, bytes, n);
    h->n += n;
    h->pieces++;
}

/* Generates after the ids of a prompt, token by token. */
static void stream_ids(const ls_tokenizer *tokenizer, const int32_t *ids, size_t prompt_ids, size_t n, heard *out) {
    ls_generated_text stream = {.tokenizer = tokenizer, .out = hear, .context = out};
    assert_ok(ls_generated_begin(&stream, ids, prompt_ids));
    for (size_t i = prompt_ids; i < n; i++) assert_ok(ls_generated_put(&stream, ids[i]));
    assert_ok(ls_generated_end(&stream));
    ls_generated_free(&stream);
}

/* Generates byte by byte after a prompt of one byte, with the byte-level tokenizer. */
static void stream_bytes(const char *bytes, size_t n, heard *out) {
    ls_tokenizer *tokenizer;
    int32_t ids[256] = {'x'};
    assert_ok(ls_tokenizer_open(NULL, &tokenizer));
    for (size_t i = 0; i < n; i++) ids[i + 1] = (unsigned char)bytes[i];
    stream_ids(tokenizer, ids, 1, n + 1, out);
    ls_tokenizer_close(tokenizer);
}

static void text_comes_in_whole_characters(void **state) {
    (void)state;
    static const char text[] = "Grün: 日本語, 😀 and a long tail of words that goes on beyond what is decoded at once.";
    heard h = {.n = 0};
    stream_bytes(text, sizeof text - 1, &h);
    assert_int_equal(h.n, sizeof text - 1);
    assert_memory_equal(h.text, text, h.n);
    assert_true(h.pieces > 60); /* as it comes, not at the end */
}

static void wrong_bytes_are_replaced(void **state) {
    (void)state;
    heard h = {.n = 0};
    stream_bytes("a\xff"
                 "b\xe6\x97",
                 5, &h);
    h.text[h.n] = 0;
    assert_string_equal(h.text, "a\xef\xbf\xbd"
                                "b\xef\xbf\xbd\xef\xbf\xbd");
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

enum { TOKENS = 24 };
static const char prompt[] = "the sequence is cut over";

typedef struct whole_pass {
    const ls_trained *trained;
    const char *logits;
} whole_pass;

typedef struct whole_text {
    int32_t ids[sizeof prompt - 1 + TOKENS];
} whole_text;

/* Greedy generation without a cache: a whole pass for each token. */
static ls_status pass_by_pass(ls_rank *rank, const void *input, void *result) {
    const whole_pass *w = input;
    whole_text *text = result;
    for (size_t i = 0; i < sizeof prompt - 1; i++) text->ids[i] = (unsigned char)prompt[i];
    LS_TRY(ls_trained_fill(w->trained, rank, 3));
    const int64_t S = LS_COUNT(text->ids), vocabulary = ls_model_describe(w->trained->model).V;
    int32_t positions[LS_COUNT(text->ids)];
    for (int64_t i = 0; i < S; i++) positions[i] = (int32_t)i;
    LS_TRY(ls_executor_scatter(rank->executor, ls_image_find(rank->image, "positions"), positions));
    for (int64_t n = S - TOKENS; n < S; n++) {
        LS_TRY(ls_executor_scatter(rank->executor, ls_image_find(rank->image, "tokens"), text->ids));
        LS_TRY(ls_executor_run(rank->executor, ls_program_find(ls_executor_image(rank->executor), LS_PROGRAM_MICRO)));
        float *all = copy_of_tensor(rank->executor, w->logits), *logits = all + (n - 1) * vocabulary;
        for (int v = 0; v < vocabulary; v++)
            if (logits[v] > logits[text->ids[n]]) text->ids[n] = v;
        free(all);
    }
    return ls_ok();
}

static void expect_text(const char *model, heard *out) {
    ls_trained trained;
    whole_pass w = {.trained = &trained};
    whole_text text;
    assert_ok(ls_trained_open(model, NULL, &trained));
    ls_graph *graph = ls_graph_create(LS_F32);
    ls_language_model lm;
    assert_ok(ls_model_build(trained.model, graph, 1, LS_COUNT(text.ids), false, &lm));
    w.logits = ls_graph_tensor(graph, lm.logits)->name;
    const ls_job job = {.graph = graph, .programs = ls_plain_programs(graph, 0), .fetch = &lm.logits, .n_fetch = 1};
    const ls_spread spread = {.ranks = 1, .threads = 1, .as_threads = true};
    ls_session *session;
    assert_ok(ls_session_open(&job, &spread, &session));
    assert_ok(ls_session_run(session, pass_by_pass, &w, &text, sizeof text));
    ls_session_close(session);
    ls_graph_destroy(graph);
    stream_ids(trained.tokenizer, text.ids, sizeof prompt - 1, LS_COUNT(text.ids), out);
    ls_trained_close(&trained);
}

static void generate(const char *model, double temperature, uint64_t seed, ls_spread spread, heard *out) {
    *out = (heard){.n = 0};
    const ls_generate_job job = {.model = model,
                                 .prompt = prompt,
                                 .tokens = TOKENS,
                                 .temperature = temperature,
                                 .seed = seed,
                                 .spread = spread,
                                 .text = hear,
                                 .context = out};
    ls_generate_result result;
    assert_ok(ls_run_generate(&job, &result));
    assert_int_equal(result.prompt_tokens, sizeof prompt - 1);
    assert_int_equal(result.tokens, TOKENS);
}

static void greedy_text_is_that_of_whole_passes(void **state) {
    static const ls_spread spreads[] = {{.ranks = 1, .threads = 2},
                                        {.ranks = 2, .threads = 1, .strategy = "ring"},
                                        {.ranks = 4, .threads = 1, .strategy = "ulysses"},
                                        {.ranks = 4, .threads = 1, .mesh = "ring=2,ulysses=2"},
                                        {.ranks = 3, .threads = 1, .strategy = "gather", .layout = "striped"}};
    const char *model = tiny_model(state);
    heard expected = {.n = 0}, got;
    expect_text(model, &expected);
    assert_true(expected.n >= TOKENS);
    for (size_t i = 0; i < LS_COUNT(spreads); i++) {
        generate(model, 0, 3, spreads[i], &got);
        assert_int_equal(got.n, expected.n);
        assert_memory_equal(got.text, expected.text, got.n);
    }
}

static void draws_repeat_with_their_seed(void **state) {
    const ls_spread one = {.ranks = 1, .threads = 1}, two = {.ranks = 2, .threads = 1},
                    four = {.ranks = 4, .threads = 1};
    const char *model = tiny_model(state);
    heard a, b, c;
    generate(model, 1, 3, one, &a);
    generate(model, 1, 3, two, &b);
    generate(model, 1, 4, one, &c);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.text, b.text, a.n);
    generate(model, 1, 3, four, &b);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.text, b.text, a.n);
    assert_true(a.n != c.n || memcmp(a.text, c.text, a.n) != 0);
}

/* bf16 runs, a prompt of one token needs no prefill, and an empty one is the beginning of a document. */
static void short_prompts_are_continued(void **state) {
    static const char *const prompts[] = {"", "a"};
    for (size_t i = 0; i < LS_COUNT(prompts); i++) {
        heard h = {.n = 0};
        const ls_generate_job job = {.model = tiny_model(state),
                                     .prompt = prompts[i],
                                     .tokens = 3,
                                     .dtype = "bf16",
                                     .spread = {.ranks = 2, .threads = 1},
                                     .text = hear,
                                     .context = &h};
        ls_generate_result result;
        assert_ok(ls_run_generate(&job, &result));
        assert_int_equal(result.prompt_tokens, 1);
        assert_in_range(result.tokens, 1, 3);
        assert_true(h.n > 0);
    }
}

static void wrong_wishes_are_refused(void **state) {
    ls_generate_result result;
    heard h = {.n = 0};
    const ls_generate_job good = {.model = tiny_model(state), .prompt = "a", .tokens = 3, .text = hear, .context = &h};
    ls_generate_job job = good;
    job.prompt = NULL;
    assert_error(ls_run_generate(&job, &result), LS_USAGE, "--prompt", "--prompt-file");
    job = good;
    job.tokens = 0;
    assert_error(ls_run_generate(&job, &result), LS_USAGE, "--tokens 0", "");
    job = good;
    job.top_p = 1.5;
    assert_error(ls_run_generate(&job, &result), LS_USAGE, "--top-p 1.5", "");
    job = good;
    job.dtype = "f8";
    assert_error(ls_run_generate(&job, &result), LS_USAGE, "f8", "");
    job = good;
    job.prompt = NULL;
    job.prompt_file = "/nowhere/at/all";
    assert_error(ls_run_generate(&job, &result), LS_IO, "/nowhere/at/all", "");
    job = good;
    job.spread.mesh = "dp=2";
    assert_error(ls_run_generate(&job, &result), LS_USAGE, "dp=2", "");
    assert_int_equal(h.n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_librarys_distribution),
        cmocka_unit_test(draws_are_functions_of_seed_and_step),
        cmocka_unit_test(poor_logits_are_drawn_from),
        cmocka_unit_test(text_comes_in_whole_characters),
        cmocka_unit_test(wrong_bytes_are_replaced),
        cmocka_unit_test(greedy_text_is_that_of_whole_passes),
        cmocka_unit_test(draws_repeat_with_their_seed),
        cmocka_unit_test(short_prompts_are_continued),
        cmocka_unit_test(wrong_wishes_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
