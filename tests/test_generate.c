/*
 * Generation: greedy text is that of the whole pass without a cache, over any ranks; draws follow their distribution and are functions of seed
 * and step; text comes out in whole characters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_train_support.h"

#include "eval/trained.h"
#include "graph/graph.h"
#include "job/sample.h"
#include "job/stream.h"

/* --- drawing ------------------------------------------------------------------------------------------------------------------ */

enum { V = 12, DRAWS = 20000 };

static void fill_logits(float *logits) {
    for (int v = 0; v < V; v++) logits[v] = (float)(2 * ls_rng_normal(1, 2, (uint64_t)v));
    logits[7] = logits[3]; /* equal ones */
}

/* Chances by the definition: sorted, cut to k and then to the fewest that hold p of all. */
static void expect_chances(const ls_sampling *how, const float *logits, double *chance) {
    int order[V];
    double sum = 0, kept = 0, weight[V];
    for (int v = 0; v < V; v++) {
        int at = v;
        for (; at > 0 && logits[order[at - 1]] < logits[v]; at--) order[at] = order[at - 1];
        order[at] = v;
        sum += weight[v] = exp((double)logits[v] / how->temperature);
        chance[v] = 0;
    }
    for (int i = 0; i < V; i++) {
        if (how->top_k > 0 && i >= how->top_k) break;
        if (how->top_p > 0 && how->top_p < 1 && kept >= how->top_p * sum) break;
        kept += chance[order[i]] = weight[order[i]];
    }
    for (int v = 0; v < V; v++) chance[v] /= kept;
}

static void draws_follow_their_distribution(void **state) {
    (void)state;
    static const ls_sampling ways[] = {{1, 1, 0, 1},   {0.5, 0, 0, 2}, {1, 1, 3, 3},    {1.5, 0.8, 0, 4},
                                       {1, 0.5, 2, 5}, {2, 1, 100, 6}, {1, 1e-9, 0, 7}, {0.7, 0.95, 6, 8}};
    float logits[V];
    fill_logits(logits);
    for (size_t w = 0; w < LS_COUNT(ways); w++) {
        ls_sampler *sampler;
        double chance[V];
        int count[V] = {0};
        assert_ok(ls_sampler_create(&ways[w], V, &sampler));
        expect_chances(&ways[w], logits, chance);
        for (int i = 0; i < DRAWS; i++) count[ls_sampler_draw(sampler, logits, (uint64_t)i)]++;
        for (int v = 0; v < V; v++) {
            const double expected = chance[v] * DRAWS, deviation = sqrt(expected * (1 - chance[v]));
            if (!(fabs(count[v] - expected) <= 5 * deviation))
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
    for (int i = 199; i >= 0; i--)
        (void)ls_sampler_draw(b, logits, (uint64_t)i); /* what came before is forgotten */
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

/* --- text ----------------------------------------------------------------------------------------------------------------------- */

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

/* Behind ids of a prompt, token by token. */
static void stream_ids(const ls_tokenizer *tokenizer, const int32_t *ids, size_t prompt_ids, size_t n,
                       heard *out) {
    ls_stream stream = {.tokenizer = tokenizer, .out = hear, .context = out};
    assert_ok(ls_stream_begin(&stream, ids, prompt_ids));
    for (size_t i = prompt_ids; i < n; i++) assert_ok(ls_stream_put(&stream, ids[i]));
    assert_ok(ls_stream_end(&stream));
    ls_stream_free(&stream);
}

/* Byte by byte behind a prompt of one byte, as the byte-level tokenizer makes them. */
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
    static const char text[] =
        "Grün: 日本語, 😀 and a long tail of words that goes on beyond what is decoded at once.";
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

/* --- the whole --------------------------------------------------------------------------------------------------------------- */

enum { TOKENS = 24 };
static const char prompt[] = "the sequence is cut over";

typedef struct whole_pass {
    const ls_trained *trained;
    const char *logits;
    int32_t ids[sizeof prompt - 1 + TOKENS];
} whole_pass;

/* Greedy, with a pass over everything for each token: no cache. */
static ls_status pass_by_pass(ls_rank *rank, void *context) {
    whole_pass *w = context;
    LS_TRY(ls_trained_fill(w->trained, rank, 3));
    const int64_t S = LS_COUNT(w->ids), vocabulary = ls_model_describe(w->trained->model).V;
    int32_t positions[LS_COUNT(w->ids)];
    for (int64_t i = 0; i < S; i++) positions[i] = (int32_t)i;
    ls_executor_scatter(rank->executor, ls_image_find(rank->image, "positions"), positions);
    for (int64_t n = S - TOKENS; n < S; n++) {
        ls_executor_scatter(rank->executor, ls_image_find(rank->image, "tokens"), w->ids);
        LS_TRY(ls_executor_run(rank->executor, LS_PROGRAM_MICRO));
        const float *logits =
            (const float *)ls_executor_tensor(rank->executor, w->logits) + (n - 1) * vocabulary;
        for (int v = 0; v < vocabulary; v++)
            if (logits[v] > logits[w->ids[n]]) w->ids[n] = v;
    }
    return ls_ok();
}

static void expect_text(const char *model, heard *out) {
    ls_trained trained;
    whole_pass w = {.trained = &trained};
    assert_ok(ls_trained_open(model, NULL, &trained));
    for (size_t i = 0; i < sizeof prompt - 1; i++) w.ids[i] = (unsigned char)prompt[i];
    ls_graph *graph = ls_graph_create(LS_F32);
    ls_language_model lm;
    assert_ok(ls_model_build(trained.model, graph, 1, LS_COUNT(w.ids), false, &lm));
    w.logits = ls_graph_tensor(graph, lm.logits)->name;
    const ls_job job = {.graph = graph, .fetch = &lm.logits, .n_fetch = 1};
    const ls_spread spread = {.ranks = 1, .threads = 1, .as_threads = true};
    ls_session *session;
    assert_ok(ls_session_open(&job, &spread, &session));
    assert_ok(ls_session_run(session, pass_by_pass, &w));
    ls_session_close(session);
    ls_graph_destroy(graph);
    stream_ids(trained.tokenizer, w.ids, sizeof prompt - 1, LS_COUNT(w.ids), out);
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
    static const ls_spread spreads[] = {
        {.ranks = 1, .threads = 2},
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
    const ls_spread one = {.ranks = 1, .threads = 1}, two = {.ranks = 2, .threads = 1};
    const char *model = tiny_model(state);
    heard a, b, c;
    generate(model, 1, 3, one, &a);
    generate(model, 1, 3, two, &b);
    generate(model, 1, 4, one, &c);
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
    const ls_generate_job good = {
        .model = tiny_model(state), .prompt = "a", .tokens = 3, .text = hear, .context = &h};
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
        cmocka_unit_test(draws_follow_their_distribution),
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
